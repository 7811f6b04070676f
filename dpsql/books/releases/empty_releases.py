"""Releases that earlier versions of dpsql published without their rows on DuckDB 2.0.0: find them, and take them back.

Those were releases of 122,880 rows and more (see `publication.write_rows`). The ledger has the digest of no rows for
them.
"""

from __future__ import annotations

from dpsql.books.ledger import ledger
from dpsql.books.ledger.store import Books
from dpsql.books.releases.releases import Entry, digest_of_published, event_of, find_release, rows_table
from dpsql.privacy.accounting import units


def is_hollow(books: Books, entry: Entry) -> bool:
    """Whether a release was published as an empty table although it has rows."""
    if entry.state != "published" or not entry.rows:
        return False
    sql = (
        "SELECT e.content->>'$.told' FROM dpsql.release AS r JOIN dpsql.event AS e ON e.number = r.told "
        "WHERE r.key = $key"
    )
    return books.run(sql, {"key": entry.key}) == [(digest_of_published(entry.report, ""),)]


def withdraw(books: Books, entry: Entry, reason: str) -> Entry:
    """Take a publication back, so that the release is made again from its stored measurements, free.

    Returns:
        The release, measured.
    """

    def work() -> None:
        accounts = ledger.look(books).state.accounts
        sql = (
            "SELECT r.told, e.content->>'$.answers' FROM dpsql.release AS r "
            "JOIN dpsql.event AS e ON e.number = r.told WHERE r.key = $key"
        )
        publication, answers = books.run(sql, {"key": entry.key})[0]
        books.cursor.execute(f"DROP TABLE IF EXISTS {rows_table(books.catalog, entry).sql(dialect='duckdb')}")
        books.run(
            "UPDATE dpsql.release SET state = 'reserved', rows = NULL, report = NULL, told = NULL WHERE key = $key",
            {"key": entry.key},
        )
        cost = {"paid": entry.paid, "rho": str(units(entry.rho)), "gdp": str(units(entry.gdp))}
        event_of(books, "withdraw", entry, accounts, **cost, answers=answers, told=publication, reason=reason)

    ledger.commit(books, work)
    withdrawn = find_release(books, entry.key)
    assert withdrawn is not None
    return withdrawn
