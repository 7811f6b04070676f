"""Defects that are planted one at a time, each of which some test must catch: `python -m tests.planted`."""
