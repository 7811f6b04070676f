"""Arrays beside ANY and ALL, and names of tables as parameters, in the ways of PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

ANY = {
    "i = ANY('{1,2}')": [1, 2],
    "whole = SOME ('{3}')": [3],
    "i <> ALL('{0,1,2}') AND i < 5": [3, 4],
    "i = ANY('{}')": [],
    "i IN (1, 2) AND 'text 1' <> ALL('{\"a,b\",NULL}')": [],
}


@pytest.mark.medium
@pytest.mark.parametrize("condition", ANY)
def test_any_of_a_literal(served, condition):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        found = connection.execute(f"SELECT i FROM shown WHERE {condition} ORDER BY i").fetchall()
    assert found == [(number,) for number in ANY[condition]]


@pytest.mark.medium
def test_any_of_a_parameter_without_a_type_is_of_an_array(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        for number, (column, raw) in enumerate({"i": b"{1,2}", "s": b'{"a b",NULL}', "d": b"{2000-01-02}"}.items()):
            name = f"any{number}".encode()
            sql = f"SELECT i FROM shown WHERE {column} = ANY($1) ORDER BY i".encode()
            assert connection.pgconn.prepare(name, sql).status == psycopg.pq.ExecStatus.COMMAND_OK
            kind = connection.pgconn.describe_prepared(name).param_type(0)
            assert kind == {"i": 1016, "s": 1009, "d": 1182}[column]
            rows = connection.pgconn.exec_prepared(name, [raw])
            assert [rows.get_value(place, 0) for place in range(rows.ntuples)] == {
                "i": [b"1", b"2"],
                "s": [],
                "d": [b"3"],
            }[column]
        regclass = "SELECT %s::regclass::oid = (SELECT oid FROM pg_class WHERE relname = 'shown')"
        for named in ("shown", '"main"."shown"'):
            assert connection.execute(regclass, [named]).fetchone() == (True,)
        number = connection.execute("SELECT oid FROM pg_class WHERE relname = 'shown'").fetchone()[0]
        assert connection.execute(regclass, [str(number)]).fetchone() == (True,)
