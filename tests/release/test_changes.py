"""Tables, statements and connections that change between one step and the next."""

from __future__ import annotations

import threading
from dataclasses import replace

import duckdb
import pytest

import dpsql
from dpsql.books.tables import write_table_ids
from dpsql.errors import DpsqlError, Interrupted, InvalidArgument, NotDeclared

OPTIONS = {"relaxed_rows": 8, "steps": 5}
CALL = "FROM dp_synthesize('t', epsilon := 0.5, relaxed_rows := 8, steps := 5)"


def small(db: dpsql.Database, neighbours: str = "add_remove") -> None:
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(61) r(i)")
    db.protect("t", epsilon=2.0, delta=1e-6, neighbours=neighbours)


def books(db: dpsql.Database) -> tuple[object, object]:
    return db.sql("SELECT rho_spent FROM dpsql.account").fetchall(), db.sql(
        "SELECT count(*) FROM dpsql.cell"
    ).fetchall()


def charge_only(db: dpsql.Database, monkeypatch, **how) -> None:
    """A release that is charged and whose work then dies."""

    def die(*_, **__):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("dpsql.engines.duckdb.engine.DuckDBCounter", die)
        with pytest.raises(ZeroDivisionError):
            db.synthesize("t", 0.5, **OPTIONS, **how)


@pytest.mark.medium
def test_a_statement_bound_to_another_database(tmp_path):
    """A prepared statement whose database is exchanged must not carry the old protection over to the new one."""
    with dpsql.connect() as db:
        for name, neighbours in (("a", "replace_one"), ("b", "add_remove")):
            db.sql(f"ATTACH '{tmp_path}/{name}.duckdb' AS bank; USE bank")
            small(db, neighbours)
            db.sql("USE memory; DETACH bank")
        call = "FROM dp_synthesize('bank.t', epsilon := 0.01, relaxed_rows := 8, steps := 5)"
        db.sql(f"ATTACH '{tmp_path}/a.duckdb' AS bank")
        db.sql(f"PREPARE p AS SELECT count(*) FROM ({call})")
        db.sql(f"DETACH bank; ATTACH '{tmp_path}/b.duckdb' AS bank")
        try:
            db.sql("EXECUTE p").fetchall()  # 2.0 binds it again
        except duckdb.Error as error:
            assert "changed since the statement was bound" in str(error)
        exact = db.sql("SELECT count(*) FROM bank.dpsql.answer WHERE noise = 'none'").fetchall()
        assert exact == [(0,)]


def test_a_statement_bound_before_the_table_was_altered(db):
    small(db)
    db.sql(f"PREPARE p AS {CALL}")
    db.sql("ALTER TABLE t ALTER COLUMN a TYPE INTEGER")
    before = books(db)
    with pytest.raises(duckdb.Error):
        db.sql("EXECUTE p").fetchall()
    assert books(db) == before


@pytest.mark.medium
def test_a_resumed_release_spends_what_was_charged(db, monkeypatch):
    """Were the conversion better in a later version, a release charged by this one still has only its own charge."""
    small(db)
    charge_only(db, monkeypatch)
    import dpsql.privacy.accounting as accounting

    honest = accounting.CONVERSIONS["gdp"]
    better = replace(honest, rho=lambda e, d: honest.rho(e, d) * 11 / 10)
    monkeypatch.setitem(accounting.CONVERSIONS, "gdp", better)
    db.synthesize("t", 0.5, **OPTIONS)
    charged = db.sql("SELECT rho FROM dp_releases()").fetchall()[0][0]
    spent = "SELECT sum(rho) FROM (SELECT DISTINCT measurement, 1 / (2 * stddev ** 2) AS rho FROM dp_measurements(2))"
    assert db.sql(spent).fetchall()[0][0] <= charged * (1 + 1e-9)


@pytest.mark.medium
def test_a_resume_with_another_type_is_refused_without_reading(db, monkeypatch):
    db.sql("CREATE TABLE t (d TIMESTAMP_NS); INSERT INTO t VALUES ('2020-05-05')")
    db.protect("t", epsilon=2.0, delta=1e-6)
    db.domain("t", "d", lower="2020-01-01", upper="2021-01-01", bins=4)
    charge_only(db, monkeypatch)
    db.sql("ALTER TABLE t ALTER COLUMN d TYPE DATE; INSERT INTO t VALUES ('9999-12-31')")
    db.domain("t", "d", lower="2020-01-01", upper="2021-01-01", bins=4)
    with pytest.raises(DpsqlError, match="is not what it was when this release was charged") as caught:
        db.synthesize("t", 0.5, **OPTIONS)
    assert "9999" not in str(caught.value)


