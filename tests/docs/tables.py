"""The tables of the documentation that are made from the registers.

A page holds blocks between `<!-- made by tests.docs.tables: NAME -->` and `<!-- end -->`, and sentences behind
`<!-- sentence of tests.docs.tables: NAME -->`. Everything between is written by `python -m tests.docs.tables --write`; without `--write` it says which pages differ, as a test does.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from dpsql.udfs import FUNCTIONS
from dpsql.udfs.bridge.declare import REQUIRED, Parameter, TableFunction

import dpsql.mechanisms  # noqa: F401 - registers them
from dpsql import errors
from dpsql.core.column_types import ColumnType
from dpsql.core.column_types import registered as types
from dpsql.core.readings import READINGS
from dpsql.mechanisms.base import Mechanism, make, options
from dpsql.mechanisms.base import registered as mechanisms

from .capabilities import capability_table
from .chance import chance_rows
from .cli_reference import cli_page
from .clients import client_rows
from .figures import SENTENCES, accuracy_rows, claim_rows, release_rows, suspicion_rows
from .papers import paper_rows
from .python_reference import python_page
from .request_arguments import REQUEST_ARGUMENTS, request_arguments

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/developers/chance.md",
    "docs/explanation/claims.md",
    "docs/explanation/comparison.md",
    "docs/explanation/figures.md",
    "docs/how-to/choose-epsilon.md",
    "docs/how-to/columns.md",
    "docs/how-to/mechanisms.md",
    "docs/how-to/serve.md",
    *(f"docs/reference/{name}.md" for name in ("sql", "types", "mechanisms", "python", "cli", "errors")),
)
_BLOCK = re.compile(r"(<!-- made by tests\.docs\.tables: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SENTENCE = re.compile(r"(<!-- sentence of tests\.docs\.tables: (\S+) -->).*?(<!-- end -->)", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def code(text: object) -> str:
    """As code."""
    return f"`{text}`"


def shown(value: Any) -> str:
    """A default as SQL writes it; empty where there is none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(repr(value))


def sentence(documented: object) -> str:
    """The first sentence of a docstring, without its end."""
    first = (inspect.getdoc(documented) or "").split("\n\n")[0].replace("\n", " ")
    return first.removesuffix(".")


# --- SQL functions ----------------------------------------------------------------------------------------------------


def functions() -> str:
    """Every SQL function with what it is for."""
    return table(["function", "what it does"], [[code(_signature(f)), sentence(f)] for f in FUNCTIONS])


def _own(function: type[TableFunction]) -> list[Parameter]:
    """The parameters that are not options of mechanisms, which have a place of their own."""
    if not any(p.name == "workload" for p in function.parameters):
        return list(function.parameters)
    return [p for p in function.parameters if p.name not in options()]


def _signature(function: type[TableFunction]) -> str:
    needed = [p.name for p in function.parameters if p.positional or p.default is REQUIRED]
    more = ["…"] if len(needed) < len(function.parameters) else []
    return f"{function.name}({', '.join([*needed, *more])})"


def parameters(name: str) -> str:
    """The parameters of one SQL function."""
    (function,) = [one for one in FUNCTIONS if one.name == name]
    rows = []
    for p in _own(function):
        default = "required" if p.default is REQUIRED or p.positional else shown(p.default)
        rows.append([code(p.name), code(p.type), default, p.help])
    return table(["parameter", "type", "default", "meaning"], rows)


def all_parameters() -> str:
    """Every SQL function with its parameters."""
    found = []
    for function in FUNCTIONS:
        text = (inspect.getdoc(function) or "").strip()
        found.append(f"### {_signature(function)}\n\n{text}\n")
        if function.parameters:
            found.append(parameters(function.name))
    return "\n".join(found)


# --- mechanisms -------------------------------------------------------------------------------------------------------


def mechanism_table() -> str:
    """Every mechanism, and the names of its options."""
    rows = []
    for name, mechanism in sorted(mechanisms().items()):
        rows.append([code(name), sentence(mechanism), mechanism.when, _prior_of(mechanism)])
    return table(["name", "what it does", "best for", "`prior`"], rows)


def _prior_of(mechanism: type[Mechanism]) -> str:
    if mechanism.needs_prior is True:
        return "needed"
    return "taken" if mechanism.takes_prior else ""


def mechanism_options() -> str:
    """Every mechanism with its options, their defaults and what they mean."""
    found = []
    for name, mechanism in sorted(mechanisms().items()):
        meanings, made_up = documented_options(mechanism), make(name, {})
        lines = []
        for option in (one.name for one in fields(made_up)):
            value = _defaults(mechanism, option, getattr(made_up, option))
            lines.append(f"- `{option}` ({value}): {meanings[option]}\n")
        found.append(f"### {name}\n\n{sentence(mechanism)}.\n\n{''.join(lines) or 'It has no options.' + chr(10)}")
    return "\n".join(found)


