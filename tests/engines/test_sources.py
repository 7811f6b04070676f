"""dp_source: tables whose rows stay in files. Through SQL and Python; what is counted is compared with the same table here.

How each engine counts is in the conformance suite; here is what an owner does, what is refused, and what leaks nothing.
"""

from __future__ import annotations

import json
import shutil
from datetime import date

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.errors import BooksError, DpsqlError, InsufficientBudget, Interrupted, InvalidArgument, NotOwner

from .iceberg_catalog import configured

CANARY = "Ms Canary"
ROWS = (
    "SELECT 18 + i * 7 % 70 AS age, (['F', 'M', NULL])[1 + i % 3] AS sex, i % 11 AS ward, 'p' || i // 3 AS who, "
    "(i % 1000 / 4)::DECIMAL(9, 2) AS cost FROM range({0}, {1}) r(i)"
)
OPTIONS = "epsilon := 400, mechanism := 'direct'"
"""Of a synthetic table that is made quickly, and with next to no noise."""


@pytest.fixture
def lake(tmp_path):
    """A folder with three files of 300 rows in all."""
    folder = tmp_path / "lake"
    folder.mkdir()
    for number in range(3):
        write(folder, number)
    return folder


def write(folder, number, query=None):
    """A file of 100 rows, or of those of a query."""
    path = folder / f"{number}.parquet"
    rows = query or ROWS.format(100 * number, 100 * number + 100)
    with duckdb.connect() as own:
        own.execute(f"COPY ({rows}) TO '{path}'")
    return path


def declare(db, table="visits"):
    """Protect a table and declare its columns."""
    db.protect(table, epsilon=1000.0, delta=1e-9)
    db.domains(
        table,
        {
            "age": {"lower": 18, "upper": 87, "bins": 7},
            "sex": {"values": ["F", "M"]},
            "ward": {"lower": 0, "upper": 10, "bins": 11},
            "who": {"exclude": True},
            "cost": {"lower": 0, "upper": 250, "bins": 5},
        },
    )


@pytest.fixture
def db(tmp_path):
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        yield db


@pytest.fixture
def visits(db, lake):
    """A database with the source `visits`, protected and declared."""
    db.sql(f"CALL dp_source('visits', files := '{lake}/*.parquet')")
    declare(db)
    return db


def rows_of(db, text, epsilon=5.0):
    """How many rows a query counts."""
    return db.sql(f"FROM dp_query('SELECT count(*) FROM {text}', epsilon := {epsilon})").fetchall()[0][0]


def spent(db):
    return db.sql("SELECT sum(epsilon) FROM dp_ledger() WHERE kind = 'charge'").fetchall()[0][0]


# --- as a table of the database ---------------------------------------------------------------------------------------


@pytest.mark.medium
def test_all_that_is_done_with_a_table_is_done_with_a_source(visits):
    """Domains, discoveries, facts, expressions, joins, plans, synthetic rows: counts are those of the same rows here."""
    db = visits
    db.sql(f"CREATE TABLE copied AS {ROWS.format(0, 300)}; CREATE TABLE wards AS SELECT range AS ward FROM range(11)")
    db.sql("ALTER TABLE wards ADD COLUMN name VARCHAR; UPDATE wards SET name = 'w' || ward % 2")
    declare(db, "copied")
    assert db.discover("visits", "sex", epsilon=50.0, delta=1e-10).values == ("F", "M")
    found = {}
    for table in ("visits", "copied"):
        db.sql(f"CALL dp_constraint('{table}', 'ward <= 10 OR age > 20')")
        found[table] = [
            db.sql(f"FROM dp_query('{text.format(table)}', epsilon := 100)").fetchall()
            for text in (
                "SELECT sex, count(*) FROM {} WHERE age // 2 > 20 GROUP BY sex ORDER BY sex",
                "SELECT w.name, count(*) FROM {} v JOIN wards w ON v.ward = w.ward GROUP BY w.name ORDER BY 1",
                "SELECT sum(cost) FROM {}",
            )
        ]
    for here, there in zip(*found.values(), strict=True):
        assert [row[:-4] for row in here] == [row[:-4] for row in there]  # the groups
        assert [float(row[-4]) for row in here] == pytest.approx([float(row[-4]) for row in there], rel=0.05, abs=5)
    assert db.sql("SELECT count(*) FROM dp_plan('visits', epsilon := 1)").fetchall()[0][0] > 4
    made = db.sql(
        f"SELECT count(*), count(DISTINCT ward), bool_and(who IS NULL) FROM dp_synthesize('visits', {OPTIONS})"
    )
    ((rows, wards, nobody),) = made.fetchall()
    assert abs(rows - 300) < 5
    assert (wards, nobody) == (11, True)
    assert db.sql("SELECT count(*) FROM visits").fetchall() == [(0,)]


