"""`dp_link(table, parent, …)`: the rows of a table belong to rows of another one, and share its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.core.tree import Role
from dpsql.engines.registry import find_source
from dpsql.errors import InvalidArgument
from dpsql.owner.links import Linked, link

from .bridge.declare import Call, Parameter, Relation
from .extension import SqlFunction
from .relations import Computed

COLUMNS = {
    "source": "VARCHAR",
    "parent": "VARCHAR",
    "key": "VARCHAR[]",
    "references": "VARCHAR[]",
    "most": "BIGINT",
    "max_rows": "BIGINT",
    "undeclared": "VARCHAR[]",
    "note": "VARCHAR",
    "roles": "VARCHAR[]",
    "ordered_by": "VARCHAR",
}


class DpLink(SqlFunction):
    """Link a table to the one that its keys lead to: its rows belong to the same units, and share one budget.

    The unit is a row of the table at the top, with all rows below it. Costs nothing; no row is read. A row whose key is
    NULL, or leads nowhere, belongs to nobody and counts nowhere. `note` says of whom nothing is promised.
    """

    name = "dp_link"
    parameters = (
        Parameter("table", "VARCHAR", positional=True, help="the table with the keys, which has no budget of its own"),
        Parameter("parent", "VARCHAR", positional=True, help="the protected or linked table that they lead to"),
        Parameter("key", "ANY", default=None, help="the columns that lead there; by default those of a FOREIGN KEY"),
        Parameter("references", "ANY", default=None, help="the parent's columns that they name"),
        Parameter(
            "most",
            "BIGINT",
            default=None,
            help="from so many rows of a parent on, roles left out, numbers share a bin; 100, or 1 by PRIMARY KEY",
        ),
        Parameter("max_rows", "BIGINT", default=None, help="how many rows of one unit count, where rows are counted"),
        Parameter(
            "one_of",
            "STRUCT",
            default=None,
            help="rows of which each row of the parent has one: {'head': 'relate = 0'}, a name and a predicate",
        ),
        Parameter("at_most_one", "STRUCT", default=None, help="rows of which each row of the parent has one at most"),
        Parameter(
            "ordered_by",
            "VARCHAR",
            default=None,
            help="the column by which rows of a parent follow each other, such as a day: linked releases keep it",
        ),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        self._instance.check_owner(self.name)
        key, references = (names_of(name, call[name]) for name in ("key", "references"))
        roles = roles_of(call["one_of"], call["at_most_one"])
        with self._instance.lookup() as cursor:
            child, parent = (find_source(cursor, call[name], call.search_path) for name in ("table", "parent"))

        def record() -> list[tuple[object, ...]]:
            with self._instance.cursor() as cursor:
                most, max_rows = call["most"], call["max_rows"]
                made = link(cursor, child, parent, key, references, most, max_rows, roles, call["ordered_by"])
                return [row_of(made)]

        return Computed(COLUMNS, self._instance.for_owner(self.name, record))


def names_of(argument: str, given: Any) -> list[str] | None:
    """The columns of an argument: one, or a list.

    Raises:
        InvalidArgument: it is neither.
    """
    listed = [given] if isinstance(given, str) else given
    if listed is None:
        return None
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(name, str) for name in listed):
        raise InvalidArgument(f"{argument} is {given!r}: give a column, or a list of columns")
    return list(listed)


def roles_of(one_of: Any, at_most_one: Any) -> list[Role] | None:
    """The roles of two arguments, each with predicates by names; None where neither is given.

    Raises:
        InvalidArgument: one is no such thing.
    """
    given = {"one_of": one_of, "at_most_one": at_most_one}
    for argument, roles in given.items():
        texts = isinstance(roles, Mapping) and all(isinstance(text, str) for pair in roles.items() for text in pair)
        if roles is not None and not texts:
            raise InvalidArgument(f"{argument} is {roles!r}: give a name and a predicate, as {{'head': 'relate = 0'}}")
    if one_of is None and at_most_one is None:
        return None
    return [
        Role(name, where.strip(), argument == "one_of")
        for argument, roles in given.items()
        for name, where in (roles or {}).items()
    ]


def row_of(entry: Linked) -> tuple[object, ...]:
    """A table of a tree as `COLUMNS` name it."""
    keys = (list(entry.key), list(entry.references)) if entry.parent is not None else (None, None)
    ends = (entry.most, entry.max_rows, list(entry.undeclared), entry.note or None, list(entry.roles), entry.ordered_by)
    return (entry.source, entry.parent, *keys, *ends)
