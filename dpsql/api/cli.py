"""The command line, all but `dpsql serve` and `dpsql audit`, which are above.

Each file `cli_*.py` beside this one adds its commands by a function `add_commands(commands)`, and is found by itself. A
command names what it does by `parser.set_defaults(run=…)`, a function of its options. Exit statuses:

    0    done; standard error is empty
    1    refused or failed, in one line on standard error
    2    the command line itself is wrong, in one line on standard error
    130  interrupted; what was charged is kept
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Final, NoReturn

from dpsql.errors import DpsqlError, Interrupted
from dpsql.version import __version__

_INTERRUPTED: Final = 130  # the status of a process that Ctrl-C ended, as shells have it
_DESCRIPTION: Final = "Differentially private synthetic tables inside DuckDB, in SQL."
_EPILOG: Final = "dpsql COMMAND --help says more of one. Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted."
_LOCKED: Final = "Could not set lock on file"
_OPEN_ELSEWHERE: Final = (
    ". Another program has the file open, maybe dpsql serve: "
    "beside that, dpsql user, releases, publish, budget and audit work"
)
_DEBUG: Final = "DPSQL_DEBUG"


class _Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"formatter_class": partial(argparse.HelpFormatter, max_help_position=28), **given})

    def error(self, message: str) -> NoReturn:
        """End the process with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def modules() -> list[ModuleType]:
    """The modules of commands: those with the smallest `PLACE` stand first in the help, others behind by name."""
    here = str(Path(__file__).parent)
    names = [module.name for module in iter_modules([here]) if module.name.startswith("cli_")]
    commands = [import_module(f"dpsql.api.{name}") for name in sorted(names)]
    return sorted(commands, key=lambda module: int(getattr(module, "PLACE", 50)))


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    compact = partial(argparse.HelpFormatter, max_help_position=18)
    parser = _Parser(prog="dpsql", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=compact)
    parser.add_argument("--version", action="version", version=f"dpsql {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", title="commands")
    for module in modules():
        module.add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may follow
        import argcomplete

        argcomplete.autocomplete(parser)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    return status_of(options.run, options)


def status_of(run: Callable[[Any], object], options: Any) -> int:
    """Run it; its exit status, and at most one line on standard error."""
    try:
        run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains at exit
    except KeyboardInterrupt:
        return _say_interrupted()
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        return _failed(error)
    return 0


def _failed(error: Exception) -> int:
    from dpsql.api.errors import one_line

    if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
        return _say_interrupted()
    duckdb = sys.modules.get("duckdb")
    expected = (DpsqlError, OSError) if duckdb is None else (DpsqlError, OSError, duckdb.Error)
    if isinstance(error, expected):
        line = one_line(str(error))
        line += _OPEN_ELSEWHERE if _LOCKED in line else ""
    else:  # its text may hold a value of a row
        line = f"internal error ({type(error).__name__}): please report it; {_DEBUG}=1 shows where it is"
    print(f"dpsql: {line}", file=sys.stderr)
    return _INTERRUPTED if str(Interrupted()) in str(error) else 1


def _say_interrupted() -> int:
    print("dpsql: interrupted; what was charged is kept, the same command goes on from it", file=sys.stderr)
    return _INTERRUPTED


def command() -> NoReturn:
    """Run a command and end the process.

    One that was interrupted ends at once: its database is closed, and Python would wait for a compilation by JAX.
    """
    status = main()
    if status == _INTERRUPTED:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    command()
