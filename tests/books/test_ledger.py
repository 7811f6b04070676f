"""What the ledger believes: every account is recomputed from its events, in every charge; and its key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.books.ledger import heads
from dpsql.books.ledger.migration import VERSION
from dpsql.books.ledger.store import Books
from dpsql.errors import BooksError, DpsqlError, InvalidArgument, NotProtected
from dpsql.privacy.course import follow
from dpsql.privacy.ledger_state import State, Unfinished
from dpsql.privacy.recorded_account import DoesNotFollow
from dpsql.privacy.rules import RULES

from .. import ledgers

FIXTURES = Path(__file__).parents[1] / "fixtures"
QUERY = "SELECT n FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon := {}, release := '{}')"
SECRET = "0123456789abcdef" * 4


def ask(db: dpsql.Database, name: str, epsilon: float = 0.1) -> list[Any]:
    return db.sql(QUERY.format(epsilon, name)).fetchall()


def prepare(path: Path | str) -> dpsql.Database:
    db = dpsql.connect(path)
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(100) r(i)")
    db.protect("t", epsilon=2.0, delta=1e-6)
    ask(db, "one")
    return db


@pytest.fixture
def bank(tmp_path) -> Path:
    """A closed database with one release."""
    path = tmp_path / "bank.duckdb"
    prepare(path).close()
    return path


# --- forged events ----------------------------------------------------------------------------------------------------

FIELDS: dict[str, tuple[Any, str]] = {
    "epsilon": ("9.0", "epsilon = 9"),
    "delta": ("0.01", "delta = 0.01"),
    "neighbours": ("replace_one", "neighbours = 'replace_one'"),
    "unit_column": ("a", "unit_column = 'a'"),
    "unit_type": ("BOOLEAN", "unit_type = 'BOOLEAN'"),
    "unit_rows": ("1", "unit_rows = 1"),
    "unit_choice": ("0" * 64, "unit_secret = 'known'"),
    "delta_reserved": ("5e-07", "delta_reserved = 5e-7"),
    "delta_spent": ("-1.0", "delta_spent = -1"),
    "rho_budget": (str(2**100), "rho_budget = 1267650600228229401496703205376"),
    "rho_spent": ("0", "rho_spent = 0"),
    "gdp_budget": (str(2**100), "gdp_budget = 1267650600228229401496703205376"),
    "gdp_spent": ("0", "gdp_spent = 0"),
    "currency": ("zcdp", "currency = 'zcdp'"),
    "pure_spent": ("0", "pure_spent = 0"),
    "releases": ("0", "releases = 0"),
    "since": ("0", "since = 0"),
    "retired": ("True", "retired = true"),
}
"""A forged value of each field of an account, and the same in its row."""


@pytest.mark.medium
def test_a_forged_event_of_every_field_is_noticed_before_a_charge(db):
    """It is well chained, its account's row says the same, and nothing else is wrong."""
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(100) r(i)")
    db.protect("t", epsilon=2.0, delta=1e-6)
    db.sql("CREATE TABLE u AS SELECT i % 2 = 0 AS a FROM range(100) r(i)")
    db.protect("u", epsilon=2.0, delta=1e-6)
    ask(db, "one")
    of_other = QUERY.replace("FROM t", "FROM u")
    assert FIELDS.keys() == ledgers.events(db.connection)[-1]["account"].keys() - {"source"}
    db.sql("CREATE TABLE kept AS FROM dpsql.account")
    number = len(ledgers.events(db.connection))
    for name, (value, row) in FIELDS.items():
        account = ledgers.events(db.connection)[-1]["account"] | {name: value}
        if name == "unit_choice":
            account[name] = db.sql("SELECT sha256('known')").fetchall()[0][0]
        ledgers.append(db.connection, kind="fail", source="t", account=account, release=2, key="k", reason="forged")
        db.sql(f"UPDATE dpsql.account SET {row} WHERE source = 't'")
        with pytest.raises(duckdb.Error, match=f"event {number + 1} of the ledger does not follow") as refused:
            db.sql("FROM dp_query('SELECT count(*) AS n FROM u', epsilon := 0.1)").fetchall()
        assert name in str(refused.value)
        db.sql(f"DELETE FROM dpsql.event WHERE number > {number}; DELETE FROM dpsql.account")
        db.sql("INSERT INTO dpsql.account FROM kept")
    assert len(db.sql(of_other.format(0.1, "none")).fetchall()) >= 2


