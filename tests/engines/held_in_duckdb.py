"""What places of the conformance suite hold in DuckDB, wherever their rows are: secrets of units, and rows as texts."""

from __future__ import annotations

import dpsql
from dpsql.engines.protocol import UnitBound

from .conformance import Rows


class WithUnits:
    """Bounds of units, with the secrets of two accounts that are made for them."""

    _db: dpsql.Database
    _protected = False
    more_types: frozenset[str] = frozenset()

    def bound(self, column: str, kind: str, rows: int, *, other: bool = False) -> UnitBound:
        if not self._protected:
            for name in ("one_secret", "other_secret"):
                self._db.sql(f"CREATE TABLE {name} (unit VARCHAR)")
                self._db.protect(name, epsilon=1.0, delta=1e-6, privacy_unit="unit", max_rows=1)
            self._protected = True
        catalog = self._db.sql("SELECT current_database()").fetchall()[0][0]
        return UnitBound(column, kind, rows, catalog, "other_secret" if other else "one_secret")


def fill(db: dpsql.Database, name: str, rows: Rows, schema: str = "main") -> None:
    """Add rows of texts to a table, cast to the types of its columns."""
    kinds = db.sql(
        "SELECT data_type FROM duckdb_columns() WHERE table_name = ? AND schema_name = ?", [name, schema]
    ).fetchall()
    values = ", ".join(f"CAST(r[{number + 1}] AS {kind})" for number, (kind,) in enumerate(kinds))
    if rows:
        texts = [list(row) for row in rows]
        given = "SELECT unnest(CAST($1 AS VARCHAR[][])) AS r"
        db.connection.execute(f'INSERT INTO {schema}."{name}" SELECT {values} FROM ({given})', [texts])
