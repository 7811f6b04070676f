"""Real clients: each asks a query, a synthetic table and a plan, reads a released table and lists the schema."""

from __future__ import annotations

import asyncio
import csv
import io
import struct
import subprocess
import sys
import threading

import duckdb
import psycopg
import pytest

import dpsql
from tests.service.conftest import SHOWN, need_psql
from tests.service.test_wire import raw_session, read

pytestmark = pytest.mark.medium
QUERY = "SELECT sex, count(*) AS n FROM adult GROUP BY sex"
ASK = f"SELECT * FROM dp_query('{QUERY}', epsilon => 0.1)"
FIT = "SELECT * FROM dp_synthesize('adult', epsilon => 0.2, columns => ['sex', 'race'], rows => 50, mechanism => 'direct')"
PLAN = "SELECT count(*) FROM dp_plan('adult', epsilon => 0.5)"
RELEASES = "SELECT source, releases FROM dp_budget() ORDER BY 1"
LONG = "SELECT count(*) FROM range(1000000) a(x), range(1000000) b(y) WHERE x * y % 7 = 3"


def psql(served, *statements, user="alice", options=()):
    need_psql()
    commands = [part for statement in statements for part in ("-c", statement)]
    return subprocess.run(
        ["psql", served.dsn(user), "-X", *options, *commands], capture_output=True, text=True, check=False
    )


def test_psql(served):
    asked = ASK.replace("0.1", "0.1, release => 'psql'")  # a question that was asked before shows no progress
    done = psql(served, asked, FIT, PLAN, "SELECT i, s FROM shown WHERE i = 7")
    assert done.returncode == 0, done.stderr
    assert "n_stderr" in done.stdout
    assert "Female" in done.stdout
    assert "(50 rows)" in done.stdout
    assert "text 7" in done.stdout
    assert "NOTICE:" in done.stderr, "progress"


