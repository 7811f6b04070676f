"""Relaxed projection of whole marginals."""
