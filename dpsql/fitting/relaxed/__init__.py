"""A relaxed table, fitted to noisy marginals or cells, and rounded to rows."""
