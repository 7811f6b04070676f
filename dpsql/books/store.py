"""The books of one database: accounts, domains, charges, answers and releases, as rows of its schema `dpsql`.

Every change is one transaction, retried when another session changed the same rows at the same time.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import duckdb
import numpy as np
from sqlglot import exp

from dpsql.books import chain, heads, keys
from dpsql.books.answers import COLUMNS, Cells, answers_from, cells_of, digest, row_of
from dpsql.books.chain import Link, Point
from dpsql.books.marks import (
    Known,
    Listed,
    Seen,
    Standing,
    holder_of,
    list_tables,
    new_token,
    remove_marks,
    seen_by,
    standing_of,
    tokens_in,
    write_mark,
)
from dpsql.books.statements import SCHEMA, qualified, read
from dpsql.core.constraint import Constraint
from dpsql.core.domain import Attribute, Domain, attribute_from, decimal_scale, fields_of
from dpsql.core.marginal import Measurement
from dpsql.core.names import fold
from dpsql.core.neighbours import Neighbours
from dpsql.engines.duckdb.catalog import Source, place
from dpsql.engines.duckdb.encoding import data_type, decode, from_tick, released_columns
from dpsql.engines.duckdb.frames import Columns, from_rows, length, shown_as
from dpsql.engines.duckdb.settings import check_owned
from dpsql.engines.duckdb.units import Bound, secret_of
from dpsql.errors import BooksError, DpsqlError, InsufficientBudget, InvalidArgument, NotProtected
from dpsql.privacy import course
from dpsql.privacy.account import Account, sums_delta
from dpsql.privacy.accounting import RHO_UNIT, Budget, account_budget, exact, units
from dpsql.privacy.curator import Answer

Result = TypeVar("Result")
_ATTEMPTS: Final = 200
MOST_RETRIES: Final = 3
"""How often rows are read again for a release that was stopped, before it has a new answer."""
MOST_STOPPED: Final = 32
"""How many releases of a table may be charged and not published before no more is charged.

Whether a release is stopped may depend on the rows, and its charge, however small, does not pay for that.
"""
_BESIDE: Final = ", beside what earlier releases told, whose measurements it may use"
_MARKING_ATTEMPTS: Final = 5
_MOST_EARLIER: Final = 5_000_000  # cells of earlier releases that one reads
_MOST_EARLIER_RELEASES: Final = 1000  # the newest
_VERSION: Final = 2  # of the tables of the books


_ACCOUNT: Final = (
    *(
        "source",
        "epsilon",
        "delta",
        "neighbours",
        "unit_column",
        "unit_type",
        "unit_rows",
        "delta_reserved",
        "delta_spent",
    ),
    *("rho_budget", "rho_spent", "gdp_budget", "gdp_spent", "currency", "pure_spent", "releases", "since", "retired"),
)
"""The columns of an account, without the secret."""
_ADVICE: Final = (
    "nothing is charged until its owner has looked: dpsql ledger verify <file>, and, if it is to be used as it is, "
    "dpsql ledger accept <file> --reason '…'"
)
_STATED: Final = f"{', '.join(_ACCOUNT)}, sha256(unit_secret)"
"""What the ledger and its head tell of an account: of the secret a digest."""
_IN_UNITS: Final = ("rho_budget", "rho_spent", "gdp_budget", "gdp_spent", "pure_spent")


_ROWS: Final = """
    SELECT coalesce(sha256(string_agg(part, '' ORDER BY part)), '') FROM (
      SELECT sha256(string_agg(one, '' ORDER BY one)) AS part FROM (
        SELECT sha256(to_json(dpsql_told)::VARCHAR) AS one FROM {table} AS dpsql_told
      ) GROUP BY left(one, 2)
    )
"""
"""A digest of all rows of a table, in whatever order; in parts, for one text of millions of rows would be large."""
_REQUESTS: Final = """
    SELECT content->>'$.key' AS key, max(number) AS number FROM dpsql.event
    WHERE (content->>'$.kind') = 'charge' AND number > $anchor GROUP BY 1
"""
"""The requests that were charged since the ledger was last accepted, and the events that did."""


_GRANTED_MORE: Final = """
    SELECT r.number FROM dpsql.release AS r JOIN dpsql.event AS e ON e.number = r.number
    WHERE r.number > $anchor AND (e.content->>'$.kind' <> 'charge' OR r.rho > CAST(e.content->>'$.rho' AS HUGEINT)
      OR r.gdp > CAST(e.content->>'$.gdp' AS HUGEINT))
    ORDER BY r.number LIMIT 1
"""
"""A release that may have spent more than was charged for it."""


_WITHDRAWN: Final = """
    SELECT content->>'$.key' FROM dpsql.event
    WHERE number > $known AND (content->>'$.kind') = 'withdraw' AND CAST(content->>'$.told' AS BIGINT) <= $known
