"""What people call: the connection, the command line, the demo."""