def forged(kind: str, account: dict[str, Any]) -> dict[str, Any]:
    """An event of that name that no rule allows, after one release of `t`."""
    less = {"rho_spent": "0", "gdp_spent": "0"}
    charge = {"kind": "charge", "key": "k", "paid": "p", "mechanism": "m", "epsilon": 1.0, "delta": 1e-6}
    more = {name: str(int(account[name]) + 2**99) for name in less} | {"releases": "2"}
    opened = {"kind": "protect", "epsilon": 2.0, "delta": 1e-6}
    return {
        "a charge that costs less than it says": charge
        | {"rho": str(2**90), "gdp": str(2**90), "account": account | {"releases": "2"}},
        "a charge beyond the budget": charge | {"rho": str(2**99), "gdp": str(2**99), "account": account | more},
        "a charge of less than nothing": charge
        | {"rho": f"-{account['rho_spent']}", "gdp": f"-{account['gdp_spent']}", "account": account | less},
        "opened again": opened | {"account": account | less | {"releases": "0", "currency": None, "since": "4"}},
        "accepted without a word": {"kind": "accept", "reason": "x", "account": account | less},
        "a reset that is not told": {"kind": "raise", "epsilon": 2.5, "account": account | less | {"epsilon": "2.5"}},
        "raised to less": {"kind": "raise", "epsilon": 1.0, "account": account | {"epsilon": "1.0"}},
        "taken back after a charge": {"kind": "unprotect", "account": None},
        "published again": {"kind": "publish", "release": 2, "key": "k"},
        "of no kind": {"kind": "forgive", "account": account | less},
        "of the first format": {"kind": "raise", "version": 1, "account": account | {"epsilon": "2.5"}},
        "of a format to come": {"kind": "retire", "version": 99, "account": account | less},
        "of a table without an account": {"kind": "retire", "source": "other"},
        "nonsense": {"kind": "charge", "rho": [], "key": {}},
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "a charge that costs less than it says",
        "a charge beyond the budget",
        "a charge of less than nothing",
        "opened again",
        "accepted without a word",
        "a reset that is not told",
        "raised to less",
        "taken back after a charge",
        "published again",
        "of no kind",
        "of the first format",
        "of a format to come",
        "of a table without an account",
        "nonsense",
    ],
)
def test_an_event_that_no_rule_allows_is_refused(kind):
    """By the rules alone, from what the events of one release made."""
    state, contents = State(), released()
    for event in contents:
        state = follow(state, event)
    account = dict(state.accounts["t"])
    event = {"source": "t", "account": account, "number": 4, "version": 2, **forged(kind, account)}
    with pytest.raises(BooksError, match="event 4 of the ledger does not follow from those before it"):
        follow(state, event)
    follow(state, contents[-1] | {"kind": "retire", "account": account | {"retired": "True"}})


_released: list[dict[str, Any]] = []


def released() -> list[dict[str, Any]]:
    """The events of a table that was protected, and one release of it."""
    if not _released:
        with prepare(":memory:") as db:
            _released.extend(ledgers.events(db.connection))
    return _released