"""
"""The releases that had been published at an event and were taken back later; their answers stay the same."""


class _TooDear(Exception):
    """The account cannot pay."""


@contextmanager
def _advised() -> Iterator[None]:
    """Says beside what does not fit together what its owner can do."""
    try:
        yield
    except keys.KeyMissing:
        raise
    except BooksError as error:
        raise BooksError(f"{error}; {_ADVICE}") from None


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
        state: `reserved` (paid), `measured` (its answers are journalled, some at least), `published`, or `failed`.
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
        self._recorded: tuple[Link, Point] | None = None  # the newest event before the transaction, and after it
        self._inside = False  # a transaction
        self._looked: Point | None = None  # what it found the newest event and the accounts to be
        self._takes_key = False  # the ledger gets its key now
        self._name = ""  # see `_ledger`

    # --- statements ---------------------------------------------------------------------------------------------------

    def _run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        cursor = self._cursor.execute(qualified(sql, self.catalog), dict(parameters) if parameters else None)
        return cursor.fetchall()

    def _transaction(self, work: Callable[[], Result], *, advance: bool = True, attempts: int = _ATTEMPTS) -> Result:
        for attempt in range(attempts):
            self._recorded, self._inside, self._looked = None, True, None
            self._cursor.execute("BEGIN")
            try:
                result = work()
                self._cursor.execute("COMMIT")
                break
            except BaseException as error:
                self._rollback()
                self._recorded = None
                if attempt == attempts - 1 or not _is_conflict(error):
                    raise
                time.sleep(secrets.randbelow(1000) / 1000 * min(0.05, 0.001 * 2**attempt))
            finally:
                self._inside = False
        if self._recorded and advance:
            self.advance()
        return result

    def _snapshot(self, look: Callable[[], Result]) -> Result:
        """Several statements that see the same state of the books."""
        self._cursor.execute("BEGIN")
        self._inside = True
        try:
            return look()
        finally:
            self._inside = False
            self._rollback()

    def _rollback(self) -> None:
        with suppress(duckdb.Error):  # a failed COMMIT has rolled back already
            self._cursor.execute("ROLLBACK")

    @property
    def is_writable(self) -> bool:
        """Whether the database was not opened for reading only."""
        return not self._place[1]

    def check_writable(self) -> None:
        """Refuse a read-only database.

        Raises:
            BooksError: it is read-only, so no charge could be recorded.
        """
        if not self.is_writable:
            raise BooksError(
                f"database {self.catalog!r} is read-only, so nothing can be charged: open it for writing (releases "
                "made before can still be read)"
            )

    # --- the ledger's chain and its head ------------------------------------------------------------------------------

    @property
    def events(self) -> int:
        """How many events the ledger has; 0 where there is none."""
        try:
            return int(self._run("SELECT count(*) FROM dpsql.event")[0][0])
        except duckdb.CatalogException:
            return 0

    def check(self) -> None:
        """Refuse to charge where the ledger, an account, or the head outside the database do not fit together.

        Of events that the head knows, the newest 50,000 are looked at; `verify` looks at all.

        Raises:
            BooksError: they do not, or the database is read-only, or a newer version of dpsql wrote it.
        """
        self.check_writable()
        with _advised():
            self._snapshot(self._check_links)
            self.migrate()
            self.advance()

    def _check_links(self) -> None:
        chain.check_links(self._run, self._checked(), self._key)

    def verify(self) -> None:
        """The same of all events, and that no answer was changed. The database may be read-only: nothing is written.

        Raises:
            BooksError: the ledger, an account, the answers that were told and the head do not fit together.
        """
        self._snapshot(self._check_all)
        path = self._head_path
        if path is not None:
            self._snapshot(lambda: self._compare(path))
        self._snapshot(self._check_told)

    def _check_all(self) -> None:
        """Look at every event; at the accounts, and at what is kept of requests to find them by."""
        with self._naming_key():
            state = chain.everything_follows(self._run, self._key).state
            keys.check_key(self._key, state.key, self._head_path)
        chain.check_accounts(state, self._states())
        chain.check_withdrawn(self._run)
        more = self._run(_GRANTED_MORE, {"anchor": state.anchor})
        if more:
            raise BooksError(f"release {more[0][0]} is not what was charged: it was granted more than the ledger says")
        if self._version() == _VERSION:
            known = f"SELECT r.key FROM dpsql.request AS r FULL JOIN ({_REQUESTS}) AS e ON e.key = r.key"  # noqa: S608
            other = self._run(f"{known} WHERE r.number IS DISTINCT FROM e.number LIMIT 1", {"anchor": state.anchor})
            if other:
                raise BooksError("the requests that the books know are not those that the ledger says were charged")

    def _check_told(self) -> None:
        """Refuse releases that are not those whose digests the ledger has: of what was paid for, and what was told."""
        paid = {content["key"]: content["paid"] for content in chain.told(self._run, "charge")}
        withdrawn = {content["key"]: content["number"] for content in chain.told(self._run, "withdraw")}
        for told in chain.told(self._run, "publish"):
            number = told["release"]
            if told["number"] < withdrawn.get(told["key"], 0):
                continue
            try:
                entry = self.release(told["key"])
                if entry is None or entry.state != "published" or entry.number != number:
                    raise BooksError(f"release {number}, which was told, is lost")
                if told["key"] in paid and _paid(entry) != paid[told["key"]]:
                    raise BooksError(f"the record of release {number} is not what was charged")
                if self._told_answers(told["key"]) != told["answers"]:
                    raise BooksError(f"the answers of release {number} are not those that were told")
                if self.is_hollow(entry):
                    raise BooksError(
                        f"release {number} was published without its rows, by a defect of DuckDB 2.0.0: ask for it "
                        "again as it was asked for, and it is made again from its stored measurements, free"
                    )
                if _digest([entry.report, self._digest_of_rows(entry)]) != told["told"]:
                    raise BooksError(f"the rows or the report of release {number} are not those that were told")
            except (duckdb.Error, ValueError, TypeError, KeyError, IndexError, AssertionError) as error:
                raise BooksError(f"release {number} cannot be read ({type(error).__name__})") from None

    def _told_answers(self, release: str) -> str | None:
        """A digest of a release's answers; None if they are not as they were written."""
        answers = self._whole_answers(release)
        return None if answers is None else _digest_of_answers(map(digest, answers))

    def _digest_of_rows(self, entry: Entry) -> str | None:
        """Of the rows of a release; None if it has no table (a domain that was discovered)."""
        if entry.rows is None:
            return None
        table = rows_table(self.catalog, entry).sql(dialect="duckdb")
        return str(self._cursor.execute(_ROWS.format(table=table)).fetchall()[0][0])

    def _compare(self, path: Path) -> heads.Head | None:
        """What the head in a file, which must be an event of the ledger, should be now; None if it is the newest."""
        known = heads.read_head(path)
        if known is None:
            raise BooksError(
                f"the head of the ledger is missing: {str(path)!r} does not exist (it was moved, or the environment "
                "variable DPSQL_HEADS is another one)"
            )
        newest = chain.newest(self._run, known.number)
        if newest == Link(known.number, known.hash) and known.course is not None:
            return None
        if known.number and chain.at(self._run, known.number) != Link(known.number, known.hash):
            raise BooksError(
                f"the database is older than the head of its ledger, or damaged: {str(path)!r} knows event "
                f"{known.number}, which is not in the ledger of {newest.number} events"
            )
        return self._head_at(known.books, self._checked())

    def _head_at(self, books: str, point: Point) -> heads.Head:
        """What a head says that knows all up to a point, sealed if the ledger has a key."""
        state = point.state
        head = heads.Head(books, point.link.number, point.link.hash, state.accounts, state.to_json())
        return replace(head, seal=keys.seal_of(head.sealed, self._key if state.key else None))

    def _known_point(self) -> Point | None:
        """The point that the head knows, if it says what a charge needs to know.

        Raises:
            KeyMissing: the head is sealed with a key that is not there, or by who does not have it.
        """
        head = None if self._head_path is None else heads.read_head(self._head_path)
        if head is None or head.course is None:
            return None
        try:
            state = course.state_from(head.accounts, head.course)
        except (KeyError, TypeError, ValueError):
            raise BooksError(f"the head of the ledger in {str(self._head_path)!r} is damaged") from None
        if state.key is not None:
            keys.check_key(self._key, state.key, self._head_path)
            if head.seal != keys.seal_of(head.sealed, self._key):
                raise BooksError(
                    f"the head of the ledger in {str(self._head_path)!r} was not written by who has its key"
                )
        return Point(Link(head.number, head.hash), state)

    @cached_property
    def _key(self) -> keys.LedgerKey | None:
        """The key that is there for this ledger."""
        return keys.find_key(self._head_path)

    @property
    def _ledger(self) -> str:
        """Which ledger this is, to the memory of the process: by its file, in memory by its first event."""
        if self._place[0] is not None:
            return str(self._place[0])
        if not self._name:
            first = chain.at(self._run, 1)
            self._name = "" if first is None else first.hash
        return self._name

    @contextmanager
    def _naming_key(self) -> Iterator[None]:
        """Says what to do where the key of an event is not there."""
        try:
            yield
        except chain.WrongKey as wrong:
            keys.check_key(self._key, wrong.wanted, self._head_path)

    def _point(self) -> Point:
        """The newest point of the ledger, from the last that was verified."""
        with self._naming_key():
            point = chain.look(self._run, self._ledger, self._key, self._known_point())
            if point.link.number and not self._takes_key:
                keys.check_key(self._key, point.state.key, self._head_path)
        return point

    def _checked(self) -> Point:
        """The newest point, at which the accounts are what the ledger says."""
        point = self._point()
        chain.check_accounts(point.state, self._states())
        return point

    def _look(self) -> chain.States:
        """Inside a transaction, before it records an event: the accounts, which must be what the ledger says."""
        self._looked = self._checked()
        return self._looked.state.accounts

    def advance(self) -> None:
        """Bring the head up to the newest event, if it is one that the ledger has.

        Raises:
            BooksError: it knows an event that the ledger does not have, an account is not what was recorded, or the
                head cannot be read or written.
        """
        path = self._head_path
        if path is None:
            return
        with heads.lock:
            newest = self._following(path) or self._snapshot(lambda: self._compare(path))
            if newest is not None:
                heads.write_head(path, newest)

    def _following(self, path: Path) -> heads.Head | None:
        """The head after the transaction that this session committed last, if that follows the one in the file."""
        recorded, self._recorded = self._recorded, None
        known = heads.read_head(path)
        if recorded is None or known is None or Link(known.number, known.hash) != recorded[0]:
            return None
        return self._head_at(known.books, recorded[1])

    def secure(self) -> None:
        """After something was read, and before it is told: see to it that the head knows it.

        Raises:
            BooksError: it does not, and cannot be brought up.
        """
        if self._inside or self._head_path is None:
            return
        known = heads.read_head(self._head_path)
        newest = chain.newest(self._run, 0 if known is None else known.number)
        if known is None or newest.number > known.number:
            if not self.is_writable:
                raise BooksError(
                    f"database {self.catalog!r} has events that the head of its ledger does not know, and is "
                    "read-only: open it for writing once"
                )
            self.advance()

    def known_events(self) -> int:
        """The number of the newest event that the head knows."""
        known = None if self._head_path is None else heads.read_head(self._head_path)
        return chain.newest(self._run).number if known is None else known.number

    # --- the version of the books -------------------------------------------------------------------------------------

    def _version(self) -> int:
        """Of the tables of the books: 1 where none is written down.

        Raises:
            BooksError: a newer version of dpsql wrote them.
        """
        try:
            found = self._run("SELECT max(version) FROM dpsql.books")[0][0]
        except duckdb.CatalogException:
            found = None
        if found is not None and found > _VERSION:
            raise BooksError(
                f"the books of database {self.catalog!r} are of version {found}, which a newer dpsql wrote: open it "
                "with that one"
            )
        return 1 if found is None else int(found)

    def migrate(self) -> None:
        """Bring older books to this version, in one transaction; doing it twice is harmless.

        Raises:
            BooksError: a newer version of dpsql wrote them.
        """
        if self._version() < _VERSION:
            self._transaction(self._make_tables, advance=False)

    def _make_tables(self) -> None:
        """Inside a transaction: the tables of this version, those that are there already left as they are."""
        for statement in read("books"):
            self._run(statement)
        if self._version() < _VERSION:
            self._run("INSERT INTO dpsql.books VALUES ($version)", {"version": _VERSION})
            anchor = int(self._run("SELECT coalesce(max(number), 0) FROM dpsql.event WHERE basis IS NOT NULL")[0][0])
            self._run(f"INSERT INTO dpsql.request {_REQUESTS}", {"anchor": anchor})

    @cached_property
    def _place(self) -> tuple[Path | None, bool]:
        """The database's file, None in memory; whether it is read-only."""
        return place(self._cursor, self.catalog)

    @cached_property
    def _head_path(self) -> Path | None:
        return None if self._place[0] is None else heads.file_beside(self._place[0])

    def check_no_others(self) -> None:
        """Refuse to open books where a head says that the database had some, which are lost.

        Raises:
            BooksError: there is such a head.
        """
        path = self._head_path
        known = None if path is None else heads.read_head(path)
        if known is not None and known.number:
            raise BooksError(
                f"{str(path)!r} knows a ledger of {known.number} events, but the database has none: it was damaged, or "
                "restored from an older copy. If it is another database at the same place, remove that file"
            )

    def check_place(self) -> None:
        """Refuse books that were copied here with the rows, whose budget is spent where they come from.

        Raises:
            BooksError: they were: into memory, or to a file whose ledger is attached twice.
        """
        copied = (
            f"the books of database {self.catalog!r} are a copy of those of another one, and rows have one budget: "
        )
        path = self._head_path
        if path is None:
            seen, books = seen_by(self._cursor), self._id()
            if seen is not None and books is not None and seen.homes.get(self._oid) != books:
                raise BooksError(f"{copied}release from the database that they were copied from")
            return
        mine = heads.read_head(path)
        sql = "SELECT path FROM duckdb_databases() WHERE path IS NOT NULL AND type = 'duckdb' AND database_oid <> $oid"
        others = [Path(other) for (other,) in self._cursor.execute(sql, {"oid": self._oid}).fetchall()]
        for other in others:
            if mine is not None and _id_beside(other) == mine.books:
                raise BooksError(f"{copied}detach the one that is the copy, this or {str(other)!r}")

    @cached_property
    def _oid(self) -> int:
        """The object id of the database in this instance."""
        sql = "SELECT database_oid FROM duckdb_databases() WHERE database_name = $name"
        return int(self._cursor.execute(sql, {"name": self.catalog}).fetchall()[0][0])

    def _id(self) -> str | None:
        """The id that the books were given when they were opened; None if there are none."""
        try:
            rows = self._run("SELECT content->>'$.books' FROM dpsql.event WHERE number = 1")
        except duckdb.CatalogException:
            return None
        return None if not rows else str(rows[0][0])

    def _open_books(self) -> str:
        """The id of new books; before anything of them is committed a head that knows none, so that none is missing."""
        self.check_no_others()
        books, path = secrets.token_hex(16), self._head_path
        if path is not None:
            heads.write_head(path, heads.Head(books))
        return books

    def accept(self, reason: str, flaw: str) -> None:
        """Begin the chain anew from all that is there; see `dpsql.owner.account_changes.accept`."""
        self.check_writable()
        with heads.lock:
            try:
                known = None if self._head_path is None else heads.read_head(self._head_path)
            except BooksError:
                known = None

            def work() -> None:
                self._make_tables()  # one may be missing
                told = [known.accounts if known else {}, chain.recorded(self._run), self._states()]
                number = 1 + max(chain.newest(self._run).number, known.number if known else 0, self._largest_release())
                for source in sorted({source for states in told for source in states}):
                    self._keep_spent(source, [states[source] for states in told if source in states], number)
                failed = json.dumps({"failed": "it may have been told before the ledger was damaged"})
                sql = "UPDATE dpsql.release SET state = 'failed', report = $report WHERE state <> 'published'"
                self._run(sql, {"report": failed})
                self._run("DELETE FROM dpsql.request")  # what was charged before may be charged again
                basis = chain.everything(self._run, number)
                self._looked = Point()
                self._event("accept", basis=basis, number=number, reason=reason, flaw=flaw, hmac=self._fingerprint)
                for source in self._states():
                    self._event("accept", source, reason=reason)

            self._transaction(work, advance=False)
            self._snapshot(self._check_all)
            point = self._snapshot(lambda: chain.everything_follows(self._run, self._key))
            if self._head_path is not None:
                books = known.books if known else secrets.token_hex(16)
                heads.write_head(self._head_path, self._head_at(books, point))

    @property
    def _fingerprint(self) -> str | None:
        """Of the key that is there."""
        return None if self._key is None else self._key.fingerprint

    def take_key(self, reason: str) -> str:
        """Make the ledger from now on with the key that is there; returns its fingerprint.

        Raises:
            InvalidArgument: there is no key, or the ledger has it already.
            BooksError: the ledger does not fit together, or is made with another key.
        """
        self.check_writable()
        fingerprint = self._fingerprint
        if fingerprint is None:
            raise InvalidArgument(f"there is no key: set the environment variable {keys.VARIABLE} to it")

        def work() -> None:
            self._look()
            assert self._looked is not None
            if self._looked.state.key is not None:
                keys.check_key(self._key, self._looked.state.key, self._head_path)
                raise InvalidArgument("the ledger is made with this key already: there is nothing to do")
            self._event("key", hmac=fingerprint, reason=reason)

        self._takes_key = True
        try:
            with _advised():
                self._snapshot(self._check_links)
            self.migrate()
            self.advance()
            self._transaction(work)
        finally:
            self._takes_key = False
        return fingerprint

    def _largest_release(self) -> int:
        return int(self._run("SELECT coalesce(max(number), 0) FROM dpsql.release")[0][0])

    def _keep_spent(self, source: str, states: Sequence[Mapping[str, Any]], now: int) -> None:
        """Write an account of which several states are told: the most that is spent, of the least that is promised."""

        def most(name: str) -> Any:
            return max((Fraction(state[name]) for state in states), default=Fraction(0))

        reserved, epsilon = float(most("delta_reserved")), min(float(state["epsilon"]) for state in states)
        opened = dict(states[-1])
        delta = min(float(state["delta"]) for state in states)
        budget = account_budget(epsilon, sums_delta(delta, reserved))
        pure = [state["pure_spent"] for state in states]
        opened |= {
            "epsilon": epsilon,
            "delta": delta,
            "delta_reserved": reserved,
            "delta_spent": float(most("delta_spent")),
            "rho_budget": _floor_units(budget.rho),
            "rho_spent": int(most("rho_spent")),
            "gdp_budget": _floor_units(budget.gdp),
            "gdp_spent": int(most("gdp_spent")),
            "pure_spent": None if None in pure else max(map(int, pure)),
            "currency": "pure"
            if delta == 0
            else next((state["currency"] for state in states if state["currency"]), None),
            "releases": int(most("releases")),
            "retired": any(str(state["retired"]) == "True" for state in states),
            "since": now if len({state["since"] for state in states}) > 1 else int(opened["since"]),
        }
        row = {name: opened[name] for name in _ACCOUNT}
        if self.account(source) is None:
            values = ", ".join(f"${name}" for name in _ACCOUNT)
            sql = f"INSERT INTO dpsql.account ({', '.join(_ACCOUNT)}, unit_secret) VALUES ({values}, $secret)"  # noqa: S608
            self._run(sql, {**row, "secret": secrets.token_hex(32)})
            return
        changed = ", ".join(f"{name} = ${name}" for name in _ACCOUNT if name != "source")
        self._run(f"UPDATE dpsql.account SET {changed} WHERE source = $source", row)  # noqa: S608

    # --- accounts and domains -----------------------------------------------------------------------------------------

    def open_account(
        self,
        source: str,
        budget: Budget,
        neighbours: Neighbours,
        unit: Attribute | None = None,
    ) -> Account:
        """Create the books if need be, and the account if there is none.

        Args:
            source: its key.
            budget: of all releases together.
            neighbours: of the promise.
            unit: the privacy unit's column, excluded; it stays so until its domain is declared.

        Raises:
            BooksError: the table has another budget or other neighbours already.
        """
        self.check_writable()
        self.check_place()
        opened_here = False

        def work() -> Account:
            nonlocal opened_here
            self._make_tables()
            known = self.account(source)
            if known is not None:
                return known
            self._look()
            assert self._looked is not None
            since = self._looked.link.number + 1
            opened_here = since == 1
            books = self._open_books() if opened_here else None
            self._run(
                "INSERT INTO dpsql.account VALUES ($source, $epsilon, $delta, $neighbours, $unit_column, $unit_type, "
                "$unit_rows, $unit_secret, 0, 0, $rho, 0, $gdp, 0, $currency, 0, 0, $since, false)",
                {
                    "source": source,
                    "epsilon": budget.epsilon,
                    "delta": budget.delta,
                    "neighbours": str(neighbours),
                    "unit_column": None if unit is None else unit.name,
                    "unit_type": None if unit is None else unit.type,
                    "unit_rows": neighbours.unit_rows,
                    "unit_secret": secrets.token_hex(32),
                    "rho": _floor_units(budget.rho),
                    "gdp": _floor_units(budget.gdp),
                    "currency": "pure" if budget.pure else None,
                    "since": since,
                },
            )
            if unit is not None:
                self._record_domain(source, unit)
            hmac = self._fingerprint if books is not None else None
            told: dict[str, Any] = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": "0", "gdp": "0"}
            self._event("protect", source, books=books, hmac=hmac, **told)
            opened = self.account(source)
            assert opened is not None
            return opened

        with (
            heads.lock
        ):  # two first accounts at once would each take the head of the other for one of books that are lost
            account = self._transaction(work)
        seen, books = seen_by(self._cursor), self._id()
        if opened_here and seen is not None and books is not None:
            seen.homes[self._oid] = books
        self.mark_tables()
        known = (account.epsilon, account.delta, account.neighbours, account.unit_column)
        if known != (budget.epsilon, budget.delta, neighbours, None if unit is None else unit.name):
            shown = f", privacy_unit {account.unit_column!r}, max_rows {account.neighbours.unit_rows}"
            raise BooksError(
                f"{source} is protected already, with epsilon {account.epsilon:g}, delta {account.delta:g}, "
                f"neighbours {account.neighbours}{shown if account.unit_column else ''}: a budget is set once"
            )
        return account

    # --- tables under other names: see dpsql.books.marks -----------------------------------------------------------

    def holder(self, source: Source) -> str | None:
        """The account that a table belongs to by its mark, its object id or its name; see `marks.holder_of`."""
        seen = seen_by(self._cursor) or Seen()
        return holder_of(tokens_in(source.comment), source.key, source.identity, self._known(), seen)

    def standing(self, tables: Sequence[Listed] | None = None) -> Standing:
        """Which tables of the database are protected; of all `tables` of the instance, if they were listed already."""
        listed = list_tables(self._cursor) if tables is None else tables
        mine = [table for table in listed if table.catalog == self.catalog]
        own = {table.name for table in mine if table.schema == SCHEMA}  # to ask for one in vain ends a transaction
        known = self._known(listed="known_table" in own) if "account" in own else Known(there=False)
        seen = seen_by(self._cursor) or Seen()
        return standing_of([table for table in mine if table.schema != SCHEMA], known, seen)

    def _known(self, *, listed: bool = True) -> Known:
        """What the books know of the tables of their database; those of an earlier version may have no list yet."""
        accounts = [account.source for account in self.accounts()]
        try:
            rows = self._run("SELECT name, token FROM dpsql.known_table") if listed else []
        except duckdb.CatalogException:
            rows = []
        tokens = {token: name for name, token in rows if token is not None}
        return Known(accounts, tokens, {fold(name) for name, token in rows if token is None})

    def mark(self, source: Source) -> None:
        """Mark a table that is about to be released from, if it is a new one under its account's name."""
        if not tokens_in(source.comment):
            self.mark_tables()

    def mark_tables(self) -> None:
        """Mark what an account holds and has no mark yet, and list the tables that are public, as far as is sure.

        A table that somebody alters in an open transaction is marked another time.
        """
        if not self._place[1]:
            with suppress(duckdb.TransactionException):
                self._transaction(self._mark, attempts=_MARKING_ATTEMPTS)

    def settle(self, reason: str) -> None:
        """Nothing else is a table of an account, on the owner's word; see `dpsql.owner.account_changes.settle`."""

        def work() -> None:
            self._look()
            self._mark(trusted=True)
            self._event("settle", reason=reason)

        self._transaction(work)

    def _mark(self, *, trusted: bool = False) -> None:
        """Inside a transaction: see `mark_tables`; where the owner says so, all is sure."""
        self._make_tables()  # books of an earlier version have no list
        standing, known = self.standing(), self._known()
        sure = trusted or not standing.suspects
        tokens = {} if sure else dict(known.tokens)
        for table, source in standing.held.items():
            here = [token for token in table.tokens if known.tokens.get(token) == source]
            if source and not here and (sure or source not in standing.doubtful):
                seen = (seen_by(self._cursor) or Seen()).held.get(table.identity)
                here = [seen[1] if seen and seen[1] else new_token()]
                write_mark(self._cursor, table, here[0])
            tokens |= dict.fromkeys(here, source)
        free = [table.key for table in (*standing.others, *standing.suspects)]
        public = free if sure else known.public
        if tokens != known.tokens or set(map(fold, public)) != set(known.public):
            self._run("DELETE FROM dpsql.known_table")
            for name, token in [
                *((source, token) for token, source in tokens.items()),
                *((name, None) for name in public),
            ]:
                self._run("INSERT INTO dpsql.known_table VALUES ($name, $token)", {"name": name, "token": token})

    def raise_account(self, source: str, epsilon: float, reason: str) -> Account:
        """Promise a larger ε at the same δ."""

        def raised(account: Account) -> tuple[str, Mapping[str, Any]]:
            if epsilon <= account.epsilon:
                raise InvalidArgument(f"epsilon is {epsilon:g}, but {source!r} promises {account.epsilon:g}: give more")
            budget = account_budget(epsilon, account.delta_of_sums)
            row = {"epsilon": epsilon, "rho": _floor_units(budget.rho), "gdp": _floor_units(budget.gdp)}
            return "epsilon = $epsilon, rho_budget = $rho, gdp_budget = $gdp", row

        return self._change(source, "raise", reason, raised, epsilon=float(epsilon))

    def reset_account(self, source: str, reason: str) -> Account:
        """Nothing is spent any more; earlier releases belong to what was before, those that are not published fail."""

        def anew(account: Account) -> tuple[str, Mapping[str, Any]]:
            failed = json.dumps({"failed": "the account was reset"})
            ended = "UPDATE dpsql.release SET state = 'failed', report = $report"
            sql = f"{ended} WHERE source = $source AND state = 'reserved'"
            self._run(sql, {"report": failed, "source": source})
            budget = account_budget(account.epsilon, account.delta)
            changed = (
                "rho_spent = 0, gdp_spent = 0, pure_spent = 0, delta_reserved = 0, delta_spent = 0, rho_budget = $rho, "
                "gdp_budget = $gdp, currency = CASE WHEN delta = 0 THEN 'pure' END, releases = 0, "
                "unit_secret = $secret, since = $since"
            )
            exact = {"rho": _floor_units(budget.rho), "gdp": _floor_units(budget.gdp)}
            assert self._looked is not None
            return changed, {**exact, "secret": secrets.token_hex(32), "since": self._looked.link.number + 1}

        return self._change(source, "reset", reason, anew)

    def retire_account(self, source: str, reason: str) -> Account:
        """Nothing more is charged."""
        return self._change(source, "retire", reason, lambda _: ("retired = true", {}))

    def forgive(self, source: str, reason: str) -> Account:
        """Releases that were stopped until now no longer count; what they cost stays spent."""

        def work() -> Account:
            self._look()
            self._event("forgive", source, reason=reason)
            return self._account_now(source)

        return self._transaction(work)

    def unprotect(self, source: str, reason: str) -> None:
        """Take back the protection of a table to which nothing was ever charged: its account, domains and constraints.

        Raises:
            InvalidArgument: something was charged.
            NotProtected: it has no account.
        """

        def work() -> list[Listed]:
            self._look()
            assert self._looked is not None
            state = self._looked.state
            if source not in state.accounts:
                raise NotProtected(f"table {source!r} is not protected: there is nothing to take back")
            if source in state.charged:
                raise InvalidArgument(
                    f"releases of {source!r} were charged, or its account was accepted, so its protection stays: let "
                    "nothing more be charged with dpsql ledger retire, or db.retire(table, reason)"
                )
            held = [table for table, owner in self.standing().held.items() if owner == source]
            for mine in held:
                if mine.tokens:
                    remove_marks(self._cursor, mine)
            self._run("DELETE FROM dpsql.known_table WHERE name = $name AND token IS NOT NULL", {"name": source})
            for table in ("account", "domain", "constraint"):
                self._run(f"DELETE FROM dpsql.{table} WHERE source = $source", {"source": source})  # noqa: S608
            self._event("unprotect", source, reason=reason)
            return held

        self.check_writable()
        freed = self._transaction(work)
        for table in freed:
            (seen_by(self._cursor) or Seen()).held.pop(table.identity, None)
        self.mark_tables()

    def _change(
        self,
        source: str,
        kind: str,
        reason: str,
        how: Callable[[Account], tuple[str, Mapping[str, Any]]],
        **content: Any,
    ) -> Account:
        """Change an account, and record it with the reason; `how` tells what is set, from the account as it is."""

        def work() -> Account:
            self._look()
            before = self._account_now(source)
            changed, row = how(before)
            self._run(f"UPDATE dpsql.account SET {changed} WHERE source = $source", {**row, "source": source})  # noqa: S608
            self._event(kind, source, reason=reason, **content)
            return self._account_now(source)

        return self._transaction(work)

    def _account_now(self, source: str) -> Account:
        """The account of a source that had one.

        Raises:
            NotProtected: its owner took it back meanwhile.
        """
        account = self.account(source)
        if account is None:
            raise NotProtected(f"the protection of {source!r} was taken back: its owner says dp_protect again")
        return account

    def account(self, source: str) -> Account | None:
        """The account of a source, None if it has none."""
        found = [account for account in self.accounts() if account.source == source]
        return found[0] if found else None

    def accounts(self) -> list[Account]:
        """All accounts."""
        try:
            rows = self._run(f"SELECT {', '.join(_ACCOUNT)} FROM dpsql.account")  # noqa: S608
        except duckdb.CatalogException:  # no books yet; to ask the catalogue first would take longer than the rest
            return []
        except duckdb.BinderException:
            raise BooksError(
                f"the books of database {self.catalog!r} were written by another version of dpsql: open it with "
                "that one"
            ) from None
        return sorted(map(_account, rows), key=lambda account: account.source)

    def bound(self, source: str) -> Bound | None:
        """Which rows of a source count; None if all do."""
        rows = self._run(
            "SELECT unit_column, unit_type, unit_rows FROM dpsql.account WHERE source = $source", {"source": source}
        )
        column, kind, count = rows[0]
        return None if column is None else Bound(column, kind, count, secret_of(self.catalog, source))

    def declare(self, source: str, attribute: Attribute) -> None:
        """Record a column's domain, in place of an earlier one."""
        self.check_writable()
        self._transaction(lambda: self._record_domain(source, attribute))

    def _record_domain(self, source: str, attribute: Attribute) -> None:
        self._run(
            "INSERT INTO dpsql.domain VALUES ($source, $name, $spec) "
            "ON CONFLICT (source, name) DO UPDATE SET spec = excluded.spec",
            {"source": source, "name": attribute.name, "spec": json.dumps(fields_of(attribute))},
        )

    def declared(self, source: str) -> dict[str, Attribute]:
        """The recorded domains of a source's columns, by name."""
        rows = self._run("SELECT spec FROM dpsql.domain WHERE source = $source", {"source": source})
        attributes = [attribute_from(json.loads(spec)) for (spec,) in rows]
        if any(attribute.origin == "discovered" for attribute in attributes):
            self.secure()
        return {attribute.name: attribute for attribute in attributes}

    def released_types(self, source: str) -> set[str]:
        """The types of which a source's releases were charged for every member, so that those are known."""
        rows = self._run("SELECT domain FROM dpsql.release WHERE source = $source", {"source": source})
        return {a.type for (text,) in rows for a in Domain.from_json(text) if a.origin == "type"}

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

    def _event(
        self,
        kind: str,
        source: str | None = None,
        /,
        accounts: chain.States | None = None,
        basis: str | None = None,
        number: int | None = None,
        **content: Any,
    ) -> int:
        """Record what happened, inside a transaction; with the account as it is then, as `accounts` say if given."""
        known: dict[str, Any] = {name: value for name, value in content.items() if value is not None}
        if source is not None:
            accounts = self._states() if accounts is None else accounts
            known |= {"source": source, "account": accounts.get(source)}
        at = datetime.now(UTC).replace(tzinfo=None).isoformat(sep=" ")
        known |= {"kind": kind, "at": at, "version": course.VERSION}
        before = self._looked or self._point()
        added = chain.append(self._run, known, before, self._key, basis, number)
        self._recorded, self._looked = (self._recorded[0] if self._recorded else before.link, added), added
        chain.remember(self._ledger, added)
        return added.link.number

    def _states(self) -> dict[str, dict[str, Any]]:
        """Every account as its row says, for the ledger and its head."""
        return _told(self._run(f"SELECT {_STATED} FROM dpsql.account"))  # noqa: S608

    def charge(
        self,
        key: str,
        source: str,
        request: str,
        domain: Domain,
        mechanism: str,
        guarantee: str,
        budget: Budget,
        failure: float | None = None,
    ) -> Entry:
        """Charge a new release: account, event and release in one transaction, after a look at the newest events.

        What is older was looked at before, by this process or by the one that wrote the head.

        A release of that key that is there already is returned as it is, free. `failure` is of a discovery: the
        probability but for which the budget holds (see `Account.reserve`).

        Raises:
            InsufficientBudget: the account has less than `budget` left, or of δ; nothing was changed.
            BooksError: the database is read-only, or the ledger, an account and the head do not fit together.
            DpsqlError: a setting that is the owner's is not what it was, see `dpsql.engines.duckdb.settings`; or too
                many releases of the source were stopped.
        """
        check_owned(self._cursor)
        self.check_writable()
        self.check_place()
        with _advised():
            self.migrate()
            self.advance()

        def work() -> Entry:
            with _advised():
                self._look()
            assert self._looked is not None
            before = self._looked
            promised = self._account_now(source)
            known = self.release(key)
            if known is not None:
                return known
            self._refuse_lost(key, before.state.anchor)
            _refuse_stopped(source, before.state)
            if failure is not None:
                self._fail(source, failure)
            charged = self._run(
                f"{read('charge')[0]} RETURNING {_STATED}",
                {
                    "rho": units(budget.rho),
                    "gdp": units(budget.gdp),
                    "pure": units(budget.exact_epsilon) if budget.pure else None,
                    "pure_budget": _floor_units(exact(promised.epsilon)),
                    "currency": budget.currency,
                    "source": source,
                },
            )
            if not charged:
                raise _TooDear
            account = _account(charged[0][: len(_ACCOUNT)])
            asked = json.loads(request)
            # a number stands for all that were published up to it, so that the request does not grow with them
            earlier = before.link.number if asked.get("reuse") and before.state.published.get(source) else 0
            recorded = json.dumps({**asked, "earlier": earlier}, ensure_ascii=False, sort_keys=True)
            promise = guarantee + (_BESIDE if earlier and asked.get("reuse") else "")
            rho, gdp = _floor_units(budget.rho), _floor_units(budget.gdp)
            charged_for = (rho * RHO_UNIT, gdp * RHO_UNIT, account.neighbours, promise)
            entry = Entry(key, 0, source, recorded, domain, mechanism, *charged_for, "reserved", None, {})
            number = self._event(
                "charge",
                source,
                accounts=_told(charged),
                key=key,
                paid=_paid(entry),
                mechanism=mechanism,
                epsilon=budget.epsilon,
                delta=budget.delta,
                rho=str(units(budget.rho)),
                gdp=str(units(budget.gdp)),
                pure=str(units(budget.exact_epsilon)) if budget.pure else None,
                failure=failure,
            )
            self._run("INSERT INTO dpsql.request VALUES ($key, $number)", {"key": key, "number": number})
            self._run(
                "INSERT INTO dpsql.release VALUES ($key, $number, $source, $request, $domain, $mechanism, $rho, $gdp, "
                "$neighbours, $unit_rows, $guarantee, 'reserved', NULL, NULL, NULL)",
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
            return replace(entry, number=number)

        try:
            return self._transaction(work)
        except _TooDear:
            self._account_now(source).require(budget)
            raise InsufficientBudget(f"the budget of {source} was spent meanwhile") from None

    def _refuse_lost(self, key: str, anchor: int) -> None:
        """Refuse to charge again what was charged since the ledger was last accepted, and whose record is gone.

        Raises:
            BooksError: it was.
        """
        lost = self._run("SELECT number FROM dpsql.request WHERE key = $key", {"key": key})
        if lost and lost[0][0] > anchor:
            raise BooksError(
                f"this request was charged before, as release {lost[0][0]}, whose record is lost; {_ADVICE}"
            )

    def _fail(self, source: str, failure: float) -> None:
        """Take δ′ off what an account keeps for it."""
        after = self._account_now(source).reserve(failure)
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
        """The published releases of a source since its account was opened or reset, in order."""
        found = [self.release(key) for key in self._published_keys(source)]
        return [entry for entry in found if entry is not None]

    def _published_keys(self, source: str) -> list[str]:
        sql = (
            "SELECT r.key FROM dpsql.release AS r JOIN dpsql.account AS a ON a.source = r.source "
            "WHERE r.source = $source AND r.state = 'published' AND r.number > a.since ORDER BY r.number"
        )
        return [key for (key,) in self._run(sql, {"source": source})]

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
        found = [
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
                state=self._state(key) if state == "reserved" else state,
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
        if any(entry.state == "published" for entry in found):
            self.secure()
        return found

    def _state(self, key: str) -> str:
        """Of a release that is paid: whether something was measured."""
        found = self._run("SELECT 1 FROM dpsql.answer WHERE release = $key LIMIT 1", {"key": key})
        return "measured" if found else "reserved"

    # --- the curator's journal ----------------------------------------------------------------------------------------

    def append_answers(self, release: str, answers: Sequence[Answer]) -> None:
        """Write answers of the curator, durably, after those that are there."""

        def work() -> None:
            last, _ = self._journal(release)
            listed = ", ".join(f"${name}" for name in COLUMNS)
            insert = f"INSERT INTO dpsql.answer (release, {', '.join(COLUMNS)}) VALUES ($release, {listed})"  # noqa: S608
            for number, answer in enumerate(answers, start=last + 1):
                self._run(insert, {"release": release, **row_of(number, answer)})
            cells = cells_of(answers, last + 1)
            if not len(cells["cell"]):  # an INSERT of no rows before one of many: see `_write`
                return
            self._cursor.register("dpsql_cells", cells)
            try:
                self._run(
                    "INSERT INTO dpsql.cell SELECT $release, answer, cell, value FROM dpsql_cells", {"release": release}
                )
            finally:
                self._cursor.unregister("dpsql_cells")

        self._transaction(work)

    def answers(self, release: str) -> list[Answer]:
        """The answers of a release, in order.

        Raises:
            BooksError: they are not those that were written.
        """
        found = self._whole_answers(release)
        if found is None:
            raise BooksError(f"the answers of a release are not those that were recorded; {_ADVICE}")
        return found

    def _whole_answers(self, release: str) -> list[Answer] | None:
        """The answers of a release; None if they cannot be read, or a row is not as it was written."""
        rows, cells = self._answer_rows(release)
        first = min((row["number"] for row in rows), default=1)
        try:
            answers = list(answers_from(rows, cells))
            written = [row_of(number, answer) for number, answer in enumerate(answers, start=first)]
            again = cells_of(answers, first)
        except (ValueError, TypeError, KeyError, IndexError):
            return None
        whole = written == rows and all(np.array_equal(again[name], cells[name]) for name in again)
        return answers if whole else None

    def _answer_rows(self, release: str) -> tuple[list[dict[str, Any]], Cells]:
        """The rows of a release's answers, and of their cells."""
        parameters = {"release": release}
        sql = f"SELECT {', '.join(COLUMNS)} FROM dpsql.answer WHERE release = $release ORDER BY number"  # noqa: S608
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in self._run(sql, parameters)]
        sql = "SELECT answer, cell, value FROM dpsql.cell WHERE release = $release ORDER BY answer, cell, value"
        found = self._cursor.execute(qualified(sql, self.catalog), parameters).fetchnumpy()
        return rows, {name: np.asarray(values, np.int64) for name, values in found.items()}

    def measurements_for(self, entry: Entry) -> list[Measurement]:
        """What earlier releases measured that a release may use: whole marginals of the same columns and domains.

        Which releases those are was fixed when it was charged, so that a release that is resumed asks the same again.
        """
        found: list[Measurement] = []
        for key in self._earlier(entry):
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

    def _earlier(self, entry: Entry) -> list[str]:
        """The keys of the releases that one may use, newer ones first; the request says up to which event."""
        known = json.loads(entry.request).get("earlier") or 0
        if isinstance(known, list):  # as the first format has them
            return known[::-1][:_MOST_EARLIER_RELEASES]
        sql = f"""
            SELECT r.key FROM dpsql.release AS r JOIN dpsql.account AS a ON a.source = r.source
            WHERE r.source = $source AND r.number > a.since
              AND ((r.state = 'published' AND r.told <= $known) OR r.key IN ({_WITHDRAWN}))
            ORDER BY r.number DESC LIMIT $most
        """  # noqa: S608
        row = {"source": entry.source, "known": known, "most": _MOST_EARLIER_RELEASES}
        return [key for (key,) in self._run(sql, row)]

    # --- publication --------------------------------------------------------------------------------------------------

    def publish(
        self, entry: Entry, source: Source, columns: Sequence[str], frame: Columns, report: Mapping[str, Any]
    ) -> Entry:
        """Store the synthetic rows, decoded into the source's types; returns the release, published.

        Args:
            entry: the release.
            source: whose column types the rows get, as far as those are public.
            columns: of the synthetic table, in order.
            frame: for attribute number i, its codes as `c<i>` and for bins ticks as `t<i>`.
            report: what the fit says of itself; from released values only.
        """
        attributes = {a.name: (f"c{i}", f"t{i}", a) for i, a in enumerate(entry.domain)}
        excluded = {a.name: a for a in entry.domain.excluded}
        schema = released_columns(source, columns, (*entry.domain, *entry.domain.excluded))
        values = []
        for name in columns:
            code, ticks, attribute = attributes[name] if name in attributes else ("", "", excluded[name])
            values.append(exp.alias_(decode(attribute, code, ticks), name, quoted=True))
        filled = [name for name in columns if name in attributes]
        return self._store(entry, exp.select(*values), filled, schema, "dpsql_codes", frame, report)

    def _store(
        self,
        entry: Entry,
        drawn: exp.Select,
        filled: Sequence[str],
        schema: exp.Select | None,
        name: str,
        frame: Columns,
        report: Mapping[str, Any],
    ) -> Entry:
        """Write the rows of a release, read back what was committed, and publish it; returns it, published.

        Args:
            entry: the release.
            drawn: the columns of the rows, made of those of `frame`.
            filled: the names of those that are not NULL throughout.
            schema: a SELECT without rows whose columns have the types of the table's; None for those of `drawn`.
            name: of `frame` in `drawn`.
            frame: the rows, encoded.
            report: what the release says of itself.

        Raises:
            BooksError: what was read back is not what was written; nothing is lost, the same call goes on.
        """
        drawn, rows = drawn.from_(name), length(frame)
        with shown_as(self._cursor, name, frame):
            written = fingerprint(self._cursor, drawn.subquery("dpsql_drawn"), drawn.named_selects, filled)
            self._write(entry, drawn, schema)

            def work() -> None:
                accounts = self._look()
                table = rows_table(self.catalog, entry)
                if fingerprint(self._cursor, table, drawn.named_selects, filled) != written:
                    raise BooksError(_NOT_READ_BACK.format("rows", entry.number))
                self._end(entry, accounts, report, rows)

            self._transaction(work)
        return replace(entry, state="published", rows=rows, report=dict(report))

    def _write(self, entry: Entry, drawn: exp.Select, schema: exp.Select | None) -> None:
        """Make the table of a release, in place of what a run that was killed may have left there.

        Each statement commits by itself, because DuckDB 2.0.0 loses an INSERT of 122,880 rows or more that follows one
        of no rows (as CREATE TABLE … AS SELECT … LIMIT 0 is) in the same transaction.
        """
        target = rows_table(self.catalog, entry)
        create = exp.Create(this=target, kind="TABLE", replace=True, expression=schema or drawn)
        self._cursor.execute(create.sql(dialect="duckdb"))
        if schema is not None:
            self._cursor.execute(exp.insert(drawn, target).sql(dialect="duckdb"))

    def is_hollow(self, entry: Entry) -> bool:
        """Whether a release was published as an empty table although it has rows.

        Earlier versions of dpsql published such releases of 122,880 rows and more on DuckDB 2.0.0 (see `_write`). The
        ledger has the digest of no rows for them.
        """
        if entry.state != "published" or not entry.rows:
            return False
        sql = (
            "SELECT e.content->>'$.told' FROM dpsql.release AS r JOIN dpsql.event AS e ON e.number = r.told "
            "WHERE r.key = $key"
        )
        return self._run(sql, {"key": entry.key}) == [(_digest([entry.report, ""]),)]

    def withdraw(self, entry: Entry, reason: str) -> Entry:
        """Take a publication back, so that the release is made again from its stored measurements, free.

        Returns:
            The release, measured.
        """

        def work() -> None:
            accounts = self._look()
            sql = (
                "SELECT r.told, e.content->>'$.answers' FROM dpsql.release AS r "
                "JOIN dpsql.event AS e ON e.number = r.told WHERE r.key = $key"
            )
            told, answers = self._run(sql, {"key": entry.key})[0]
            self._cursor.execute(f"DROP TABLE IF EXISTS {rows_table(self.catalog, entry).sql(dialect='duckdb')}")
            self._run(
                "UPDATE dpsql.release SET state = 'reserved', rows = NULL, report = NULL, told = NULL WHERE key = $key",
                {"key": entry.key},
            )
            self._event(
                "withdraw",
                entry.source,
                accounts=accounts,
                release=entry.number,
                key=entry.key,
                paid=_paid(entry),
                rho=str(units(entry.rho)),
                gdp=str(units(entry.gdp)),
                answers=answers,
                told=told,
                reason=reason,
            )

        self._transaction(work)
        found = self.release(entry.key)
        assert found is not None
        return found

    def publish_domain(self, entry: Entry, attribute: Attribute, report: Mapping[str, Any]) -> Entry:
        """Record a discovered domain, and mark its release as published."""

        def work() -> None:
            accounts = self._look()
            self._record_domain(entry.source, attribute)
            self._end(entry, accounts, {**report, "domain": fields_of(attribute)})

        self._transaction(work)
        return cast(Entry, self.release(entry.key))

    def _journal(self, release: str) -> tuple[int, str]:
        """Inside a transaction: the number of a release's last answer, and the digests of all.

        Raises:
            DpsqlError: it failed, was published, or belongs to what was reset; nothing may be added to it.
        """
        release_is = {"key": release}
        if self._run("SELECT state FROM dpsql.release WHERE key = $key", release_is) != [("reserved",)]:
            raise DpsqlError("the account was reset, or the release ended, while it was made: ask again")
        sql = "SELECT max(number), string_agg(digest, ' ' ORDER BY number) FROM dpsql.answer WHERE release = $key"
        last, digests = self._run(sql, release_is)[0]
        return last or 0, digests or ""

    def _end(self, entry: Entry, accounts: chain.States, report: Mapping[str, Any], rows: int | None = None) -> None:
        """Mark a release as published, with digests in the ledger: what is told cannot be lost or changed unnoticed."""
        answers = _digest_of_answers(self._journal(entry.key)[1].split())
        if self._told_answers(entry.key) != answers:
            raise BooksError(_NOT_READ_BACK.format("answers", entry.number))
        written = json.dumps(report)
        told = _digest([json.loads(written), self._digest_of_rows(replace(entry, rows=rows))])
        number = self._event(
            "publish", entry.source, accounts=accounts, release=entry.number, key=entry.key, answers=answers, told=told
        )
        self._run(
            "UPDATE dpsql.release SET state = 'published', rows = $rows, report = $report, told = $told "
            "WHERE key = $key",
            {"rows": rows, "report": written, "told": number, "key": entry.key},
        )

    def resume(self, entry: Entry) -> None:
        """Before more is measured for a release: the books must fit together, and it must be what was charged.

        Raises:
            BooksError: it is not, or it was published before.
        """
        self.check_place()
        self.check_writable()
        with _advised():
            self.migrate()
            self.advance()
            state = self._snapshot(self._checked).state
        paid = state.unfinished.get(entry.key)
        if paid is None:
            raise BooksError(
                f"release {entry.number} was told already, or ended otherwise, but its answers are lost; {_ADVICE}"
            )
        same = (paid.number, paid.source, paid.paid) == (entry.number, entry.source, _paid(entry))
        if not (same and paid.covers(entry.rho, entry.gdp)):
            raise BooksError(f"release {entry.number} is not what was charged; {_ADVICE}")
        if paid.answers is not None and self._told_answers(entry.key) != paid.answers:
            raise BooksError(f"release {entry.number} was told already, but its answers are lost; {_ADVICE}")

    def retry(self, entry: Entry) -> None:
        """Record, before rows are read again for a release that was stopped, that they are: only so many times.

        Whether a run ends for lack of memory or disk depends on the rows, so free runs without end would tell of them.

        Raises:
            DpsqlError: rows were read as often as they may be since its last answer was stored; it has failed.
        """

        def work() -> bool:
            accounts = self._look()
            last, _ = self._journal(entry.key)
            before = [told for told in chain.told(self._run, "retry", entry.key) if told["answers"] == last]
            if len(before) >= MOST_RETRIES:
                return False
            self._event("retry", entry.source, accounts=accounts, release=entry.number, key=entry.key, answers=last)
            return True

        if not self._transaction(work):
            reason = f"it was stopped {MOST_RETRIES + 1} times before it had stored a new answer"
            self.fail(entry, reason)
            raise DpsqlError(
                f"release {entry.number} failed: {reason}; its charge is kept. Ask with more memory or disk, or for "
                "fewer or smaller marginals, under another name, release := '…', which is charged anew"
            )

    def fail(self, entry: Entry, reason: str) -> None:
        """Record that a release cannot be completed, and why, in words of released values only; its charge is kept."""

        def work() -> None:
            accounts = self._look()
            self._run(
                "UPDATE dpsql.release SET state = 'failed', report = $report WHERE key = $key",
                {"report": json.dumps({"failed": reason}), "key": entry.key},
            )
            self._event("fail", entry.source, accounts=accounts, release=entry.number, key=entry.key, reason=reason)

        self._transaction(work)

    def publish_answers(
        self, entry: Entry, frame: Columns, types: Mapping[str, str], report: Mapping[str, Any]
    ) -> Entry:
        """Store the answers of a query; returns the release, published.

        Args:
            entry: the release.
            frame: keys as text, whole steps of a DECIMAL as integers.
            types: of the columns, which `frame` has too.
            report: what the answers say of themselves; from released values only.
        """
        return self._store(entry, typed_answers(types), tuple(types), None, "dpsql_answers", frame, report)


_NOT_READ_BACK: Final = (
    "the {0} of release {1} could not be read back as they were written, so it is not published; nothing is lost: the "
    "same call goes on from what was measured, free"
)


def fingerprint(
    cursor: duckdb.DuckDBPyConnection, rows: exp.Expr, names: Sequence[str], filled: Sequence[str]
) -> tuple[Any, ...]:
    """What all rows of a table or query say together, in whatever order; reads every value.

    Args:
        cursor: a connection of its own.
        rows: the table or query.
        names: of its columns.
        filled: those that are not NULL throughout; the hash of a NULL depends on its type.

    Returns:
        The number of rows, of the values of each column that are not NULL, and the sum of the rows' hashes.
    """
    counts = [exp.Count(this=_quoted(name)) for name in names]
    hashed = exp.Anonymous(this="hash", expressions=[_quoted(name) for name in filled])
    total = exp.Sum(this=exp.cast(hashed, "HUGEINT", dialect="duckdb"))
    query = exp.select(exp.Count(this=exp.Star()), *counts, total).from_(rows)
    return tuple(cursor.execute(query.sql(dialect="duckdb")).fetchall()[0])


def _quoted(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def typed_answers(types: Mapping[str, str]) -> exp.Select:
    """The columns of the answers of a query in their types, from keys as text and whole steps of a DECIMAL as integers.

    Args:
        types: of the columns k0, … and a0, …
    """
    values = []
    for name, kind in types.items():
        scale = decimal_scale(kind) if name.startswith("a") else None
        value = from_tick(exp.column(name), kind) if scale else exp.column(name)
        values.append(exp.alias_(exp.cast(value, data_type(kind)), name))
    return exp.select(*values)


def stored_as_text(cursor: duckdb.DuckDBPyConnection, table: exp.Table, names: Sequence[str]) -> Columns:
    """The stored answers of a query as text, None for NULL."""
    texts = [exp.alias_(exp.cast(exp.column(name), "VARCHAR", dialect="duckdb"), name) for name in names]
    rows = cursor.execute(exp.select(*texts).from_(table).sql(dialect="duckdb")).fetchall()
    return from_rows(rows, names)


def _id_beside(database: Path) -> str | None:
    """The id of the books of a database file, as their head says; None if there is no readable one."""
    try:
        head = heads.read_head(heads.file_beside(database))
    except BooksError:
        return None
    return None if head is None else head.books


def rows_table(catalog: str, entry: Entry) -> exp.Table:
    """The table that holds a release's rows."""
    return exp.table_(f"release_{entry.number}", db="dpsql", catalog=catalog, quoted=True)


def no_rows(catalog: str, entry: Entry) -> str:
    """A SELECT with the columns of a release's rows, and none of them."""
    return exp.select("*").from_(rows_table(catalog, entry)).limit(0).sql(dialect="duckdb")


def _account(row: Sequence[Any]) -> Account:
    known = dict(zip(_ACCOUNT, row, strict=True))
    neighbours = Neighbours(known.pop("neighbours"), known.pop("unit_rows"))
    for name in _IN_UNITS:
        known[name] = None if known[name] is None else known[name] * RHO_UNIT
    return Account(neighbours=neighbours, **known)


def _refuse_stopped(source: str, state: course.State) -> None:
    """Refuse to charge where many releases are not published.

    Raises:
        DpsqlError: as many as may be.
    """
    if state.stopped(source) >= MOST_STOPPED:
        raise DpsqlError(
            f"{MOST_STOPPED} releases of {source!r} were charged and are not published: they are under way, were "
            "stopped, or failed. What stops a release may depend on the rows, so nothing more is charged. Ask for "
            "those again as they were asked for, free (FROM dp_releases() WHERE state <> 'published'); or the owner "
            f"says dpsql ledger forgive <file> {source} --reason '…', in Python db.forgive('{source}', reason)"
        )


def _told(rows: Sequence[Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Accounts, by their source, from rows of `_STATED`: numbers as text, exact."""
    names = (*_ACCOUNT, "unit_choice")
    told = [dict(zip(names, (None if v is None else str(v) for v in row), strict=True)) for row in rows]
    return {str(state["source"]): state for state in told}


def _paid(entry: Entry) -> str:
    """A digest of what a release was charged for, and what it promises."""
    charged = [entry.key, entry.source, entry.request, entry.domain.to_json(), entry.mechanism]
    promised = [str(entry.rho), str(entry.gdp), str(entry.neighbours), entry.neighbours.unit_rows, entry.guarantee]
    return _digest([*charged, *promised])


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def _digest_of_answers(digests: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def _floor_units(rho: Fraction) -> int:
    return int(rho / RHO_UNIT)


def _is_conflict(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, duckdb.TransactionException | duckdb.ConstraintException) and (
        "conflict" in text or "duplicate key" in text or "violates primary key" in text or "aborted" in text
    )


def catalogs_with_books(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """The attached databases that have books, of DuckDB's own kind."""
    rows = cursor.execute(
        "SELECT database_name FROM duckdb_tables() WHERE schema_name = 'dpsql' AND table_name = 'account' "
        "AND database_name IN (SELECT database_name FROM duckdb_databases() WHERE type = 'duckdb') ORDER BY 1"
    ).fetchall()
    return [name for (name,) in rows]


def check_all(cursor: duckdb.DuckDBPyConnection) -> None:
    """Check the books of every attached database that can be written.

    Raises:
        BooksError: those of one do not fit together, or are lost; see `Books.check`.
    """
    with_books = set(catalogs_with_books(cursor))
    sql = "SELECT database_name FROM duckdb_databases() WHERE type = 'duckdb' AND NOT internal AND NOT readonly"
    for (catalog,) in sorted(cursor.execute(sql).fetchall()):
        books = Books(cursor, catalog)
        if catalog in with_books:
            books.check()
            books.mark_tables()
        else:
            books.check_no_others()
