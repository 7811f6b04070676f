"""MWEM: multiplicative weights on the domain, or on the rows of a public table."""