def test_nothing_can_be_inserted_into_a_stub(visits):
    with pytest.raises(duckdb.ConstraintException, match="see dp_source"):
        visits.sql("INSERT INTO visits VALUES (1, 'F', 1, 'x', 1)")


@pytest.mark.medium
def test_privacy_units_of_a_source(db, lake):
    """Three rows of each of 100 people, of which two count."""
    db.source("visits", files=f"{lake}/*.parquet")
    db.protect("visits", epsilon=100.0, delta=1e-9, privacy_unit="who", max_rows=2)
    assert abs(rows_of(db, "visits", 20.0) - 200) < 5
    people = db.sql("FROM dp_query('SELECT count(DISTINCT who) FROM visits', epsilon := 20)").fetchall()[0][0]
    assert abs(people - 100) < 5


def test_hive_folders_are_columns_of_texts(db, tmp_path):
    for ward in ("a", "b/c", None):
        folder = tmp_path / f"ward={'__HIVE_DEFAULT_PARTITION__' if ward is None else ward.replace('/', '%2F')}"
        folder.mkdir()
        write(folder, 0, "SELECT 1 AS x FROM range(50)")
    assert db.source("t", files=f"{tmp_path}/*/*.parquet").columns == ("x", "ward")
    db.protect("t", epsilon=100.0, delta=1e-9)
    db.domain("t", "ward", values=["a", "b/c"])
    counted = db.sql("FROM dp_query('SELECT ward, count(*) FROM t GROUP BY ward', epsilon := 50)").fetchall()
    assert [(row[0], round(row[1], -1)) for row in counted] == [("a", 50), ("b/c", 50), (None, 50)]


# --- the pin ----------------------------------------------------------------------------------------------------------


def test_new_files_count_when_the_owner_moves_the_pin(visits, lake):
    """The ledger records each pin; what is asked again is the stored release."""
    write(lake, 3)
    assert abs(rows_of(visits, "visits") - 300) < 10
    assert visits.sql("SELECT files FROM dp_source('visits')").fetchall() == [(4,)]
    assert abs(rows_of(visits, "visits", 6.0) - 400) < 10
    pins = visits.sql("SELECT source, reason FROM dp_ledger() WHERE kind = 'source' ORDER BY number").fetchall()
    assert pins == [("visits", "parquet files")] * 2


def test_a_column_that_was_added_is_one_of_the_stub(visits, lake):
    write(lake, 3, f"SELECT *, 1 AS more FROM ({ROWS.format(0, 100)})")
    assert visits.source("visits").columns[-1] == "more"
    visits.domain("visits", "more", values=[1])
    query = "FROM dp_query('SELECT more, count(*) FROM visits GROUP BY more', epsilon := 5)"
    counted = visits.sql(query).fetchall()
    assert [(row[0], round(row[1], -2)) for row in counted] == [(1, 100), (None, 300)]


@pytest.mark.medium
@pytest.mark.parametrize("damage", ["gone", "cut off", "other rows", "no parquet"])
def test_a_file_that_changed_is_refused_before_the_charge(visits, lake, damage):
    """And what is there again counts; no file is named, because a name may hold a value."""
    path = lake / "1.parquet"
    kept = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "cut off":
        path.write_bytes(kept[:-100])
    elif damage == "no parquet":
        path.write_bytes(b"age,sex\n1,F\n")
    else:
        write(lake, 1, ROWS.format(7, 107))
    before = spent(visits)
    for call in ("dp_query('SELECT count(*) FROM visits', epsilon := 5)", f"dp_synthesize('visits', {OPTIONS})"):
        with pytest.raises(DpsqlError, match=r"files of 'visits' are not.*CALL dp_source\('visits'\)") as refused:
            visits.sql(f"FROM {call}").fetchall()
        assert "1.parquet" not in str(refused.value)
    assert spent(visits) == before
    path.write_bytes(kept)
    assert abs(rows_of(visits, "visits") - 300) < 10


