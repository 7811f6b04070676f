"""PostgreSQL's ODBC driver, by which Excel, Access and Power BI ask; pyodbc is the program above it."""

from __future__ import annotations

import threading
import uuid
from datetime import date, datetime, time
from decimal import Decimal

import pytest

from dpsql.service.certificate import certificate_beside
from tests.service.conftest import ODBC, need_odbc
from tests.service.test_clients import ASK, FIT, LONG, PLAN, QUERY

pytestmark = pytest.mark.medium


def text(served, user="alice", password=None, mode="verify-full", certificate=None, more="") -> str:
    return (
        f"Driver={ODBC};Server=127.0.0.1;Port={served.service.port};Database=dpsql;Uid={user};"
        f"Pwd={password or served.tokens[user]};SSLmode={mode};"
        f"pqopt={{sslrootcert={certificate or served.service.certificate}}};{more}"
    )


@pytest.fixture(scope="module")
def odbc():
    return need_odbc()


@pytest.fixture
def connection(odbc, served):
    with odbc.connect(text(served), autocommit=True) as found:
        yield found
    found.close()


@pytest.mark.client(
    "psqlODBC",
    "13.02",
    "questions, parameters, types, the schema, cursors, cancel",
    "`b` of a boolean is 1 unless `BoolsAsChar=0`, as with PostgreSQL",
)
def test_what_an_analyst_asks(connection):
    first = connection.execute(ASK).fetchall()
    assert [row.sex for row in first] == ["Female", "Male"]
    again = connection.execute("SELECT * FROM dp_query(?, epsilon => ?)", QUERY, 0.1).fetchall()
    assert [tuple(row) for row in again] == [tuple(row) for row in first], "a repeat is free, and the same"
    assert len(connection.execute(FIT).fetchall()) == 50
    assert connection.execute(PLAN).fetchval() > 100


@pytest.mark.parametrize("more", ["", "UseServerSidePrepare=0", "UseDeclareFetch=1;Fetch=7", "BoolsAsChar=0"])
def test_types(odbc, served, more):
    sql = "SELECT i, b, small, x, wide, f, d, time, t, u, bl, m, l, s, nothing FROM shown WHERE i < ? ORDER BY i"
    with odbc.connect(text(served, more=more), autocommit=True) as connection:
        rows = connection.execute(sql, 20).fetchall()
    connection.close()
    assert len(rows) == 20
    third = {description[0]: value for description, value in zip(rows[3].cursor_description, rows[3], strict=True)}
    assert third == {
        "i": 3,
        "b": True if more.startswith("Bools") else "1",
        "small": 3,
        "x": Decimal("0.43"),
        "wide": Decimal("3000000000000000.0000"),
        "f": 1.0,
        "d": date(2000, 1, 2),
        "time": time(10, 0, 0, 500000),
        "t": datetime(1999, 12, 31, 13, 0, 0, 500000),
        "u": "ECCBC87E-4B5C-E2FE-2830-8FD9F2A7BAF3",
        "bl": b"\x00\xff3",
        "m": "ok",
        "l": "{3,4}",
        "s": 'text 3\n"quoted", and a tab\t',
        "nothing": None,
    }


def test_parameters(connection):
    sql = (
        "SELECT ?::INTEGER + 1, ?::VARCHAR, ?::DOUBLE, ?::DECIMAL(9, 2), ?::BOOLEAN, ?::DATE, ?::TIMESTAMP, ?::UUID, "
        "?::BLOB FROM shown WHERE i = ? AND s LIKE ? AND d > ?"
    )
    day, moment = date(2020, 2, 29), datetime(2020, 2, 29, 12, 34, 56, 789000)
    for i in range(8):
        one = uuid.UUID(int=i)
        values = (i, "it's", i / 2, Decimal("12.34"), True, day, moment, one, b"\0\xff")
        row = connection.execute(sql, *values, 3, "text%", date(2000, 1, 1)).fetchone()
        assert (*row[:4], row[5], row[6], row[8]) == (i + 1, *values[1:4], day, moment, b"\0\xff")
        assert row[7].lower() == str(one)
    assert tuple(connection.execute("SELECT ?::INTEGER, ?::VARCHAR", None, None).fetchone()) == (None, None)


