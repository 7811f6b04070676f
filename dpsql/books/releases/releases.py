"""Releases as the books know them: find them, and the tables that hold their rows."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from sqlglot import exp

from dpsql.books.ledger import ledger
from dpsql.books.ledger.accounts import account_key
from dpsql.books.ledger.chain import States
from dpsql.books.ledger.store import Books
from dpsql.books.tables.owner_facts import Looked, columns_of, stated_as, tables_of
from dpsql.core.domain import Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.tree import UNITS
from dpsql.core.unit_row import UnitRow
from dpsql.engines.source import Column, Source
from dpsql.privacy.accounting import RHO_UNIT, Budget
from dpsql.privacy.promised import BESIDE, disclosed, in_period, promise, with_rows_of

_COLUMNS: Final = (
    *("key", "number", "source", "request", "domain", "mechanism", "rho", "gdp", "neighbours", "unit_rows"),
    *("guarantee", "state", "rows", "report"),
)
_FEW: Final = 8
"""Events that are looked up one by one, by their index, for a ledger may be long."""
_ROWS: Final = """
    SELECT coalesce(sha256(string_agg(part, '' ORDER BY part)), '') FROM (
      SELECT sha256(string_agg(one, '' ORDER BY one)) AS part FROM (
        SELECT sha256(to_json(dpsql_told)::VARCHAR) AS one FROM {table} AS dpsql_told
      ) GROUP BY left(one, 2)
    )
"""
"""A digest of all rows of a table, in whatever order; in parts, for one text of millions of rows would be large."""


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
        recorded: its guarantee in the words that the books have a digest of; see `guarantee`.
        state: `reserved` (paid), `measured` (its answers are journalled, some at least), `published`, or `failed`.
        rows: of the synthetic table, None until it is published.
        report: what the fit says of itself.
        epsilon, delta: what was promised; ε is no number where the event of the charge is damaged.
        failure: the part of δ that is for values which a discovery publishes.
        looked: columns whose domain the owner read off the rows, by the charge or by what is declared now; of a linked
            release each with its table, see `stated_name`.
        looked_facts: the owner's facts of that kind.
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
    recorded: str
    state: str
    rows: int | None
    report: Mapping[str, Any]
    epsilon: float
    delta: float
    failure: float = 0.0
    looked: tuple[str, ...] = ()
    looked_facts: tuple[str, ...] = ()

    @property
    def budget(self) -> Budget:
        """What it was charged, and what that promises."""
        return Budget(self.epsilon, self.delta, self.rho, self.gdp)

    @property
    def guarantee(self) -> str:
        """In words, made of the exact numbers of the books, so that nothing in it is rounded down."""
        if not math.isfinite(self.epsilon):
            return self.recorded
        beside = BESIDE if self.recorded.endswith(BESIDE) else ""
        words = promise(self.budget, self.neighbours, self.failure) + in_period(self.source)
        return f"{words}{self._linked}{beside}{disclosed(self.looked, self.looked_facts)}"

    @property
    def linked(self) -> Mapping[str, Any] | None:
        """The tree of a linked release, see `dpsql.core.unit_row.UnitRow.to_json`; None of a release of one table."""
        linked: Mapping[str, Any] | None = json.loads(self.request).get("linked")
        return linked

    @cached_property
    def unit_row(self) -> UnitRow | None:
        """What a unit's row of a linked release holds; None of a release of one table."""
        return None if (linked := self.linked) is None else UnitRow.from_json(linked, self.domain)

    @property
    def _linked(self) -> str:
        if (linked := self.linked) is None:
            return ""
        return with_rows_of(linked["root"], tables_of(linked)[1:])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows that have a domain, and the excluded ones; of a linked release of its first table."""
        if (linked := self.linked) is not None:
            return columns_of(linked, tables_of(linked)[0])
        return (*self.domain.names, *(attribute.name for attribute in self.domain.excluded))

    @property
    def stated_columns(self) -> tuple[str, ...]:
        """The columns as the owner knows them: those of a linked release by their tables, of all tables."""
        if (linked := self.linked) is None:
            return self.columns
        return tuple(stated_as(t, name) for t in tables_of(linked) for name in columns_of(linked, t))

    @cached_property
    def stated_names(self) -> Mapping[str, str]:
        """What `stated_columns` calls each column of the domain; numbers of children are called nothing there."""
        if self.unit_row is None:
            return {name: name for name in self.domain.names}
        return {name: stated_as(*column) for name, column in self.unit_row.column_of.items()}

    @property
    def tables(self) -> tuple[ReleasedTable, ...]:
        """Those of a linked release, the root's first; of another release none."""
        return tuple(ReleasedTable.from_json(stated) for stated in self.report.get("tables", ()))

    @property
    def alone(self) -> str:
        """The user whose release it is alone, `*` where users share it, empty where it is the owner's."""
        return str(json.loads(self.request).get("for", ""))

    @property
    def called(self) -> str:
        """As an error names it: of a user's alone without its number, which tells how much others ask."""
        return "this release" if self.alone else f"release {self.number}"

    @property
    def paid(self) -> str:
        """A digest of what it was charged for, and what it promises."""
        charged = [self.key, self.source, self.request, self.domain.to_json(), self.mechanism]
        promised = [str(self.rho), str(self.gdp), str(self.neighbours), self.neighbours.unit_rows, self.recorded]
        return _digest([*charged, *promised])


