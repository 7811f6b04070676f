"""`python -m dpsql`, and the command `dpsql`: the service's floor is above that of the other commands."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command and end the process."""
    if sys.argv[1:2] == ["serve"] or sys.argv[1:2] == ["audit"]:
        from dpsql.service.command import audit, serve

        sys.exit((serve if sys.argv[1] == "serve" else audit)(sys.argv[2:]))
    from dpsql.api.cli import command

    command()


if __name__ == "__main__":
    main()
