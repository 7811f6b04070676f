"""Tables of DuckDB: find them, encode and count their rows inside the engine."""
