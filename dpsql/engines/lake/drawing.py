"""A sample of a snapshot's rows: those whose keyed digest is small, whatever other rows there are, and where they are.

    unit    is in it  ⇔  md5(secret ‖ unit)                <  share · 2⁶⁴,   with all its rows
    row     is in it  ⇔  md5(secret ‖ content ‖ number)    <  share · 2⁶⁴

    content  =  md5(secret ‖ all stored columns);   number  =  1, 2, … among the rows that are alike

Rows of a table are a multiset. Of a row that is there m times, the sample has the numbers k ≤ m whose digest is small:
a number that depends on the row and on m alone, and that grows by at most 1 with m. So for every secret, tables that
differ by one row more or less have samples that differ by that row, or not at all; tables of which one row was replaced
have samples that differ by one row less and one more; and where units are drawn, a unit more or less changes the sample
by that unit. Files, their names and the order of their rows decide nothing.

This holds at each pin by itself, and the secret stays: what is released of all pins together is about samples that
differ by one row (or unit) each, as the tables do, so its losses add up as those of the tables would. A place in a file
would not do: one row more at the front draws all others anew, at one pin in one world and not in the other.

The share is a number that the owner states. How many rows a sample has is private, also where the number of all rows is
public. That a sample hides more than the table would is claimed nowhere.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.duckdb.types import column_of, filled
from dpsql.engines.duckdb.units import content_of, unused
from dpsql.engines.source import Column, Source

_WHOLE: Final = 2**64


def sample_query(rows: Source, target: str, share: float, secret: str, by: str | None) -> str:
    """The statement that writes the sample.

    Args:
        rows: a view of the rows.
        target: the table to fill, as SQL.
        share: between 0 and 1.
        secret: SQL that reads what the choice is keyed by.
        by: the column whose values are in the sample as a whole; rows without one are drawn as rows.
    """
    listed = ", ".join(quote(column.name) for column in rows.columns)
    table, least = rows.table().sql(dialect="duckdb"), min(int(share * _WHOLE), _WHOLE - 1)

    def small(text: str) -> str:
        return f"md5_number_lower(concat({secret}, '/', {text})) < {least}::UBIGINT"

    def drawn(where: str) -> str:
        """The rows that are drawn one by one."""
        content, number = unused(rows, "dpsql_content"), unused(rows, "dpsql_number")
        digest = content_of(rows, exp.maybe_parse(secret, dialect="duckdb")).sql(dialect="duckdb")
        alike = ", ".join([content, *(quote(column.name) for column in rows.columns if not _is_told(column))])
        with_digests = f"SELECT {listed}, {digest} AS {content} FROM {table}{where}"  # noqa: S608
        placed = f"SELECT *, row_number() OVER (PARTITION BY {alike}) AS {number} FROM ({with_digests})"  # noqa: S608
        chosen = f"concat('alike ', {content}, '/', {number})"
        return f"SELECT {listed} FROM ({placed}) WHERE {small(chosen)}"  # noqa: S608

    if by is None:
        return f"INSERT INTO {target} ({listed}) {drawn('')}"
    unit = filled(column_type(rows.column(by).type).unit_key, x=column_of(by)).sql(dialect="duckdb")
    text = f"TRY_CAST({unit} AS VARCHAR)"
    prefixed = f"'unit ' || {text}"
    units = f"SELECT {listed} FROM {table} WHERE {small(prefixed)} AND {text} IS NOT NULL"  # noqa: S608
    return f"INSERT INTO {target} ({listed}) {units} UNION ALL {drawn(f' WHERE {text} IS NULL')}"


def _is_told(column: Column) -> bool:
    """Whether the text of a value tells it from all others: not of nested types, nor of times in old time zones."""
    kind = column_type(column.type)
    return kind.listable and not kind.depends_on_session
