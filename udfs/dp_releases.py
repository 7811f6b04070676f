"""`dp_releases()`: every release with its key, mechanism, parameters and guarantee."""

from __future__ import annotations

import json
from functools import partial

from dpsql.books.ledger.store import Books
from dpsql.books.releases.releases import guarantees

from .bridge.declare import Call, Relation
from .extension import SqlFunction
from .of_users import RELEASE_COLUMNS, release_rows
from .relations import BooksQuery, Computed

COLUMNS = {name: kind for name, kind in RELEASE_COLUMNS.items() if name != "published"} | {"hash": "VARCHAR"}


class DpReleases(SqlFunction):
    """One row for each release; state is `reserved` once it is paid for, `measured`, then `published` or `failed`."""

    name = "dp_releases"

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        if call.by:
            return Computed(RELEASE_COLUMNS, partial(release_rows, self._instance, call.by))
        return BooksQuery("releases", COLUMNS, self._instance, further=_guarantees)


def _guarantees(books: Books) -> dict[str, str]:
    return {"guarantees": json.dumps(guarantees(books), ensure_ascii=False)}
