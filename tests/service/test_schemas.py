"""A linked release as users read it: all its tables in one schema, with keys that programs see."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import duckdb
import psycopg
import pytest

import dpsql
from tests.service.conftest import JDBC, Served, need_jdbc, need_psql
from tests.service.test_statements import statements

pytestmark = pytest.mark.medium
TABLES = """
    CREATE TABLE house ("town no" INTEGER, nr VARCHAR, size INTEGER NOT NULL, name VARCHAR NOT NULL, PRIMARY KEY ("town no", nr));
    CREATE TABLE "Per.sons" (pid UUID PRIMARY KEY, "town no" INTEGER, nr VARCHAR, sick BOOLEAN,
        FOREIGN KEY ("town no", nr) REFERENCES house ("town no", nr));
    CREATE TABLE "order" (pid UUID REFERENCES "Per.sons" (pid), kind INTEGER);
    CREATE TABLE deeds ("town no" INTEGER, nr VARCHAR, old BOOLEAN, PRIMARY KEY ("town no", nr),
        FOREIGN KEY ("town no", nr) REFERENCES house ("town no", nr));
    INSERT INTO house SELECT i % 7, i::VARCHAR, i % 3, '' FROM range(300) r(i);
    INSERT INTO "Per.sons" SELECT uuid(), "town no", nr, n = 0 FROM house, range(2) s(n);
    INSERT INTO "order" SELECT nullif(pid, (SELECT min(pid) FROM "Per.sons")), 1 FROM "Per.sons" WHERE sick;
    INSERT INTO deeds SELECT "town no", nr, size = 0 FROM house WHERE size > 0;
    CALL dp_protect('house', epsilon := 90.0, delta := 1e-9);
    CALL dp_link('"Per.sons"', 'house', key := ['town no', 'nr'], most := 3);
    CALL dp_link('"order"', '"Per.sons"', most := 2);
    CALL dp_link('deeds', 'house', key := ['town no', 'nr'], most := 1);
    CALL dp_domain('house', 'size', lower := 0, upper := 2);
    CALL dp_domain('house', 'name', exclude := true);
    CALL dp_domain('"order"', 'kind', lower := 0, upper := 2);
"""
COUNT = 'SELECT count(*) FROM made.house JOIN made."Per.sons" USING ("town no", nr) JOIN made."order" USING (pid)'
SEES = """
    SELECT (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM information_schema.table_constraints),
        (SELECT count(*) FROM information_schema.key_column_usage), (SELECT count(*) FROM pg_index),
        (SELECT count(*) FROM pg_class WHERE relnamespace <> 2200), (SELECT count(*) FROM pg_indexes),
        (SELECT count(*) FROM pg_namespace WHERE nspname = 'made'), (SELECT count(*) FROM pgx.dpsql_key)
"""
REFERRED = [
    ("Per.sons", ["town no", "nr"], "house", ["town no", "nr"]),
    ("deeds", ["town no", "nr"], "house", ["town no", "nr"]),
    ("order", ["pid"], "Per.sons", ["pid"]),
]


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """A service whose alice is shown a linked release in the schema `made`, and whose rita is not."""
    from dpsql.service.supervisor import serve

    path = tmp_path_factory.mktemp("linked") / "bank.duckdb"
    with dpsql.connect(str(path)) as db:
        for statement in filter(str.strip, TABLES.split(";")):
            db.sql(statement) and None
        for epsilon, name in ((20.0, "first"), (30.0, "second")):
            db.synthesize("house", epsilon, linked=True, steps=10, relaxed_rows=10, release=name)
        tokens = {name: db.users.add(name, role) for name, role in (("alice", "analyst"), ("rita", "reader"))}
        db.sql("CALL dp_publish('first', 'made', comment := 'Houses, simulated')").fetchall()
    with serve(str(path), port=0) as service:
        yield Served(service, path, tokens)


@pytest.fixture(scope="module")
def connection(linked):
    with psycopg.connect(linked.dsn(), autocommit=True) as found:
        yield found


def test_a_column_that_always_has_a_value_is_not_null(connection):
    """As in the database's own schema; one that is excluded has no values, though it is NOT NULL in the table."""
    nullable = """
        SELECT column_name, is_nullable FROM information_schema.columns
        WHERE table_schema = 'made' AND table_name IN ('house', 'order') ORDER BY table_name, ordinal_position"""
    assert connection.execute(nullable).fetchall() == [
        ("town no", "NO"), ("nr", "NO"), ("size", "NO"), ("name", "YES"), ("pid", "YES"), ("kind", "YES")
    ]  # fmt: skip


