"""What a table's owner does: protect it, declare domains and constraints, change its account."""
