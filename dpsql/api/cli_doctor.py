"""The command `dpsql doctor`."""

from __future__ import annotations

from typing import Any, Final

PLACE: Final = 90


def add_commands(commands: Any) -> None:
    """Add `doctor` to the commands of `dpsql`."""
    commands.add_parser("doctor", help="what dpsql runs on: versions, extension, device").set_defaults(run=_run)


def _run(_: object) -> None:
    from dpsql.api.doctor import report

    for name, value in report().items():
        print(f"{name:12} {value}")
