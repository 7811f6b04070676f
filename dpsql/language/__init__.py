"""SQL text to data, by sqlglot; no database."""
