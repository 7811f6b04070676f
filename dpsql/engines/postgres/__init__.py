"""Postgres: its rows stay there, and counts come back."""
