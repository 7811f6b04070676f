"""Where private rows are."""
