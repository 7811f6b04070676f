"""Clients that read whole tables: ADBC with pandas and polars, connectorx, Ibis, psycopg 2, DuckDB's own extension."""

from __future__ import annotations

import io
import os
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from tests.service.conftest import need

pytestmark = pytest.mark.medium
QUERY = "SELECT sex, count(*) AS n FROM adult GROUP BY sex"
ASK = f"SELECT * FROM dp_query('{QUERY}', epsilon => 0.1)"
READ = "SELECT * EXCLUDE (iv) FROM shown ORDER BY i"
WIDTH = 20


def url(served, mode: str = "verify-full") -> str:
    certificate = f"&sslrootcert={served.service.certificate}" if mode == "verify-full" else ""
    where = f"alice:{served.tokens['alice']}@127.0.0.1:{served.service.port}/dpsql"
    return f"postgresql://{where}?sslmode={mode}{certificate}"


def package(name: str, install: str):
    """A package, or the test is skipped; in CI it fails."""
    try:
        return __import__(name, fromlist=["_"])
    except ImportError:
        need(None, name, f"pip install {install}")


@pytest.mark.client("ADBC with pandas", "1.13", "`read_sql`, parameters, the schema of a table, all tables", "")
def test_adbc_with_pandas(served):
    import pandas

    adbc = package("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql")
    with adbc.connect(url(served)) as connection:
        asked = pandas.read_sql(ASK, connection)
        assert [*asked["sex"]] == ["Female", "Male"]
        shown = pandas.read_sql("SELECT i, x, d, s, nothing FROM shown ORDER BY i", connection)
        assert shown.shape == (1000, 5)
        assert (shown["i"][3], shown["d"][3], Decimal(shown["x"][3])) == (3, date(2000, 1, 2), Decimal("0.43"))
        with connection.cursor() as cursor:
            cursor.execute("SELECT i FROM shown WHERE i = $1", [7])
            assert cursor.fetchall() == [(7,)]
        assert connection.adbc_get_table_schema("shown").names[:3] == ["i", "b", "small"]
        (catalogue,) = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        schemas = {schema["db_schema_name"]: schema for schema in catalogue["catalog_db_schemas"]}
        assert "shown" in {table["table_name"] for table in schemas["main"]["db_schema_tables"]}