def test_the_schema_as_tools_list_it(connection):
    cursor = connection.cursor()
    assert [tuple(row)[:4] for row in cursor.tables()] == [
        ("dpsql", "main", "adult", "FOREIGN TABLE"),
        ("dpsql", "main", "asked", "FOREIGN TABLE"),
        ("dpsql", "main", "shown", "TABLE"),
    ]
    columns = cursor.columns(table="shown").fetchall()
    assert [(row.column_name, row.type_name) for row in columns][:5] == [
        ("i", "int8"),
        ("b", "bool"),
        ("small", "int2"),
        ("whole", "int4"),
        ("x", "numeric"),
    ]
    sizes = {row.column_name: row.column_size for row in columns}
    assert (sizes["x"], sizes["wide"], sizes["u"]) == (9, 38, 37)
    assert max(sizes.values()) <= 8190, "of a text, the driver's own MaxLongVarcharSize"
    for nothing in (cursor.primaryKeys("shown"), cursor.statistics("shown")):
        assert nothing.fetchall() == []
    assert cursor.foreignKeys("shown").fetchall() == []
    assert {row.type_name for row in cursor.getTypeInfo()} >= {"int8", "text", "numeric", "timestamptz"}
    assert {row.procedure_name for row in cursor.procedures()} >= {"dp_query", "dp_synthesize"}
    assert [row.column_name for row in cursor.procedureColumns("dp_query")][:2] == ["sql", "epsilon"]


def test_width_of_texts_can_be_chosen(odbc, served):
    with odbc.connect(text(served, more="TextAsLongVarchar=0;MaxVarcharSize=100"), autocommit=True) as connection:
        assert connection.execute("SELECT s FROM shown").description[0][3] == 100
    connection.close()


def test_transactions_and_cursors(odbc, served):
    with odbc.connect(text(served, more="UseDeclareFetch=1;Fetch=100")) as connection:
        cursor = connection.execute("SELECT i FROM shown ORDER BY i")
        assert [row.i for row in cursor.fetchmany(3)] == [0, 1, 2]
        assert connection.execute("SELECT 'between'").fetchval() == "between"
        assert [row.i for row in cursor.fetchall()] == list(range(3, 1000))
        with pytest.raises(odbc.Error, match="nope"):
            connection.execute("SELECT nope FROM shown")
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM shown").fetchval() == 1000
    connection.close()


def test_cancel(odbc, connection):
    cursor = connection.cursor()
    timer = threading.Timer(0.5, cursor.cancel)
    timer.start()
    with pytest.raises(odbc.Error) as failure:
        cursor.execute(LONG)
    timer.join()
    assert failure.value.args[0] == "57014"
    assert connection.execute("SELECT 1").fetchval() == 1


def test_errors_have_codes(odbc, connection):
    for code, sql in (
        ("42703", "SELECT nope FROM shown"),
        ("42P01", "SELECT * FROM nope"),
        ("42601", "SELEC 1"),
        ("42501", "DROP TABLE shown"),
        ("53400", ASK.replace("0.1", "50")),
    ):
        with pytest.raises(odbc.Error) as failure:
            connection.execute(sql)
        assert failure.value.args[0] == code, sql


def test_who_may_not_log_in(odbc, served, tmp_path):
    other, _ = certificate_beside(str(tmp_path / "other.duckdb"))
    for words, wrong in (
        ("password authentication failed", {"password": "wrong"}),
        ("TLS only", {"mode": "disable"}),
        ("certificate verify failed", {"certificate": other}),
    ):
        with pytest.raises(odbc.Error, match=words):
            odbc.connect(text(served, **wrong))