@pytest.mark.client(
    "psql",
    "15",
    "questions, synthetic tables, `\\l`, `\\dn`, `\\d`, `\\d+`, `\\dt+`, `\\df`, `\\du`, `\\dv`",
    "",
)
def test_psql_shows_the_schema(served):
    done = psql(
        served, r"\l", r"\dn", r"\d", r"\dt+", r"\d shown", r"\d+ shown", r"\df", r"\du", r"\dv", r"\di", r"\dT"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.replace("Did not find any relations.", "").strip() == ""
    for words in ("List of databases", "List of schemas", "it's made", "numeric(38,4)", "dp_query", "timestamp with"):
        assert words in done.stdout
    assert "dpsql_results" not in done.stdout
    assert "secret" not in done.stdout


@pytest.mark.client(
    "psycopg 3",
    "3.3",
    "questions, parameters, binary results, cursors, COPY, cancel",
    "",
)
def test_psycopg(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        before = dict(connection.execute(RELEASES).fetchall())
        first = connection.execute(ASK.replace("0.1", "0.1, release => 'psycopg'")).fetchall()
        releases = connection.execute(RELEASES).fetchall()
        asked = "SELECT * FROM dp_query(%s, epsilon => %s, release => 'psycopg')"
        assert first == connection.execute(asked, [QUERY, 0.1]).fetchall(), "a repeat is free, and the same"
        assert connection.execute(RELEASES).fetchall() == releases
        assert releases == [("adult", before["adult"] + 1), ("asked", before["asked"])]
        assert [row[0] for row in first] == ["Female", "Male"]
        assert connection.execute(PLAN).fetchall()[0][0] > 100
        assert len(connection.execute(FIT, binary=True).fetchall()) == 50
        assert connection.execute("SELECT i FROM shown WHERE whole = %s AND d > %s", [7, "1999-01-01"]).fetchall() == [
            (7,)
        ]


@pytest.mark.client(
    "asyncpg",
    "0.32",
    "questions, parameters, arrays, cursors, COPY",
    "the text of a `dp_query` is written into the statement, because asyncpg asks for columns first",
)
def test_asyncpg(served):
    asyncpg = pytest.importorskip("asyncpg")

    async def talk():
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=served.service.port,
            user="alice",
            password=served.tokens["alice"],
            ssl="require",
            database="dpsql",
        )
        assert [row["sex"] for row in await connection.fetch(ASK)] == ["Female", "Male"]
        assert len(await connection.fetch(FIT)) == 50
        assert await connection.fetchval(PLAN) > 100
        assert await connection.fetchval("SELECT i FROM shown WHERE i = $1", 7) == 7
        async with connection.transaction():
            assert len([row async for row in connection.cursor("SELECT i FROM shown")]) == 1000
        with pytest.raises(asyncpg.FeatureNotSupportedError, match="write the arguments"):
            await connection.fetch("SELECT * FROM dp_query($1, epsilon => $2)", QUERY, 0.1)
        assert await connection.fetchval("SELECT $1::BIGINT[]", [1, None]) == [1, None]
        names = await connection.fetch("SELECT tablename FROM pg_catalog.pg_tables")
        assert [row["tablename"] for row in names] == ["shown"]
        await connection.close()

    asyncio.run(talk())


@pytest.mark.client(
    "SQLAlchemy",
    "2.1",
    "reflection, expressions, questions",
    "",
)
def test_sqlalchemy(served):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = f"postgresql+psycopg://alice:{served.tokens['alice']}@127.0.0.1:{served.service.port}/dpsql?sslmode=require"
    engine = sqlalchemy.create_engine(url)
    found = sqlalchemy.inspect(engine)
    assert found.get_table_names() == ["shown"]
    assert [column["name"] for column in found.get_columns("shown")][:3] == ["i", "b", "small"]
    shown = sqlalchemy.Table("shown", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.select(shown.c.i).where(shown.c.i < 2)).all() == [(0,), (1,)]
        for statement in (ASK, FIT, PLAN):
            assert connection.execute(sqlalchemy.text(statement)).all()
    engine.dispose()


NATIVE = [
    "i",
    "b",
    "small",
    "whole",
    "x",
    "wide",
    "huge",
    "f",
    "n",
    "d",
    "time",
    "t",
    "tz",
    "u",
    "bl",
    "m",
    "s",
    "nothing",
]


def own_rows(columns: str):
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.execute(SHOWN)
        return db.execute(f"SELECT {columns} FROM shown ORDER BY i").fetchall()


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_types_are_duckdbs_own_values(served, binary):
    columns = ", ".join(NATIVE)
    with psycopg.connect(served.dsn()) as connection:
        found = connection.execute(f"SELECT {columns} FROM shown ORDER BY i", binary=binary).fetchall()
    for got, own in zip(found, own_rows(columns), strict=True):
        assert [*got] == [pytest.approx(v, rel=1e-6) if isinstance(v, float) else v for v in own]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_intervals_and_nested_values(served, binary):
    with psycopg.connect(served.dsn()) as connection:
        found = connection.execute("SELECT iv, l, st FROM shown WHERE i = 3", binary=binary).fetchall()
    assert found[0][0].total_seconds() == (93 * 86400) - 3
    assert found[0][1:] == ([3, 4], "{'a': 3, 'b': x}")


LISTS = """
    SELECT ['a', NULL, 'b "c", {d}', '', 'null', 'back\\slash', ' x'] AS words, [1.50, NULL, -2.00] AS decimals, []::INTEGER[] AS none,
    NULL::DOUBLE[] AS nothing, [DATE '2020-02-29', NULL], [TIMESTAMP '2020-02-29 12:34:56.789'], [true, false],
    ['\\x00\\xFF'::BLOB], [0.1::DOUBLE, 'inf'], ['00000000-0000-0000-0000-000000000001'::UUID], [[1, 2], [3]] AS nested,
    [1, 2]::INTEGER[2] AS fixed, [{'a': 1}] AS structs
    FROM shown WHERE i < 3
"""


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_lists_are_arrays(served, binary):
    with psycopg.connect(served.dsn()) as connection:
        found = connection.execute(LISTS, binary=binary).fetchall()
    with duckdb.connect() as db:
        db.execute(SHOWN)
        own = db.execute(LISTS).fetchall()
    assert len(found) == len(own) == 3
    for row, (*values, _, fixed, _) in zip(found, own, strict=True):
        assert [*row] == [*values, "[[1, 2], [3]]", [*fixed], ["{'a': 1}"]]


def test_parameters_may_be_lists(served):
    fit = FIT.replace("['sex', 'race']", "%s")
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        assert connection.execute(fit, [["sex", "race"]]).fetchall() == connection.execute(FIT).fetchall()
        for numbers in ([3, 5], [3, None]):
            sql = "SELECT i FROM shown WHERE i = ANY(%b) ORDER BY i"
            found = connection.execute(sql, [numbers]).fetchall()
            assert found == [(number,) for number in numbers if number is not None]
        words = ['it\'s "quoted"', "", "{a,b}", "null", None, "back\\slash"]
        assert connection.execute("SELECT %s::VARCHAR[]", [words]).fetchall() == [(words,)]
        for wrong in ("{1,", "{{1},{2}}", '{"1', "1"):
            with pytest.raises(psycopg.errors.ProtocolViolation):
                connection.execute("SELECT %s::INTEGER[]", [wrong])
        assert connection.execute("SELECT '{a,\"b c\",NULL}'::text[]").fetchall() == [(["a", "b c", None],)]


def test_infinities_and_null_travel(served):
    with psycopg.connect(served.dsn()) as connection:
        sql = "SELECT 'inf'::DOUBLE, '-inf'::DOUBLE, 'nan'::DOUBLE, NULL::DECIMAL(5,2), -0.005::DECIMAL(9,4), 0::DECIMAL(3,1)"
        text, binary = (connection.execute(sql, binary=b).fetchall()[0] for b in (False, True))
    assert repr(text) == repr(binary)
    assert repr(text) == "(inf, -inf, nan, None, Decimal('-0.0050'), Decimal('0.0'))"


def test_copy_as_text_and_csv(served):
    own = own_rows("i, s, n")
    with psycopg.connect(served.dsn()) as connection:
        with connection.cursor().copy("COPY (SELECT i, s, n FROM shown ORDER BY i) TO STDOUT") as copy:
            rows = list(copy.rows())
        assert [(int(i), s, n if n is None else float(n)) for i, s, n in rows] == own
        with connection.cursor().copy(
            "COPY (SELECT i, s, n FROM shown ORDER BY i) TO STDOUT (FORMAT csv, HEADER)"
        ) as copy:
            text = b"".join(bytes(part) for part in copy).decode()
        with connection.cursor().copy("COPY (SELECT 'a,b\\c' AS x, 1.5 AS y) TO STDOUT (DELIMITER ',')") as copy:
            assert b"".join(bytes(part) for part in copy) == b"a\\,b\\\\c,1.5\n"
        with connection.cursor().copy("COPY (SELECT 1 AS x, NULL AS y) TO STDOUT (FORMAT csv, NULL '1')") as copy:
            assert b"".join(bytes(part) for part in copy) == b'"1",1\n'
        every = "COPY (SELECT * FROM shown ORDER BY i) TO STDOUT"
        with connection.cursor().copy(every) as copy:
            assert [len(row) for row in copy.rows()] == [len(own_rows("*")[0])] * 1000
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["i", "s", "n"]
    assert [(int(i), s, float(n) if n else None) for i, s, n in rows] == own


def test_cancel_and_timeout(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        timer = threading.Timer(0.5, connection.cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
            connection.execute(LONG)
        timer.join()
        connection.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="more than 0.3 seconds"):
            connection.execute(LONG)
        connection.execute("RESET statement_timeout")
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["counting", "fitting", "rounding"])
def test_a_fit_is_cancelled_and_goes_on_later(served, stage):
    """As it begins to fit, it compiles."""
    call = "SELECT count(*) FROM dp_synthesize('adult', epsilon => 0.5, steps => 20, release => 'cancelled')"
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        heard = threading.Event()
        connection.add_notice_handler(lambda notice: heard.set() if stage in notice.message_primary else None)
        canceller = threading.Thread(target=lambda: heard.wait(300) and connection.cancel())
        canceller.start()
        with pytest.raises(psycopg.errors.QueryCanceled, match="what was charged is kept"):
            connection.execute(call)
        heard.set()
        canceller.join()
        spent = connection.execute("SELECT epsilon_spent FROM dp_budget()").fetchall()
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
        assert connection.execute("SELECT epsilon_spent FROM dp_budget()").fetchall() == spent


def test_portals_send_some_rows_at_a_time(served):
    with psycopg.connect(served.dsn()) as connection:
        rows = connection.cursor().stream("SELECT i FROM shown ORDER BY i", size=1)
        assert [row[0] for row in rows] == list(range(1000))


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_cursors_go_forward(served, binary):
    with psycopg.connect(served.dsn()) as connection:
        with connection.cursor(name='it\'s a "cursor"', binary=binary) as cursor:
            cursor.execute("SELECT i, s FROM shown WHERE i >= %s ORDER BY i", [7])
            assert [column.name for column in cursor.description] == ["i", "s"]
            assert cursor.fetchone()[0] == 7
            assert [row[0] for row in cursor.fetchmany(3)] == [8, 9, 10]
            assert connection.execute("SELECT 'between'").fetchone() == ("between",)
            cursor.scroll(5)
            assert [row[0] for row in cursor] == list(range(16, 1000))
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="can only scan forward"):
                cursor.scroll(-1)
        connection.rollback()
        with connection.cursor(name="held", withhold=True, binary=binary) as cursor:
            cursor.execute("SELECT i FROM shown ORDER BY i")
            connection.commit()
            assert len(cursor.fetchall()) == 1000
        with connection.cursor(name="lost", binary=binary) as cursor:
            cursor.execute("SELECT i FROM shown ORDER BY i")
            connection.commit()
            with pytest.raises(psycopg.errors.InvalidCursorName):
                cursor.fetchone()
            connection.rollback()
        with pytest.raises(psycopg.errors.UndefinedColumn), connection.cursor(name="wrong") as cursor:
            cursor.execute("SELECT nope FROM shown")


