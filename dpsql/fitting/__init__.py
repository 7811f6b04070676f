"""Noisy answers to fitted arrays: pure arrays, no database, no private data. The only place that imports JAX."""