@pytest.mark.medium
def test_what_was_charged_goes_on_when_the_files_are_back(visits, lake, monkeypatch):
    """The call that was stopped after its charge refuses a lake that is gone, and goes on with one that is restored."""
    from dpsql.release import pipeline

    def stop(*_):
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "check_unchanged", stop)  # the first thing after the charge
        with pytest.raises(Interrupted):
            rows_of(visits, "visits")
    paid = spent(visits)
    assert paid == pytest.approx(5.0)
    shutil.move(lake, f"{lake} away")
    with pytest.raises(DpsqlError, match="files of 'visits' are not what they were"):
        rows_of(visits, "visits")
    shutil.move(f"{lake} away", lake)
    assert abs(rows_of(visits, "visits") - 300) < 10
    assert spent(visits) == paid


@pytest.mark.medium
def test_rows_of_a_file_that_is_replaced_after_the_charge_are_not_counted(visits, lake, monkeypatch):
    """Whether marginals are counted once or from stored codes; the file that comes back counts, at no cost."""
    from dpsql.release import pipeline

    path = lake / "1.parquet"
    kept = path.read_bytes()
    for epsilon, call in (
        (5.0, "dp_query('SELECT count(*) FROM visits', epsilon := 5)"),
        (6.0, "dp_synthesize('visits', epsilon := 6, mechanism := 'direct')"),
    ):
        before = spent(visits) or 0
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "check_unchanged", lambda *_: write(lake, 1, ROWS.format(0, 900)))
            with pytest.raises(DpsqlError, match="files of 'visits' are not what they were"):
                visits.sql(f"FROM {call}").fetchall()
        assert spent(visits) == pytest.approx(before + epsilon)
        path.write_bytes(kept)
        assert len(visits.sql(f"FROM {call}").fetchall()) in (1, *range(200, 400))
        assert spent(visits) == pytest.approx(before + epsilon)


# --- refused ----------------------------------------------------------------------------------------------------------


def test_rows_have_one_budget(visits, lake, tmp_path):
    """Under another name, by another pattern, or in another database that is attached."""
    for name, files in (("again", f"{lake}/*.parquet"), ("some", f"{lake}/1.parquet")):
        with pytest.raises(InvalidArgument, match="registered as 'visits' of 'bank' already"):
            visits.source(name, files=files)
    visits.sql(f"ATTACH '{tmp_path}/other.duckdb' AS other")
    with pytest.raises(InvalidArgument, match="registered as 'visits' of 'bank' already"):
        visits.source("other.main.visits", files=f"{lake}/*.parquet")
    visits.sql("DROP TABLE visits")
    with pytest.raises(InvalidArgument, match="registered as 'visits' of 'bank' already"):
        visits.source("again", files=f"{lake}/*.parquet")  # it has an account


def test_a_stub_that_was_never_protected_can_be_dropped(db, lake):
    db.source("visits", files=f"{lake}/*.parquet")
    db.sql("DROP TABLE visits")
    assert db.source("others", files=f"{lake}/*.parquet").source == "others"


def test_a_stub_is_not_public(db, lake):
    """Nobody said that its rows are public, and a join would read none."""
    db.source("visits", files=f"{lake}/*.parquet")
    db.sql("CREATE TABLE t AS SELECT i % 11 AS ward FROM range(100) r(i)")
    db.protect("t", epsilon=10.0, delta=1e-9)
    db.domain("t", "ward", lower=0, upper=10, bins=11)
    with pytest.raises(DpsqlError, match="visits"):
        db.sql(
            "FROM dp_query('SELECT v.sex, count(*) FROM t JOIN visits v ON t.ward = v.ward GROUP BY v.sex', epsilon := 1)"
        ).fetchall()
    with pytest.raises(DpsqlError, match="visits"):
        db.sql("CALL dp_domain('t', 'ward', reference := 'visits.ward')").fetchall()


