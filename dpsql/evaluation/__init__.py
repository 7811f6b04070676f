"""What people's expressions are on the declared domain, in an empty database of its own."""
