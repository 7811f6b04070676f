"""`db.link`, `db.links`: linked tables, which share the budget of the table at the top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpsql.api.arguments import arguments_of
from dpsql.api.declaring import Declaring
from dpsql.api.errors import own_errors
from dpsql.owner.links import Linked, link
from dpsql.udfs.bridge.declare import Call
from dpsql.udfs.dp_link import names_of, roles_of
from dpsql.udfs.dp_links import DpLinks

if TYPE_CHECKING:
    import pandas as pd


class Linking(Declaring):
    """What an owner says of tables whose rows belong together."""

    def link(
        self,
        table: str,
        parent: str,
        key: str | Sequence[str] | None = None,
        references: str | Sequence[str] | None = None,
        most: int | None = None,
        max_rows: int | None = None,
        one_of: Mapping[str, str] | None = None,
        at_most_one: Mapping[str, str] | None = None,
        ordered_by: str | None = None,
    ) -> Linked:
        """Link a table to the one that its keys lead to: both share one budget. See `dp_link`.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE patients (pid INTEGER PRIMARY KEY, sick BOOLEAN NOT NULL)")
        ...     _ = db.sql("CREATE TABLE visits (pid INTEGER REFERENCES patients (pid), urgent BOOLEAN NOT NULL)")
        ...     _ = db.protect("patients", epsilon=3.0, delta=1e-9)
        ...     db.link("visits", "patients", max_rows=8).key
        ('pid',)
        """
        self.instance.check_owner("link")
        keys, others = names_of("key", key), names_of("references", references)
        roles = roles_of(one_of, at_most_one)
        with self.instance.cursor() as cursor:
            tables = self._source(cursor, table), self._source(cursor, parent)
            return link(cursor, *tables, keys, others, most, max_rows, roles, ordered_by)

    def links(self, table: str | None = None) -> pd.DataFrame:
        """The tables of each tree, or of that of one table, a parent before its children. See `dp_links`.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     len(db.links())
        0
        """
        call = arguments_of(DpLinks, {"table": table})
        relation = DpLinks(self.instance).bind(Call(DpLinks.name, call, self._search_path))
        rows = relation.run()
        with self.instance.cursor() as cursor, own_errors:
            return cursor.execute(rows).df()
