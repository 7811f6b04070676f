"""`dp_link` and shared accounts: which tables belong to one budget, what is refused, and what the ledger proves of it."""

from __future__ import annotations

import json

import duckdb
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.books.ledger import heads
from dpsql.books.ledger.store import Books
from dpsql.books.tables.links import tree_of
from dpsql.core.tree import Link, Tree
from dpsql.errors import BooksError
from dpsql.privacy.course import follow
from dpsql.privacy.ledger_state import state_from

from .. import ledgers

TABLES = """
    CREATE TABLE patients (pid INTEGER PRIMARY KEY, sick BOOLEAN NOT NULL);
    CREATE TABLE visits (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES patients (pid), ill BOOLEAN NOT NULL,
        seen_by INTEGER REFERENCES patients (pid));
    CREATE TABLE labs (lid INTEGER, vid INTEGER REFERENCES visits (vid), bad BOOLEAN NOT NULL);
    CREATE TABLE claims (who INTEGER, paid BOOLEAN NOT NULL);
    CREATE TABLE texts (a VARCHAR, b VARCHAR COLLATE NOCASE, g INTEGER AS (1), h HUGEINT);
    CREATE TABLE panel (who INTEGER, ill BOOLEAN NOT NULL);
    CREATE TABLE shops (sid INTEGER);
    INSERT INTO patients SELECT i, i % 3 = 0 FROM range(30) r(i);
    INSERT INTO visits SELECT i, i % 20, i % 2 = 0, 1 FROM range(60) r(i);
    INSERT INTO labs SELECT i, i % 50, i % 2 = 0 FROM range(90) r(i);
    INSERT INTO claims SELECT i % 25, i % 2 = 0 FROM range(50) r(i);
"""


def linked(db: dpsql.Database) -> None:
    db.sql(TABLES)
    db.protect("patients", epsilon=2.0, delta=1e-6)
    db.link("visits", "patients", "pid", max_rows=8)
    db.link("labs", "visits", max_rows=20)
    db.protect("claims", account="patients", privacy_unit="who", max_rows=3)


@pytest.fixture
def clinic(db):
    linked(db)
    return db


def ask(db, table: str, epsilon: float = 0.5) -> list:
    return db.sql(f"FROM dp_query('SELECT count(*) AS n FROM {table}', epsilon := {epsilon})").fetchall()


# --- what there is ----------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_the_tree_has_the_keys_of_constraints_and_what_is_not_promised_is_said(clinic):
    found = clinic.sql('SELECT source, parent, key, "references", most, max_rows FROM dp_links()').fetchall()
    assert found == [
        ("patients", None, None, None, None, None),
        ("visits", "patients", ["pid"], ["pid"], 100, 8),
        ("labs", "visits", ["vid"], ["vid"], 100, 20),
    ]
    notes = dict(clinic.sql("SELECT source, note FROM dp_links() WHERE note IS NOT NULL").fetchall())
    assert "seen_by (patients) names nothing is promised" in notes["visits"]
    assert clinic.sql("FROM dp_links(\"table\" := 'claims')").fetchall() == []
    assert clinic.links("labs").source.tolist() == ["patients", "visits", "labs"]
    with clinic.instance.cursor() as cursor:
        down = Link("visits", "patients", ("pid",), ("pid",)), Link("labs", "visits", ("vid",), ("vid",))
        assert tree_of(Books(cursor, "memory"), "labs") == Tree("patients", down)


@pytest.mark.medium
def test_the_same_link_again_is_harmless_and_a_bound_may_come_later(clinic):
    clinic.sql("CREATE TABLE notes (vid INTEGER REFERENCES visits (vid))")
    assert clinic.link("notes", "visits").max_rows is None
    with pytest.raises(duckdb.Error, match="dp_link\\('notes', 'visits', max_rows := 20\\)"):
        ask(clinic, "notes")
    assert clinic.link("notes", "visits", max_rows=5).max_rows == 5
    assert clinic.link("notes", "visits").max_rows == 5
    with pytest.raises(dpsql.DpsqlError, match="max_rows 5\\) already"):
        clinic.link("notes", "visits", max_rows=6)
    assert len(ask(clinic, "notes", 0.1)) == 1