def ours(linked: Served, *command: str) -> subprocess.CompletedProcess[str]:
    """A command of the owner's, while the service runs."""
    from sys import executable

    return subprocess.run(
        [executable, "-m", "dpsql", command[0], str(linked.path), *command[1:]],
        capture_output=True,
        text=True,
        check=False,
    )


def test_keys_lead_to_rows_and_joins_are_read(connection):
    ((count,),) = connection.execute(COUNT).fetchall()
    assert count > 100
    assert connection.execute(COUNT.replace(" made.", " dpsql.made.")).fetchall() == [(count,)]
    lost = 'SELECT count(*) FROM made."Per.sons" p ANTI JOIN made.house h USING ("town no", nr)'
    assert connection.execute(lost).fetchall() == [(0,)]
    assert connection.execute("SELECT obj_description('made.house'::regclass)").fetchone()[0].startswith("Houses, sim")
    assert connection.execute("SELECT has_table_privilege('made.house', 'SELECT')").fetchall() == [(True,)]
    for text, code in (("SELECT * FROM made.other", "42P01"), ("SELECT * FROM other.house", "42501")):
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(text)
        assert refused.value.sqlstate == code, text


@pytest.mark.client("psql", "15", "`\\d` of tables with keys", "")
def test_psql_describes_keys(linked):
    need_psql()
    command = [
        "psql",
        linked.dsn(),
        "-X",
        "-c",
        r"\d made.*",
        "-c",
        r"\dn",
        "-c",
        r"\di made.*",
        "-c",
        r"\d+ made.house",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    for line in (
        '    "house_pkey" PRIMARY KEY, btree ("town no", nr)',
        '    "Per.sons_town no_nr_fkey" FOREIGN KEY ("town no", nr) REFERENCES made.house("town no", nr)',
        '    TABLE "made."order"" CONSTRAINT "order_pid_fkey" FOREIGN KEY (pid) REFERENCES made."Per.sons"(pid)',
    ):
        assert line in done.stdout, done.stdout
    assert re.search(r"^ made +\| dpsql$", done.stdout, re.MULTILINE)


def test_sqlalchemy_reflects_keys(linked):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = f"postgresql+psycopg://alice:{linked.tokens['alice']}@127.0.0.1:{linked.service.port}/dpsql?sslmode=require"
    engine = sqlalchemy.create_engine(url)
    inspected = sqlalchemy.inspect(engine)
    assert inspected.get_table_names() == []
    assert sorted(inspected.get_table_names("made")) == ["Per.sons", "deeds", "house", "order"]
    referred = [
        (table, key["constrained_columns"], key["referred_table"], key["referred_columns"])
        for table in sorted(inspected.get_table_names("made"))
        for key in inspected.get_foreign_keys(table, "made")
        if key["referred_schema"] == "made"
    ]
    assert referred == REFERRED
    assert inspected.get_pk_constraint("deeds", "made")["constrained_columns"] == ["town no", "nr"]
    assert inspected.get_pk_constraint("order", "made")["constrained_columns"] == []
    nullable = {column["name"]: column["nullable"] for column in inspected.get_columns("Per.sons", "made")}
    assert nullable == {"pid": False, "town no": True, "nr": True, "sick": True}
    metadata = sqlalchemy.MetaData()
    metadata.reflect(engine, schema="made")
    persons, house = metadata.tables["made.Per.sons"], metadata.tables["made.house"]
    with engine.connect() as asked:  # SQLAlchemy finds the condition of the join by the foreign key
        assert asked.execute(sqlalchemy.select(sqlalchemy.func.count()).select_from(persons.join(house))).scalar() > 100
    engine.dispose()


def test_metabase_finds_keys(connection):
    """Its statements for a sync: of `statements/metabase.sql`, those that ask for keys."""
    asked = [sql for sql, _ in statements("metabase") if "'f'::char" in sql or "AS pk ON" in sql]
    assert len(asked) == 2
    primary, foreign = (sql.replace("'main'", "'made'").replace("'shown'", "'deeds'") for sql in asked)
    assert {row[0] for row in connection.execute(primary.encode()).fetchall() if row[5]} == {"town no", "nr"}
    found = {(row[0], row[2], row[3], row[5]) for row in connection.execute(foreign.encode()).fetchall()}
    assert {("order", "pid", "Per.sons", "pid"), ("deeds", "nr", "house", "nr")} <= found


JAVA = """
    import java.sql.*;
    class Keys {
        public static void main(String[] given) throws Exception {
            try (Connection c = DriverManager.getConnection(given[0], "alice", given[1])) {
                DatabaseMetaData told = c.getMetaData();
                for (ResultSet r = told.getPrimaryKeys(null, "made", "house"); r.next(); )
                    System.out.println("p " + r.getString(4) + " " + r.getShort(5) + " " + r.getString(6));
                for (ResultSet r = told.getImportedKeys(null, "made", "order"); r.next(); )
                    System.out.println("i " + r.getString(3) + " " + r.getString(4) + " " + r.getString(8));
                for (ResultSet r = told.getExportedKeys(null, "made", "house"); r.next(); )
                    System.out.println("e " + r.getString(7) + " " + r.getString(8) + " " + r.getString(13));
                for (ResultSet r = told.getIndexInfo(null, "made", "house", true, true); r.next(); )
                    System.out.println("x " + r.getString(6) + " " + r.getBoolean(4) + " " + r.getString(9));
            }
        }
    }
"""
HEARD = """
p town no 1 house_pkey
p nr 2 house_pkey
i Per.sons pid pid
e Per.sons town no house_pkey
e Per.sons nr house_pkey
e deeds town no house_pkey
e deeds nr house_pkey
x house_pkey false town no
x house_pkey false nr
"""


def test_jdbc_lists_keys(linked, tmp_path):
    need_jdbc()
    (tmp_path / "Keys.java").write_text(JAVA)
    url = f"jdbc:postgresql://127.0.0.1:{linked.service.port}/dpsql?sslmode=require"
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(JDBC), str(tmp_path / "Keys.java"), url]
    done = subprocess.run([*command, linked.tokens["alice"]], capture_output=True, text=True, check=False)
    assert sorted(done.stdout.split("\n")) == sorted([*HEARD.strip("\n").split("\n"), ""]), done.stderr


