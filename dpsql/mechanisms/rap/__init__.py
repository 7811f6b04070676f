"""RAP: cells or marginals, projected with a relaxed table."""