@pytest.mark.parametrize("sample", [{}, {"sample": 100, "rows": 300}])
def test_a_stub_that_was_altered_is_refused_before_the_charge(db, lake, sample):
    db.source("visits", files=f"{lake}/*.parquet", **sample)
    declare(db)
    db.sql("ALTER TABLE visits RENAME COLUMN ward TO room")
    db.domain("visits", "room", lower=0, upper=10, bins=11)
    with pytest.raises(DpsqlError, match=r"altered here.*CALL dp_source\('visits'\)"):
        db.sql("FROM dp_query('SELECT room, count(*) FROM visits GROUP BY room', epsilon := 5)").fetchall()
    assert spent(db) is None
    assert "ward" in db.source("visits").columns
    assert abs(rows_of(db, "visits", 90.0) - (100 if sample else 300)) < 45


def test_a_stub_that_was_renamed_says_so(visits):
    visits.sql("ALTER TABLE visits RENAME TO stays")
    with pytest.raises(InvalidArgument, match="Rename it back"):
        rows_of(visits, "stays")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "needs to know where the rows are: say files"),
        ({"engine": "oracle"}, "engine is 'oracle': there are"),
        ({"relation": "x"}, "relation is 'x', but engine 'parquet' does not know it"),
        ({"engine": "delta", "files": "x"}, "files is 'x', but engine 'delta' does not know it"),
        ({"engine": "delta"}, "needs to know where the rows are"),
        ({"engine": "delta", "relation": "nowhere"}, "there is no Delta table"),
        ({"engine": "iceberg", "relation": "nowhere.json"}, "there is no such Iceberg table as a file of metadata"),
        ({"engine": "iceberg", "relation": "a.b", "catalog": "c"}, "in catalog 'c' of pyiceberg's configuration"),
        ({"files": "nowhere/*.parquet"}, "there is no such file"),
        ({"files": "s3://bucket/*.parquet?token=canary"}, "CREATE SECRET"),
        ({"sample": 10}, "give both"),
        ({"sample": 10, "rows": 10}, "which is all"),
        ({"sample": 0, "rows": 10}, "sample is 0: give 1"),
        ({"identity": "nobody"}, "identity is .*nobody.*give one column"),
    ],
)
def test_bad_arguments_change_nothing(db, lake, arguments, says):
    needs = {"sample", "identity"} & arguments.keys()
    given = {"files": f"{lake}/*.parquet", **arguments} if needs else arguments
    with pytest.raises(InvalidArgument, match=says) as refused:
        db.source("visits", **given)
    assert "canary" not in str(refused.value)
    assert db.sql("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'visits'").fetchall() == [(0,)]


def test_a_table_with_rows_is_no_source(db, lake):
    db.sql("CREATE TABLE visits AS SELECT 1 AS x")
    with pytest.raises(InvalidArgument, match="whose rows are in this database"):
        db.source("visits", files=f"{lake}/*.parquet")


def test_only_an_owner_registers(tmp_path, lake):
    with dpsql.connect(tmp_path / "bank.duckdb", owner=False) as db, pytest.raises(NotOwner):
        db.sql(f"CALL dp_source('visits', files := '{lake}/*.parquet')")
    with dpsql.connect(tmp_path / "bank.duckdb", read_only=True) as db, pytest.raises(BooksError, match="read-only"):
        db.source("visits", files=f"{lake}/*.parquet")


def test_files_whose_types_differ_are_refused(db, lake):
    """DuckDB would cast one, and say which value does not fit."""
    write(lake, 3, f"SELECT '{CANARY}' AS age")
    with pytest.raises(InvalidArgument, match="column 'age' has other types in some of the files") as refused:
        db.source("visits", files=f"{lake}/*.parquet")
    assert CANARY not in str(refused.value)


# --- samples ----------------------------------------------------------------------------------------------------------


