"""What touches DuckDB: the catalogue, counting inside the engine, and the books."""