def test_duckdb_attaches_a_schema(linked):
    if not duckdb.__version__.startswith("1.5."):
        pytest.skip("the extension postgres has a wheel for DuckDB 1.5 only")
    extension = pytest.importorskip("duckdb_extension_postgres_scanner")
    (path,) = Path(os.path.dirname(extension.__file__)).rglob("*.duckdb_extension")
    with duckdb.connect() as db:
        db.execute(f"LOAD '{path}'")
        db.execute(f"ATTACH '{linked.dsn()}' AS bank (TYPE postgres, READ_ONLY)")
        ((count,),) = db.execute(COUNT.replace(" made.", " bank.made.")).fetchall()
        assert count > 100
        kinds = db.execute("SELECT constraint_type FROM duckdb_constraints() WHERE table_name = 'house'").fetchall()
        assert ("PRIMARY KEY",) in kinds


def test_who_is_not_shown_it_sees_no_key_of_it(linked, connection):
    assert min(connection.execute(SEES).fetchone()) > 0
    with psycopg.connect(linked.dsn("rita"), autocommit=True) as other:
        assert other.execute(SEES).fetchone() == (0,) * 8
        assert other.execute("SELECT to_regclass('made.house')").fetchone() == (None,)
        assert other.execute("SELECT count(*) FROM pg_tables").fetchone() == (0,)
        for text in ("SELECT * FROM made.house", "SELECT * FROM dpsql.made.house", "DESCRIBE made.house"):
            with pytest.raises(psycopg.Error) as refused:
                other.execute(text)
            assert "may not be read" in str(refused.value) or "are served" in str(refused.value), text


