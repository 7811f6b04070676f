"""What is public is listed: a copied mark, a renamed table or a copy of rows is not. See dpsql/books/tables/public_list.py."""

from __future__ import annotations

import tracemalloc

import duckdb
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.api.cli import main
from dpsql.books.ledger.table_ids import list_tables
from dpsql.books.tables.public import check_unclaimed, is_protected
from dpsql.books.tables.public_list import digest_of
from dpsql.engines.duckdb.catalog import find_source
from dpsql.errors import DpsqlError, InvalidArgument
from tests.books.conftest import TABLES, protect
from tests.depth import depth

SUSPECT = "may hold protected rows|was made from a table that is protected"
MARK = "(SELECT comment FROM duckdb_tables() WHERE table_name = 'people')"


def plain(path, *statements):
    """Somebody changes the file without dpsql; `MARK` in a statement is the comment of people then."""
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            mark = str(connection.execute(f"SELECT {MARK}").fetchall()[0][0])
            connection.execute(statement.replace("MARK", f"'{mark}'"))


def names_read(db, table):
    """How many names of people a query reads without noise from a table that it joins."""
    joined = f"SELECT s.name, count(*) AS n FROM visits v JOIN {table} s ON v.id = s.id GROUP BY ALL"
    rows = db.sql(f"FROM dp_query('{joined}', epsilon := 0.1)").fetchall()
    return sum("canary" in str(row) for row in rows)


def check_refused(db, table, match=SUSPECT):
    """It is not read as public, and gets no budget of its own, for nothing."""
    spent = db.budget().set_index("source").epsilon_spent.to_dict()
    with pytest.raises(duckdb.Error, match=match) as refused:
        names_read(db, table)
    assert "canary" not in str(refused.value)
    for call in (
        f"CALL dp_domain('visits', 'id', reference := '{table}.id')",
        f"FROM dp_synthesize('visits', epsilon := 0.1, columns := ['id'], prior := '{table}')",
        f"CALL dp_protect('{table}', epsilon := 1.0, delta := 1e-6)",
    ):
        with pytest.raises(duckdb.Error, match=match):
            db.sql(call).fetchall()
    assert db.budget().set_index("source").epsilon_spent.to_dict() == spent


def check_public(db, table):
    db.sql(f"CALL dp_domain('visits', 'id', reference := '{table}.id')")


# --- attacks ----------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_mark_that_was_copied_to_an_empty_table_leaves_the_rows_protected(bank):
    """The attack of the review: 50 of 50 names were read for nothing, and the rows got a second budget."""
    plain(
        bank,
        "CREATE TABLE e AS FROM people LIMIT 0",
        "COMMENT ON TABLE e IS MARK",
        "ALTER TABLE people RENAME TO old",
        "ALTER TABLE e RENAME TO people",
        "COMMENT ON TABLE old IS 'of last year'",
    )
    for _ in range(2):
        with dpsql.connect(bank) as db:
            check_refused(db, "old")
            check_public(db, "wards")


@pytest.mark.medium
def test_a_load_that_carries_comments_over_leaves_both_loads_protected(bank):
    """It asks for nothing where the older load is dropped, and the new one is released from."""
    load = (
        "CREATE OR REPLACE TABLE incoming AS SELECT id + 1 AS id, name || '!' AS name FROM people",
        "COMMENT ON TABLE incoming IS MARK",
        "COMMENT ON TABLE people IS 'the earlier load'",
        "ALTER TABLE people RENAME TO earlier",
        "ALTER TABLE incoming RENAME TO people",
    )
    plain(bank, *load)
    with dpsql.connect(bank) as db:
        check_refused(db, "earlier")
        check_public(db, "wards")
        db.sql("DROP TABLE earlier; FROM dp_query('SELECT count(*) AS n FROM people', epsilon := 0.1)").fetchall()
    plain(bank, *load, "DROP TABLE earlier")
    with dpsql.connect(bank) as db:
        db.sql("FROM dp_query('SELECT count(*) AS n FROM people', epsilon := 0.1, release := 'b')").fetchall()
        check_public(db, "wards")
        assert db.budget().set_index("source").releases.to_dict() == {"people": 2, "visits": 0}


@pytest.mark.medium
@pytest.mark.parametrize("how", ["renamed", "copied"])
def test_protected_rows_under_the_name_of_a_public_table_are_refused(bank, how):
    """A name and the same columns are not enough."""
    rows = {"renamed": "ALTER TABLE people RENAME TO wards", "copied": "CREATE TABLE wards AS FROM people"}
    plain(
        bank,
        "CREATE TABLE e AS FROM people LIMIT 0",
        "COMMENT ON TABLE e IS MARK",
        "COMMENT ON TABLE people IS NULL",
        "DROP TABLE wards",
        rows[how],
        "DROP TABLE IF EXISTS people",
        "ALTER TABLE e RENAME TO people",
    )
    with dpsql.connect(bank) as db:
        check_refused(db, "wards")


