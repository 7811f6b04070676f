"""`dp_constraint(table, 'predicate')`: a public fact that every synthetic row satisfies."""

from __future__ import annotations

from functools import partial

from dpsql.books.ledger.store import Books
from dpsql.engines.registry import find_source
from dpsql.engines.source import Source
from dpsql.evaluation.sandbox import stopped_by
from dpsql.owner.constraints import unconstrain
from dpsql.owner.link_rules import check_fact, state_fact

from .bridge.declare import Call, Parameter, Relation
from .extension import SqlFunction
from .interrupts import looking_up, watched
from .relations import Computed

COLUMNS = {
    "source": "VARCHAR",
    "predicate": "VARCHAR",
    "columns": "VARCHAR[]",
    "tuples": "BIGINT",
    "allowed": "BIGINT",
}


class DpConstraint(SqlFunction):
    """State a public fact about each row of a table: every synthetic row made from now on satisfies it.

    Costs nothing: the predicate runs on the declared domain and on synthetic rows, never on private ones. As a CHECK,
    it holds unless it is FALSE. Columns of rows above, and of rows with a role, bear the name of the table or role.
    """

    name = "dp_constraint"
    parameters = (
        Parameter("table", "VARCHAR", positional=True, help="the protected table"),
        Parameter("predicate", "VARCHAR", positional=True, help="SQL over the columns of one row"),
        Parameter("remove", "BOOLEAN", default=False, help="take the fact back"),
        Parameter("looked", "BOOLEAN", default=False, help="you read it off the rows, so it is your disclosure"),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        self._instance.check_owner(self.name)
        with looking_up(self._instance) as cursor:
            source = find_source(cursor, call["table"], call.search_path)
            if call["remove"]:
                remove = partial(self._remove, source, call["predicate"])
                return Computed(COLUMNS, self._instance.for_owner(self.name, remove))
            check_fact(Books(cursor, source.catalog), source, call["predicate"])  # what it would refuse, with a caret

        def record() -> list[tuple[object, ...]]:
            with self._instance.cursor() as cursor, watched(self._instance) as progress, stopped_by(progress):
                stated, *counts = state_fact(cursor, source, call["predicate"], looked=call["looked"])
            return [(source.key, stated.predicate, list(stated.columns), *counts)]

        return Computed(COLUMNS, self._instance.for_owner(self.name, record))

    def _remove(self, source: Source, predicate: str) -> list[tuple[object, ...]]:
        with self._instance.cursor() as cursor:
            constraint = unconstrain(cursor, source, predicate)
        return [(source.key, constraint.predicate, list(constraint.columns), 0, 0)]