@dataclass(frozen=True)
class ReleasedTable:
    """A table of a linked release.

    Attributes:
        table: what the books call the one that it stands for.
        rows: how many.
        primary: the columns whose values no two rows share; empty where none are so.
        parent: the table that its rows belong to; empty of the root.
        key, references: the columns that say to which row, and those that they name there.
        unique: further lists of columns whose values no two rows share, which rows below name.
        required: columns that are NOT NULL in the table that it stands for.
    """

    table: str
    rows: int
    primary: tuple[str, ...] = ()
    parent: str = ""
    key: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    required: tuple[str, ...] = ()

    @staticmethod
    def from_json(stated: Mapping[str, Any]) -> ReleasedTable:
        """From the report of its release, where tuples are lists."""
        lists = {name: tuple(stated.get(name, ())) for name in ("primary", "key", "references", "required")}
        unique = tuple(map(tuple, stated.get("unique", ())))
        return ReleasedTable(stated["table"], stated["rows"], parent=stated.get("parent", ""), unique=unique, **lists)


# --- find -------------------------------------------------------------------------------------------------------------


def find_release(books: Books, key: str) -> Entry | None:
    """The release of a key, None if there is none."""
    entries = _entries(books, "key = $text", key)
    return entries[0] if entries else None


def list_releases(books: Books, keys: Sequence[str]) -> list[Entry]:
    """The releases of keys, in their order, asked for together; a key without a release is left out."""
    entries_by_key = (
        {entry.key: entry for entry in _entries(books, "key IN (SELECT unnest($text))", [*keys])} if keys else {}
    )
    return [entries_by_key[key] for key in keys if key in entries_by_key]


def published(books: Books, source: str) -> list[Entry]:
    """The published releases of a source since its account was opened or reset, in order."""
    sql = (
        "SELECT r.key FROM dpsql.release AS r JOIN dpsql.account AS a ON a.source = $account "
        "WHERE r.source = $source AND r.state = 'published' AND r.number > a.since ORDER BY r.number"
    )
    rows = books.run(sql, {"source": source, "account": account_key(books, source)})
    return list_releases(books, [key for (key,) in rows])


