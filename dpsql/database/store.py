"""The books of one database: accounts, domains, charges, answers and releases, as rows of its schema `dpsql`.

Every change is one transaction, retried when another session changed the same rows at the same time.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final, TypeVar

import duckdb
import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql.constraint import Constraint
from dpsql.database.catalog import Source, is_read_only
from dpsql.database.encoding import data_type, decode, from_tick
from dpsql.database.statements import qualified, read
from dpsql.database.units import Bound
from dpsql.domain import Attribute, Domain, attribute_from, decimal_scale
from dpsql.errors import BooksError, InsufficientBudget
from dpsql.marginal import Measurement
from dpsql.neighbours import Neighbours
from dpsql.privacy.accounting import RHO_UNIT, Budget, units
from dpsql.privacy.curator import Answer, Query
from dpsql.privacy.ledger import Account
from dpsql.threshold import Threshold

Result = TypeVar("Result")
_ATTEMPTS: Final = 200
_BESIDE: Final = ", beside what earlier releases told, whose measurements it uses"
_MOST_EARLIER: Final = 5_000_000  # cells of earlier releases that one reads


class _TooDear(Exception):
    """The account cannot pay."""


@dataclass(frozen=True)
class Entry:
    """A release as the books know it.

    Attributes:
        key: SHA-256 of the request.
        number: of its event; names its table.
        source: the account's key.
        request: canonical JSON, and the keys of the releases that were published before.
        domain: as it was when the release was charged.
        mechanism: its name.
        rho, gdp: what was charged, exact.
        neighbours: of the guarantee.
        guarantee: in words.
        state: `charged` or `published`.
        rows: of the synthetic table, None until it is published.
        report: what the fit says of itself.
    """

    key: str
    number: int
    source: str
    request: str
    domain: Domain
    mechanism: str
    rho: Fraction
    gdp: Fraction
    neighbours: Neighbours
    guarantee: str
    state: str
    rows: int | None
    report: Mapping[str, Any]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows that have a domain, and the excluded ones."""
        return (*self.domain.names, *(attribute.name for attribute in self.domain.excluded))


