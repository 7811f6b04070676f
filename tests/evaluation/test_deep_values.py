"""No call with a text of people's ends the process that holds the rows: the owner's Python, or the keeper."""

from __future__ import annotations

import pytest

from tests.processes import run_and_die

DEEP = "(rpad('[', 49000, '[') || lpad(']', 49000, ']'))"
ENDS = f"CAST(CAST(CAST({DEEP} AS JSON) AS VARIANT) AS VARCHAR) IS NULL"
TABLE = """
import duckdb, dpsql
from dpsql.errors import DpsqlError
db = dpsql.connect()
db.sql("CREATE TABLE t AS SELECT (i % 100)::INTEGER AS a, (i % 3)::VARCHAR AS s FROM range(1000) r(i)")
db.protect("t", epsilon=1.0, delta=1e-6)
db.domain("t", "a", lower=0, upper=99)
db.domain("t", "s", values=["0", "1", "2"])
"""
CALLS = [
    "FROM dp_plan('SELECT count(*) AS n FROM t WHERE {}', epsilon := 0.1)",
    "FROM dp_query('SELECT count(*) AS n FROM t WHERE {}', epsilon := 0.1)",
    "FROM dp_query('SELECT s, sum(a) FILTER (WHERE {}) AS n FROM t GROUP BY s', epsilon := 0.1)",
    "FROM dp_query('SELECT s, count(*) AS n FROM t GROUP BY s HAVING {}', epsilon := 0.1)",
    "FROM dp_query('SELECT CASE WHEN {} THEN 1 END AS k, count(*) AS n FROM t GROUP BY k', epsilon := 0.1)",
    "EXPLAIN FROM dp_plan('SELECT count(*) AS n FROM t WHERE {}', epsilon := 0.1)",
    "FROM dp_plan('t', epsilon := 0.1, workload := 'SELECT sum(CASE WHEN {} THEN a END) FROM t GROUP BY s')",
    "FROM dp_constraint('t', 'a IS NOT NULL AND {}')",
]


@pytest.mark.medium
@pytest.mark.parametrize("call", CALLS)
def test_no_call_ends_the_process_that_holds_the_rows(call):
    condition = ENDS.replace("'", "''")
    script = f"""{TABLE}
try:
    db.connection.execute({call.format(condition)!r}).fetchall()
    raise SystemExit(3)
except duckdb.Error as error:
    assert "VARIANT" in str(error), error
assert db.sql("FROM dp_plan('SELECT count(*) AS n FROM t WHERE a > 3', epsilon := 0.1)").fetchall()
assert db.budget().releases[0] == 0
db.close()
"""
    assert run_and_die(script) == 0