REFUSED = [
    ("visits", "labs", {}, "links make no circle"),
    ("patients", "labs", {}, "links make no circle"),
    ("visits", "visits", {}, "an edge between units"),
    ("labs", "patients", {}, "a row has one way to its unit"),
    ("claims", "patients", {"key": "who"}, "a row has one way to its unit"),
    ("shops", "patients", {}, "has no FOREIGN KEY to 'patients'"),
    ("seen", "patients", {}, "2 FOREIGN KEYs to 'patients': (a), (b)"),
    ("shops", "claims", {"key": "sid"}, "no keys lead from its rows"),
    ("shops", "panel", {"key": "sid"}, "privacy_unit 'who', so a unit is not a row of it"),
    ("shops", "fixed", {"key": "sid"}, "'replace_one', where the number of units is public"),
    ("shops", "texts", {"key": "sid"}, "tables are linked from the top down"),
    ("panel", "patients", {"key": "who"}, "has a budget of its own"),
    ("texts", "patients", {"key": "b", "references": "pid"}, "has a collation"),
    ("texts", "patients", {"key": "g", "references": "pid"}, "is generated"),
    ("texts", "patients", {"key": "a", "references": "pid"}, "ALTER one of them"),
    ("texts", "patients", {"key": "h", "references": "pid"}, "ALTER one of them"),
    ("shops", "patients", {"key": ["sid", "sid"], "references": ["pid", "sick"]}, "names a column twice"),
    ("shops", "patients", {"key": "sid", "references": ["pid", "sick"]}, "give as many of each"),
    ("shops", "patients", {"key": "sid"}, "no column 'sid'"),
    ("shops", "patients", {"references": "pid"}, "of which key?"),
    ("shops", "patients", {"key": [], "references": "pid"}, "give a column, or a list of columns"),
    ("shops", "patients", {"key": "sid", "references": "pid", "max_rows": 0}, "max_rows is 0"),
    ("shops", "patients", {"key": "sid", "references": "pid", "most": -1}, "most is -1"),
    ("shops", "patients", {"key": "sid", "references": "pid", "most": 0}, "most is 0"),
    ("shops", "other.people", {"key": "sid"}, "tables of one budget are in one database"),
    ("copied", "patients", {"key": "pid"}, "may hold protected rows of"),
]


@pytest.mark.medium
def test_what_makes_no_tree_is_refused_with_what_helps(clinic):
    clinic.protect("panel", epsilon=1.0, delta=1e-6, privacy_unit="who", max_rows=2)
    clinic.sql("CREATE TABLE fixed (sid INTEGER)")
    clinic.protect("fixed", epsilon=1.0, delta=1e-6, neighbours="replace_one")
    clinic.sql("ATTACH ':memory:' AS other; CREATE TABLE other.people (sid INTEGER)")
    clinic.protect("other.people", epsilon=1.0, delta=1e-6)
    clinic.sql("CREATE TABLE seen (a INTEGER REFERENCES patients (pid), b INTEGER REFERENCES patients (pid))")
    clinic.sql("CREATE TABLE copied AS FROM visits")
    before = clinic.sql("SELECT count(*) FROM dp_ledger()").fetchall()
    for table, parent, how, words in REFUSED:
        with pytest.raises(dpsql.DpsqlError) as refused:
            clinic.link(table, parent, **how)
        assert words in str(refused.value), (table, parent, how)
    assert clinic.sql("SELECT count(*) FROM dp_ledger()").fetchall() == before


def test_a_member_has_no_budget_of_its_own_and_is_not_public(clinic):
    for table in ("visits", "claims"):
        with pytest.raises(dpsql.DpsqlError, match="belongs to the account of 'patients'"):
            clinic.protect(table, epsilon=1.0, delta=1e-6)
    clinic.sql("ALTER TABLE claims RENAME TO renamed")
    with pytest.raises(duckdb.Error, match="protected under another name, 'claims'"):
        ask(clinic, "renamed")
    clinic.sql("CREATE TABLE copied AS FROM visits")
    with pytest.raises(dpsql.DpsqlError, match="may hold protected rows of"):
        clinic.protect("copied", epsilon=1.0, delta=1e-6)


SHARED = {
    "account := 'patients'": "say privacy_unit and max_rows",
    "account := 'patients', privacy_unit := 'sid', max_rows := 3, epsilon := 1.0": "leave epsilon out",
    "account := 'patients', privacy_unit := 'sid', max_rows := 3, neighbours := 'replace_one'": "leave neighbours out",
    "account := 'shops', privacy_unit := 'sid', max_rows := 3": "is not protected",
    "account := 'fixed', privacy_unit := 'sid', max_rows := 3": "'replace_one', where the number of units is",
    "account := 'patients', privacy_unit := 'sid'": "say max_rows too",
    "delta := 1e-6": "epsilon is missing",
    "epsilon := 1.0": "delta is missing",
}


def test_what_shares_no_account_is_refused(clinic):
    clinic.sql("CREATE TABLE fixed (sid INTEGER)")
    clinic.protect("fixed", epsilon=1.0, delta=1e-6, neighbours="replace_one")
    for how, words in SHARED.items():
        with pytest.raises(duckdb.Error) as refused:
            clinic.sql(f"CALL dp_protect('shops', {how})")
        assert words in str(refused.value), how


