"""Bins of a column that stores times in a form, such as 517 for 05:17: what is drawn from a bin is written into it."""

from __future__ import annotations

import duckdb
from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.reading import read, written
from dpsql.engines.duckdb.types import data_type, text_of
from dpsql.errors import InvalidArgument


def check_written(cursor: duckdb.DuckDBPyConnection, attribute: Attribute) -> None:
    """Refuse edges and an OTHER between what the form can write, and bounds that it, or the column's type, cannot.

    Then every value of a bin is written as one of that bin: what is finer than the form is cut off, down to an edge at
    most.

    Raises:
        InvalidArgument: names the edge, or the value of other.
    """
    if not attribute.reading:
        return
    others = [] if attribute.other is None else [attribute.other]
    texts = exp.Array(expressions=[exp.Literal.string(text) for text in (*others, *attribute.edges)])
    edge = exp.cast(exp.column("v"), data_type(attribute.type), dialect="duckdb")
    back = text_of(read(exp.column("s"), attribute))
    each = exp.select(exp.alias_(exp.Anonymous(this="unnest", expressions=[texts]), "v")).subquery("edges")
    inner = exp.select("v", exp.alias_(written(edge, attribute), "s")).from_(each).subquery("stored")
    sql = exp.select("v", back, text_of(edge)).from_(inner).sql(dialect="duckdb")
    read_back = cursor.execute(sql).fetchall()
    for place, (text, again, same) in enumerate(read_back):
        is_last = place == len(read_back) - 1
        if again is None or (again != same and not is_last):
            what, mend = (
                ("the value of other", "give another value to other")
                if place < len(others)
                else ("an edge of the bins", "give lower, upper and bins, every or edges, so that all edges are times")
            )
            raise InvalidArgument(
                f"read_as is {attribute.reading!r}, in which {attribute.name!r} of type {attribute.stored_type} cannot "
                f"hold {text}, {what}: {mend} that it can hold"
            )