class Books:
    """The books of the database `catalog`, on a connection of one's own."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, catalog: str) -> None:
        self._cursor, self.catalog = cursor, catalog

    # --- statements ---------------------------------------------------------------------------------------------------

    def _run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        cursor = self._cursor.execute(qualified(sql, self.catalog), dict(parameters) if parameters else None)
        return cursor.fetchall()

    def _transaction(self, work: Callable[[], Result]) -> Result:
        for attempt in range(_ATTEMPTS):
            self._cursor.execute("BEGIN")
            try:
                result = work()
                self._cursor.execute("COMMIT")
            except BaseException as error:
                self._rollback()
                if attempt == _ATTEMPTS - 1 or not _is_conflict(error):
                    raise
                time.sleep(secrets.randbelow(1000) / 1000 * min(0.05, 0.001 * 2**attempt))
            else:
                return result
        raise BooksError("the books are too busy: try again")

    def _rollback(self) -> None:
        with suppress(duckdb.Error):  # a failed COMMIT has rolled back already
            self._cursor.execute("ROLLBACK")

    def check_writable(self) -> None:
        """Refuse a read-only database.

        Raises:
            BooksError: it is read-only, so no charge could be recorded.
        """
        if is_read_only(self._cursor, self.catalog):
            raise BooksError(
                f"database {self.catalog!r} is read-only, so nothing can be charged: open it for writing (releases "
                "made before can still be read)"
            )

    # --- accounts and domains -----------------------------------------------------------------------------------------

    def open_account(
        self, source: str, budget: Budget, neighbours: Neighbours, unit_column: str | None = None
    ) -> Account:
        """Create the books if need be, and the account if there is none.

        Raises:
            BooksError: the table has another budget or other neighbours already.
        """
        self.check_writable()

        def work() -> Account:
            for statement in read("books"):
                self._run(statement)
            known = self.account(source)
            if known is not None:
                return known
            self._run(
                "INSERT INTO dpsql.account VALUES ($source, $epsilon, $delta, $neighbours, $unit_column, $unit_rows, "
                "$unit_secret, 0, 0, $rho, 0, $gdp, 0, NULL, 0)",
                {
                    "source": source,
                    "epsilon": budget.epsilon,
                    "delta": budget.delta,
                    "neighbours": str(neighbours),
                    "unit_column": unit_column,
                    "unit_rows": neighbours.unit_rows,
                    "unit_secret": secrets.token_hex(32),
                    "rho": _floor_units(budget.rho),
                    "gdp": _floor_units(budget.gdp),
                },
            )
            self._event(source, "protect", None, None, replace(budget, rho=Fraction(0), gdp=Fraction(0)))
            opened = self.account(source)
            assert opened is not None
            return opened

        account = self._transaction(work)
        known = (account.epsilon, account.delta, account.neighbours, account.unit_column)
        if known != (budget.epsilon, budget.delta, neighbours, unit_column):
            unit = f", privacy_unit {account.unit_column!r}, max_rows {account.neighbours.unit_rows}"
            raise BooksError(
                f"{source} is protected already, with epsilon {account.epsilon:g}, delta {account.delta:g}, "
                f"neighbours {account.neighbours}{unit if account.unit_column else ''}: a budget is set once"
            )
        return account

    def account(self, source: str) -> Account | None:
        """The account of a source, None if it has none."""
        found = [account for account in self.accounts() if account.source == source]
        return found[0] if found else None

    def accounts(self) -> list[Account]:
        """All accounts."""
        try:
            rows = self._run(
                "SELECT source, epsilon, delta, neighbours, unit_rows, unit_column, delta_reserved, delta_spent, "
                "rho_budget, rho_spent, gdp_budget, gdp_spent, currency, releases FROM dpsql.account ORDER BY source"
            )
        except duckdb.CatalogException:  # no books yet; to ask the catalogue first would take longer than the rest
            return []
        return list(map(_account, rows))

    def bound(self, source: str, release: str) -> Bound | None:
        """Which rows count for a release; None if all do."""
        rows = self._run(
            "SELECT unit_column, unit_rows, unit_secret FROM dpsql.account WHERE source = $source", {"source": source}
        )
        column, count, secret = rows[0]
        return None if column is None else Bound(column, count, f"{secret}/{release}")

    def declare(self, source: str, attribute: Attribute) -> None:
        """Record a column's domain, in place of an earlier one."""
        self.check_writable()
        self._transaction(lambda: self._record_domain(source, attribute))

    def _record_domain(self, source: str, attribute: Attribute) -> None:
        self._run(
            "INSERT INTO dpsql.domain VALUES ($source, $name, $spec) "
            "ON CONFLICT (source, name) DO UPDATE SET spec = excluded.spec",
            {"source": source, "name": attribute.name, "spec": json.dumps(vars(attribute))},
        )

    def declared(self, source: str) -> dict[str, Attribute]:
        """The recorded domains of a source's columns, by name."""
        rows = self._run("SELECT spec FROM dpsql.domain WHERE source = $source", {"source": source})
        attributes = [attribute_from(json.loads(spec)) for (spec,) in rows]
        return {attribute.name: attribute for attribute in attributes}

    def constrain(self, source: str, constraint: Constraint, *, remove: bool = False) -> None:
        """Record a fact about a source's rows, or take it back; doing it twice is harmless."""
        self.check_writable()
        row = {"source": source, "predicate": constraint.predicate}
        if remove:
            sql = "DELETE FROM dpsql.constraint WHERE source = $source AND predicate = $predicate"
            self._transaction(lambda: self._run(sql, row))
            return
        sql = "INSERT INTO dpsql.constraint VALUES ($source, $predicate, $columns) ON CONFLICT DO NOTHING"
        self._transaction(lambda: self._run(sql, {**row, "columns": list(constraint.columns)}))

    def constraints(self, source: str) -> list[Constraint]:
        """The facts recorded about a source's rows."""
        sql = "SELECT predicate, columns FROM dpsql.constraint WHERE source = $source ORDER BY predicate"
        return [Constraint(predicate, tuple(columns)) for predicate, columns in self._run(sql, {"source": source})]

    # --- charges and releases -----------------------------------------------------------------------------------------

    def _event(self, source: str, kind: str, release: str | None, mechanism: str | None, charged: Budget) -> int:
        rows = self._run(
            "INSERT INTO dpsql.event SELECT coalesce(max(number), 0) + 1, $source, $kind, $release, $mechanism, "
            "$epsilon, $delta, $rho, $gdp, $at FROM dpsql.event RETURNING number",
            {
                "source": source,
                "kind": kind,
                "release": release,
                "mechanism": mechanism,
                "epsilon": charged.epsilon,
                "delta": charged.delta,
                "rho": units(charged.rho),
                "gdp": units(charged.gdp),
                "at": datetime.now(UTC).replace(tzinfo=None),
            },
        )
        return int(rows[0][0])

    def charge(
        self,
        key: str,
        source: str,
        request: str,
        domain: Domain,
        mechanism: str,
        guarantee: str,
        budget: Budget,
        failure: float = 0.0,
    ) -> Entry:
        """Charge a new release: account, event and release in one durable transaction.

        A release of that key that is there already is returned as it is, free. `failure` is the probability but for
        which the budget holds (see `Account.reserve`).

        Raises:
            InsufficientBudget: the account has less than `budget` left, or of δ; nothing was changed.
            BooksError: the database is read-only.
        """
        self.check_writable()

        def work() -> Entry:
            known = self.release(key)
            if known is not None:
                return known
            if failure:
                self._fail(source, failure)
            charged = self._run(
                read("charge")[0],
                {"rho": units(budget.rho), "gdp": units(budget.gdp), "currency": budget.currency, "source": source},
            )
            if not charged:
                raise _TooDear
            account = self.account(source)
            assert account is not None
            number = self._event(source, "charge", key, mechanism, budget)
            sql = "SELECT key FROM dpsql.release WHERE source = $source AND state = 'published' ORDER BY number"
            earlier = [known for (known,) in self._run(sql, {"source": source})]
            asked = json.loads(request)
            recorded = json.dumps({**asked, "earlier": earlier}, ensure_ascii=False, sort_keys=True)
            promise = guarantee + (_BESIDE if earlier and asked.get("reuse") else "")
            rho, gdp = _floor_units(budget.rho), _floor_units(budget.gdp)
            self._run(
                "INSERT INTO dpsql.release VALUES ($key, $number, $source, $request, $domain, $mechanism, $rho, $gdp, "
                "$neighbours, $unit_rows, $guarantee, 'charged', NULL, NULL)",
                {
                    "key": key,
                    "number": number,
                    "source": source,
                    "request": recorded,
                    "domain": domain.to_json(),
                    "mechanism": mechanism,
                    "rho": rho,
                    "gdp": gdp,
                    "neighbours": str(account.neighbours),
                    "unit_rows": account.neighbours.unit_rows,
                    "guarantee": promise,
                },
            )
            charged_for = (rho * RHO_UNIT, gdp * RHO_UNIT, account.neighbours, promise)
            return Entry(key, number, source, recorded, domain, mechanism, *charged_for, "charged", None, {})

        try:
            return self._transaction(work)
        except _TooDear:
            account = self.account(source)
            assert account is not None
            account.require(budget)
            raise InsufficientBudget(f"the budget of {source} was spent meanwhile") from None

    def _fail(self, source: str, failure: float) -> None:
        """Take δ′ off what an account keeps for it."""
        account = self.account(source)
        assert account is not None
        after = account.reserve().failing(failure)
        self._run(
            "UPDATE dpsql.account SET delta_reserved = $reserved, delta_spent = $spent, rho_budget = $rho, "
            "gdp_budget = $gdp WHERE source = $source",
            {
                "reserved": after.delta_reserved,
                "spent": after.delta_spent,
                "rho": _floor_units(after.rho_budget),
                "gdp": _floor_units(after.gdp_budget),
                "source": source,
            },
        )

    def release(self, key: str) -> Entry | None:
        """The release of a key, None if there is none."""
        found = self._entries("key = $text", key)
        return found[0] if found else None

    def published(self, source: str) -> list[Entry]:
        """The published releases of a source, in order."""
        sql = "SELECT key FROM dpsql.release WHERE source = $source AND state = 'published' ORDER BY number"
        found = [self.release(key) for (key,) in self._run(sql, {"source": source})]
        return [entry for entry in found if entry is not None]

    def find_releases(self, text: str) -> list[Entry]:
        """The releases whose key, number or name `text` is."""
        names = "(key, CAST(number AS VARCHAR), nullif(json_extract_string(request, '$.release'), ''))"
        return self._entries(f"$text IN {names}", text)

    def _entries(self, condition: str, text: str) -> list[Entry]:
        rows = self._run(
            "SELECT key, number, source, request, domain, mechanism, rho, gdp, neighbours, unit_rows, guarantee, "  # noqa: S608
            f"state, rows, report FROM dpsql.release WHERE {condition}",
            {"text": text},
        )
        return [
            Entry(
                key=key,
                number=number,
                source=source,
                request=request,
                domain=Domain.from_json(domain),
                mechanism=mechanism,
                rho=rho * RHO_UNIT,
                gdp=gdp * RHO_UNIT,
                neighbours=Neighbours(neighbours, unit_rows),
                guarantee=guarantee,
                state=state,
                rows=count,
                report=json.loads(report) if report else {},
            )
            for (
                key,
                number,
                source,
                request,
                domain,
                mechanism,
                rho,
                gdp,
                neighbours,
                unit_rows,
                guarantee,
                state,
                count,
                report,
            ) in rows
        ]

    # --- the curator's journal ----------------------------------------------------------------------------------------

    def append_answers(self, release: str, answers: Sequence[Answer]) -> None:
        """Write answers of the curator, durably, after those that are there."""

        def work() -> None:
            first = self._run(
                "SELECT coalesce(max(number), 0) + 1 FROM dpsql.answer WHERE release = $release", {"release": release}
            )[0][0]
            parts = []
            for number, answer in enumerate(answers, start=first):
                self._run(
                    "INSERT INTO dpsql.answer VALUES "
                    "($release, $number, $question, $kind, $columns, $shape, $noise, $variance, $stddev, $rho, "
                    "$selection)",
                    _answer_row(release, number, answer),
                )
                parts.append(_answer_cells(number, answer.measurement))
            self._cursor.register("dpsql_cells", pd.concat(parts))
            try:
                self._run(
                    "INSERT INTO dpsql.cell SELECT $release, answer, cell, value FROM dpsql_cells", {"release": release}
                )
            finally:
                self._cursor.unregister("dpsql_cells")

        self._transaction(work)

    def answers(self, release: str) -> list[Answer]:
        """The answers of a release, in order."""
        parameters = {"release": release}
        rows = self._run(
            "SELECT number, question, columns, shape, noise, variance, rho, kind, selection FROM dpsql.answer "
            "WHERE release = $release ORDER BY number",
            parameters,
        )
        sql = "SELECT answer, cell, value FROM dpsql.cell WHERE release = $release ORDER BY answer, cell"
        found = self._cursor.execute(qualified(sql, self.catalog), parameters).fetchnumpy()
        owner, cells, values = (np.asarray(found[name], np.int64) for name in ("answer", "cell", "value"))
        answers = []
        for number, question, columns, shape, noise, variance, rho, kind, selection in rows:
            if kind == "values":
                answers.append(Answer(question, Fraction(rho), values=tuple(json.loads(selection))))
                continue
            if kind == "selection":
                chosen = tuple(_query(*entry) for entry in json.loads(selection))
                answers.append(Answer(question, Fraction(rho), selection=chosen))
                continue
            part = slice(*np.searchsorted(owner, [number, number + 1]))
            listed = tuple(int(cell) for cell in cells[part]) if kind == "cells" else None
            measured = Measurement(
                tuple(columns),
                tuple(shape),
                values[part],
                Fraction(variance),
                noise,
                Fraction(rho),
                listed,
                json.loads(question).get("least"),
            )
            answers.append(Answer(question, Fraction(rho), measured))
        return answers

    def measurements_for(self, entry: Entry) -> list[Measurement]:
        """What earlier releases measured that a release may use: whole marginals of the same columns and domains.

        Which releases those are was fixed when it was charged, so that a release that is resumed asks the same again.
        """
        found: list[Measurement] = []
        for key in reversed(json.loads(entry.request).get("earlier", ())):  # newer ones first
            other = self.release(key)
            if other is None or sum(len(measured.values) for measured in found) > _MOST_EARLIER:
                continue
            for answer in self.answers(key):
                measured = answer.measurement
                if measured is None or measured.cells is not None or measured.variance == 0 or not answer.of_cells:
                    continue
                if all(other.domain.by_name.get(name) == entry.domain.by_name.get(name) for name in measured.clique):
                    found.append(measured)
        return found

    # --- publication --------------------------------------------------------------------------------------------------

    def publish(
        self, entry: Entry, source: Source, columns: Sequence[str], frame: pd.DataFrame, report: Mapping[str, Any]
    ) -> Entry:
        """Store the synthetic rows, decoded into the source's types; returns the release, published.

        Args:
            entry: the release.
            source: whose column types the rows get.
            columns: of the synthetic table, in order.
            frame: for attribute number i, its codes as `c<i>` and for bins ticks as `t<i>`.
            report: what the fit says of itself; from released values only.
        """
        attributes = {a.name: (f"c{i}", f"t{i}", a) for i, a in enumerate(entry.domain)}
        excluded = {a.name: a for a in entry.domain.excluded}
        identifiers = [exp.column(exp.to_identifier(name, quoted=True)) for name in columns]
        schema = exp.select(*identifiers).from_(source.table()).limit(0)
        values = []
        for name in columns:
            code, ticks, attribute = attributes[name] if name in attributes else ("", "", excluded[name])
            values.append(exp.alias_(decode(attribute, code, ticks), name, quoted=True))
        target = rows_table(self.catalog, entry)
        create = exp.Create(this=target, kind="TABLE", expression=schema)
        insert = exp.insert(exp.select(*values).from_("dpsql_codes"), target)
        return self._store(entry, [create, insert], "dpsql_codes", frame, report)

    def _store(
        self, entry: Entry, statements: Sequence[exp.Expr], name: str, frame: pd.DataFrame, report: Mapping[str, Any]
    ) -> Entry:
        """Make the table of a release by statements that read `frame` by that name; returns the release, published."""

        def work() -> None:
            for statement in statements:
                self._cursor.execute(statement.sql(dialect="duckdb"))
            self._run(
                "UPDATE dpsql.release SET state = 'published', rows = $rows, report = $report WHERE key = $key",
                {"rows": len(frame), "report": json.dumps(report), "key": entry.key},
            )

        self._cursor.register(name, frame)
        try:
            self._transaction(work)
        finally:
            self._cursor.unregister(name)
        return replace(entry, state="published", rows=len(frame), report=dict(report))

    def publish_domain(self, entry: Entry, attribute: Attribute, report: Mapping[str, Any]) -> None:
        """Record a discovered domain, and mark its release as published."""

        def work() -> None:
            self._record_domain(entry.source, attribute)
            self._run(
                "UPDATE dpsql.release SET state = 'published', report = $report WHERE key = $key",
                {"report": json.dumps({**report, "domain": vars(attribute)}), "key": entry.key},
            )

        self._transaction(work)

    def publish_answers(
        self, entry: Entry, frame: pd.DataFrame, types: Mapping[str, str], report: Mapping[str, Any]
    ) -> Entry:
        """Store the answers of a query; returns the release, published.

        Args:
            entry: the release.
            frame: keys as text, whole steps of a DECIMAL as integers.
            types: of the columns, which `frame` has too.
            report: what the answers say of themselves; from released values only.
        """
        table = rows_table(self.catalog, entry)
        create = exp.Create(this=table, kind="TABLE", expression=typed_answers(types, "dpsql_answers"))
        return self._store(entry, [create], "dpsql_answers", frame, report)


