"""Releases: their journal, their rows as they are published, and what becomes of those that were stopped."""