def test_a_sample_is_drawn_once(db, lake):
    """The lake may go away; a moved pin keeps the rows that were drawn, and draws from the new ones."""
    made = db.source("visits", files=f"{lake}/*.parquet", sample=150, rows=300)
    assert made.share == 0.5
    table = db.sql("SELECT json_extract_string(sample, '$.table') FROM dpsql.source").fetchall()[0][0]
    drawn = db.sql(f"FROM dpsql.{table} ORDER BY ALL").fetchall()
    assert 100 < len(drawn) < 200
    write(lake, 3)
    db.source("visits")
    ((table,),) = db.sql("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'sample%'").fetchall()
    more = db.sql(f"FROM dpsql.{table} ORDER BY ALL").fetchall()
    assert set(drawn) < set(more)
    declare(db)
    shutil.rmtree(lake)
    assert abs(rows_of(db, "visits", 50.0) - len(more)) < 5


def test_a_sample_has_all_rows_of_a_unit(db, lake):
    db.source("visits", files=f"{lake}/*.parquet", sample=150, rows=300, identity="who")
    ((table,),) = db.sql("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'sample%'").fetchall()
    assert db.sql(f"SELECT DISTINCT count(*) FROM dpsql.{table} GROUP BY who").fetchall() == [(3,)]
    with pytest.raises(InvalidArgument, match="drawn by who"):
        db.protect("visits", epsilon=10.0, delta=1e-9, privacy_unit="ward", max_rows=2)
    db.protect("visits", epsilon=10.0, delta=1e-9, privacy_unit="who", max_rows=2)
    with pytest.raises(InvalidArgument, match="say identity := 'who'"):
        db.source("visits", files=f"{lake}/*.parquet", sample=150, rows=300, identity="ward")


def test_a_sample_does_not_begin_after_a_release(visits):
    rows_of(visits, "visits")
    with pytest.raises(InvalidArgument, match="sample is new, but releases of 'visits' were charged"):
        visits.source("visits", sample=100, rows=300)


# --- Delta and Iceberg ------------------------------------------------------------------------------------------------

TABLE = pa.table(
    {"ward": ["a b/%", "ü", None] * 40, "x": pa.array([1, 2, 3] * 40, pa.int32()), "day": [date(2024, 1, 1)] * 120}
)


def delta_table(folder, **how):
    import deltalake

    deltalake.write_deltalake(folder, TABLE, **how)
    return deltalake.DeltaTable(folder)


def test_partitions_and_versions_of_a_delta_table(db, tmp_path):
    delta_table(tmp_path / "d", partition_by=["ward", "day"])
    delta_table(tmp_path / "d", mode="append")
    assert db.source("t", "delta", relation=str(tmp_path / "d")).pin == "delta, version 1"
    assert db.source("t", snapshot=0).pin == "delta, version 0"
    assert [row[1] for row in db.sql("DESCRIBE t").fetchall()] == ["VARCHAR", "INTEGER", "DATE"]
    db.protect("t", epsilon=100.0, delta=1e-9)
    db.domain("t", "ward", values=["a b/%", "ü"])
    db.domain("t", "day", lower="2024-01-01", upper="2024-01-02", bins=2)
    query = "SELECT ward, day, count(*) FROM t WHERE day = DATE ''2024-01-01'' GROUP BY ALL"
    counted = db.sql(f"FROM dp_query('{query}', epsilon := 50)").fetchall()
    assert [(row[0], round(row[2], -1)) for row in counted] == [("a b/%", 40), ("ü", 40), (None, 40)]


def declared(folder, *features):
    """The actions of a Delta table's first version, with features as a writer of another engine would declare them."""
    log = folder / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7} | {
                "readerFeatures": features,
                "writerFeatures": features,
            }
    log.write_text("\n".join(map(json.dumps, actions)))
    return actions


def test_delta_features_that_change_the_rows_are_refused(db, tmp_path):
    delta_table(tmp_path / "d")
    declared(tmp_path / "d", "typeWidening")
    with pytest.raises(InvalidArgument, match="DROP FEATURE typeWidening"):
        db.source("t", "delta", relation=str(tmp_path / "d"))