@pytest.mark.medium
@pytest.mark.parametrize(
    "copy",
    [
        "CREATE TABLE copy AS FROM people",
        "CREATE TABLE copy AS SELECT id, name FROM wards UNION ALL FROM people",
        "CREATE VIEW v AS FROM people; CREATE TABLE copy AS FROM v",
        "CREATE MACRO m() AS TABLE FROM people; CREATE TABLE copy AS FROM m()",
        "CREATE TABLE copy AS FROM query('FROM pe' || 'ople')",
        "CREATE TEMP TABLE wards AS FROM people; CREATE TABLE copy AS FROM wards",
        "CREATE OR REPLACE TABLE wards AS FROM people; CREATE TABLE copy AS FROM wards",
        "CREATE TABLE first AS FROM people; CREATE TABLE copy AS FROM first",
        "BEGIN; CREATE TABLE copy AS FROM people; COMMIT",
        "CREATE TABLE copy AS WITH people AS (FROM people) FROM people",
        "CREATE TABLE other.copy AS FROM people",
    ],
)
def test_rows_that_a_statement_copies_are_not_public(db, copy):
    """Whoever makes the copy; in another database too."""
    db.sql(f"ATTACH ':memory:' AS other; {TABLES}")
    protect(db)
    db.sql(copy)
    check_refused(db, "other.copy" if "other." in copy else "copy", f"{SUSPECT}|reads 'people'")


@pytest.mark.medium
def test_a_relation_of_python_is_no_public_table(db):
    db.sql(TABLES)
    protect(db)
    rows = db.connection.sql("FROM people")
    db.sql("CREATE TABLE copy AS FROM rows")
    assert rows is not None
    check_refused(db, "copy")


@pytest.mark.medium
def test_a_table_that_dpsql_did_not_see_made_is_refused_until_its_owner_says_what_it_holds(bank):
    """Also a copy by another connection; the error names the table and the call, whose word the ledger keeps."""
    plain(bank, "CREATE TABLE streets AS FROM wards; CREATE TABLE copy AS FROM people")
    with dpsql.connect(bank) as db:
        check_refused(db, "copy")
        with pytest.raises(DpsqlError, match=r"db\.settle\('…', table='streets'\)"):
            check_public(db, "streets")
        with pytest.raises(InvalidArgument, match="'people', which is protected"):
            db.settle("no", table="people")
    assert main(["ledger", "settle", str(bank), "--table", "streets", "--reason", "of the city"]) == 0
    plain(bank, "CREATE OR REPLACE TABLE streets AS SELECT i AS id, 'street' AS name FROM range(50) r(i)")
    with dpsql.connect(bank) as db:
        check_public(db, "streets")  # whatever rows come under this name
        check_refused(db, "copy")
        said = db.sql("SELECT content FROM dpsql.event ORDER BY number DESC LIMIT 1").fetchall()[0][0]
        assert '"table": "streets"' in said.replace('":"', '": "')


# --- what stays easy --------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_tables_made_from_public_rows_are_public_here_and_when_the_file_is_opened_again(bank, tmp_path):
    (tmp_path / "w.csv").write_text("id,name\n1,ward\n", encoding="utf-8")
    made = {
        "numbers": "CREATE TABLE numbers AS SELECT i AS id, 'n' AS name FROM range(50) r(i)",
        "constants": "CREATE TABLE constants AS FROM (VALUES (1, 'a'), (2, 'b')) v(id, name)",
        "drawn": "CREATE TABLE drawn AS SELECT i AS id, uuid() AS name FROM range(5) r(i)",
        "more": "CREATE TABLE more AS WITH w AS (FROM wards) FROM w WHERE id < 9",
        "again": "CREATE OR REPLACE TABLE again AS FROM more; CREATE OR REPLACE TABLE again AS FROM more",
        "filled": "CREATE TABLE filled (id BIGINT, name VARCHAR); INSERT INTO filled VALUES (1, 'x')",
        "filed": f"CREATE TABLE filed AS FROM '{tmp_path / 'w.csv'}'",
        "read": f"CREATE TABLE read AS FROM read_csv('{tmp_path / 'w.csv'}')",
        "framed": "CREATE TABLE framed AS FROM frame",
        "answers": "CREATE TABLE answers AS SELECT id, n AS name FROM dp_query('SELECT id, count(*) AS n FROM visits "
        "GROUP BY id', epsilon := 0.5)",
    }
    frame = pd.DataFrame({"id": [1], "name": ["a"]})
    with dpsql.connect(bank) as db:
        for name, statement in made.items():
            db.sql(statement)
            check_public(db, name)
    assert len(frame) == 1
    with dpsql.connect(bank) as db:
        for name in made:
            check_public(db, name)


