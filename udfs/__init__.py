"""What is registered into DuckDB: the native bridge, and one file per SQL function."""
