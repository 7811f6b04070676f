"""What mechanisms return: distributions over rows."""
