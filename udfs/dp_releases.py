"""`dp_releases()`: every release with its key, mechanism, parameters and guarantee."""

from __future__ import annotations

from .bridge.declare import Call, Relation, TableFunction
from .extension import Instance
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


class DpReleases(TableFunction):
    """One row for each release; state is `reserved` once it is paid for, `measured`, then `published` or `failed`."""

    name = "dp_releases"

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        return BooksQuery("releases", COLUMNS, self._instance)
