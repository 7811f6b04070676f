"""`python -m dpsql`."""

from dpsql.cli import command

command()