@pytest.mark.medium
def test_a_key_is_neither_region_nor_group_and_linked_tables_are_not_compared(clinic):
    for column in ("vid", "seen_by"):
        clinic.domain("visits", column, exclude=True)
    clinic.domain("visits", "pid", values=list(range(30)))
    with pytest.raises(duckdb.Error, match="region names 'pid'"):
        clinic.sql("FROM dp_synthesize('visits', epsilon := 1, mechanism := 'ide', region := 'pid')")
    with pytest.raises(dpsql.DpsqlError, match="linked to another table"):
        clinic.compare("visits", ["direct"], epsilons=[1.0])


# --- one budget -------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_persons_total_is_one_number(clinic):
    """Releases of all tables are summed in one account, and the last that fits is the last of all."""
    for table in ("patients", "visits", "labs", "claims"):
        ask(clinic, table)
    ((source, spent, releases, tables),) = clinic.sql(
        "SELECT source, epsilon_spent, releases, tables FROM dp_budget()"
    ).fetchall()
    assert (source, releases, tables) == ("patients", 4, ["visits", "labs", "claims"])
    with dpsql.connect() as alone:
        alone.sql(TABLES)
        alone.protect("patients", epsilon=2.0, delta=1e-6)
        for n in range(4):
            alone.sql(f"FROM dp_query('SELECT count(*) FROM patients', epsilon := 0.5, release := '{n}')")
        assert alone.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(spent,)]
    for table in ("patients", "visits", "labs", "claims"):
        with pytest.raises(duckdb.Error, match="left; this asks for"):
            ask(clinic, table, 1.9)


@pytest.mark.medium
def test_what_is_changed_of_a_member_is_changed_of_the_account(clinic):
    ask(clinic, "labs")
    assert clinic.raise_budget("labs", 3.0, "agreed").source == "patients"
    assert clinic.sql("SELECT epsilon FROM dp_budget()").fetchall() == [(3.0,)]
    first = ask(clinic, "labs")
    clinic.reset("visits", "other patients")
    assert clinic.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0.0,)]
    ask(clinic, "labs")
    assert clinic.sql("SELECT releases FROM dp_budget()").fetchall() == [(1,)]
    assert len(first) == 1
    clinic.retire("claims", "closed")
    with pytest.raises(duckdb.Error, match="retired"):
        ask(clinic, "visits", 0.1)


@pytest.mark.medium
def test_a_user_asks_about_all_tables_of_the_account_within_one_limit(clinic):
    clinic.users.add("alice", limits={"labs": 0.6})
    alice = clinic.for_analyst("alice")
    asked = "SELECT count(*) AS n FROM labs JOIN visits USING (vid)"
    assert alice.bind("dp_query", {"sql": asked, "epsilon": 0.5}).rows().read_all().num_rows == 1
    with pytest.raises(dpsql.DpsqlError, match="alice"):
        alice.bind("dp_query", {"sql": "SELECT count(*) AS n FROM claims", "epsilon": 0.5}).rows()


@pytest.mark.medium
def test_a_link_can_be_taken_back_while_nothing_was_charged(clinic):
    with pytest.raises(dpsql.DpsqlError, match="visits, labs, claims belongs to the account"):
        clinic.unprotect("patients", "a mistake")
    with pytest.raises(dpsql.DpsqlError, match="labs is linked to 'visits'"):
        clinic.unprotect("visits", "a mistake")
    clinic.unprotect("labs", "a mistake")
    clinic.protect("labs", epsilon=1.0, delta=1e-6)
    ask(clinic, "visits")
    with pytest.raises(dpsql.DpsqlError, match="'visits' stays a table of its account"):
        clinic.unprotect("visits", "a mistake")


# --- the ledger -------------------------------------------------------------------------------------------------------

FORGED = {
    "another account": ("labs", {"account": "panel"}),
    "more rows": ("labs", {"unit_rows": 2}),
    "another key": ("labs", {"key": ["lid"]}),
    "no link": ("labs", None),
    "a link that was never made": (
        "shops",
        {"account": "patients", "unit_rows": 1, "unit_column": "sid", "unit_type": "INTEGER"},
    ),
}


