"""Marginals measured round by round, pooled by their residuals."""
