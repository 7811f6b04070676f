"""Computed columns in SQL: what the owner's expressions may be, and their values in synthetic rows.

They run where people's expressions run: in an empty database in a process of its own, on the public domain and on
synthetic rows, never on private ones:

    value = TRY(CAST(expression AS type of the column))

An expression that fails in a row, as make_date(2013, 2, 30) does, is NULL in it, so that no release fails by its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.column_types import column_type, kind_of, public_type
from dpsql.core.computed import in_levels
from dpsql.core.domain import Attribute, Domain
from dpsql.core.names import quote, shorten
from dpsql.engines.duckdb.frames import Columns, length
from dpsql.engines.duckdb.types import constant_of, data_type
from dpsql.engines.source import Column, Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.refused import words_of_duckdb
from dpsql.evaluation.row_expression import Frame, columns_of_row
from dpsql.evaluation.sandbox import empty_database
from dpsql.evaluation.workers import Empty

_AS_NUMBERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "FLOAT", "DOUBLE"}
)
"""Types whose values are handed over as numbers; others as texts."""
_ROWS: Final = 200_000
"""That are computed at once."""


def check_type(column: Column) -> None:
    """Refuse to compute a column of a type that tells values, or whose texts are not read back as they were.

    Raises:
        InvalidArgument: it is one.
    """
    if public_type(column.type) != column.type or not column_type(column.type).listable:
        raise InvalidArgument(
            f"computed_as: column {column.name!r} is of type {kind_of(column.type)}, which cannot be computed: say "
            "exclude := true"
        )


def check_expression(source: Source, declared: Mapping[str, Attribute], column: Column, text: str) -> tuple[str, ...]:
    """Check that a column can be computed by an expression; returns the columns that it reads.

    Args:
        source: the table.
        declared: the domains that are declared, by name, which may say as what texts are read.
        column: that is computed.
        text: of the expression.

    Raises:
        InvalidArgument: see `columns_of_row`; or it reads the column itself, or DuckDB cannot bind it.
        UnknownName: a column that is not there.
    """
    names = columns_of_row(source, text, "computed_as", "'repair + other'")
    if column.name in names:
        raise InvalidArgument(f"computed_as: {column.name!r} is computed from itself: name other columns only")
    types = {name: _type_read(source.column(name), declared.get(name)) for name in names}
    _type_of(source.name, tuple(types.items()), text.strip(), column.type)
    return names


def type_of(source: Source, declared: Mapping[str, Attribute], computed: Attribute) -> str:
    """The type of an expression before it is cast to that of its column."""
    types = {name: _type_read(source.column(name), declared.get(name)) for name in computed.computed_from}
    return _type_of(source.name, tuple(types.items()), computed.computed_as, computed.type)


def _type_read(column: Column, attribute: Attribute | None) -> str:
    return attribute.type if attribute is not None and attribute.is_read else public_type(column.type)


@lru_cache(maxsize=1024)
def _type_of(table: str, types: tuple[tuple[str, str], ...], text: str, target: str) -> str:
    """The type of an expression, which can be cast to another; depends on nothing else.

    Raises:
        InvalidArgument: it cannot be bound, or not be cast.
    """
    typed = [exp.alias_(exp.cast(exp.null(), data_type(kind)), name, quoted=True) for name, kind in types]
    row = exp.select(*typed).subquery(exp.to_identifier(table, quoted=True)).sql(dialect="duckdb")
    listed = ("typeof((", text, ")), CAST((", text, f") AS {data_type(target).sql(dialect='duckdb')})")
    with empty_database() as empty:
        try:
            kind = str(empty.execute("\n".join(("SELECT", *listed, "FROM", row))).fetchall()[0][0])
            _check_cast(empty, kind, target)
            return kind
        except duckdb.Error as error:  # nothing private is in that database, so its text may be shown
            raise InvalidArgument(
                f"computed_as is {shorten(text)!r}, of which DuckDB makes no {kind_of(target)}: "
                f"{words_of_duckdb(error)}"
            ) from None


def _check_cast(empty: Empty, kind: str, target: str) -> None:
    """Refuse a cast that DuckDB does not have: of NULL there are all.

    Raises:
        duckdb.Error: it does not.
    """
    some = column_type(kind).some
    if some is None:
        return
    value = exp.cast(constant_of(some, kind), data_type(target), dialect="duckdb")
    try:
        empty.execute(exp.select(value).sql(dialect="duckdb")).fetchall()
    except duckdb.Error as error:
        if "Unimplemented type for cast" in str(error):  # else there is a cast, and this value has none
            raise


def projections(levels: Iterable[Sequence[tuple[Attribute, str]]], rows: str, table: str, item: str) -> str:
    """A query of rows with their computed columns, a level around the other, so that each reads those before.

    Args:
        levels: the columns of each, with what gives their values.
        rows: the table, or a query in parentheses with its name.
        table: that name.
        item: what is selected at each level, with the computed columns in the place of `{}`.
    """
    for level in levels:
        listed = ", ".join(f"{value} AS {quote(attribute.name)}" for attribute, value in level)
        rows = "".join(("(SELECT ", item.format(listed), " FROM ", rows, ") AS ", quote(table)))
    return rows


def computed_values(source: Source, domain: Domain, frame: Columns) -> dict[str, npt.NDArray[Any]]:
    """Columns `s<i>`, and `r<i>` where they are NULL, for each excluded column number i that is computed.

    Args:
        source: whose columns they are.
        domain: of the synthetic table.
        frame: of its rows, as `dpsql.books.releases.publication.publish` wants it.

    Raises:
        InvalidArgument: an expression cannot be evaluated.
    """
    levels = in_levels(domain.excluded)
    if not levels:
        return {}
    codes = {name: values for name, values in frame.items() if name[0] in "ct"}
    names = (
        f"{letter}{place}"
        for place, attribute in enumerate(domain.excluded)
        if attribute.computed_as
        for letter in "sr"
    )
    parts = [
        _values_of(source, domain, levels, {name: values[at : at + _ROWS] for name, values in codes.items()})
        for at in range(0, max(1, length(codes)), _ROWS)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _values_of(
    source: Source, domain: Domain, levels: Sequence[Sequence[Attribute]], codes: Columns
) -> Mapping[str, npt.NDArray[Any]]:
    """See `computed_values`."""
    rows = Frame.of(source, codes)
    inner = rows.decoded(source, domain.attributes).sql(dialect="duckdb")
    valued = [
        [(attribute, f"TRY(CAST((\n{attribute.computed_as}\n) AS {_sql_type(attribute)}))") for attribute in level]
        for level in levels
    ]
    listed = []
    for place, attribute in enumerate(domain.excluded):
        if attribute.computed_as:
            missing = "0" if attribute.type in _AS_NUMBERS else "''"
            value = (
                quote(attribute.name) if attribute.type in _AS_NUMBERS else f"CAST({quote(attribute.name)} AS VARCHAR)"
            )
            listed.append(f"coalesce({value}, {missing}) AS s{place}")
            listed.append(f"CAST({quote(attribute.name)} IS NULL AS TINYINT) AS r{place}")
    query = projections(valued, inner, source.name, "*, {}")
    with empty_database() as empty:
        empty.register(rows.name, rows.columns)
        try:
            parts = ("SELECT", ", ".join(listed), "FROM", query, "ORDER BY", rows.row)
            return dict(empty.execute(" ".join(parts)).fetchnumpy())
        except duckdb.Error as error:  # nothing private is in that database
            names = ", ".join(attribute.name for level in levels for attribute in level)
            raise InvalidArgument(
                f"the columns {names} cannot be computed: {words_of_duckdb(error)}; declare them again with dp_domain"
            ) from None
        finally:
            empty.unregister(rows.name)


def _sql_type(attribute: Attribute) -> str:
    return str(data_type(attribute.type).sql(dialect="duckdb"))


def check_bound(source: Source, domain: Domain) -> None:
    """Refuse, before a charge, computed columns that cannot be evaluated in a domain; tried on one row of it.

    Raises:
        InvalidArgument: see `computed_values`.
    """
    frame: dict[str, npt.NDArray[Any]] = {}
    for place, attribute in enumerate(domain):
        frame[f"c{place}"] = np.zeros(1, np.int32)
        if attribute.kind == "bins":
            frame[f"t{place}"] = attribute.draw_ticks(np.zeros(1, np.int64), np.zeros(1))
    assert length(frame) == 1  # a domain has an attribute
    computed_values(source, domain, frame)