@pytest.mark.medium
def test_generated_columns_are_excluded(db):
    """Their expressions would run on private rows, and fail on some."""
    db.sql("CREATE TABLE t (a VARCHAR, b INTEGER GENERATED ALWAYS AS (CAST(a AS INTEGER)), c BOOLEAN)")
    db.sql("INSERT INTO t VALUES ('1', true); UPDATE t SET a = 'secret'")
    db.protect("t", epsilon=2.0, delta=1e-6)
    db.domain("t", "a", values=["1", "2"])
    with pytest.raises(NotDeclared, match="'b' of 't' is generated"):
        db.synthesize("t", 0.5, **OPTIONS)
    with pytest.raises(InvalidArgument, match="generated"):
        db.domain("t", "b", lower=0, upper=9)
    db.domain("t", "b", exclude=True)
    assert set(db.synthesize("t", 0.5, **OPTIONS).df().columns) == {"a", "b", "c"}


def test_errors_of_duckdb_stay_inside(db, monkeypatch):
    small(db)

    def fail(*_, **__):
        raise duckdb.ConversionException("canary: a private value")

    monkeypatch.setattr("dpsql.engines.duckdb.counting.DuckDBCounter.marginal", fail)
    with pytest.raises(DpsqlError, match="was stopped by the database") as caught:
        db.synthesize("t", 0.5, **OPTIONS)
    assert "canary" not in str(caught.value)
    assert "Conversion" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_installing_twice_is_harmless(db):
    small(db)
    again = dpsql.install(db.connection)
    assert again.budget().source.tolist() == ["t"]
    other = dpsql.install(db.connection.cursor())
    other.close()
    assert db.budget().source.tolist() == ["t"]


@pytest.mark.medium
def test_two_connections_to_one_file(tmp_path):
    """The functions stay as long as one connection that dpsql was installed on is open; then the file is free."""
    path = tmp_path / "bank.duckdb"
    first = dpsql.connect(path)
    small(first)
    second = dpsql.connect(path)
    first.close()
    assert second.budget().source.tolist() == ["t"]
    assert len(second.synthesize("t", 0.5, **OPTIONS).df()) > 0
    second.close()
    duckdb.connect(str(path)).close()


def test_installing_after_the_first_connection_was_closed(tmp_path):
    path = tmp_path / "bank.duckdb"
    first = dpsql.connect(path)
    other = duckdb.connect(str(path), config={"allow_unsigned_extensions": "true"})
    first.close()
    with pytest.raises(DpsqlError, match="close all connections to this database"):
        dpsql.install(other)
    other.close()
    with dpsql.connect(path) as db:
        assert db.budget().empty


def test_a_collation_does_not_change_which_table_is_meant(tmp_path):
    db = dpsql.connect(tmp_path / "bank.duckdb")
    db.sql("SET GLOBAL default_collation = 'NOACCENT'")
    db.sql('CREATE TABLE cafe AS SELECT true AS a; CREATE TABLE "café" AS SELECT true AS a')
    db.protect("café", epsilon=1.0, delta=1e-6)
    assert db.budget().source.tolist() == ["café"]
    with pytest.raises(DpsqlError, match="there is no table 'cafè'"):
        db.protect("cafè", epsilon=1.0, delta=1e-6)
    db.close()


def test_a_collation_does_not_make_a_renamed_table_public(tmp_path):
    """Another table whose name is taken for that of a protected one does not stand for it."""
    db = dpsql.connect(tmp_path / "bank.duckdb")
    db.sql('CREATE TABLE "café" AS SELECT true AS a; CREATE TABLE cafe AS SELECT true AS a')
    db.sql("CREATE TABLE other AS SELECT true AS a")
    db.protect("café", epsilon=1.0, delta=1e-6)
    db.protect("other", epsilon=1.0, delta=1e-6)
    db.sql('ALTER TABLE "café" RENAME TO x')
    db.sql("SET GLOBAL default_collation = 'NOACCENT'")
    with pytest.raises(DpsqlError, match="reads 'x', which is protected"):
        db.synthesize("other", 0.5, prior="x", mechanism="ide")
    db.close()


