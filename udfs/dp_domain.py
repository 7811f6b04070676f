"""`dp_domain(table, column, …)`: declare the public domain of a column."""

from __future__ import annotations

import duckdb

from dpsql.books.ledger.store import Books
from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.calls import literal, parameter
from dpsql.engines.registry import find_source
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.owner.protect import declaration, record
from dpsql.release.discovery import discover, resolve_discovery
from dpsql.release.quality import outside_share
from dpsql.release.request import DiscoveryRequest

from .bridge.declare import Call, Parameter, Relation
from .extension import SqlFunction
from .interrupts import looking_up, watched
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
    "outside": "DOUBLE",
    "public_because": "VARCHAR",
}

_BECAUSE = {
    "declared": "the owner says that these values are public",
    "looked": "the owner read them off the rows and discloses them, which no guarantee covers",
    "type": "the owner says that the members of its type are public, whatever the rows are",
    "reference": "these are values of a public table",
    "discovered": "they were found with noise, which was charged",
}

_COMPUTED = {
    "declared": "the owner says that it is computed so; what is stored in it is never read",
    "looked": "the owner read off the rows how it is computed, and discloses that; what is stored is never read",
}


class DpDomain(SqlFunction):
    """Declare which values a column may take: a public fact that the owner states. dpsql reads no private row for it.

    Costs nothing; but with `discover := true` it is found in the rows with noise, and charged. Other values become
    `other` if that is given, else NULL. After a release `outside` says about which part of the rows they are.
    """

    name = "dp_domain"
    parameters = (
        Parameter("table", "VARCHAR", positional=True, help="the protected table"),
        Parameter("column", "VARCHAR", positional=True, help="the column"),
        Parameter("values", "ANY", default=None, help="a list of the values"),
        Parameter("lower", "ANY", default=None, help="the smallest value"),
        Parameter("upper", "ANY", default=None, help="the largest value, included"),
        Parameter("bins", "BIGINT", default=None, help="intervals of equal width; by default at most 100"),
        Parameter("scale", "VARCHAR", default=None, help="'log': edges grow by the same factor, from lower to upper"),
        Parameter("every", "VARCHAR", default=None, help="'week', 'month', 'quarter', 'year': a bin each, of dates"),
        Parameter("edges", "ANY", default=None, help="a list of increasing edges, the last one exclusive"),
        Parameter("points", "ANY", default=None, help="a list of values in the bins that get a cell of their own"),
        Parameter(
            "step",
            "DOUBLE",
            default=None,
            help="synthetic values are multiples of it: 1 for whole numbers, 0.01 for cents; 60 for times in minutes",
        ),
        Parameter("reference", "VARCHAR", default=None, help="'table.column' of a public table that has the values"),
        Parameter("type", "BOOLEAN", default=False, help="the members of its ENUM type are public, whatever the rows"),
        Parameter(
            "computed_as",
            "VARCHAR",
            default=None,
            help="an expression of other columns, as 'repair + other': not measured, computed in synthetic rows",
        ),
        Parameter(
            "exclude",
            "BOOLEAN",
            default=False,
            help="leave the column NULL in every synthetic row: nested, binary, free text",
        ),
        Parameter(
            "ids", "BOOLEAN", default=False, help="exclude the column; synthetic rows get new ids: 1, 2, …, UUIDs"
        ),
        Parameter(
            "fake", "VARCHAR", default=None, help="exclude the column; the faker package writes 'name', 'city', …"
        ),
        Parameter("nulls", "BOOLEAN", default=None, help="whether NULL has a cell; by default unless NOT NULL"),
        Parameter("nulls_as", "ANY", default=None, help="a list of values that stand for NULL, as ['N', '-9']"),
        Parameter(
            "read_as",
            "VARCHAR",
            default=None,
            help="the type as which texts are read: 'INTEGER', 'DOUBLE%'; or the form of times: 'HHMM', 'YYYYMM', …",
        ),
        Parameter("other", "ANY", default=None, help="the value that stands for all that is not in the domain"),
        Parameter(
            "looked",
            "BOOLEAN",
            default=None,
            help="you read it off the rows, so it is your disclosure; false: it is public after all",
        ),
        Parameter("discover", "BOOLEAN", default=False, help="find values, or edges between lower and upper; charged"),
        Parameter(
            "heavy", "DOUBLE", default=None, help="discover points too: values of this part of the rows, as 0.05"
        ),
        Parameter("epsilon", "DOUBLE", default=None, help="what the discovery costs"),
        Parameter("delta", "DOUBLE", default=None, help="of the discovery; by default the table's, for values a tenth"),
        Parameter("period", "VARCHAR", default=None, help="discover in this period's rows, where each has a budget"),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        self._instance.check_owner(self.name)
        with self._instance.lookup() as cursor:
            source = find_source(cursor, call["table"], call.search_path)
            source.column(call["column"])
        for name in ("values", "edges", "points", "nulls_as"):
            if call[name] is not None and not isinstance(call[name], list):
                raise InvalidArgument(
                    f"{name} is {call[name]!r}: give a list, {parameter(name)} := [{literal(call[name])}, …]"
                )
        if call["discover"]:
            return self._discovery(call)
        for name in ("epsilon", "delta", "heavy", "period"):
            if call[name] is not None:
                raise InvalidArgument(f"{name} is {call[name]}, but a declaration costs nothing: say discover := true")
        how = {p.name: call[p.name] for p in self.parameters if not p.positional and p.name not in OF_DISCOVERY}
        how["search_path"] = call.search_path
        ready: Attribute | None = None
        if call["reference"] is None:  # whose rows are read when the call runs
            with looking_up(self._instance) as cursor:
                ready = declaration(cursor, source, call["column"], **how)

        def written() -> list[tuple[object, ...]]:
            with self._instance.cursor() as cursor:
                attribute = declaration(cursor, source, call["column"], **how) if ready is None else ready
                record(cursor, source, attribute)
                return [_row(cursor, source, attribute)]

        return Computed(COLUMNS, self._instance.for_owner(self.name, written))

    def _discovery(self, call: Call) -> Relation:
        """The domain from the private rows, charged when it is executed."""
        for name in ("values", "edges", "reference", "points", "step", "scale", "every"):
            if call[name] is not None:
                raise InvalidArgument(f"{name} is given, but discover := true finds the domain: leave one of them out")
        for name in ("exclude", "ids", "fake", "computed_as"):
            if call[name]:
                raise InvalidArgument(f"{name} leaves nothing to discover: leave one of them out")
        if call["looked"]:
            raise InvalidArgument("looked is true, but discover := true measures with noise: leave one of them out")
        if call["type"]:
            raise InvalidArgument("type := true tells the domain: leave it out, or discover := true")
        if call["epsilon"] is None:
            raise InvalidArgument("discover := true reads private rows: say epsilon too, what it may cost, such as 0.1")
        request = DiscoveryRequest(**{name: call[name] for name in _OF_REQUEST}, search_path=call.search_path)
        with self._instance.lookup() as cursor:
            resolved = resolve_discovery(cursor, request)

        def record() -> list[tuple[object, ...]]:
            with watched(self._instance) as progress:
                attribute = discover(self._instance.cursor, resolved, progress)
            with self._instance.cursor() as cursor:
                return [_row(cursor, resolved.source, attribute)]

        return Computed(COLUMNS, self._instance.for_owner(self.name, record))


_OF_REQUEST = (
    *("table", "column", "epsilon", "delta", "lower", "upper", "bins", "nulls", "other"),
    *("nulls_as", "read_as", "heavy", "period"),
)
OF_DISCOVERY = ("discover", "epsilon", "delta", "heavy", "period")


def _row(cursor: duckdb.DuckDBPyConnection, source: Source, attribute: Attribute) -> tuple[object, ...]:
    kind = (attribute.name, attribute.stored_type, attribute.shown_kind, attribute.size, attribute.labels())
    because = "nothing of it is used" if attribute.kind == "excluded" else _BECAUSE[attribute.known_from]
    if attribute.computed_as:
        because = _COMPUTED[attribute.known_from]
    outside = outside_share(Books(cursor, source.catalog), source.key, attribute)
    return (source.key, *kind, attribute.nullable, attribute.other, attribute.known_from, outside, because)
