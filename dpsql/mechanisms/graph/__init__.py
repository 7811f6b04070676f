"""Graphical models of noisy marginals."""
