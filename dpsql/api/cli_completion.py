"""The command `dpsql completion`: what a shell needs to complete commands, options and files."""

from __future__ import annotations

import argparse
from typing import Any, Final

PLACE: Final = 95
_EPILOG: Final = (
    'bash: add  eval "$(dpsql completion bash)"  to ~/.bashrc. zsh: the same with zsh, in ~/.zshrc after compinit. '
    "fish: dpsql completion fish > ~/.config/fish/completions/dpsql.fish"
)


def add_commands(commands: Any) -> None:
    """Add `completion` to the commands of `dpsql`."""
    completion = commands.add_parser("completion", help="the script that lets a shell complete dpsql", epilog=_EPILOG)
    completion.add_argument("shell", choices=["bash", "zsh", "fish"])
    completion.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["dpsql"], shell=options.shell))
