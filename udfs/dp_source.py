"""`dp_source(name, …)`: a table whose rows stay where they are, in files or in another engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.errors import InvalidArgument
from dpsql.owner.sources import RegisteredSource, register
from dpsql.runtime.progress import polling, should_stop

from .bridge.declare import Call, Parameter, Relation
from .extension import Instance, SqlFunction
from .interrupts import watched
from .relations import Computed

COLUMNS = {
    "source": "VARCHAR",
    "engine": "VARCHAR",
    "pin": "VARCHAR",
    "files": "BIGINT",
    "columns": "VARCHAR[]",
    "share": "DOUBLE",
}
_LISTS = ("files", "identity")


class DpSource(SqlFunction):
    """Register a table whose rows stay where they are: it becomes an empty table here, and is counted there.

    Costs nothing; the rows are not read, but for a sample. The snapshot of now is pinned. The same call again, with the
    name alone, pins the rows of then. Credentials are never given here, only the name of a secret or a variable.
    """

    name = "dp_source"
    parameters = (
        Parameter("name", "VARCHAR", positional=True, help="the table to make, or a source whose pin moves"),
        Parameter("engine", "VARCHAR", default=None, help="which engine has the rows; by default 'parquet'"),
        Parameter("files", "ANY", default=None, help="Parquet: a path, a pattern, or a list of them"),
        Parameter("relation", "VARCHAR", default=None, help="the table there, or the folder of a Delta table"),
        Parameter("snapshot", "BIGINT", default=None, help="the version of a Delta table, or the id of an Iceberg one"),
        Parameter("catalog", "VARCHAR", default=None, help="Iceberg: a name of pyiceberg's configuration"),
        Parameter("secret", "VARCHAR", default=None, help="the name of a DuckDB secret to connect with"),
        Parameter("environment", "VARCHAR", default=None, help="the variable that says how to connect"),
        Parameter("identity", "ANY", default=None, help="the columns that tell rows apart; the one to sample by"),
        Parameter("sample", "BIGINT", default=None, help="keep about so many rows here, drawn once by a secret"),
        Parameter("rows", "BIGINT", default=None, help="about how many rows there are, a public number; for a sample"),
        Parameter(
            "other_rows", "VARCHAR", default=None, help="your word, and why, that no other source has these rows"
        ),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        self._instance.check_owner(self.name)
        given = {p.name: call[p.name] for p in self.parameters}
        for name in _LISTS:
            _texts(name, given[name])

        def write() -> list[tuple[object, ...]]:
            made = register_source(self._instance, given, call.search_path)
            return [(made.source, made.engine, made.pin, made.files, list(made.columns), made.share)]

        return Computed(COLUMNS, self._instance.for_owner(self.name, write))


def register_source(instance: Instance, given: Mapping[str, Any], search_path: str) -> RegisteredSource:
    """Register a source as the owner of an instance, with the arguments of `dp_source` by name."""
    listed = {name: _texts(name, given[name]) for name in _LISTS}
    with (
        instance.cursor() as cursor,
        watched(instance) as progress,
        polling(lambda: should_stop(progress), cursor.interrupt),
    ):
        return register(cursor, search_path=search_path, **{**given, **listed})


def _texts(name: str, value: object) -> list[str] | None:
    """A text, or a list of texts, as a list."""
    if value is None:
        return None
    listed = value if isinstance(value, list | tuple) else [value]
    if not listed or not all(isinstance(text, str) and text.strip() for text in listed):
        raise InvalidArgument(f"{name} is {value!r}: give a text, or a list of texts")
    return list(listed)