@pytest.mark.medium
def test_a_look_up_table_that_changes_stays_public(bank):
    """In rows that dpsql sees at the latest when its connection closes, and under another name while it is open."""
    with dpsql.connect(bank) as db:
        check_public(db, "wards")
        db.sql("INSERT INTO wards VALUES (50, 'new'); ALTER TABLE wards ADD beds INTEGER")
    with dpsql.connect(bank) as db:
        check_public(db, "wards")
        db.sql("ALTER TABLE wards RENAME TO rooms; CHECKPOINT")
        check_public(db, "rooms")
    with dpsql.connect(bank, read_only=True) as db:
        names_read_of = "SELECT s.name, count(*) AS n FROM visits v JOIN rooms s ON v.id = s.id GROUP BY ALL"
        db.sql(f"FROM dp_plan('{names_read_of}', epsilon := 0.1)").fetchall()


@pytest.mark.medium
def test_the_word_about_all_tables_is_of_the_rows_that_they_hold_then(bank):
    plain(bank, "CREATE TABLE streets AS FROM wards")
    with dpsql.connect(bank) as db:
        db.settle("streets came from the city")
        check_public(db, "streets")
    plain(bank, "DROP TABLE streets; CREATE TABLE streets AS FROM people")
    with dpsql.connect(bank) as db:
        check_refused(db, "streets")


@pytest.mark.medium
def test_names_that_an_earlier_version_listed_are_taken_over_once(bank):
    plain(
        bank,
        "DROP TABLE dpsql.public_table",
        "INSERT INTO dpsql.known_table VALUES ('wards', NULL)",
        "UPDATE dpsql.books SET version = 4",
        "CREATE TABLE later AS FROM people",
    )
    with dpsql.connect(bank) as db:
        check_public(db, "wards")
        check_refused(db, "later")
    plain(bank, "DROP TABLE wards; ALTER TABLE later RENAME TO wards")
    with dpsql.connect(bank) as db:
        check_refused(db, "wards")


# --- what is stored of a table ------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_rows_are_told_by_hashes_however_long_their_values_are(db):
    """Python reads none of the values, at a call about another table."""
    db.sql(f"{TABLES} CREATE TABLE pictures AS SELECT i, repeat('x', 1000000)::BLOB AS b FROM range(30) r(i)")
    tracemalloc.start()
    try:
        protect(db)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    check_digests_differ(db, "pictures", "UPDATE pictures SET b = 'y' || repeat('x', 999999) WHERE i = 7")


@pytest.mark.parametrize(
    "kind", ["DECIMAL(9,2)[]", "ENUM('a', 'b')[]", "ENUM('a', 'b')[2]", "VARCHAR[]", "STRUCT(a INT)"]
)
def test_a_value_that_is_nested_is_not_read(db, kind):
    """Rows of such columns alone cannot be told apart, so the table needs its owner's word."""
    db.sql(f"CREATE TABLE t (a {kind}); INSERT INTO t VALUES (NULL)")
    assert digest(db, "t") is None


@pytest.mark.parametrize(
    "change", ["SET a = NULL", "SET b = NULL", "SET a = 'x', b = 'y'", "SET a = b, b = a", "SET e = 'b'"]
)
def test_each_change_of_a_row_is_another_digest(db, change):
    db.sql("CREATE TABLE t (a VARCHAR, b BLOB, e ENUM('a', 'b')); INSERT INTO t VALUES ('y', 'x', 'a'), ('', '', NULL)")
    check_digests_differ(db, "t", f"UPDATE t {change}")


def check_digests_differ(db, table, statement):
    before = digest(db, table)
    assert before == digest(db, table)
    db.sql(statement)
    assert digest(db, table) != before


def digest(db, name):
    with db.instance.cursor() as cursor:
        return digest_of(cursor, next(table for table in list_tables(cursor) if table.name == name))


@pytest.mark.medium
def test_a_name_is_on_the_list_once(bank):
    """Also where two connections put it there at a time, and spelled otherwise."""
    with dpsql.connect(bank) as db:
        db.sql("CREATE OR REPLACE TABLE WARDS AS SELECT i AS id, 'x' AS name FROM range(50) r(i)")
        check_public(db, "wards")
        assert db.sql("SELECT count(*) FROM dpsql.public_table WHERE lower(name) = 'wards'").fetchall() == [(1,)]
        with pytest.raises(duckdb.ConstraintException):
            db.sql("INSERT INTO dpsql.public_table VALUES ('wards', 'again')")


