"""Fitting a relaxed table to noisy marginals, and rounding it: pure arrays, no database, no private data."""