@pytest.mark.medium
def test_what_is_kept_of_a_connection_that_is_closed_is_not_used(tmp_path):
    """Names are looked up on connections that are kept; they end with the one that they were opened by."""
    path = tmp_path / "bank.duckdb"
    first = dpsql.connect(path)
    other = duckdb.connect(str(path), config={"allow_unsigned_extensions": "true"})
    second = dpsql.install(other)
    small(first)
    told = first.sql(CALL).fetchall()
    for _ in range(2):
        with pytest.raises(duckdb.Error, match="there is no table 'nothing'"):
            other.execute("FROM dp_plan('nothing', epsilon := 1)")
    first.close()
    for _ in range(2):
        assert other.execute(CALL).fetchall() == told
        with pytest.raises(duckdb.Error, match="there is no table 'nothing'"):
            other.execute("FROM dp_plan('nothing', epsilon := 1)")
    second.close()
    duckdb.connect(str(path)).close()


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ({"rows": 10.5}, "rows"),
        ({"rows": "many"}, "rows"),
        ({"steps": 2.5}, "steps"),
        ({"relaxed_rows": None, "steps": "x"}, "steps"),
        ({"workload": 5}, "workload"),
        ({"columns": [1]}, "columns"),
        ({"release": 7}, "release"),
        ({"mechanism": True}, "mechanism"),
        ({"delta": "small"}, "delta"),
    ],
)
def test_python_arguments_of_the_wrong_kind_cost_nothing(db, how, name):
    small(db)
    with pytest.raises(InvalidArgument, match=f"{name} is"):
        db.synthesize("t", 0.5, **how)
    assert db.budget().epsilon_spent.tolist() == [0.0]


@pytest.mark.medium
def test_equal_arguments_are_the_same_request(db):
    small(db)
    one = db.synthesize("t", 0.5, rows=20, relaxed_rows=8, steps=5)
    other = db.synthesize("t", 0.5, rows=20.0, relaxed_rows=8.0, steps=5, release=None, columns=None)
    assert one.entry == other.entry


@pytest.mark.medium
def test_a_schema_called_temp(db):
    db.sql("CREATE SCHEMA temp")
    small(db)
    assert len(db.synthesize("t", 0.5, **OPTIONS).df()) > 0


@pytest.mark.medium
@pytest.mark.parametrize("published", [True, False])
def test_a_column_added_after_the_charge(db, monkeypatch, published):
    small(db)
    workload = "SELECT a, b, count(*) FROM t GROUP BY ALL"
    if published:
        rows = db.synthesize("t", 0.5, workload=workload, **OPTIONS).df()
    else:
        charge_only(db, monkeypatch, workload=workload)
    spent = db.budget().epsilon_spent.tolist()
    db.sql("ALTER TABLE t ADD COLUMN c BOOLEAN")
    after = db.synthesize("t", 0.5, workload=workload, **OPTIONS).df()
    assert list(after.columns) == ["a", "b"]
    sql = f"FROM dp_synthesize('t', epsilon := 0.5, relaxed_rows := 8, steps := 5, workload := '{workload}')"
    assert len(db.sql(sql).fetchall()) == len(after)
    assert db.budget().epsilon_spent.tolist() == spent
    if published:
        assert after.equals(rows)


def test_names_are_compared_as_duckdb_compares_them(db):
    db.sql('CREATE TABLE "É" (straße BOOLEAN, strasse BOOLEAN); CREATE TABLE "é" (a BOOLEAN)')
    for table in ("É", "é"):
        db.protect(table, epsilon=1.0, delta=1e-6)
    assert sorted(db.budget().source) == ["É", "é"]
    db.domain("É", "strasse", values=["true"])
    declared = db.sql("SELECT source, name FROM dpsql.domain").fetchall()
    assert declared == [("É", "strasse")]
    with pytest.raises(DpsqlError, match="there is no table"):
        db.protect(" " * 4000 + '"', epsilon=1.0, delta=1e-6)


@pytest.mark.medium
def test_small_numbers(db):
    small(db)
    with pytest.raises(DpsqlError):
        db.synthesize("t", 0.5, delta=1e-320, release="tiny", relaxed_rows=0)
    assert len(db.synthesize("t", 0.5, delta=1e-320, **OPTIONS).df()) >= 0
    db.sql("CREATE TABLE n (x INTEGER)")
    db.protect("n", epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidArgument, match=r"1\.4 is not a INTEGER"):
        db.domain("n", "x", values=[1.4, 2.6])


