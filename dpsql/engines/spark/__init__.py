"""Spark: its rows stay in its tasks, and counts come back."""
