"""The dbt-duckdb plugin: models of a dbt project read releases, each of which is paid for once.

A profile names it, and dbt-duckdb finds it:

    plugins:
      - module: dpsql.dbt

A model is then `SELECT * FROM dp_synthesize('bank.patients', epsilon := 1.0)`. A release is known by its request, so
the next `dbt run` finds it in the books and charges nothing. `examples/dbt` is a whole project.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import duckdb

from dpsql.api.database import Database, install
from dpsql.errors import InvalidArgument

_Base: Any = object
with suppress(ImportError):  # dbt-duckdb has no types, and is there where it loads this module
    _Base = import_module("dbt.adapters.duckdb.plugins").BasePlugin


class Plugin(_Base):  # type: ignore[misc]
    """Puts dpsql into the database that dbt opens.

    Its `config` in the profile may say `owner: true`; else models can neither protect a table nor declare a domain,
    because that is for the table's owner to do, and not for a run.
    """

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        """See `BasePlugin.initialize`.

        Raises:
            InvalidArgument: the configuration holds something else than `owner`.
        """
        given = dict(plugin_config)
        settings = getattr(getattr(self, "creds", None), "settings", None) or {}  # which dbt-duckdb adds to it
        self._owner = given.pop("owner", False)
        unknown = sorted(name for name in given if name not in settings)
        if unknown or not isinstance(self._owner, bool):
            raise InvalidArgument(f"config of dpsql.dbt is {plugin_config!r}: it takes owner: true or false")
        self._databases: list[Database] = []

    def update_connection_config(self, creds: Any, config: dict[str, Any]) -> None:
        """See `BasePlugin.update_connection_config`: the bridge of dpsql is an extension that nobody signed."""
        config["allow_unsigned_extensions"] = "true"

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """See `BasePlugin.configure_connection`."""
        conn.execute("SET enable_progress_bar = false")
        self._databases.append(install(conn, owner=None if self._owner else False))
