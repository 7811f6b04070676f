"""`dp_domain(table, column, …)`: declare the public domain of a column."""

from __future__ import annotations

from dpsql.database.catalog import find_source
from dpsql.errors import InvalidArgument
from dpsql.protection import declare

from .bridge import Call, Parameter, Relation, TableFunction
from .extension import Instance
from .relations import Computed

COLUMNS = {
    "source": "VARCHAR",
    "column": "VARCHAR",
    "type": "VARCHAR",
    "kind": "VARCHAR",
    "size": "BIGINT",
    "labels": "VARCHAR[]",
    "nullable": "BOOLEAN",
    "other": "VARCHAR",
    "origin": "VARCHAR",
}


class DpDomain(TableFunction):
    """Declare which values a column may take: a public fact that the owner states, never read off the private rows.

    Costs nothing. Rows with other values go to `other` if that is given, else they count in no marginal of the column.
    """

    name = "dp_domain"
    parameters = (
        Parameter("table", "VARCHAR", positional=True, help="the protected table"),
        Parameter("column", "VARCHAR", positional=True, help="the column"),
        Parameter("values", "ANY", default=None, help="a list of the values"),
        Parameter("lower", "ANY", default=None, help="the smallest value"),
        Parameter("upper", "ANY", default=None, help="the largest value, included"),
        Parameter("bins", "BIGINT", default=None, help="intervals of equal width; by default at most 100"),
        Parameter("edges", "ANY", default=None, help="a list of increasing edges, the last one exclusive"),
        Parameter("reference", "VARCHAR", default=None, help="'table.column' of a public table that has the values"),
        Parameter("exclude", "BOOLEAN", default=False, help="leave the column NULL in every synthetic row"),
        Parameter("nulls", "BOOLEAN", default=None, help="whether NULL has a cell; by default unless NOT NULL"),
        Parameter("other", "ANY", default=None, help="the value that stands for all that is not in the domain"),
    )

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        with self._instance.cursor() as cursor:
            source = find_source(cursor, call["table"], call.search_path)
            source.column(call["column"])
        for name in ("values", "edges"):
            if call[name] is not None and not isinstance(call[name], list):
                raise InvalidArgument(f"{name} is {call[name]!r}: give a list, {name} := [{call[name]!r}, …]")
        given = {p.name: call[p.name] for p in self.parameters if not p.positional}

        def record() -> list[tuple[object, ...]]:
            with self._instance.cursor() as cursor:
                attribute = declare(cursor, source, call["column"], search_path=call.search_path, **given)
            kind = (attribute.name, attribute.type, attribute.kind, attribute.size, attribute.labels())
            return [(source.key, *kind, attribute.nullable, attribute.other, attribute.origin)]

        return Computed(COLUMNS, record)