@pytest.mark.client(
    "ADBC with polars",
    "1.13",
    "`read_database_uri(…, engine='adbc')`",
    "numerics are texts, and polars reads no intervals; it is so with PostgreSQL",
)
def test_adbc_with_polars(served):
    polars = package("polars", "polars")
    package("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql")
    asked = polars.read_database_uri(ASK, url(served), engine="adbc")
    assert asked["sex"].to_list() == ["Female", "Male"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLARS_UNKNOWN_EXTENSION_TYPE_BEHAVIOR", "load_as_storage")
        shown = polars.read_database_uri(READ, url(served), engine="adbc")
    assert shown.shape == (1000, WIDTH)
    assert shown["l"].to_list()[3] == [3, 4]


@pytest.mark.client(
    "connectorx with polars",
    "0.4",
    "`read_database_uri`, and with `partition_on`",
    "it has no `sslmode=verify-full`: give it `sslmode=require` and `sslrootcert`",
)
def test_connectorx(served):
    polars = package("polars", "polars")
    package("connectorx", "connectorx")
    where = f"{url(served, 'require')}&sslrootcert={served.service.certificate}"
    assert polars.read_database_uri(ASK, where)["sex"].to_list() == ["Female", "Male"]
    columns = "i, b, small, whole, x, f, n, d, time, t, tz, u, bl, s, l, nothing"
    shown = polars.read_database_uri(f"SELECT {columns} FROM shown ORDER BY i", where)
    assert shown.shape == (1000, len(columns.split(", ")))
    assert shown["d"].to_list()[3] == date(2000, 1, 2)
    parts = polars.read_database_uri("SELECT i FROM shown", where, partition_on="i", partition_num=3)
    assert sorted(parts["i"].to_list()) == list(range(1000))


@pytest.mark.client(
    "Ibis' postgres backend",
    "12.0",
    "its tables, a table's schema, expressions, `raw_sql`",
    "`sql('…')` makes a view, which is refused: `raw_sql` asks a dp_* function",
)
@pytest.mark.filterwarnings("ignore")  # of its own, which say nothing of the service
def test_ibis(served):
    ibis = package("ibis", "'ibis-framework[postgres]'")
    try:
        connection = ibis.connect(url(served))
    except ModuleNotFoundError as error:
        need(None, str(error), "pip install 'ibis-framework[postgres]'")
    assert "shown" in connection.list_tables()
    shown = connection.table("shown")
    assert shown.schema()["i"].is_int64()
    few = shown.filter(shown.i < 6)
    grouped = few.group_by("b").agg(n=few.count(), total=few.i.sum()).order_by("b")
    assert grouped.to_pandas().values.tolist() == [[False, 4, 12], [True, 2, 3]]
    cursor = connection.raw_sql(ASK)
    assert [row[0] for row in cursor.fetchall()] == ["Female", "Male"]
    cursor.close()
    with pytest.raises(Exception, match="CREATE is not served"):
        connection.sql(ASK)
    connection.disconnect()


@pytest.mark.client("psycopg 2", "2.9", "a question, parameters, arrays, a cursor with a name, COPY", "")
def test_psycopg_2(served):
    psycopg2 = package("psycopg2", "psycopg2-binary")
    connection = psycopg2.connect(url(served))
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM dp_query(%s, epsilon => %s)", [QUERY, 0.1])
        assert [row[0] for row in cursor.fetchall()] == ["Female", "Male"]
        cursor.execute("SELECT i FROM shown WHERE i = ANY(%s) ORDER BY i", [[1, 2]])
        assert cursor.fetchall() == [(1,), (2,)]
        cursor.execute("SELECT i, x, d, l, s FROM shown WHERE i = 3")
        assert cursor.fetchone()[:4] == (3, Decimal("0.43"), date(2000, 1, 2), [3, 4])
        copied = io.StringIO()
        cursor.copy_expert("COPY (SELECT i FROM shown ORDER BY i) TO STDOUT WITH CSV HEADER", copied)
        assert copied.getvalue().splitlines()[:2] == ["i", "0"]
        with connection.cursor("named") as named:
            named.execute("SELECT i FROM shown ORDER BY i")
            assert len(named.fetchall()) == 1000
    connection.close()


@pytest.mark.client(
    "DuckDB's postgres extension",
    "1.5.5",
    "ATTACH, all tables, filters, sums, `postgres_query`",
    "name the schema: `bank.main.visits_synth`; a protected table has no rows there, ask with `postgres_query`",
)
def test_duckdb_attaches(served):
    if not duckdb.__version__.startswith("1.5."):
        pytest.skip("the extension postgres has a wheel for DuckDB 1.5 only")
    extension = package("duckdb_extension_postgres_scanner", "duckdb-extension-postgres-scanner")
    (path,) = Path(os.path.dirname(extension.__file__)).rglob("*.duckdb_extension")
    with duckdb.connect() as db:
        db.execute(f"LOAD '{path}'")
        db.execute(f"ATTACH '{served.dsn()}' AS bank (TYPE postgres, READ_ONLY)")
        assert {row[2] for row in db.execute("SHOW ALL TABLES").fetchall()} >= {"shown"}
        assert db.execute("SELECT count(*), sum(i) FROM bank.main.shown").fetchall() == [(1000, 499500)]
        found = db.execute("SELECT i, x, d, l FROM bank.main.shown WHERE i IN (3)").fetchall()
        assert found == [(3, Decimal("0.43"), date(2000, 1, 2), [3, 4])]
        asks = ASK.replace("'", "''")
        asked = db.execute(f"SELECT * FROM postgres_query('bank', '{asks}')").fetchall()
        assert [row[0] for row in asked] == ["Female", "Male"]