@pytest.mark.medium
def test_closing_while_threads_work(tmp_path):
    """No crash, and the file is free afterwards."""
    path = tmp_path / "bank.duckdb"
    db = dpsql.connect(path)
    small(db)
    db.synthesize("t", 0.5, **OPTIONS)
    stop = threading.Event()

    def work(cursor: duckdb.DuckDBPyConnection) -> None:
        while not stop.is_set():
            try:
                cursor.execute(CALL).fetchall()
            except duckdb.Error:
                return

    threads = [threading.Thread(target=work, args=(db.connection.cursor(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    stop.set()
    for thread in threads:
        thread.join()
    db.close()
    duckdb.connect(str(path)).close()


@pytest.mark.medium
def test_the_same_workload_in_another_order_is_the_same_release(db, monkeypatch):
    """A killed run is completed by the same request however its statements are ordered."""

    db.sql("CREATE TABLE four AS SELECT i % 2 = 0 a, i % 3 = 0 b, i % 5 = 0 c, i % 7 = 0 d FROM range(300) r(i)")
    db.protect("four", epsilon=10.0, delta=1e-6)
    parts = ["SELECT count(*) FROM four GROUP BY a, b", "SELECT count(*) FROM four GROUP BY c, d"]
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(
            "dpsql.fitting.relaxed.fit_marginals.fit_marginals", lambda *_: (_ for _ in ()).throw(Interrupted)
        )
        db.synthesize("four", 1.0, workload=";".join(parts))
    spent = db.budget().epsilon_spent[0]
    release = db.synthesize("four", 1.0, workload=";".join(parts[::-1]), steps=500)
    assert release.entry.state == "published"
    assert db.budget().epsilon_spent[0] == spent


@pytest.mark.medium
def test_a_published_release_is_read_on_a_smaller_machine(db, monkeypatch):
    """What was released needs no fit, so no memory for one; a new release is refused."""
    from dpsql.mechanisms.projection import projection

    db.sql("CREATE TABLE two AS SELECT i % 2 = 0 a, i % 3 = 0 b FROM range(300) r(i)")
    db.protect("two", epsilon=10.0, delta=1e-6)
    rows = db.synthesize("two", 1.0).df()
    monkeypatch.setattr(projection, "machine_memory", lambda: 1000)
    assert db.synthesize("two", 1.0).df().equals(rows)
    with pytest.raises(DpsqlError, match="of memory"):
        db.synthesize("two", 1.0, release="another")


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["table", "query", "discovery"])
def test_an_account_that_is_opened_anew_while_a_request_runs_is_not_charged_for_it(db, monkeypatch, kind):
    """Between the last look at the account and the charge: another unit, other neighbours, another bound.

    Were it charged, the 1,000 rows of one unit would be counted with the noise of a single row.
    """
    db.sql("CREATE TABLE t AS SELECT 'one' AS u, 'a' AS x FROM range(1000)")

    def protect(**how):
        db.protect("t", epsilon=9.0, delta=1e-6, **how)
        db.domain("t", "x", values=["a", "b"], nulls=False)
        if not how:
            db.domain("t", "u", exclude=True)

    protect()
    mark = write_table_ids.mark

    def late(books, source):
        mark(books, source)
        with dpsql.install(db.connection.cursor()) as other:
            other.unprotect("t", reason="a mistake")
        protect(privacy_unit="u", max_rows=1)

    monkeypatch.setattr(write_table_ids, "mark", late)
    calls = {
        "table": lambda: db.synthesize("t", 5.0),
        "query": lambda: db.query("SELECT x, count(*) AS n FROM t GROUP BY x", 1.0),
        "discovery": lambda: db.discover("t", "x", 1.0),
    }
    with pytest.raises(dpsql.DpsqlError, match="opened anew"):
        calls[kind]()
    assert db.budget().releases.tolist() == [0]


@pytest.mark.medium
def test_a_resumed_pure_release_has_the_epsilon_that_was_charged(db, monkeypatch):
    """Though a domain was declared anew, by which its questions would share ε otherwise."""
    db.sql("CREATE TABLE t AS SELECT i % 4 AS a, i % 3 AS b, i % 5 AS c FROM range(400) r(i)")
    db.protect("t", epsilon=2.0, delta=0.0)
    for name, top in (("a", 3), ("b", 2), ("c", 4)):
        db.domain("t", name, lower=0, upper=top)
    how = {"mechanism": "hdmm", "noise": "laplace", "workload": "all 2-way"}
    charge_only(db, monkeypatch, **how)
    spent = db.budget().epsilon_spent.tolist()
    db.domain("t", "a", lower=0, upper=1)
    assert len(db.synthesize("t", 0.5, **OPTIONS, **how).df()) > 0
    assert db.budget().epsilon_spent.tolist() == spent == [0.5]
