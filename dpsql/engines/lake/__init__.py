"""Tables of Parquet files at a pinned snapshot: plain files, Delta and Iceberg. DuckDB counts them where they are."""
