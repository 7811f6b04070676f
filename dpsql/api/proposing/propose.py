"""The door: a file or a table in, a script out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from dpsql.api.proposing import public
from dpsql.api.proposing.computed import with_computed
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.inputs import Input, opened
from dpsql.api.proposing.looked import look
from dpsql.api.proposing.references import references_of
from dpsql.api.proposing.script import Script, write
from dpsql.api.proposing.trial import tried
from dpsql.core.names import fold, quote
from dpsql.engines.duckdb.calls import call_of
from dpsql.errors import InvalidArgument
from dpsql.owner.codebook import declarations_of, from_json
from dpsql.owner.declarations import checked_arguments
from dpsql.udfs.dp_domains import ARGUMENTS

PRICE: Final = 0.1
"""ε of one discovery, unless the owner says otherwise."""
_UNIT_ROWS: Final = 8


def propose(
    given: str,
    *,
    epsilon: float = 3.0,
    delta: float = 1e-9,
    unit: str | None = None,
    max_rows: int | None = None,
    codebook: str | None = None,
    owner_looks: bool = False,
    discover: float | None = None,
    nullstr: Sequence[str] = (),
    rows: int | None = None,
    columns: Sequence[str] = (),
) -> Script:
    """A script that protects a table and declares its columns.

    Args:
        given: a CSV or Parquet file, or `bank.duckdb:patients`.
        epsilon: of the budget.
        delta: of the budget.
        unit: the column that tells whose row it is.
        max_rows: how many rows of one unit count.
        codebook: a CSV or JSON file.
        owner_looks: whether rows are read to propose.
        discover: the ε of each discovery, if columns that nobody knows are discovered when the script runs.
        nullstr: texts of a CSV file that mean NULL.
        rows: about how many rows the table has, or units if `unit` is given; with `owner_looks` as many as there are.
        columns: those that are kept; all if empty.

    Raises:
        DpsqlError: a child says what is wrong.
    """
    with opened(given, nullstr, read=owner_looks) as source:
        codebook_words = {} if codebook is None else _codebook(codebook)
        owned = "" if unit is None else _named(source, "unit", unit)
        context = Context(
            source.table,
            source.is_file,
            {fold(name): how for name, how in codebook_words.items()},
            {} if source.is_file else references_of(source),
            owned,
            discover is not None,
            PRICE if discover is None else discover,
            epsilon,
            frozenset(fold(_named(source, "columns", name)) for name in columns),
            source.is_file and not source.is_typed,
            source.missing,
            delta,
            source.pairs,
        )
        proposals = [(look(c, context, source) if owner_looks else public.propose(c, context)) for c in source.columns]
        proposals = with_computed(source, context, proposals) if owner_looks else proposals
        if owner_looks and rows is None:
            rows = _number_of_units(source, owned)
        if unit is not None and max_rows is None:
            max_rows = _UNIT_ROWS  # never off the rows: everything that is released depends on it
        protection = _protection(source, epsilon, delta, owned, max_rows)
        unknown = _unknown(source, codebook_words)
        trial = tried(source, context, protection, proposals, rows, looks=owner_looks)
        return write(source, context, protection, trial, looked=owner_looks, unknown=unknown)


def _unknown(source: Input, codebook_words: Iterable[str]) -> list[str]:
    """The columns that a codebook has and the table has not."""
    names = {fold(column.name) for column in source.columns}
    return [name for name in codebook_words if fold(name) not in names]


def _number_of_units(source: Input, unit: str) -> int:
    """How many units the rows are of; rows where no column says whose they are."""
    number: int = source.ask({"v": quote(unit) if unit else "1"}, f"count({'DISTINCT v' if unit else '*'})")[0][0]
    return number


def _protection(source: Input, epsilon: float, delta: float, unit: str, max_rows: int | None) -> str:
    named: dict[str, Any] = {"epsilon": float(epsilon), "delta": float(delta)}
    if unit:
        named |= {"privacy_unit": unit, "max_rows": max_rows}
    return call_of("dp_protect", [source.table], named)


def _named(source: Input, argument: str, name: str) -> str:
    """A column that an argument names, as the table spells it."""
    matches = [column.name for column in source.columns if fold(column.name) == fold(name)]
    if not matches:
        raise InvalidArgument(
            f"{argument} is {name!r}, which is no column: the table has {', '.join(c.name for c in source.columns)}"
        )
    return matches[0]


def _codebook(path: str) -> dict[str, Mapping[str, Any]]:
    """The declarations of a codebook's file, checked but for the columns that they are of."""
    file = Path(path)
    if not file.is_file() or file.suffix.lower() not in (".csv", ".json"):
        raise InvalidArgument(f"codebook is {path!r}: give an existing .csv or .json file")
    if file.suffix.lower() == ".json":
        declared = from_json(file.read_text(encoding="utf-8"), ARGUMENTS)
    else:
        with duckdb.connect() as connection:
            read = connection.execute("FROM read_csv($path, all_varchar = true, header = true)", {"path": path})
            names = [column[0] for column in read.description or []]
            declared = declarations_of([dict(zip(names, row, strict=True)) for row in read.fetchall()], ARGUMENTS)
    return {name: checked_arguments(how, ARGUMENTS) for name, how in declared.items()}
