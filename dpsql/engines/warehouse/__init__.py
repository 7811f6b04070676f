"""Warehouses: databases that are asked in generated SQL over ADBC; one file of this package for each of them."""