def typed_answers(types: Mapping[str, str], table: str | exp.Expr) -> exp.Select:
    """A SELECT that gives the answers of a query their types.

    Args:
        types: of the columns k0, … and a0, …
        table: where keys are text, and whole steps of a DECIMAL integers.
    """
    values = []
    for name, kind in types.items():
        scale = decimal_scale(kind) if name.startswith("a") else None
        value = from_tick(exp.column(name), kind) if scale else exp.column(name)
        values.append(exp.alias_(exp.cast(value, data_type(kind)), name))
    return exp.select(*values).from_(table)


def stored_as_text(cursor: duckdb.DuckDBPyConnection, table: exp.Table, names: Sequence[str]) -> pd.DataFrame:
    """The stored answers of a query as text, None for NULL."""
    texts = [exp.alias_(exp.cast(exp.column(name), "VARCHAR", dialect="duckdb"), name) for name in names]
    rows = cursor.execute(exp.select(*texts).from_(table).sql(dialect="duckdb")).fetchall()
    return pd.DataFrame(rows, columns=list(names), dtype=object)


def rows_table(catalog: str, entry: Entry) -> exp.Table:
    """The table that holds a release's rows."""
    return exp.table_(f"release_{entry.number}", db="dpsql", catalog=catalog, quoted=True)


