"""Mechanisms compared on a table: each release in a process of its own, on a copy, for the owner's eyes."""
