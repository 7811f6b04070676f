"""What a view calls may tell of private rows though it reads no protected table: then it is not read as public."""

from __future__ import annotations

import duckdb
import pytest

import dpsql

REFUSED = {
    "typeof(m)": "the function typeof",
    "hash(m)": "the function hash",
    "enum_code(m)": "the function enum_code",
    "TRY_CAST(k AS e)": "a cast to an ENUM",
    "[k]::e[]": "a cast to an ENUM",
    "age(DATE '2020-01-01')": "the function age",
    "lpad(k, 9, k)": "the function lpad",
}


@pytest.mark.medium
def test_a_view_that_may_tell_of_private_rows_is_not_read():
    """The type's members are a protected column's values: DuckDB reads them where no table is read."""
    call = "CALL dp_synthesize('t', epsilon := 0.1, mechanism := 'pmwpub', prior := 'v')"
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT 'n' || i AS name, i::INTEGER % 10 AS a FROM range(50) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=9)
        db.domain("t", "name", exclude=True)
        db.sql("CREATE TYPE e AS ENUM (SELECT DISTINCT name FROM t)")
        db.sql("CREATE TABLE shown (m e, k VARCHAR); INSERT INTO shown VALUES (NULL, 'x')")
        view = "CREATE OR REPLACE VIEW v AS SELECT {} AS a FROM shown WHERE k != 'b' AND k IS DISTINCT FROM 'c'"
        for expression, reason in REFUSED.items():
            db.sql(view.format(expression))
            with pytest.raises(duckdb.Error, match=reason):
                db.sql(call)
        assert db.budget().releases[0] == 0
        db.sql(view.format("length(k)"))
        db.sql(call).fetchall()
        assert db.budget().releases[0] == 1