def test_a_cursor_is_charged_once(served):
    asks = f"SELECT * FROM dp_query('{QUERY}', epsilon => 0.1, release => 'by cursor')"
    spent = "SELECT epsilon_spent FROM dp_budget()"
    with psycopg.connect(served.dsn()) as connection:
        before = connection.execute(spent).fetchone()
        connection.execute(f"DECLARE c CURSOR FOR {asks}")
        assert connection.execute(spent).fetchone() == before, "it did not run yet"
        assert connection.execute("FETCH 1 FROM c").fetchone()[0] == "Female"
        after = connection.execute(spent).fetchone()
        assert after > before
        assert connection.execute("FETCH ALL FROM c").fetchone()[0] == "Male"
        assert connection.execute(spent).fetchone() == after
        connection.execute("CLOSE c")
        for sql in ("DECLARE c CURSOR FOR DROP TABLE shown", "DECLARE c CURSOR FOR SELECT getenv('HOME')"):
            with pytest.raises(psycopg.Error):
                connection.execute(sql)
            connection.rollback()


def test_postgres_own_questions(served):
    with psycopg.connect(served.dsn(application_name="it's")) as connection:
        found = connection.execute("SELECT current_user, session_user, current_database(), version()")
        assert [column.name for column in found.description] == [
            "current_user",
            "session_user",
            "current_database",
            "version",
        ]
        assert found.fetchone()[:3] == ("alice", "alice", "dpsql")
        assert connection.execute("SELECT count(*) > 100 FROM pg_catalog.pg_get_keywords()").fetchone() == (True,)
        assert connection.execute(
            "SELECT pronargs, proargnames[2] FROM pg_proc WHERE proname = 'dp_query'"
        ).fetchone() == (7, "epsilon")
        assert connection.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'l'"
        ).fetchone() == ("bigint[]",)


