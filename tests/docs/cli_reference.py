"""The page of the command line, made from its parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dpsql.api.cli import build_parser
from dpsql.service import command

FURTHER = {"serve": command._parser, "audit": command._audit_parser}
"""Commands of the floor above, which have parsers of their own."""


def cli_page() -> str:
    """Every command with its arguments."""
    return "\n".join(_described(name, parser, told) for name, parser, told in commands())


def commands() -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Every command that does something, with its parser and what is said of it."""
    for name, parser, told in _below("dpsql", build_parser(), ""):
        own = FURTHER.get(name.removeprefix("dpsql "))
        if own is None:
            yield name, parser, told
        else:
            yield from _below(name, own(), own().description or told)


def _below(name: str, parser: argparse.ArgumentParser, told: str) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    actions = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not actions:
        yield name, parser, told
    for action in actions:
        said = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for part, below in action.choices.items():
            yield from _below(f"{name} {part}", below, said.get(part, ""))


def _described(name: str, parser: argparse.ArgumentParser, told: str) -> str:
    rows = [_row(action) for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    head = f"## {name}\n\n{told[:1].upper()}{told[1:].rstrip('.')}.\n"
    if not rows:
        return head
    return f"{head}\n| argument | meaning |\n| --- | --- |\n" + "".join(f"| {a} | {m} |\n" for a, m in rows)


def _row(action: argparse.Action) -> tuple[str, str]:
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    if not action.option_strings:
        shown = f"{action.dest.upper()}" if not value else f"{value}"
        shown = shown if action.nargs not in ("?", "*") else f"[{shown}]"
    elif action.nargs == 0:
        shown = action.option_strings[0]
    else:
        shown = f"{action.option_strings[0]} {value or action.dest.upper()}"
    meaning = (action.help or "") + ("; required" if action.required and action.option_strings else "")
    return f"`{shown}`".replace("|", "\\|"), meaning.replace("|", "\\|")
