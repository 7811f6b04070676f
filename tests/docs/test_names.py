"""What pages and errors name is there: arguments, SQL functions, commands, options and methods; and calls can be typed."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import duckdb
import pytest
from dpsql.udfs import FUNCTIONS

import dpsql
from dpsql.api.cli import build_parser
from dpsql.mechanisms.base import options_of, registered

from .prose import ROOT, written

PARAMETERS = {function.name: {p.name for p in function.parameters} for function in FUNCTIONS}
for function in ("dp_synthesize", "dp_plan"):
    PARAMETERS[function] |= {option for name in registered() for option in options_of(name)}
NAMES = set.union(*PARAMETERS.values())
_SUBJECT = {"hive_partitioning", "union_by_name", "schema", "redact"}  # of functions of DuckDB
_INTERVALS = {"years", "months", "weeks", "days", "hours", "mins", "secs"}  # of make_interval of Postgres


@cache
def reserved() -> frozenset[str]:
    """Parameters and options that this DuckDB reads as names only in double quotes."""
    return frozenset(name for name in NAMES if not parses(f"CALL f({name} := 1)"))


def parses(statement: str) -> bool:
    try:
        duckdb.extract_statements(statement)
    except duckdb.ParserException:
        return False
    return True


def texts_of_code(path: Path) -> Iterator[str]:
    """The texts of a module, with `{…}` for what is filled in."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


@cache
def texts() -> dict[str, list[str]]:
    """The texts of each module, and each page whole."""
    modules = [path for folder in ("dpsql", "udfs") for path in sorted((ROOT / folder).rglob("*.py"))]
    code = {path.relative_to(ROOT).as_posix(): [*texts_of_code(path)] for path in modules}
    return code | {page: [(ROOT / page).read_text(encoding="utf-8")] for page in written()}


def commands(parser: argparse.ArgumentParser, path: str = "dpsql") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from commands(inner, f"{path} {name}")


COMMANDS = dict(commands(build_parser()))
GROUPS = {path for path in COMMANDS if any(other.startswith(f"{path} ") for other in COMMANDS)} - {"dpsql"}


def wrong_arguments(text: str) -> list[str]:
    """What a text writes before `:=` that nothing takes, or that DuckDB cannot read."""
    wrong = []
    for quoted, name in re.findall(r'(?<![\w"])("?)(\w+)"? := ', text):
        if name not in NAMES | _SUBJECT | _INTERVALS:
            wrong.append(name)
        elif not quoted and name in reserved():
            wrong.append(f"{name} without double quotes")
    for name, inside in re.findall(r"\b(dp_\w+)\(([^()]*)", text):
        taken = PARAMETERS.get(name)
        wrong += [f"{name}({given})" for given in re.findall(r'(\w+)"? := ', inside) if taken and given not in taken]
    return wrong


def wrong_commands(text: str) -> list[str]:
    """Commands of groups that are none, options that their command lacks, and methods that a database lacks."""
    wrong = []
    for path, rest in re.findall(rf"({'|'.join(sorted(GROUPS))}) ((?:(?!dpsql )[^`;:\n])*)", text):
        action, *words = rest.split() or [""]
        whole = f"{path} {action}"
        if re.fullmatch(r"[a-z]+", action) and whole not in COMMANDS:
            wrong.append(whole)
        taken = COMMANDS[whole]._option_string_actions if whole in COMMANDS else {}
        wrong += [f"{whole} {word}" for word in words if word.startswith("--") and taken and word not in taken]
    methods = re.findall(r"\bdb\.([a-z_]+)\(", text)
    return wrong + [f"db.{name}" for name in methods if not hasattr(dpsql.Database, name)]


@pytest.mark.medium
def test_calls_that_are_written_can_be_typed():
    """Each argument is one of the function, and a reserved word stands in double quotes."""
    assert [
        (place, wrong) for place, found in texts().items() for text in found for wrong in wrong_arguments(text)
    ] == []


def test_commands_and_methods_that_are_written_are_there():
    assert [
        (place, wrong) for place, found in texts().items() for text in found for wrong in wrong_commands(text)
    ] == []


def test_sql_functions_that_pages_name_are_there():
    for page in written():
        for code in re.findall(r"`([^`\n]+)`", texts()[page][0]):
            assert {*re.findall(r"(?<![%\w])dp_\w+(?=\()", code)} <= {*PARAMETERS}, f"{page}: {code}"


def test_what_is_not_there_is_noticed():
    """The broken twins."""
    assert wrong_arguments("say lowest := 3") == ["lowest"]
    assert wrong_arguments("say order := 'paper'") == ["order without double quotes"]
    assert wrong_arguments("dp_domain(…, remove := true)") == ["dp_domain(remove)"]
    assert wrong_arguments('dp_domain(…, "values" := […])') == []
    assert wrong_commands("dpsql ledger forget FILE") == ["dpsql ledger forget"]
    assert wrong_commands("dpsql ledger forgive FILE --why x") == ["dpsql ledger forgive --why"]
    assert wrong_commands("db.forget(1)") == ["db.forget"]


def test_words_that_take_double_quotes_are_on_the_page_of_sql():
    """Of every DuckDB that is supported; an older one reserves more."""
    sentence = next(line for line in texts()["docs/reference/sql.md"][0].split("\n") if "double quotes" in line)
    named = {name for function in FUNCTIONS for name in (p.name for p in function.parameters if not p.positional)}
    options = {option for name in registered() for option in options_of(name)}
    assert {*re.findall(r'`"(\w+)"`', sentence)} - {"values"} == (reserved() & (named | options)) - {"values"}