def test_a_failed_transaction_waits_for_its_end(served):
    with psycopg.connect(served.dsn()) as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("SELECT nope FROM shown")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_who_may_not_log_in(served):
    for user, password in (("alice", "wrong"), ("nobody", served.tokens["alice"])):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(served.dsn(user, password))
    with pytest.raises(psycopg.OperationalError, match="TLS only"):
        psycopg.connect(served.dsn(sslmode="disable"))


def test_a_reader_does_not_release(served):
    with psycopg.connect(served.dsn("rita"), autocommit=True) as connection:
        assert connection.execute("SELECT * FROM dp_budget()").fetchall() == []
        for statement in (ASK, FIT, PLAN):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="role reader"):
                connection.execute(statement)


def test_errors_are_dpsqls_own(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        with pytest.raises(
            psycopg.errors.ConfigurationLimitExceeded, match=r"alice has ε = .* left on adult; this asks for 50"
        ):
            connection.execute(f"SELECT * FROM dp_query('{QUERY}', epsilon => 50)")
        with pytest.raises(psycopg.errors.UndefinedObject, match="nope"):
            connection.execute("SELECT * FROM dp_query('SELECT nope FROM adult', epsilon => 0.1)")


def test_explain_charges_nothing(served):
    asks = f"SELECT * FROM dp_query('{QUERY}', epsilon => 0.3, release => 'explained')"
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        before = connection.execute("SELECT epsilon_spent FROM dp_budget()").fetchall()
        connection.execute(f"EXPLAIN {asks}")
        for form in (
            "EXPLAIN ANALYZE",
            "EXPLAIN (ANALYZE)",
            "EXPLAIN (FORMAT json, ANALYZE true)",
            "explain /*x*/ analyze",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"{form} {asks}")
        assert connection.execute("SELECT epsilon_spent FROM dp_budget()").fetchall() == before


def test_describe_charges_nothing(served):
    asks = f"SELECT * FROM dp_query('{QUERY}', epsilon => 0.3, release => 'described')"
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        before = connection.execute("SELECT epsilon_spent FROM dp_budget()").fetchall()
        told = connection.execute(f"DESCRIBE {asks}").fetchall()
        assert [row[0] for row in told] == ["sex", "n", "n_stderr", "n_low", "n_high"]
        assert connection.execute(f"SELECT count(*) FROM (DESCRIBE {asks})").fetchall() == [(len(told),)]
        assert connection.pgconn.prepare(b"asked", asks.encode()).status == psycopg.pq.ExecStatus.COMMAND_OK
        found = connection.pgconn.describe_prepared(b"asked")
        assert [found.fname(place) for place in range(found.nfields)] == [row[0].encode() for row in told]
        with raw_session(served) as session:
            parse = b"\0" + asks.encode() + b"\0" + struct.pack("!h", 0)
            bind = b"\0\0" + struct.pack("!hhh", 0, 0, 0)
            for kind, body in ((b"P", parse), (b"B", bind), (b"D", b"P\0"), (b"S", b"")):
                session.sendall(kind + struct.pack("!i", len(body) + 4) + body)
            answers = []
            while answers[-1:] != [b"Z"]:
                answers.append(read(session)[0])
            assert answers == [b"1", b"2", b"T", b"Z"], "a portal that is described, and not run"
        assert connection.execute("SELECT epsilon_spent FROM dp_budget()").fetchall() == before


def test_the_front_loads_none_of_the_fits():
    script = "import sys, dpsql.service.front; print({'jax', 'scipy', 'pandas', 'sqlglot'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_command_serves_and_stops(served, tmp_path):
    path = tmp_path / "other.duckdb"
    with dpsql.connect(str(path)) as db:
        db.sql("CREATE TABLE t (a BOOLEAN)")
        db.protect("t", epsilon=1.0, delta=1e-9)
        token = db.users.add("rita", "reader")
    (tmp_path / "dpsql.toml").write_text('database = "other.duckdb"\nport = 0\n')
    command = [sys.executable, "-m", "dpsql", "serve", "--config", str(tmp_path / "dpsql.toml")]
    path.chmod(0o644)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        port, certificate = words[words.index("port") + 1].rstrip(";"), words[-1]
        dsn = f"host=127.0.0.1 port={port} user=rita password={token} sslmode=verify-ca sslrootcert={certificate}"
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT count(*) FROM dp_budget()").fetchall() == [(0,)]
            process.terminate()
            assert process.wait(60) == 0
            assert f"chmod 600 {path}" in process.stderr.read()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
    assert oct(path.with_name("other.duckdb.key").stat().st_mode & 0o777) == "0o600"