# --- the kind ---------------------------------------------------------------------------------------------------------

NAMES = ("people", "wards", "a", "b")
name = st.sampled_from(NAMES)
ACTIONS = st.one_of(
    st.tuples(st.just("rename"), name, name),
    st.tuples(st.just("swap"), name, name),
    st.tuples(st.just("comment"), name, name),
    st.tuples(st.just("no comment"), name, name),
    st.tuples(st.just("create"), name, name),
    st.tuples(st.just("empty"), name, name),
    st.tuples(st.just("drop"), name, name),
    st.tuples(st.just("checkpoint"), name, name),
    st.tuples(st.just("reopen with"), name, name),
    st.tuples(st.just("reopen without"), name, name),
)


class Bank:
    """A file, and of each of its tables whether it holds protected rows and whether nobody touched it."""

    def __init__(self, path):
        self.path, self.seen = path, True
        self.tables = {"people": (True, False), "wards": (False, True)}
        self.db = dpsql.connect(path)
        self.db.sql(TABLES)
        protect(self.db)

    def run(self, *statements):
        for statement in statements:
            if self.seen:
                self.db.sql(statement)
            else:
                self.plain.execute(statement)

    def act(self, action, one, other):
        free = other not in self.tables
        if action.startswith("reopen"):
            self.reopen(seen=action == "reopen with")
        elif action == "checkpoint":
            self.run("CHECKPOINT")
        elif one not in self.tables:
            return
        elif action == "rename" and free:
            self.run(f"ALTER TABLE {one} RENAME TO {other}")
            self.tables[other] = (self.tables.pop(one)[0], False)
        elif action == "swap" and not free and one != other:
            self.run(*(f"ALTER TABLE {x} RENAME TO {y}" for x, y in ((one, "t"), (other, one), ("t", other))))
            self.tables[one], self.tables[other] = (self.tables[other][0], False), (self.tables[one][0], False)
        elif action == "comment" and not free:
            connection = self.db.connection if self.seen else self.plain
            sql = "SELECT comment FROM duckdb_tables() WHERE schema_name = 'main' AND table_name = ?"
            said = connection.execute(sql, [one]).fetchall()[0][0]
            self.run(f"COMMENT ON TABLE {other} IS {'NULL' if said is None else repr(said)}")
            self.tables[other] = (self.tables[other][0], False)
        elif action == "no comment":
            self.run(f"COMMENT ON TABLE {one} IS NULL")
        elif action in ("create", "empty") and free:
            self.run(f"CREATE TABLE {other} AS FROM {one} {'LIMIT 0' if action == 'empty' else ''}")
            self.tables[other] = (self.tables[one][0] and action == "create", False)
        elif action == "drop":
            self.run(f"DROP TABLE {one}")
            del self.tables[one]

    def reopen(self, *, seen):
        (self.db if self.seen else self.plain).close()
        self.seen = seen
        if seen:
            self.db = dpsql.connect(self.path)
        else:
            self.plain = duckdb.connect(str(self.path))

    def check(self):
        """Nothing that holds protected rows is public or gets a budget of its own; what nobody touched is public."""
        if not self.seen:
            return
        with self.db.instance.cursor() as cursor:
            for table, (is_private, is_untouched) in self.tables.items():
                source = find_source(cursor, table)
                if is_private:
                    assert self.refuses(cursor, source), (table, self.tables)
                    if table != "people":  # the same call again changes nothing
                        with pytest.raises(InvalidArgument):
                            check_unclaimed(cursor, source)
                elif is_untouched:
                    assert not is_protected(cursor, source), (table, self.tables)

    def refuses(self, cursor, source):
        try:
            return is_protected(cursor, source)
        except InvalidArgument:
            return True


@pytest.mark.slow
@settings(
    max_examples=depth(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(actions=st.lists(ACTIONS, min_size=3, max_size=14))
def test_no_sequence_of_statements_makes_protected_rows_public(tmp_path_factory, actions):
    bank = Bank(tmp_path_factory.mktemp("bank") / "bank.duckdb")
    try:
        for action in actions:
            bank.act(*action)
            bank.check()
        bank.reopen(seen=True)
        bank.check()
        for table, (is_private, _) in bank.tables.items():
            if is_private:
                with pytest.raises(duckdb.Error):
                    check_public(bank.db, table)
    finally:
        (bank.db if bank.seen else bank.plain).close()