def _defaults(mechanism: type[Mechanism], option: str, field: Any) -> str:
    """The default of an option; those of pure accounts and of `faithful := true` where they are others."""
    usual = mechanism.recommended(pure=False).get(option, field)
    pure = mechanism.recommended(pure=True).get(option, field)
    published = mechanism.published()
    found = [shown(usual) or "none"]
    if pure != usual:
        found.append(f"pure {shown(pure) or 'none'}")
    faithful = usual if published is None else published.get(option, field)
    if faithful != usual:
        found.append(f"faithful {shown(faithful) or 'none'}")
    return "; ".join(found)


def documented_options(mechanism: type[Mechanism]) -> dict[str, str]:
    """What the docstring of a mechanism says of each of its options."""
    text = inspect.getdoc(mechanism) or ""
    block = "".join(re.findall(r"^Attributes:\n((?:    .*\n|\n)*)", text + "\n", re.MULTILINE))
    found = re.findall(r"^    (\w+): ((?:.*\n)(?:        .*\n)*)", block, re.MULTILINE)
    return {option: " ".join(meaning.split()) for option, meaning in found}


# --- types and errors -------------------------------------------------------------------------------------------------


def type_table() -> str:
    """Types of columns by family, with the domains that they can have."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for known in types():
        kind = (known.family, _domain_of(known), known.step or "none", "yes" if known.is_number else "")
        rows.setdefault(kind, []).append(code(known.name))
    rest = ["others", "values", "none", "", "those of extensions, …"]
    listed = [[family, ", ".join(names), *more] for (family, *more), names in rows.items()]
    return table(
        ["kind", "types", "domain", "a step of its bins", "`sum`, `avg`"], [*listed, [rest[0], rest[4], *rest[1:4]]]
    )


def _domain_of(known: ColumnType) -> str:
    if not known.listable:
        return "`exclude := true`"
    if known.declares_itself:
        return "declares itself"
    if known.members is not None:
        return "values, or `type := true`"
    return "values, bins" if known.has_bins else "values"


def form_table() -> str:
    """Forms in which times are stored."""
    stored = {True: "numbers, texts of digits", False: "texts"}
    rows = [
        [code(form.name), stored[form.is_number], f"{form.example[0]} is {form.example[1]}", code(form.type)]
        for form in READINGS.values()
    ]
    return table(["`read_as`", "stored as", "example", "read as"], rows)


def error_table() -> str:
    """The family of errors."""
    found = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.DpsqlError)]
    rows = [[code(e.__name__), " ".join((inspect.getdoc(e) or "").split())] for e in found]
    return table(["error", "what happened"], rows)


MAKERS: dict[str, Callable[[], str]] = {
    "functions": functions,
    "parameters": all_parameters,
    "mechanisms": mechanism_table,
    "options": mechanism_options,
    "types": type_table,
    "errors": error_table,
    "forms": form_table,
    "python": python_page,
    "cli": cli_page,
    "releases": lambda: table(
        ["table", "ε", "first release", "second release", "peak memory", "measured"], release_rows()
    ),
    "accuracy": lambda: table(["table, workload", "ε", "largest", "mean L1", "CPU s"], accuracy_rows()),
    "papers": lambda: table(
        ["mechanism", "option", "the paper", "`faithful`", "default", "why not the paper's"], paper_rows()
    ),
    "claims": lambda: table(["claim of", "what it says", "measured", "holds"], claim_rows()),
    "chance": lambda: table(["test", "rate", "why"], chance_rows()),
    "capabilities": capability_table,
    "clients": lambda: table(["client", "version tried", "what ran", "what differs", "test"], client_rows()),
    "suspicion": lambda: table(
        ["ε", "suspicion of 10 % becomes at most", "of 50 % at most", "in short", "more than that with probability"],
        suspicion_rows(),
    ),
    **{f"{f.name}": lambda name=f.name: parameters(name) for f in FUNCTIONS},  # type: ignore[misc]
}
"""What a block holds, by its name."""


def made(text: str) -> str:
    """A page with its blocks made anew."""
    text = _SENTENCE.sub(lambda found: f"{found[1]}{SENTENCES[found[2]]()}{found[3]}", text)
    return _BLOCK.sub(lambda found: f"{found[1]}\n{MAKERS[found[2]]()}\n{found[3]}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or say which differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write what differs")
    write = parser.parse_args(arguments).write
    differs = 0
    for page in (*PAGES, REQUEST_ARGUMENTS):
        path = ROOT / page
        before = path.read_text(encoding="utf-8")
        after = request_arguments() if page == REQUEST_ARGUMENTS else made(before)
        if after != before:
            differs += 1
            print(f"{page}: {'written' if write else 'differs: python -m tests.docs.tables --write'}")
            if write:
                path.write_text(after, encoding="utf-8")
    return 0 if write else differs


if __name__ == "__main__":
    sys.exit(main())
