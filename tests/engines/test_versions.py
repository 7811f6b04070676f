"""A DuckDB that nobody has looked at charges and counts nothing, unless the owner says so."""

from __future__ import annotations

import duckdb
import pytest

import dpsql
from dpsql.api.doctor import report
from dpsql.engines.duckdb import versions
from dpsql.errors import DpsqlError
from dpsql.service.allowed import VIEWS
from dpsql.service.allowlist import AllowList, NotAllowed


def test_this_version_was_looked_at():
    assert duckdb.__version__ in versions.LOOKED_AT


CALLS = {
    "synthesize": "CALL dp_synthesize('t', epsilon := 0.1)",
    "query": "FROM dp_query('SELECT count(*) AS n FROM t', epsilon := 0.1)",
}


@pytest.mark.medium
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_version_that_nobody_looked_at_is_refused_before_a_charge(monkeypatch, call):
    """The list loses this version, as if a new one had been installed; the override names one version alone."""
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i::INTEGER % 10 AS a, 'x' AS s FROM range(1000) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=9)
        db.domain("t", "s", values=["x"])
        monkeypatch.setattr(versions, "LOOKED_AT", ("1.0.0", "1.1.0"))
        for other in ("", "1", "99.0.0", "*"):
            monkeypatch.setenv(versions.OVERRIDE, other)
            with pytest.raises(
                duckdb.Error, match=f"nobody has looked at it.*{versions.OVERRIDE}={duckdb.__version__}"
            ):
                db.sql(call).fetchall()
            assert db.budget().releases[0] == 0
        assert "refused" in report()["duckdb"]
        monkeypatch.setenv(versions.OVERRIDE, duckdb.__version__)
        db.sql(call).fetchall()
        assert db.budget().releases[0] == 1
        assert f"taken by {versions.OVERRIDE}" in report()["duckdb"]


def test_no_number_but_those_in_the_list():
    for version in ("", "2.1.0", "1.5.6", "2.0.1.dev3", "2.0.10"):
        with pytest.raises(DpsqlError, match="nobody has looked at it"):
            versions.check_version(version)
    for version in versions.LOOKED_AT:
        versions.check_version(version)


def test_views_are_refused_by_name():
    with duckdb.connect() as db:
        rows = db.execute("SELECT schema_name, lower(view_name) FROM duckdb_views() WHERE internal").fetchall()
        bare = {name for schema, name in rows if schema in ("main", "pg_catalog")}
        reached = set()
        for _, name in rows:
            try:
                db.execute(f'FROM "{name}" LIMIT 0')
                reached.add(name)
            except duckdb.Error:
                pass
    assert reached <= bare <= VIEWS
    allowed = AllowList()
    for name in sorted(VIEWS):
        for text in (f"FROM {name}", f'SELECT * FROM "{name.upper()}"', f"DESCRIBE {name}", f"FROM main.{name}"):
            with pytest.raises(NotAllowed):
                allowed.check(text)
    for name in ("pg_patients", "duckdb_users", "pragmatic", "sqlite_copies"):  # what an owner may call a release
        assert allowed.check(f"FROM {name}").sql