def _account(row: Sequence[Any]) -> Account:
    source, epsilon, delta, kind, unit_rows, unit, reserved, failed, *sums, currency, releases = row
    neighbours, (a, b, c, d) = Neighbours(kind, unit_rows), [count * RHO_UNIT for count in sums]
    return Account(source, epsilon, delta, neighbours, unit, reserved, failed, a, b, c, d, currency, releases)


def _floor_units(rho: Fraction) -> int:
    return int(rho / RHO_UNIT)


def _is_conflict(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, duckdb.TransactionException | duckdb.ConstraintException) and (
        "conflict" in text or "duplicate key" in text or "violates primary key" in text or "aborted" in text
    )


def _answer_row(release: str, number: int, answer: Answer) -> dict[str, Any]:
    row: dict[str, Any] = {"release": release, "number": number, "question": answer.question, "rho": str(answer.rho)}
    measured = answer.measurement
    if answer.values is not None:
        listed = json.dumps(answer.values, ensure_ascii=False)
        empty = dict.fromkeys(("noise", "variance", "stddev"))
        return row | empty | {"kind": "values", "columns": [], "shape": [], "selection": listed}
    if measured is None:
        chosen = json.dumps([_entry(query) for query in answer.selection or ()], ensure_ascii=False)
        empty = dict.fromkeys(("noise", "variance", "stddev"))
        return row | empty | {"kind": "selection", "columns": [], "shape": [], "selection": chosen}
    return row | {
        "kind": "query" if not answer.of_cells else "marginal" if measured.cells is None else "cells",
        "columns": list(measured.clique),
        "shape": list(measured.shape),
        "noise": measured.noise,
        "variance": str(measured.variance),
        "stddev": measured.stddev,
        "selection": None,
    }


def _entry(query: Query) -> list[Any]:
    """A selected cell as JSON; of a family of thresholds with its least number of matches."""
    family, cell = query
    return [family.clique, cell, family.least] if isinstance(family, Threshold) else [family, cell]


def _query(clique: Sequence[str], cell: int, least: int | None = None) -> Query:
    return (tuple(clique) if least is None else Threshold(tuple(clique), least)), cell


def _answer_cells(number: int, measured: Measurement | None) -> pd.DataFrame:
    values = np.empty(0, np.int64) if measured is None else measured.values
    listed = None if measured is None else measured.cells
    cells = np.arange(len(values)) if listed is None else np.array(listed)
    return pd.DataFrame({"answer": np.full(len(values), number), "cell": cells, "value": values})


def catalogs_with_books(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """The attached databases that have books."""
    rows = cursor.execute(
        "SELECT database_name FROM duckdb_tables() WHERE schema_name = 'dpsql' AND table_name = 'account' ORDER BY 1"
    ).fetchall()
    return [name for (name,) in rows]
