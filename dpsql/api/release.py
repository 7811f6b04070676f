"""A release, as Python has it."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import duckdb
from sqlglot import exp

from dpsql.api.caller import Named
from dpsql.api.errors import own_errors
from dpsql.api.function_rows import function_rows
from dpsql.api.html import table
from dpsql.api.private_truth import truth_of
from dpsql.api.relation import Relation
from dpsql.books.ledger.accounts import account_now
from dpsql.books.ledger.store import Books
from dpsql.books.releases.releases import Entry, rows_table
from dpsql.books.releases.schema import write_schema
from dpsql.core.names import pick, shorten
from dpsql.errors import DpsqlError, InvalidArgument, UnknownName
from dpsql.release.judgement import Judgement
from dpsql.release.quality import judge_release, marginal_answers, marginal_errors, warnings_of
from dpsql.release.verdict import Verdict, verdict_of
from dpsql.report.card import Card, Stated, card_of
from dpsql.report.charts import check_installed
from dpsql.report.facts import Facts, check_synthetic, collect
from dpsql.report.page import Report
from dpsql.udfs.dp_measurements import DpMeasurements
from dpsql.udfs.extension import Instance
from dpsql.udfs.interrupts import pressed, watched

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


_SHOWN: Final = 10  # rows, in a notebook


class Release(Named):
    """A release that was paid for: its synthetic rows and noisy marginals.

    Attributes:
        entry: what the books say of it.

    >>> import dpsql
    >>> with dpsql.connect() as db:
    ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
    ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
    ...     release = db.synthesize("t", epsilon=1.0, rows=500)
    ...     release.to_table("synthetic")
    ...     print("as frames:", release.df().shape, release.pl().shape, release.arrow().shape)
    ...     print("in SQL:", db.sql("SELECT count(*) FROM release JOIN synthetic USING (sick) WHERE false").fetchall())
    ...     print("warnings:", release.warnings, release.outside)
    as frames: (500, 1) (500, 1) (500, 1)
    in SQL: [(0,)]
    warnings: [] {}
    """

    def __init__(
        self,
        instance: Instance,
        connection: duckdb.DuckDBPyConnection,
        catalog: str,
        entry: Entry,
        choice: str = "",
        place: int = 0,
    ) -> None:
        self._instance, self._connection, self._catalog = instance, connection, catalog
        self.entry, self._choice, self._place = entry, choice, place

    def __repr__(self) -> str:
        rows = ", ".join(f"{table.rows} of {table.table}" for table in self.entry.tables) or f"{self.entry.rows}"
        lines = [f"{rows} rows, {self.entry.guarantee}", *warnings_of(self.entry)]
        with suppress(DpsqlError, duckdb.Error):  # the database was closed
            lines[-1] += f". {self.verdict}"
        return f"<Release {self.entry.number} of {self.entry.source}: {'; '.join(lines)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: what `repr` says, above the first synthetic rows."""
        with own_errors:
            return table(self.relation.relation, repr(self).strip("<>"), _SHOWN)

    def _select(self) -> str:
        table = rows_table(self._catalog, self.entry, self._place)
        return exp.select("*").from_(table).sql(dialect="duckdb")

    def __getitem__(self, table: str) -> Release:
        """The rows of one table of a linked release: the same release, whose frames and copies are of that table.

        Raises:
            UnknownName: it has no such table; lists those that it has.
        """
        name = pick(table, self.tables)
        if name is None:
            listed = ", ".join(self.tables) or "only its own: linked=True releases those of a tree"
            raise UnknownName(
                f"there is no table {shorten(table)!r} in release {self.entry.number}; there are {listed}"
            )
        place = self.tables.index(name)
        return Release(self._instance, self._connection, self._catalog, self.entry, self._choice, place)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of a linked release, the root first; of another release none."""
        return tuple(released.table for released in self.entry.tables)

    def to_schema(self, schema: str) -> dict[str, int]:
        """Copy all tables of a linked release into a schema, with PRIMARY and FOREIGN KEYs: all or none.

        Args:
            schema: of the database of the tables; made where it is not there.

        Returns:
            The rows of each table.

        Raises:
            DpsqlError: the release is of one table, a table is there already, or DuckDB cannot make it.
        """
        with own_errors, self._instance.cursor() as cursor:
            return dict(write_schema(Books(cursor, self._catalog), self.entry, schema))

    def in_sql(self) -> duckdb.DuckDBPyRelation:
        """See `Named`: `db.sql("FROM release")` reads the variable `release`."""
        return self.relation.relation

    @property
    def relation(self) -> Relation:
        """The synthetic rows as a relation, which prints itself."""
        with own_errors:
            return Relation(self._connection.sql(self._select()))

    def show(self) -> None:
        """Print the first synthetic rows."""
        self.relation.show()

    def df(self) -> pd.DataFrame:
        """The synthetic rows as a pandas data frame."""
        return self.relation.df()

    def pl(self) -> pl.DataFrame:
        """The synthetic rows as a polars data frame.

        Raises:
            DpsqlError: polars is not installed.
        """
        return self.relation.pl()

    def arrow(self) -> pa.Table:
        """The synthetic rows as an Arrow table.

        Raises:
            DpsqlError: pyarrow is not installed.
        """
        return self.relation.arrow()

    def to_table(self, name: str) -> None:
        """Copy the synthetic rows into a new table.

        Args:
            name: of the table, quoted as needed; it must not exist.

        Raises:
            DpsqlError: it exists, or cannot be made; with DuckDB's reason.
        """
        target = exp.table_(name, quoted=True)
        tree = exp.Create(this=target, kind="TABLE", expression=exp.maybe_parse(self._select(), dialect="duckdb"))
        with own_errors:
            self._connection.execute(tree.sql(dialect="duckdb"))

    def write(self, path: str | Path) -> None:
        """Write the synthetic rows to a file, CSV or Parquet by its suffix.

        Raises:
            DpsqlError: it cannot be written; with DuckDB's reason.
        """
        query: exp.Select = exp.maybe_parse(self._select(), dialect="duckdb")
        copy = exp.Copy(this=query.subquery(), kind=False, files=[exp.Literal.string(str(path))])
        with own_errors:
            self._connection.execute(copy.sql(dialect="duckdb"))

    @property
    def warnings(self) -> list[str]:
        """What a reader should know: a fit that did not converge, rows lost in noise or outside the domains."""
        return warnings_of(self.entry)

    @property
    def outside(self) -> dict[str, float]:
        """For each column with values outside its declared domain, about which part of the rows has one.

        Such a value is NULL in a synthetic row, or the column's `other`. Computed from the noisy counts; a column of
        which they show none is left out.
        """
        return dict(self.entry.report.get("outside", {}))

    @cached_property
    def judgement(self) -> Judgement:
        """How near the synthetic rows are to what was measured: see `dpsql.release.judgement`. Computed once."""
        check_synthetic(self.entry)
        with pressed(), watched(self._instance) as progress, self._instance.cursor() as cursor:
            return judge_release(cursor, Books(cursor, self._catalog), self.entry, progress.check)

    @cached_property
    def verdict(self) -> Verdict:
        """How good it is, in a few sentences, and advice for the next; computed once, from released values only.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(90_000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     print(db.synthesize("t", epsilon=3.0).verdict.text[:31])
        Shares of sick are off by about
        """
        with self._instance.cursor() as cursor:
            left = account_now(Books(cursor, self._catalog), self.entry.source).epsilon_left
        return verdict_of(self.entry, self.judgement, left)

    def report(self, *, private: bool = False, target: str | None = None) -> Report:
        """A page on how good the release is: one HTML document, which a notebook shows by itself.

        Args:
            private: add what only the owner may see, because it is computed from the real rows: the truth in every
                picture, where the synthetic rows are farthest from it, the figures of `db.evaluate`, and SDMetrics'
                quality report where that package is installed. What was read from the real rows is marked, and nothing
                is stored.
            target: of a private report, a column that models predict; needs scikit-learn.

        Raises:
            DpsqlError: matplotlib or jinja2 is not installed.
            NotOwner: a private report is asked for on a connection opened with `owner=False`.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     page = db.synthesize("t", epsilon=1.0).report()
        >>> page.private, page.html.count("<svg")
        (False, 1)
        """
        if target is not None and not private:
            raise InvalidArgument("target is of a private report: say private=True, or leave target out")
        check_installed()
        truth = truth_of(self._instance, self._catalog, self.entry, target, self.judgement) if private else None
        return Report(self._collected(), truth)

    def card(self, **stated: Unpack[Stated]) -> Card:
        """The release's facts for a registry or a data catalogue: a dict that writes itself as JSON, YAML or Markdown.

        Its shape is that of a record of tier 3 of the OpenDP Deployments Registry.

        Args:
            **stated: what only the publisher knows, see `Stated`: name, curator, curator_type, description,
                intended_use, region, sector, justification, authors.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     card = db.synthesize("t", epsilon=1.0).card(curator="Hospital", curator_type="Nonprofit")
        >>> card["deployment"]["privacy_loss"]["privacy_parameters"]
        {'epsilon': 1.0, 'delta': 1e-09}
        """
        return Card(card_of(self._collected(), stated))

    def _collected(self) -> Facts:
        """What is known of it, with its table's budget as it is now."""
        judgement = self.judgement
        with self._instance.cursor() as cursor:
            return collect(Books(cursor, self._catalog), self.entry, judgement)

    @property
    def choice(self) -> str:
        """Why `auto` took the mechanism of this request, also where the release was made by name before; else empty."""
        return self._choice

    @property
    def measurements(self) -> pd.DataFrame:
        """The noisy counts that the release is made from: see `dp_measurements` in SQL."""
        return function_rows(self._instance, DpMeasurements, {"release": self.entry.key}, "")

    @property
    def errors(self) -> pd.DataFrame:
        """How far the synthetic table is from each noisy marginal, beside what the noise alone makes up.

        One row for each measured marginal: its columns, cells, standard deviation of the noise, the L1 distance of
        synthetic and measured counts, and the expected L1 of the noise; both as fractions of the measured total.
        Computed from released values only.
        """
        with self._instance.cursor() as cursor:
            return marginal_errors(cursor, Books(cursor, self._catalog), self.entry)

    def answers(self, *columns: str) -> pd.DataFrame:
        """A measured marginal, cell by cell: its noisy counts beside those of the synthetic table.

        Args:
            columns: of the marginal.

        Raises:
            InvalidArgument: the release measured no such marginal whole; lists those that it did.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     release = db.synthesize("t", epsilon=1.0)
        ...     list(release.answers("sick").columns)
        ['sick', 'measured', 'stddev', 'synthetic']
        """
        with self._instance.cursor() as cursor:
            books = Books(cursor, self._catalog)
            return marginal_answers(cursor, books, self.entry, columns)
