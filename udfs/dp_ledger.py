"""`dp_ledger()`: every charge, in order."""

from __future__ import annotations

from .bridge.declare import Call, Parameter, Relation
from .extension import SqlFunction
from .relations import BooksQuery

COLUMNS = {
    "number": "BIGINT",
    "at": "TIMESTAMP",
    "source": "VARCHAR",
    "kind": "VARCHAR",
    "release": "BIGINT",
    "mechanism": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "rho": "DOUBLE",
    "gdp": "DOUBLE",
    "reason": "VARCHAR",
    "username": "VARCHAR",
    "hash": "VARCHAR",
}


class DpLedger(SqlFunction):
    """The events of the books, those of one source with `source := 'adult'`."""

    name = "dp_ledger"
    parameters = (Parameter("source", "VARCHAR", default="", help="only events of this source"),)

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        return BooksQuery("ledger", COLUMNS, self._instance, {"source": call["source"]})
