"""Ledgers for tests: long ones, made quickly, and forged ones."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from dpsql.books.ledger import heads

BATCH = 50_000


def link(before: str | None, text: str, key: str | None = None) -> str:
    """The hash of an event, as dpsql makes it; written anew here, so that a test does not follow a mistake there."""
    whole = (text if before is None else f"{before}\n{text}").encode()
    return hashlib.sha256(whole).hexdigest() if key is None else hmac.new(key.encode(), whole, "sha256").hexdigest()


def events(con: Any) -> list[dict[str, Any]]:
    return [json.loads(text) for (text,) in con.execute("SELECT content FROM dpsql.event ORDER BY number").fetchall()]


def rewrite(con: Any, contents: list[dict[str, Any]], key: str | None = None) -> tuple[int, str]:
    """Put these events in place of all, well chained; returns number and hash of the last."""
    con.execute("DELETE FROM dpsql.event")
    before = None
    for content in contents:
        text = json.dumps(content, ensure_ascii=False, sort_keys=True)
        before = link(before, text, key)
        con.execute("INSERT INTO dpsql.event VALUES (?, ?, ?, NULL)", [content["number"], text, before])
    return contents[-1]["number"], str(before)


def append(con: Any, **content: Any) -> None:
    """Put an event after the last, well chained, without a key; it records the account of the last of its source."""
    number, before = con.execute("SELECT number, hash FROM dpsql.event ORDER BY number DESC LIMIT 1").fetchall()[0]
    known = [event for event in events(con) if event.get("source") == content.get("source")]
    account = known[-1].get("account") if known else None
    event = {"version": 2, "account": account, "number": number + 1, "at": "2026-01-01 00:00:00", **content}
    text = json.dumps(event, ensure_ascii=False, sort_keys=True)
    con.execute("INSERT INTO dpsql.event VALUES (?, ?, ?, NULL)", [number + 1, text, link(before, text)])


def forge_head(path: Path, number: int, digest: str, accounts: dict[str, Any], **course: Any) -> None:
    """Write a head that fits a forged ledger; its course as it was, but for what is given."""
    file = heads.file_beside(path)
    known = json.loads(file.read_text())
    told = None if known.get("course") is None else known["course"] | course
    file.write_text(json.dumps(known | {"number": number, "hash": digest, "accounts": accounts, "course": told}))


def extend(con: duckdb.DuckDBPyConnection, source: str, count: int) -> tuple[int, str, dict[str, Any]]:
    """Add charges and publications of a source to its ledger, `count` events, as quickly as they can be written.

    Each charge costs one unit of 2^-96. The last event must have been a publication.

    Returns:
        Number and hash of the newest event, and the account after it.
    """
    last = events_of_source(con, source)
    number, before = con.execute("SELECT number, hash FROM dpsql.event ORDER BY number DESC LIMIT 1").fetchall()[0]
    account = last["account"]
    has_register = bool(con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'request'").fetchall())
    pairs = range(0, count, 2)
    for first, end in pairwise([*pairs[:: BATCH // 2], count + count % 2]):
        rows, keys = [], []
        for _ in range(first, end, 2):
            for content in _pair(source, account, number + 1):
                number += 1
                text = json.dumps(content, sort_keys=True)
                before = link(before, text)
                rows.append((number, text, before))
            keys.append((content["key"], number - 1))
        frame = pd.DataFrame(rows, columns=["number", "content", "hash"])  # noqa: F841 - read by the statement
        con.execute("INSERT INTO dpsql.event SELECT number, content, hash, NULL FROM frame")
        asked = pd.DataFrame(keys, columns=["key", "number"])  # noqa: F841 - likewise
        if has_register:
            con.execute("INSERT INTO dpsql.request SELECT key, number FROM asked")
        con.execute(
            "INSERT INTO dpsql.release SELECT a.key, a.number, $source, '{}', '{\"attributes\": [], \"excluded\": []}', "
            "'gaussian', 1, 1, 'add_remove', NULL, 'made by a test', 'published', NULL, a.number + 1, '{}' FROM asked AS a",
            {"source": source},
        )
    con.execute(
        "UPDATE dpsql.account SET rho_spent = $rho::HUGEINT, gdp_spent = $gdp::HUGEINT, releases = $releases, "
        "pure_spent = NULL WHERE source = $source",
        {
            "rho": account["rho_spent"],
            "gdp": account["gdp_spent"],
            "releases": int(account["releases"]),
            "source": source,
        },
    )
    return number, before, account


def events_of_source(con: duckdb.DuckDBPyConnection, source: str) -> dict[str, Any]:
    """The newest event of a source."""
    text = con.execute(
        "SELECT content FROM dpsql.event WHERE content->>'$.source' = ? ORDER BY number DESC LIMIT 1", [source]
    ).fetchall()[0][0]
    return dict(json.loads(text))


def _pair(source: str, account: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """A charge and its publication; the account is changed."""
    for name in ("rho_spent", "gdp_spent", "releases"):
        account[name] = str(int(account[name]) + 1)
    account["pure_spent"] = None
    key = hashlib.sha256(str(number).encode()).hexdigest()
    common = {"source": source, "account": account, "key": key, "at": "2026-01-01 00:00:00", "version": 2}
    charged = {"mechanism": "gaussian", "epsilon": 1e-9, "delta": 1e-9, "rho": "1", "gdp": "1", "paid": "0" * 64}
    yield common | charged | {"kind": "charge", "number": number}
    told = {"release": number, "answers": "0" * 64, "told": "0" * 64}
    yield common | told | {"kind": "publish", "number": number + 1}