@pytest.mark.medium
@pytest.mark.parametrize("how", FORGED)
def test_books_that_say_otherwise_than_the_ledger_are_noticed_before_a_charge(clinic, how):
    source, changed = FORGED[how]
    with clinic.instance.cursor() as cursor:
        books = Books(cursor, "memory")
        rows = dict(books.run("SELECT source, stated FROM dpsql.member"))
        books.run("DELETE FROM dpsql.member WHERE source = $source", {"source": source})
        if changed is not None:
            stated = json.dumps(json.loads(rows.get(source, "{}")) | changed)
            row = {"source": source, "stated": stated}
            books.run("INSERT INTO dpsql.member VALUES ($source, 9, $stated)", row)
    with pytest.raises(duckdb.Error, match=f"how {source} belongs to an account is not what the ledger says"):
        ask(clinic, "visits")


FORGED_EVENTS = {
    "a link of a table with an account": {"kind": "link", "table": "patients", "member": {"account": "patients"}},
    "a link to no account": {"kind": "link", "table": "x", "member": {"account": "nobody"}},
    "a parent of another tree": {"kind": "link", "table": "x", "member": {"account": "patients", "parent": "claims"}},
    "more rows than before": {"kind": "link", "table": "labs", "member": {"unit_rows": 99}},
    "a unit without a bound": {"kind": "link", "table": "x", "member": {"account": "patients", "unit_rows": None}},
    "no key": {"kind": "link", "table": "x", "member": {"account": "patients", "parent": "labs", "key": []}},
    "an account of a member": {"kind": "protect", "source": "labs"},
    "an unlinked parent": {"kind": "unlink", "table": "visits"},
    "an unlinked account": {"kind": "unlink", "table": "patients"},
}


@pytest.mark.parametrize("how", FORGED_EVENTS)
def test_events_that_make_no_tree_do_not_follow(clinic, how):
    contents = ledgers.events(clinic.connection)
    state = state_from(
        {},
        {
            "unfinished": {},
            "published": {},
            "charged": [],
            "failed": {},
            "forgiven": {},
            "anchor": 0,
            "accepting": False,
            "version": 1,
            "key": None,
        },
    )
    for event in contents:
        state = follow(state, event)
    assert state_from(state.accounts, json.loads(json.dumps(state.to_json()))) == state
    assert set(state.members) == {"visits", "labs", "claims"}
    forged = FORGED_EVENTS[how]
    like = next(event for event in contents if event["kind"] == "link" and event["table"] == "labs")
    event = {**like, **forged, "number": 99}
    if "member" in forged:
        event["member"] = {**like["member"], **forged["member"]}
        if forged["member"].get("unit_rows", 0) is None:
            event["member"] = {"account": "patients", "unit_rows": None, "unit_column": "a", "unit_type": "INTEGER"}
    if forged["kind"] == "protect":
        event |= next({**e, "source": "labs", "number": 99} for e in contents if e["kind"] == "protect")
    with pytest.raises(BooksError, match="does not follow"):
        follow(state, event)


@pytest.mark.medium
def test_links_outlive_the_process_are_accepted_and_verified(tmp_path):
    bank = tmp_path / "bank.duckdb"
    with dpsql.connect(bank) as db:
        linked(db)
        ask(db, "labs")
    assert set(json.loads(heads.file_beside(bank).read_text())["course"]["members"]) == {"visits", "labs", "claims"}
    assert main(["ledger", "verify", str(bank)]) == 0
    with duckdb.connect(str(bank)) as con:
        con.execute("UPDATE dpsql.account SET releases = 7")
    with pytest.raises(BooksError, match="not what the ledger says"):
        dpsql.connect(bank)
    assert main(["ledger", "accept", str(bank), "--reason", "a mistake of ours"]) == 0
    assert main(["ledger", "verify", str(bank)]) == 0
    with dpsql.connect(bank) as db:
        assert len(ask(db, "visits", 0.1)) == 1
        assert db.links().source.tolist() == ["patients", "visits", "labs"]
        db.sql("DROP TABLE labs")
        db.sql("CREATE TABLE labs (lid INTEGER, vid INTEGER, bad BOOLEAN NOT NULL)")
        assert len(ask(db, "labs", 0.1)) == 1  # a table of that name is the member's


def test_one_row_of_a_parent_at_most_is_read_off_the_primary_key():
    """A table whose PRIMARY KEY is its foreign key has one row of each parent, which the catalogue says."""
    with dpsql.connect() as db:
        db.sql("CREATE TABLE r (pid INTEGER PRIMARY KEY)")
        db.sql("CREATE TABLE card (pid INTEGER PRIMARY KEY REFERENCES r (pid))")
        db.sql("CREATE TABLE v (pid INTEGER REFERENCES r (pid), nr INTEGER, PRIMARY KEY (pid, nr))")
        db.protect("r", epsilon=1.0, delta=1e-9)
        assert [db.link(table, "r").most for table in ("card", "v")] == [1, 100]