VECTORS = ("indkey", "indoption", "indcollation")
FORMS = (
    "SELECT {of} {rows}",
    "SELECT {of} AS other {rows}",
    "SELECT c.relname::text AS named, {of} {rows}",
    "SELECT * FROM (SELECT {of} {rows}) deeper",
    "SELECT {of}::text, ({of}::varchar)::text AS other {rows}",
    "WITH one AS (SELECT {of}, c.relname::text AS named {rows}) SELECT one.*, 1::int8 AS n FROM one",
    "SELECT {of} {rows} UNION ALL SELECT {of} {rows}",
    "SELECT {of} {rows} AND {of}[0] IS NULL AND false",
    "SELECT {of}, count(*) {rows} GROUP BY {of}",
)
ROWS_OF_INDEX = (
    "FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indrelid JOIN pg_catalog.pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = 'made' AND x.indisprimary AND c.relname {which}"
)


def test_vectors_are_those_of_postgresql(connection, real):
    """Text and binary, by a cursor and by COPY; with the collations of what has none."""
    real.execute("DROP SCHEMA IF EXISTS made CASCADE; CREATE SCHEMA made; SET search_path = made")
    real.execute("; ".join(TABLES.split(";")[:4]).encode())
    for column in VECTORS:
        rows = ROWS_OF_INDEX.format(which="= 'Per.sons'" if "coll" in column else "<> 'order'")
        for form in FORMS:
            text = form.format(of=column, rows=rows)
            assert told_of(connection, text) == told_of(real, text), text
    real.execute("RESET search_path; DROP SCHEMA made CASCADE")


def told_of(asked: psycopg.Connection, text: str) -> list[object]:
    """What comes of a question in each way, with the types of its columns."""
    found: list[object] = []
    for binary in (False, True):
        with asked.cursor(binary=binary) as cursor:
            cursor.execute(text.encode())
            result = cursor.pgresult
            values = [result.get_value(row, place) for row in range(result.ntuples) for place in range(result.nfields)]
            found.append(
                (sorted(values), [(result.ftype(place), result.fname(place)) for place in range(result.nfields)])
            )
    for options in ("", " WITH (FORMAT csv)", " WITH (FORMAT binary)"):
        with asked.cursor().copy(f"COPY ({text}) TO STDOUT{options}".encode()) as copy:
            found.append(sorted(b"".join(copy)))  # the rows come in any order
    with asked.transaction(), asked.cursor("held") as held:
        held.execute(text.encode())
        found.append(sorted(map(str, held.fetchall())))
    return found


def test_another_release_replaces_all_tables_and_hiding_takes_all(linked):
    """Last, because it changes what alice is shown."""

    def told() -> tuple[object, ...]:
        with psycopg.connect(linked.dsn(), autocommit=True) as fresh:
            rows = [fresh.execute(f'SELECT count(*) FROM made."{name}"').fetchone()[0] for name, *_ in REFERRED]
            return (*rows, *fresh.execute(SEES).fetchone())

    before = told()
    done = ours(linked, "publish", "second", "made")
    assert done.returncode == 0, done.stderr
    assert "made: release second, published to analysts" in done.stdout
    after = told()
    assert after[3:] == before[3:], "as many keys"
    assert after[:3] != before[:3], "other rows"
    assert ours(linked, "publish", "second", "made", "--audience", "rita").returncode == 0
    with psycopg.connect(linked.dsn("rita"), autocommit=True) as other:
        assert other.execute(COUNT).fetchone()[0] > 100
    with psycopg.connect(linked.dsn(), autocommit=True) as fresh:
        assert fresh.execute(SEES).fetchone() == (0,) * 8
    assert ours(linked, "unpublish", "made").returncode == 0
    with psycopg.connect(linked.dsn("rita"), autocommit=True) as other:
        assert other.execute(SEES).fetchone() == (0,) * 8
    done = ours(linked, "publish", "first", "dpsql_results")
    assert done.returncode != 0
    assert "every database of the service" in done.stderr
