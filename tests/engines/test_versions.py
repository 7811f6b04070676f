"""A DuckDB that nobody has looked at charges and counts nothing, unless the owner says so; and the lists agree."""

from __future__ import annotations

import duckdb
import pytest

import dpsql
from dpsql.api.doctor import report
from dpsql.books.reads import _FUNCTIONS as PUBLIC
from dpsql.core import functions
from dpsql.engines.duckdb import versions
from dpsql.errors import DpsqlError
from dpsql.evaluation.sandbox import plain_functions
from dpsql.language.size_bounds import LAVISH
from dpsql.service.allowed import FUNCTIONS, REFUSED, VIEWS
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


def catalogue() -> dict[str, set[str]]:
    """DuckDB's own functions and their kinds."""
    with duckdb.connect() as db:
        rows = db.execute(
            "SELECT lower(function_name), function_type FROM duckdb_functions() WHERE internal"
        ).fetchall()
    kinds: dict[str, set[str]] = {}
    for name, kind in rows:
        kinds.setdefault(name, set()).add(kind)
    return kinds


def test_the_lists_of_safe_functions_agree():
    """What one list refuses because of what it does, the others refuse too."""
    assert not PUBLIC & REFUSED
    assert not plain_functions() & REFUSED - functions.WIDTH_IN_TEXT - functions.ALONE
    assert not functions.LONG & FUNCTIONS
    assert not functions.LONG & PUBLIC
    assert not functions.RECURSIVE & PUBLIC
    for dangerous in (functions.CALLS_OTHERS, functions.RECURSIVE, functions.LOOK_AROUND, LAVISH):
        assert not dangerous & plain_functions()
    assert functions.WIDTH_IN_TEXT < functions.LONG


@pytest.mark.medium
def test_a_function_that_nobody_looked_at_is_refused_everywhere():
    looked_at = FUNCTIONS | REFUSED
    assert (
        set(catalogue()) - looked_at - {n for n, kinds in catalogue().items() if not kinds & {"scalar", "aggregate"}}
        == set()
    )
    assert plain_functions() <= functions.PLAIN
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT 1 AS a")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=9)
        db.sql("CREATE VIEW v AS SELECT lpad('x', 3, 'y') AS a")
        for name in sorted({*(set(catalogue()) - functions.PLAIN), "brand_new"}):
            if not name.isidentifier():
                continue
            query = f'SELECT count(*) AS n FROM t WHERE "{name}"(a) IS NULL'
            with pytest.raises(duckdb.Error):
                db.connection.execute("FROM dp_plan($1, epsilon := 0.1)", [query]).fetchall()
        with pytest.raises(duckdb.Error, match="lpad"):
            db.sql("CALL dp_synthesize('t', epsilon := 0.1, mechanism := 'pmwpub', prior := 'v')")
        assert db.budget().releases[0] == 0


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
