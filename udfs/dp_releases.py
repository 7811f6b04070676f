"""`dp_releases()`: every release with its key, mechanism, parameters and guarantee."""

from __future__ import annotations

from .bridge.declare import Call, Relation
from .extension import SqlFunction
from .relations import BooksQuery

COLUMNS = {
    "release": "BIGINT",
    "source": "VARCHAR",
    "state": "VARCHAR",
    "mechanism": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "rho": "DOUBLE",
    "rows": "BIGINT",
    "guarantee": "VARCHAR",
    "request": "VARCHAR",
    "report": "VARCHAR",
    "key": "VARCHAR",
    "hash": "VARCHAR",
}


class DpReleases(SqlFunction):
    """One row for each release; state is `reserved` once it is paid for, `measured`, then `published` or `failed`."""

    name = "dp_releases"

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        return BooksQuery("releases", COLUMNS, self._instance)