@pytest.fixture
def iceberg(tmp_path, monkeypatch):
    """A table of a catalog that pyiceberg knows by its name."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    configured(monkeypatch, "prod", uri=f"sqlite:///{tmp_path}/c.db")
    catalog.create_namespace("bank")
    table = catalog.create_table("bank.t", schema=TABLE.schema)
    table.append(TABLE)
    return table


@pytest.mark.medium
def test_columns_of_an_iceberg_table_are_known_by_their_ids(db, iceberg):
    """One that was renamed and widened is the same one; one that was added is NULL in older files."""
    from pyiceberg.types import LongType

    first = iceberg.current_snapshot().snapshot_id
    with iceberg.update_schema() as change:
        change.rename_column("ward", "room")
        change.update_column("x", LongType())
        change.add_column("more", LongType())
    more = pa.table({"room": ["ü"] * 60, "x": [3] * 60, "day": [date(2024, 1, 1)] * 60, "more": [2**40] * 60})
    iceberg.append(more)
    db.source("t", "iceberg", relation="bank.t", catalog="prod")
    db.protect("t", epsilon=200.0, delta=1e-9)
    db.domains("t", {"room": {"values": ["ü"], "other": "?"}, "x": {"values": [1, 2, 3]}, "more": {"values": [2**40]}})
    query = "FROM dp_query('SELECT {0}, count(*) FROM t GROUP BY {0} ORDER BY 2', epsilon := {1})"
    for column, counts in {"room": [40, 40, 100], "x": [40, 40, 100], "more": [60, 120]}.items():
        found = db.sql(query.format(column, 20)).fetchall()
        assert sorted(round(row[1], -1) for row in found if row[1] > 10) == counts, column
    old = db.source("t", snapshot=first)
    assert old.pin == f"iceberg, snapshot {first}"
    assert old.columns == ("ward", "x", "day")


# --- nothing leaks ----------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_no_value_is_in_an_error_or_a_text_of_sql(db, tmp_path):
    """A value in each column, in the name of a folder, and in each way to fail; every log of statements is looked at."""
    lake = tmp_path / f"town={CANARY}"
    lake.mkdir()
    path = write(lake, 0, f"SELECT '{CANARY}' AS name, '{CANARY}' AS town2, 1 AS x FROM range(9)")
    said = []
    db.sql("CALL enable_logging('QueryLog')")
    db.source("t", files=f"{tmp_path}/*/*.parquet")
    db.protect("t", epsilon=30.0, delta=1e-9)
    db.domain("t", "name", values=["a"], other="b")
    query = "FROM dp_query('SELECT name, count(*) FROM t GROUP BY name', epsilon := {})"

    def fails(epsilon, error=DpsqlError):
        with pytest.raises(error) as failed:
            db.sql(query.format(epsilon)).fetchall()
        said.append(str(failed.value))

    db.sql(query.format(1)).fetchall()
    kept = path.read_bytes()
    for epsilon, damaged in ((2, kept[:-9]), (3, b""), (4, kept + b"x")):
        path.write_bytes(damaged)
        fails(epsilon)
    path.unlink()
    fails(5)
    broken = pa.array([CANARY.encode() + b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"name": broken, "town2": ["x"], "x": [1]}), path)
    db.source("t")
    fails(6)  # DuckDB's own words quote the text that is none
    write(lake, 1, f"SELECT 1 AS name, '{CANARY}' AS town2, 1 AS x")
    with pytest.raises(InvalidArgument) as refused:
        db.source("t")
    said.append(str(refused.value))
    fails(29, InsufficientBudget)
    texts = str(db.sql("SELECT message FROM duckdb_logs WHERE type = 'QueryLog'").fetchall())
    ledger = str(db.sql("FROM dp_ledger()").fetchall())
    assert "read_parquet" in texts
    for text in (*said, texts, ledger):
        assert CANARY not in text, text
    assert len(said) == 7


def test_no_credential_is_stored(db, tmp_path):
    """An address with a token is refused, and not repeated."""
    with pytest.raises(InvalidArgument) as refused:
        db.source("t", "delta", relation="s3://bucket/t?sig=tok3n")
    assert "tok3n" not in str(refused.value)
