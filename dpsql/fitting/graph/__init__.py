"""Graphical models of measured marginals, by the package mbi."""
