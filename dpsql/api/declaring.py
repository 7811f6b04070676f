"""`db.domains`: the domains of all columns of a table, listed or declared at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpsql.api.arguments import arguments_of
from dpsql.api.column_domains import ColumnDomains
from dpsql.api.errors import own_errors
from dpsql.errors import InvalidArgument
from dpsql.owner.codebook import from_json
from dpsql.udfs.bridge.declare import Call
from dpsql.udfs.dp_domains import ARGUMENTS, DpDomains, domains

if TYPE_CHECKING:
    import pandas as pd


class Declaring(ColumnDomains):
    """What an owner declares of many columns at once."""

    def domains(
        self,
        table: str,
        declarations: Mapping[str, Mapping[str, Any]] | str | None = None,
        *,
        from_table: str | None = None,
    ) -> pd.DataFrame:
        """The domains of all columns; with declarations, these are made first, all or none. See `dp_domains` in SQL.

        Args:
            table: the protected table.
            declarations: for each column the arguments of `domain`, or a text of JSON with them.
            from_table: instead, a public table that is a codebook.

        Returns:
            A row for each column: its kind, size, bins, origin, the share of rows outside it by the newest release,
            whether it is undeclared, and the statement that declares it as it is.

        Raises:
            DpsqlError: nothing is declared; the text says what is wrong with each column.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (age INTEGER, sex VARCHAR)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     found = db.domains("t", {"age": {"lower": 0, "upper": 119, "bins": 12}, "sex": {"values": ["F", "M"]}})
        ...     found[["column", "kind", "bins"]].values.tolist()[0]
        ['age', 'bins', 12]
        """
        if declarations is not None and from_table is not None:
            raise InvalidArgument("declarations and from_table are given: leave one of them out")
        if declarations is not None:
            self.instance.check_owner("domains")
            given = from_json(declarations, ARGUMENTS) if isinstance(declarations, str) else declarations
            with self.instance.cursor() as cursor:
                source = self._source(cursor, table)
            domains(self.instance, source, given, None, self._search_path)
        given_arguments = arguments_of(DpDomains, {"table": table, "from_table": from_table})
        relation = DpDomains(self.instance).bind(Call(DpDomains.name, given_arguments, self._search_path))
        rows = relation.run()
        with self.instance.cursor() as cursor, own_errors:
            return cursor.execute(rows).df()