def under_way(books: Books, source: str) -> list[Entry]:
    """The releases of a source that were charged since its account was opened, and neither published nor failed."""
    sql = (
        "SELECT r.key FROM dpsql.release AS r JOIN dpsql.account AS a ON a.source = $account "
        "WHERE r.source = $source AND r.state IN ('reserved', 'measured') AND r.number > a.since ORDER BY r.number"
    )
    rows = books.run(sql, {"source": source, "account": account_key(books, source)})
    return list_releases(books, [key for (key,) in rows])


_NAME: Final = "nullif(json_extract_string(request, '$.release'), '')"


def has_published(books: Books, source: str, alone: str) -> bool:
    """Whether a source has a published release of a user's alone, or else of all, since its account was opened."""
    sql = (
        "SELECT count(*) FROM dpsql.release AS r JOIN dpsql.account AS a ON a.source = $account "
        "WHERE r.source = $source AND r.state = 'published' AND r.number > a.since "
        "AND coalesce(json_extract_string(r.request, '$.for'), '') = $alone"
    )
    return bool(books.run(sql, {"source": source, "account": account_key(books, source), "alone": alone})[0][0])


def find_releases(books: Books, text: str) -> list[Entry]:
    """The releases that a text means to the owner: that of the key or number, or else those of the owner's own name.

    A name that a user gave means nothing to the owner, because a user could give the name of another release.
    """
    entries = _entries(books, "$text IN (key, CAST(number AS VARCHAR))", text)
    return entries or _entries(books, f"{_NAME} = $text AND json_extract_string(request, '$.for') IS NULL", text)


def find_called(books: Books, text: str) -> list[Entry]:
    """The releases whose key or name a text is, whoever gave the name."""
    return _entries(books, f"$text IN (key, {_NAME})", text)


def _entries(books: Books, condition: str, text: str | list[str]) -> list[Entry]:
    rows = books.run(f"SELECT {', '.join(_COLUMNS)} FROM dpsql.release WHERE {condition}", {"text": text})  # noqa: S608
    charges = _charges(books, [row[_COLUMNS.index("number")] for row in rows])
    entries = [_entry(books, row, charges) for row in rows]
    looked = with_looked(books, entries)
    if any(entry.state == "published" for entry in looked):
        ledger.secure(books)
    return looked


def _charges(books: Books, numbers: Sequence[int]) -> dict[int, str]:
    """The events that charged releases, which say what was promised, by their numbers."""
    sql = "SELECT number, content FROM dpsql.event WHERE "
    if len(numbers) > _FEW:
        return dict(books.run(f"{sql}number IN (SELECT unnest($numbers))", {"numbers": list(numbers)}))
    return dict(row for number in numbers for row in books.run(f"{sql}number = $number", {"number": number}))


def _entry(books: Books, row: Sequence[Any], charges: Mapping[int, str]) -> Entry:
    """The release that a row of `_COLUMNS`, and what its charge says, is."""
    fields = dict(zip(_COLUMNS, row, strict=True))
    fields |= _of_charge(charges.get(fields["number"]))
    key, state, report = fields["key"], fields["state"], fields["report"]
    fields |= {
        "domain": Domain.from_json(fields["domain"]),
        "rho": fields["rho"] * RHO_UNIT,
        "gdp": fields["gdp"] * RHO_UNIT,
        "neighbours": neighbours_of(fields["request"], Neighbours(fields["neighbours"], fields.pop("unit_rows"))),
        "state": _state(books, key) if state == "reserved" else state,
        "report": json.loads(report) if report else {},
        "recorded": fields.pop("guarantee"),
    }
    return Entry(**fields)


def neighbours_of(request: str, stated: Neighbours) -> Neighbours:
    """By what neighbours of a release differ: as those of its account, unless its units are counted as a row each.

    Args:
        request: the canonical request, which says so.
        stated: those of the account, or as the books have them.
    """
    linked = json.loads(request).get("linked")
    return stated if linked is None or linked["root"] != UNITS else Neighbours.UNITS


