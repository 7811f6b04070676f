"""`python -m dpsql`."""

from dpsql.api.cli import command

command()