@pytest.mark.medium
def test_charges_tell_pure_epsilon_delta_and_failure(db):
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, 'w' || i % 2 AS ward FROM range(2000) r(i)")
    db.protect("t", epsilon=2.0, delta=1e-6)
    db.discover("t", "ward", epsilon=0.5, delta=1e-7)
    db.sql("CREATE TABLE votes AS SELECT i % 3 = 0 AS yes FROM range(100) r(i)")
    db.protect("votes", epsilon=1.0, delta=0.0)
    db.sql(
        "FROM dp_query('SELECT yes, count(*) AS n FROM votes GROUP BY yes', epsilon := 0.1, mechanism := 'laplace')"
    ).fetchall()
    first, second = (event for event in ledgers.events(db.connection) if event["kind"] == "charge")
    assert (first["delta"], first["failure"], first.get("pure"), first["version"]) == (1e-7, 5e-8, None, 2)
    assert (second["delta"], second.get("failure"), int(second["pure"])) == (0.0, None, 2**96 // 10 + 0)


def test_budgets_that_another_machine_rounds_otherwise_are_taken():
    """Within a millionth; beyond that the event does not follow."""
    opened = released()[0]
    for factor, fits in ((1 + 1e-12, True), (1 - 1e-12, True), (1.001, False), (0.999, False)):
        budget = str(round(int(opened["account"]["gdp_budget"]) * factor))
        event = opened | {"account": opened["account"] | {"gdp_budget": budget}}
        if fits:
            assert follow(State(), event).accounts["t"]["gdp_budget"] == budget
        else:
            with pytest.raises(BooksError, match="gdp_budget"):
                follow(State(), event)


def test_what_was_told_is_not_measured_again_without_a_word_of_the_register(db):
    """Answers, rows and what is kept of requests deleted: the ledger itself says that the release is finished."""
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(100) r(i)")
    db.protect("t", epsilon=2.0, delta=1e-6)
    ask(db, "one")
    db.sql("UPDATE dpsql.release SET state = 'reserved', told = NULL; DELETE FROM dpsql.answer; DELETE FROM dpsql.cell")
    db.sql("DELETE FROM dpsql.request")
    with pytest.raises(duckdb.Error, match="was published already"):
        ask(db, "one")


def test_what_is_resumed_was_charged_as_much_as_it_spends(db, monkeypatch):
    """A charge that was made cheaper after it was paid, in the ledger and the account alike, and is right in itself."""
    import dpsql.engines.duckdb.engine

    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(100) r(i)")
    db.protect("t", epsilon=2.0, delta=1e-6)
    with monkeypatch.context() as patched:
        patched.setattr(dpsql.engines.duckdb.engine, "DuckDBCounter", None)
        with pytest.raises(duckdb.Error):
            ask(db, "one")
    contents = ledgers.events(db.connection)
    cheap = {"rho": "1", "gdp": "1"}
    contents[-1] |= cheap | {"account": contents[-1]["account"] | {"rho_spent": "1", "gdp_spent": "1"}}
    ledgers.rewrite(db.connection, contents)
    db.sql("UPDATE dpsql.account SET rho_spent = 1, gdp_spent = 1")
    with pytest.raises(duckdb.Error, match="release 2 is not what was charged"):
        ask(db, "one")
    assert db.sql("SELECT count(*) FROM dpsql.answer").fetchall() == [(0,)]


@pytest.mark.medium
def test_a_published_release_was_charged_as_much_as_it_was_granted(bank, capsys):
    with duckdb.connect(str(bank)) as con:
        contents = ledgers.events(con)
        less = {"rho_spent": "1", "gdp_spent": "1"}
        contents[1] |= {"rho": "1", "gdp": "1"}
        for content in contents[1:]:
            content["account"] |= less
        number, digest = ledgers.rewrite(con, contents)
        con.execute("UPDATE dpsql.account SET rho_spent = 1, gdp_spent = 1")
    ledgers.forge_head(bank, number, digest, {"t": contents[-1]["account"]})
    assert main(["ledger", "verify", str(bank)]) == 1
    assert "release 2 is not what was charged: it was granted more" in capsys.readouterr().err


@pytest.mark.medium
def test_the_register_of_requests_is_verified(bank, capsys):
    with duckdb.connect(str(bank)) as con:
        con.execute("DELETE FROM dpsql.request")
    assert main(["ledger", "verify", str(bank)]) == 1
    assert "requests that the books know are not those" in capsys.readouterr().err
    assert main(["ledger", "accept", str(bank), "--reason", "looked at"]) == 0
    assert main(["ledger", "verify", str(bank)]) == 0


# --- how much a charge reads ------------------------------------------------------------------------------------------


@contextmanager
def scanned(monkeypatch) -> Iterator[dict[str, int]]:
    """How many rows of each table of the books DuckDB's scans give, in all statements of the books; and how many are
    fetched."""
    rows: dict[str, int] = {"fetched": 0}
    run = Books.run

    def count(node: dict[str, Any]) -> None:
        table = str(node.get("extra_info", {}).get("Table", "")).rpartition(".")[2].strip('"')
        seen = node.get("rows_scanned", node.get("operator_rows_scanned", 0))
        if table:
            rows[table] = rows.get(table, 0) + int(seen)
        for child in [*node.get("children", []), *node.get("operator", [])]:
            count(child)

    def counted(self: Books, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        self.cursor.execute("SET enable_profiling = 'no_output'")
        found = run(self, sql, parameters)
        count(json.loads(self.cursor.get_profiling_information()))
        rows["fetched"] += len(found)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Books, "run", counted)
        yield rows


@pytest.mark.medium
def test_what_a_charge_reads_does_not_grow_with_the_ledger(tmp_path, monkeypatch):
    read = {}
    for events in (0, 4000):
        path = tmp_path / f"{events}.duckdb"
        prepare(path).close()
        with duckdb.connect(str(path)) as con:
            ledgers.extend(con, "t", events)
        with dpsql.connect(path) as db:
            ask(db, "once", 0.01)
            with scanned(monkeypatch) as rows:
                ask(db, "again", 0.01)
            assert db.sql("SELECT count(*) FROM dpsql.event").fetchall() == [(7 + events,)]
        read[events] = rows
    small, large = read.values()
    assert small["event"] > 0  # it counts
    for table in ("event", "request", "account", "fetched"):
        assert large.get(table, 0) <= small.get(table, 0) + 64, (table, large)


# --- books of the first format ----------------------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path) -> Path:
    """A database that the first format's dpsql wrote, with every kind of event and one release paid for and not made."""
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t AS SELECT i % 2 = 0 AS a, 'w' || i % 2 AS ward, i % 9 AS n FROM range(3000) r(i)")
        con.execute("CREATE TABLE u AS SELECT i % 2 = 0 AS a, i % 40 AS who FROM range(100) r(i)")
        con.execute("CREATE TABLE votes AS SELECT i % 3 = 0 AS yes FROM range(1000) r(i)")
        con.execute((FIXTURES / "books_1.sql").read_text())
    heads.file_beside(path).write_text((FIXTURES / "books_1.dpsql-head").read_text())
    return path


@pytest.mark.medium
def test_older_books_are_verified_read_and_migrated(old):
    assert main(["ledger", "verify", str(old)]) == 0
    with dpsql.connect(old, read_only=True) as db:
        told = ask(db, "one", 0.3)
        assert len(told) >= 2
        spent = db.budget()
    assert "course" not in json.loads(heads.file_beside(old).read_text())
    with dpsql.connect(old) as db:
        assert db.sql("FROM dpsql.books").fetchall() == [(VERSION,)]
        assert ask(db, "one", 0.3) == told
        assert db.budget().equals(spent)
        assert len(ask(db, "unfinished", 0.1)) >= 2
        assert db.budget().equals(spent)
        ask(db, "new", 0.1)
        assert db.budget().releases.tolist() != spent.releases.tolist()
    assert main(["ledger", "verify", str(old)]) == 0
    with dpsql.connect(old) as db:
        assert len(ask(db, "newer", 0.1)) >= 2


@pytest.mark.medium
def test_an_older_request_whose_record_is_lost_is_not_charged_again(old):
    with duckdb.connect(str(old)) as con:
        con.execute("DELETE FROM dpsql.release WHERE number = 6")
    with dpsql.connect(old) as db, pytest.raises(duckdb.Error, match="charged before, as release 6, whose record"):
        ask(db, "one", 0.3)


def test_a_forged_older_event_is_noticed(old, capsys):
    """Of a raise the first format tells only the account: ε is taken from there, and all else follows from it."""
    with duckdb.connect(str(old)) as con:
        contents = ledgers.events(con)
        raised = next(event for event in contents if event["kind"] == "raise")
        raised["account"]["gdp_budget"] = str(int(raised["account"]["gdp_budget"]) * 2)
        number, digest = ledgers.rewrite(con, contents)
    known = json.loads(heads.file_beside(old).read_text())
    ledgers.forge_head(old, number, digest, known["accounts"])
    assert main(["ledger", "verify", str(old)]) == 1
    assert f"event {raised['number']} of the ledger does not follow" in capsys.readouterr().err
    with pytest.raises(BooksError, match="does not follow"):
        dpsql.connect(old)


@pytest.mark.medium
def test_newer_books_are_refused(bank):
    with duckdb.connect(str(bank)) as con:
        con.execute(f"UPDATE dpsql.books SET version = {VERSION + 1}")
    with pytest.raises(BooksError, match=f"of version {VERSION + 1}, which a newer dpsql wrote"):
        dpsql.connect(bank)


# --- the key ----------------------------------------------------------------------------------------------------------


def forge_reset(path: Path) -> None:
    """A reset that nobody ordered, by somebody who can write database and head, and compute every hash."""
    with duckdb.connect(str(path)) as con:
        contents = ledgers.events(con)
        for content in contents:
            content.pop("hmac", None)
        last = contents[-1]
        number = last["number"] + 1
        unspent = {"rho_spent": "0", "gdp_spent": "0", "pure_spent": "0", "releases": "0", "currency": None}
        account = last["account"] | unspent | {"since": str(number)}
        contents.append(
            {"kind": "reset", "source": "t", "number": number, "version": 2, "account": account, "reason": "-"}
        )
        _, digest = ledgers.rewrite(con, contents)
        con.execute(
            "UPDATE dpsql.account SET rho_spent = 0, gdp_spent = 0, pure_spent = 0, releases = 0, currency = NULL, "
            f"since = {number}"
        )
    ledgers.forge_head(path, number, digest, {"t": account}, published={"t": 0}, key=None)


@pytest.mark.medium
def test_a_forged_reset_is_noticed_with_a_key(tmp_path, monkeypatch, capsys):
    """With every hash recomputed and the head too; without a key the forgery is right in itself."""
    monkeypatch.setenv("DPSQL_LEDGER_KEY", SECRET)
    path = tmp_path / "keyed.duckdb"
    prepare(path).close()
    assert main(["ledger", "verify", str(path)]) == 0
    forge_reset(path)
    assert main(["ledger", "verify", str(path)]) == 1
    assert "but the ledger is made without one" in capsys.readouterr().err
    with pytest.raises(BooksError, match="but the ledger is made without one"):
        dpsql.connect(path)
    monkeypatch.delenv("DPSQL_LEDGER_KEY")
    with dpsql.connect(path) as db:
        assert db.budget().releases.tolist() == [0]


@pytest.mark.medium
def test_no_event_is_added_without_the_key(tmp_path, monkeypatch):
    """In the same process by SQL: chained with the plain hash, as of a ledger without a key."""
    monkeypatch.setenv("DPSQL_LEDGER_KEY", SECRET)
    with prepare(tmp_path / "keyed.duckdb") as db:
        ledgers.append(db.connection, kind="fail", source="t", release=2, key="k", reason="forged")
        with pytest.raises(duckdb.Error, match="event 4 of the ledger is not what was recorded"):
            ask(db, "two")


@pytest.mark.medium
def test_a_head_is_not_written_without_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("DPSQL_LEDGER_KEY", SECRET)
    path = tmp_path / "keyed.duckdb"
    prepare(path).close()
    known = json.loads(heads.file_beside(path).read_text())
    assert SECRET not in json.dumps(known)
    ledgers.forge_head(path, known["number"], known["hash"], {"t": known["accounts"]["t"] | {"gdp_spent": "0"}})
    with pytest.raises(BooksError, match="was not written by who has its key"):
        dpsql.connect(path)


@pytest.mark.medium
def test_the_key_is_demanded_and_in_no_sql(tmp_path, monkeypatch):
    path = tmp_path / "keyed.duckdb"
    key = tmp_path / "keyed.duckdb.dpsql-key"
    key.write_text(SECRET + "\n")
    prepare(path).close()
    for file in (path, heads.file_beside(path)):
        assert SECRET.encode() not in file.read_bytes()
    with dpsql.connect(path) as db:
        ask(db, "two")
    key.write_text("another " + SECRET)
    with pytest.raises(BooksError, match=r"made with another key \(fingerprint \w{16}\) than the one in the file"):
        dpsql.connect(path)
    key.write_text("short")
    with pytest.raises(BooksError, match="has 5 characters, fewer than 32: python -c"):
        dpsql.connect(path)
    key.unlink()
    with pytest.raises(
        BooksError, match="set the environment variable DPSQL_LEDGER_KEY to it, or write it to the file"
    ):
        dpsql.connect(path)
    with dpsql.connect(path, read_only=True) as db:
        assert len(ask(db, "one")) >= 2
    monkeypatch.setenv("DPSQL_LEDGER_KEY", SECRET)
    with dpsql.connect(path) as db:
        ask(db, "three")


@pytest.mark.medium
def test_an_older_ledger_takes_a_key(bank, monkeypatch, capsys):
    assert main(["ledger", "key", str(bank), "--reason", "x"]) == 1
    assert "there is no key: set the environment variable DPSQL_LEDGER_KEY" in capsys.readouterr().err
    monkeypatch.setenv("DPSQL_LEDGER_KEY", SECRET)
    with pytest.raises(BooksError, match="dpsql ledger key <file> --reason"):
        dpsql.connect(bank)
    assert main(["ledger", "key", str(bank), "--reason", "from May on"]) == 0
    assert "fingerprint" in capsys.readouterr().out
    assert main(["ledger", "key", str(bank), "--reason", "again"]) == 1
    assert "made with this key already" in capsys.readouterr().err
    with dpsql.connect(bank) as db:
        ask(db, "two")
        assert db.sql("SELECT kind, reason FROM dp_ledger() WHERE number = 4").fetchall() == [("key", "from May on")]
    assert main(["ledger", "verify", str(bank)]) == 0
    assert SECRET not in capsys.readouterr().out
    with duckdb.connect(str(bank)) as con:
        con.execute("UPDATE dpsql.event SET content = replace(content, '0.1', '0.2') WHERE number = 2")
    assert main(["ledger", "verify", str(bank)]) == 1
    assert main(["ledger", "accept", str(bank), "--reason", "looked at"]) == 0
    with dpsql.connect(bank) as db:
        ask(db, "three")
    monkeypatch.delenv("DPSQL_LEDGER_KEY")
    with pytest.raises(BooksError, match="made with a key"):
        dpsql.connect(bank)


# --- the owner's functions --------------------------------------------------------------------------------------------

OWNERS = (
    "CALL dp_protect('u', epsilon := 1.0, delta := 1e-6)",
    "CALL dp_domain('t', 'c', lower := 0, upper := 9)",
    "CALL dp_domain('t', 'c', discover := true, epsilon := 0.1, lower := 0, upper := 9)",
    "CALL dp_constraint('t', 'a OR b')",
    "CALL dp_constraint('t', 'a OR b', remove := true)",
    "EXPLAIN CALL dp_protect('u', epsilon := 1.0, delta := 1e-6)",
)


@pytest.mark.medium
def test_the_owners_functions_can_be_switched_off(tmp_path):
    path = tmp_path / "bank.duckdb"
    with prepare(path) as db:
        db.sql("CREATE TABLE u AS SELECT true AS a; ALTER TABLE t ADD COLUMN c INTEGER")
    with dpsql.connect(path, owner=False) as db:
        before = db.sql("SELECT count(*) FROM dpsql.event").fetchall()
        other = db.connection.cursor()
        for connection in (db.connection, other):
            for call in OWNERS:
                with pytest.raises(duckdb.Error, match="owner=False: the owner calls it from a process of their own"):
                    connection.execute(call)
        for name, arguments in {
            "protect": ("u", 1.0, 1e-6),
            "domain": ("t", "c"),
            "discover": ("t", "c", 0.1),
            "constraint": ("t", "a OR b"),
            "raise_budget": ("t", 5.0, "x"),
            "reset": ("t", "x"),
            "retire": ("t", "x"),
            "unprotect": ("t", "x"),
        }.items():
            with pytest.raises(DpsqlError, match=f"^{name} is for the owner"):
                getattr(db, name)(*arguments)
        with pytest.raises(InvalidArgument, match="holds for all its connections"):
            dpsql.install(other, owner=True)
        with dpsql.install(db.connection.cursor()) as again, pytest.raises(DpsqlError, match="is for the owner"):
            again.protect("u", 1.0, 1e-6)
        assert db.sql("SELECT count(*) FROM dpsql.event").fetchall() == before
        assert len(ask(db, "two")) >= 2
    assert main(["sql", str(path), OWNERS[0], "--no-owner"]) == 1
    with dpsql.connect(path) as db:
        db.sql(OWNERS[0])
        db.sql(f"PREPARE later AS {OWNERS[3].replace('CALL', 'FROM')}")
        dpsql.install(db.connection, owner=False)
        with pytest.raises(duckdb.Error, match="is for the owner"):
            db.sql("EXECUTE later")


@pytest.mark.medium
def test_a_protection_that_was_never_charged_is_taken_back(tmp_path, capsys):
    """Somebody protected a look-up table: its owner takes that back, with a reason, and protects it anew."""
    path = tmp_path / "bank.duckdb"
    with prepare(path) as db:
        db.sql("CREATE TABLE wards AS SELECT i AS number, i % 2 = 0 AS old FROM range(9) r(i)")
        db.protect("wards", epsilon=0.001, delta=1e-9)
        db.domain("wards", "number", lower=0, upper=8)
        db.constraint("wards", "old OR number > 0")
        with pytest.raises(InvalidArgument, match="wards.*is protected"):
            db.domain("t", "a", reference="wards.old")
    assert main(["ledger", "unprotect", str(path), "wards", "--reason", "  "]) == 1
    assert main(["ledger", "unprotect", str(path), "t", "--reason", "x"]) == 1
    assert "releases of 't' were charged" in capsys.readouterr().err
    assert main(["ledger", "unprotect", str(path), "wards", "--reason", "a look-up table"]) == 0
    assert main(["ledger", "verify", str(path)]) == 0
    assert main(["ledger", "unprotect", str(path), "wards", "--reason", "again"]) == 1
    with dpsql.connect(path) as db:
        last = db.sql("SELECT kind, source, reason FROM dp_ledger() ORDER BY number DESC LIMIT 1").fetchall()
        assert last == [("unprotect", "wards", "a look-up table")]
        assert db.budget().source.tolist() == ["t"]
        for table in ("domain", "constraint"):
            assert db.sql(f"SELECT count(*) FROM dpsql.{table}").fetchall() == [(0,)]
        db.domain("t", "a", reference="wards.old")
        with pytest.raises(NotProtected, match="not protected"):
            db.unprotect("wards", reason="x")
        db.protect("wards", epsilon=3.0, delta=1e-6)
        assert db.budget().epsilon.tolist() == [2.0, 3.0]
        db.domain("wards", "number", lower=0, upper=8)
        db.sql("FROM dp_query('SELECT count(*) AS n FROM wards', epsilon := 0.1)").fetchall()
        with pytest.raises(InvalidArgument, match="were charged"):
            db.unprotect("wards", reason="x")
        db.reset("wards", reason="other rows")
        with pytest.raises(InvalidArgument, match="were charged"):
            db.unprotect("wards", reason="x")
    assert main(["ledger", "verify", str(path)]) == 0


def test_a_release_that_was_taken_back_is_published_with_the_same_answers_or_not_at_all():
    """It was told before, so other noise would tell more than was paid for."""
    told = Unfinished(7, "t", "", 1, 1, answers="as they were told")
    event = {"source": "t", "key": "k", "release": 7, "answers": "as they were told"}
    state = State(unfinished={"k": told})
    assert RULES["publish"](state, event).unfinished == {}
    for forged in ({"answers": "others"}, {"release": 8}, {"source": "u"}, {"key": "another"}):
        with pytest.raises(DoesNotFollow):
            RULES["publish"](state, event | forged)