def _of_charge(text: str | None) -> dict[str, Any]:
    """The fields of an entry that the event of its charge has; without ε where the ledger is damaged."""
    try:
        event = json.loads(text or "")
        return {
            "epsilon": float(event["epsilon"]),
            "delta": float(event["delta"]),
            "failure": float(event.get("failure") or 0.0),
            "looked": tuple(map(str, event.get("looked") or ())),
            "looked_facts": tuple(map(str, event.get("looked_facts") or ())),
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {"epsilon": math.nan, "delta": 0.0}


def with_looked(books: Books, entries: Sequence[Entry]) -> list[Entry]:
    """Releases with what their owner has read off the rows: by their charge, and by what is said of the same now."""
    looked = Looked(books)
    return [_with_looked(entry, looked) for entry in entries]


def _with_looked(entry: Entry, looked: Looked) -> Entry:
    linked = entry.linked
    columns, predicates = looked.columns(entry.source, entry.domain, linked), looked.facts(entry.source, linked)
    if not columns and not predicates:
        return entry
    now = {*entry.looked, *columns}
    named = tuple(name for name in entry.stated_columns if name in now)
    return replace(entry, looked=named, looked_facts=tuple(sorted({*entry.looked_facts, *predicates})))


def guarantees(books: Books) -> dict[str, str]:
    """What every release of the books promises, by the text of its number."""
    return {str(entry.number): entry.guarantee for entry in _entries(books, "key <> $text", "")}


def _state(books: Books, key: str) -> str:
    """Of a release that is paid: whether something was measured."""
    answers = books.run("SELECT 1 FROM dpsql.answer WHERE release = $key LIMIT 1", {"key": key})
    return "measured" if answers else "reserved"


def event_of(books: Books, kind: str, entry: Entry, accounts: States, **content: Any) -> int:
    """Inside a transaction: record what happened to a release, with its account as it is; see `ledger.event`."""
    account = account_key(books, entry.source)
    return ledger.event(books, kind, account, accounts=accounts, release=entry.number, key=entry.key, **content)


# --- rows -------------------------------------------------------------------------------------------------------------


def rows_table(catalog: str, entry: Entry, place: int = 0) -> exp.Table:
    """The table that holds a release's rows; of a linked release those of the table of the tree at that place."""
    name = f"release_{entry.number}" if place == 0 else f"release_{entry.number}_{place}"
    return exp.table_(name, db="dpsql", catalog=catalog, quoted=True)


def no_rows(catalog: str, entry: Entry, place: int = 0) -> str:
    """A SELECT with the columns of a release's rows, and none of them."""
    return exp.select("*").from_(rows_table(catalog, entry, place)).limit(0).sql(dialect="duckdb")


def rows_source(books: Books, entry: Entry, place: int = 0) -> Source:
    """The table that holds a release's rows, with its columns."""
    table = rows_table(books.catalog, entry, place)
    described = books.cursor.execute(exp.Describe(this=table).sql(dialect="duckdb")).fetchall()
    columns = tuple(Column(name, kind, null == "YES") for name, kind, null, *_ in described)
    return Source(table.catalog, table.db, table.name, columns)


def digest_of_rows(books: Books, entry: Entry) -> str | None:
    """Of the rows of a release, of all its tables; None if it has no table (a domain that was discovered)."""
    if entry.rows is None:
        return None
    digests = []
    for place in range(max(1, len(entry.tables))):
        digests.append(digest_of_table(books, rows_table(books.catalog, entry, place)))
    return digests[0] if len(digests) == 1 else _digest(digests)


def digest_of_table(books: Books, table: exp.Table) -> str:
    """Of the rows of a table, in whatever order."""
    sql = _ROWS.format(table=table.sql(dialect="duckdb"))
    return str(books.cursor.execute(sql).fetchall()[0][0])


def digest_of_published(report: Any, rows: str | None) -> str:
    """Of all that is published of a release: its report, and the digest of its rows."""
    return _digest([report, rows])


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
