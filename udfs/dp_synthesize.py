"""`dp_synthesize(table, epsilon := …)`: a synthetic table with the source's columns and types."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dpsql.books.releases.releases import Entry, rows_table
from dpsql.mechanisms.base import options, registered
from dpsql.release.pipeline import produce, published
from dpsql.release.request import DEFAULT_MECHANISM, Request
from dpsql.release.synthesis import Resolved, resolve

from .bridge.declare import Call, Parameter, Relation
from .extension import Instance, SqlFunction
from .interrupts import looking_up, watched

OPTIONS = tuple(Parameter(name, kind, default=None, help="option of a mechanism") for name, kind in options().items())
PERIOD_HELP = "the period whose rows are read, as '2026-03', where each has a budget"
REQUEST_PARAMETERS = (
    Parameter("table", "VARCHAR", positional=True, help="the protected table"),
    Parameter("epsilon", "DOUBLE", help="what this release costs"),
    Parameter("delta", "DOUBLE", default=None, help="by default the table's"),
    Parameter("workload", "VARCHAR", default=None, help="SQL or shorthand; by default all 3-way marginals"),
    Parameter(
        "mechanism", "VARCHAR", default=DEFAULT_MECHANISM, help=f"one of {', '.join(sorted(registered()))}, or auto"
    ),
    Parameter("rows", "BIGINT", default=None, help="of the synthetic table; by default the measured total"),
    Parameter("columns", "VARCHAR[]", default=None, help="only these columns; by default all"),
    Parameter("prior", "VARCHAR", default=None, help="a public table, view or earlier release to lean on"),
    Parameter("reuse", "BOOLEAN", default=True, help="use what earlier releases of the table measured"),
    Parameter("release", "VARCHAR", default="", help="name of the release; a new name makes (and pays for) a new one"),
    Parameter(
        "linked",
        "BOOLEAN",
        default=False,
        help="all tables that links lead to, in one release; or, with a privacy unit, units with their several rows",
    ),
    Parameter("period", "VARCHAR", default=None, help=PERIOD_HELP),
    Parameter(
        "ordered_by",
        "VARCHAR",
        default=None,
        help="with linked and a privacy unit: the column by which rows of a unit follow each other, such as a year",
    ),
    *OPTIONS,
)


def request_of(call: Call) -> Request:
    """The request that a call's arguments state."""
    given = {option.name: call[option.name] for option in OPTIONS if call[option.name] is not None}
    columns = call["columns"]
    return Request(
        table=call["table"],
        epsilon=call["epsilon"],
        delta=call["delta"],
        workload=call["workload"],
        mechanism=call["mechanism"],
        rows=call["rows"],
        prior=call["prior"],
        reuse=call["reuse"],
        columns=None if columns is None else tuple(columns),
        release=call["release"],
        options=given,
        search_path=call.search_path,
        by=call.by,
        linked=call["linked"],
        period=call["period"],
        ordered_by=call["ordered_by"],
    )


class DpSynthesize(SqlFunction):
    """A differentially private synthetic table. Binding is free; running is charged once for each request."""

    name = "dp_synthesize"
    parameters = REQUEST_PARAMETERS

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        with looking_up(self._instance) as cursor:
            resolved = resolve(cursor, request_of(call))
        return Synthesis(self._instance, resolved)


@dataclass
class Synthesis(Relation):
    """The rows of a release, made when they are first asked for."""

    instance: Instance
    resolved: Resolved
    stored: Entry | None = None

    @property
    def schema(self) -> str:  # type: ignore[override]
        """See `Relation.schema`."""
        return self.resolved.schema()

    @property
    def cardinality(self) -> int | None:  # type: ignore[override]
        """Known once the release is published, or as far as the request says."""
        entry, place = self.resolved.entry, self.resolved.place
        if entry is not None and entry.rows is not None:
            return entry.tables[place].rows if entry.tables else entry.rows
        return self.resolved.request.rows if place == 0 else None

    @property
    def is_stored(self) -> bool:  # type: ignore[override]
        """See `Relation.is_stored`."""
        if self.stored is None:
            with self.instance.lookup() as cursor:
                self.stored = published(self.resolved, cursor)
        return self.stored is not None

    def run(self) -> str:
        """Make or find the release; see `Relation.run`."""
        entry = self.stored
        if entry is None:
            with watched(self.instance) as progress:
                entry = produce(self.resolved, self.instance.cursor, progress)
        return (
            exp.select("*")
            .from_(rows_table(self.resolved.source.catalog, entry, self.resolved.place))
            .sql(dialect="duckdb")
        )
