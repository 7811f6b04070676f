"""`dp_query(sql, epsilon := …)`: the noisy answers of a grouped query, with their errors."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.books.ledger.store import Books
from dpsql.books.releases.publication import stored_as_text
from dpsql.books.releases.releases import Entry, rows_table
from dpsql.engines.duckdb.frames import length
from dpsql.errors import DomainTooLarge
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.release.answers_frame import as_text
from dpsql.release.free_answers import derive
from dpsql.release.pipeline import produce, published
from dpsql.release.query_answers import MOST_SHOWN, ResolvedQuery, resolve_query
from dpsql.release.request import QueryRequest
from dpsql.runtime.process_settings import deep_recursion

from .bridge.declare import Call, Parameter, Relation
from .dp_synthesize import PERIOD_HELP
from .extension import Instance, SqlFunction
from .interrupts import looking_up, watched
from .relations import rows_query

QUERY_PARAMETERS = (
    Parameter("sql", "VARCHAR", positional=True, help="SELECT keys, count(*) FROM a protected table GROUP BY keys"),
    Parameter("epsilon", "DOUBLE", help="what the answers cost; 0: from what earlier releases measured, free"),
    Parameter("delta", "DOUBLE", default=None, help="by default the table's; not used with Laplace noise"),
    Parameter("mechanism", "VARCHAR", default=GAUSSIAN.name, help="gaussian, or laplace for pure epsilon"),
    Parameter("non_negative", "BOOLEAN", default=False, help="show counts below 0 as 0"),
    Parameter("release", "VARCHAR", default="", help="name of the release; a new name makes (and pays for) a new one"),
    Parameter("period", "VARCHAR", default=None, help=PERIOD_HELP),
)


def query_request_of(call: Call) -> QueryRequest:
    """The request that a call's arguments state."""
    return QueryRequest(
        sql=call["sql"],
        epsilon=call["epsilon"],
        delta=call["delta"],
        mechanism=call["mechanism"],
        non_negative=call["non_negative"],
        release=call["release"],
        search_path=call.search_path,
        by=call.by,
        period=call["period"],
    )


class DpQuery(SqlFunction):
    """Noisy answers of one query: its own columns, and for each noisy one its standard error and 95 % interval."""

    name = "dp_query"
    parameters = QUERY_PARAMETERS

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        with looking_up(self._instance) as cursor:
            resolved = resolve_query(cursor, query_request_of(call))
        return Answers(self._instance, resolved)


@dataclass
class Answers(Relation):
    """The answers of a query, made when they are first asked for."""

    instance: Instance
    resolved: ResolvedQuery
    stored: Entry | None = None
    constant = True

    @property
    def schema(self) -> str:  # type: ignore[override]
        """See `Relation.schema`."""
        return self.resolved.result.schema

    @property
    def cardinality(self) -> int | None:  # type: ignore[override]
        """One row for each group, at most."""
        return sum(int(alive.sum()) for alive in self.resolved.evaluated.present)

    @property
    def is_stored(self) -> bool:  # type: ignore[override]
        """See `Relation.is_stored`."""
        if self.stored is None and self.resolved.request.epsilon != 0:
            with self.instance.lookup() as cursor:
                self.stored = published(self.resolved, cursor)
        return self.stored is not None

    @property
    def is_light(self) -> bool:  # type: ignore[override]
        """See `Relation.is_light`."""
        return self.resolved.is_light

    @deep_recursion()  # to write out its expressions
    def run(self) -> str:
        """Make or find the answers; see `Relation.run`."""
        result, non_negative = self.resolved.result, self.resolved.request.non_negative
        if self.resolved.request.epsilon == 0:
            with self.instance.cursor() as cursor:
                frame = derive(Books(cursor, self.resolved.source.catalog), self.resolved)
            group_keys = as_text(result, frame)
        else:
            entry = self.stored
            if entry is None:
                with watched(self.instance) as progress:
                    entry = produce(self.resolved, self.instance.cursor, progress)
            table = rows_table(self.resolved.source.catalog, entry)
            if result.is_plain:
                return result.select(table, non_negative=non_negative).sql(dialect="duckdb")
            with self.instance.lookup() as cursor:
                group_keys = stored_as_text(cursor, table, list(result.stored))
        if length(group_keys) > MOST_SHOWN:
            raise DomainTooLarge(f"the query has {length(group_keys)} groups, more than {MOST_SHOWN}: ask for fewer")
        return rows_query(dict(result.shown()), result.rows(group_keys, non_negative=non_negative))
