"""A sample of a snapshot's rows: those whose keyed digest is small, so the same ones of the same rows each time.

    row     is in it  ⇔  md5(secret ‖ file ‖ row number)  <  share · 2⁶⁴
    unit    is in it  ⇔  md5(secret ‖ unit)               <  share · 2⁶⁴,   with all its rows

Whether a row or a unit is in it depends on no other, and the share is a number that the owner states. So tables that
differ by one unit have samples that differ by that unit, or not at all. That a sample hides more than that is claimed
nowhere.
"""

from __future__ import annotations

from typing import Final

from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.duckdb.types import column_of, filled
from dpsql.engines.source import Source

_WHOLE: Final = 2**64


def sample_query(rows: Source, place: str, target: str, share: float, secret: str, by: str | None) -> str:
    """The statement that writes the sample.

    Args:
        rows: a view of the rows.
        place: its column that tells in which file and row a row is.
        target: the table to fill, as SQL.
        share: between 0 and 1.
        secret: SQL that reads what the choice is keyed by.
        by: the column whose values are in the sample as a whole; rows without one are drawn as rows.
    """
    listed = ", ".join(quote(column.name) for column in rows.columns)
    of_row = f"concat('row ', {quote(place)})"
    if by is not None:
        unit = filled(column_type(rows.column(by).type).unit_key, x=column_of(by)).sql(dialect="duckdb")
        of_row = f"coalesce('unit ' || TRY_CAST({unit} AS VARCHAR), {of_row})"
    least = min(int(share * _WHOLE), _WHOLE - 1)
    chosen = f"md5_number_lower(concat({secret}, '/', {of_row})) < {least}::UBIGINT"
    table = rows.table().sql(dialect="duckdb")
    return f"INSERT INTO {target} ({listed}) SELECT {listed} FROM {table} WHERE {chosen}"  # noqa: S608
