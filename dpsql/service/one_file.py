"""A directory on one database and a mapping of users: what tests use, until the books know the users."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dpsql.core.names import quote
from dpsql.errors import UnknownName
from dpsql.runtime.progress import Progress
from dpsql.udfs import functions
from dpsql.udfs.bridge.declare import Call, Relation
from dpsql.udfs.extension import Instance
from dpsql.udfs.interrupts import reporting

from . import arrow
from .directory import Bound, Columns, Credential, Published
from .passwords import credential


def streamed(instance: Instance, query: str, columns: Columns) -> pa.RecordBatchReader:
    """The rows of a query on the private database that is known to read released rows only."""
    context = instance.cursor()
    cursor = context.__enter__()
    try:
        cursor.execute(arrow.sent(query, columns))
        rows = arrow.reader(cursor)
    except BaseException:
        context.__exit__(None, None, None)
        raise

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        finally:
            context.__exit__(None, None, None)

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


@dataclass
class BoundRelation:
    """A relation of a SQL function, bound without DuckDB."""

    instance: Instance
    relation: Relation
    columns: Columns

    def rows(self, progress: Progress, cancelled: Callable[[], bool]) -> pa.RecordBatchReader:
        """See `Bound.rows`."""
        with reporting(progress):
            query = self.relation.run()
        return streamed(self.instance, query, self.columns)


def bound(instance: Instance, function: str, arguments: Mapping[str, object]) -> BoundRelation:
    """A call of a SQL function of an instance: what `Directory.bind` returns once it knows who calls."""
    found = next((one for one in functions(instance) if getattr(one, "name", "") == function), None)
    if found is None:
        raise UnknownName(f"there is no function {function!r}")
    with instance.cursor() as cursor:
        relation = found.bind(Call(function, dict(arguments), instance.home))
        return BoundRelation(instance, relation, arrow.described(cursor, relation.schema))


@dataclass
class OneTable:
    """A table of the file that the owner lets everyone read."""

    instance: Instance
    name: str
    columns: Columns
    comment: str
    version: str = "1"

    def read(self) -> pa.RecordBatchReader:
        """See `Published.read`."""
        return streamed(self.instance, f"SELECT * FROM {self.instance.home}.{quote(self.name)}", self.columns)  # noqa: S608 - quoted


@dataclass
class OneFile:
    """See `Directory`.

    Attributes:
        path: of the database.
        users: by name, `password` and `role`.
        tables: names of tables that are published, and their comments.
    """

    path: str
    users: Mapping[str, Mapping[str, str]]
    tables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open the database."""
        from dpsql.api.database import connect

        self._database = connect(self.path, owner=False)
        self._lock = threading.Lock()
        self._credentials = {name: credential(user["password"]) for name, user in self.users.items()}

    def credential(self, user: str) -> Credential | None:
        """See `Directory.credential`."""
        return self._credentials.get(user)

    def role(self, user: str) -> str | None:
        """See `Directory.role`."""
        found = self.users.get(user)
        return None if found is None else found["role"]

    def bind(self, user: str, function: str, arguments: Mapping[str, object]) -> Bound:
        """See `Directory.bind`."""
        return bound(self._database.instance, function, arguments)

    def published(self) -> list[Published]:
        """See `Directory.published`."""
        found: list[Published] = []
        with self._database.instance.cursor() as cursor:
            for name, comment in self.tables.items():
                columns = arrow.described(cursor, f"SELECT * FROM {self._database.instance.home}.{quote(name)}")  # noqa: S608 - quoted
                found.append(OneTable(self._database.instance, name, columns, comment))
        return found

    def close(self) -> None:
        """See `Directory.close`."""
        with closing(self._database):
            pass


def open_directory(path: str, users: Mapping[str, Any]) -> OneFile:
    """A directory of the `users` and `tables` that are given."""
    return OneFile(path, users["users"], users.get("tables", {}))
