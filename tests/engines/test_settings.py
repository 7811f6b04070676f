"""Settings of DuckDB: each is listed in `settings.csv`, with why it changes nothing; and really is tried here."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.engines.duckdb.settings import OWNED, SEALED
from dpsql.engines.duckdb.versions import LOOKED_AT

ROWS = list(csv.DictReader((Path(__file__).parent / "settings.csv").read_text(encoding="utf-8").splitlines()))
HERE = {row["name"]: row for row in ROWS if row["versions"] == "all" or duckdb.__version__ in row["versions"].split()}
ALIASES = {"max_memory": "memory_limit", "null_order": "default_null_order"}


def named(kind: str) -> list[str]:
    return [name for name, row in HERE.items() if row["kind"] == kind]


def test_every_setting_and_pragma_is_listed(db):
    """A new one fails here: say in settings.csv whether it can change a count, a name, an evaluation or an error."""
    settings = {name for (name,) in db.sql("SELECT name FROM duckdb_settings()").fetchall()}
    pragmas = db.sql("SELECT function_name FROM duckdb_functions() WHERE function_type = 'pragma'").fetchall()
    assert {*settings, *(f"PRAGMA {name}" for (name,) in pragmas)} == set(HERE)


def test_the_list_is_well_formed():
    assert len({(row["name"], row["versions"]) for row in ROWS}) == len(ROWS)
    assert all(
        len(row) == 4 and all(row.values()) and set(row["versions"].split()) <= {*LOOKED_AT, "all"} for row in ROWS
    )
    assert {ALIASES.get(row["name"], row["name"]) for row in ROWS if row["kind"] == "sealed"} == set(SEALED)
    assert {ALIASES.get(row["name"], row["name"]) for row in ROWS if row["kind"] == "owner"} == set(OWNED)


VALUES = {
    "default_collation": ["'nocase'", "'nocase.noaccent'"],
    "default_null_order": ["'nulls_first'"],
    "null_order": ["'nulls_first'"],
    "default_order": ["'DESC'"],
    "TimeZone": ["'Asia/Tokyo'", "'America/Los_Angeles'"],
    "Calendar": ["'japanese'"],
    "dialect_compatibility_mode": ["'spark'"],
    "regex_match_operator_semantics": ["'full'"],
    "preserve_identifier_case": ["'uppercase'", "false"],
    "allow_parser_override_extension": ["'strict'", "'fallback'"],
    "lambda_syntax": ["'DISABLE_SINGLE_ARROW'"],
    "deprecated_using_key_syntax": ["'UNION_AS_UNION_ALL'"],
    "disabled_optimizers": [
        "'filter_pushdown,statistics_propagation,common_subexpressions,expression_rewriter'",
        "'join_order,unused_columns,column_lifetime,top_n,build_side_probe_side,cse_optimizer'",
    ],
    "debug_window_mode": ["'combine'", "'separate'"],
    "debug_verify_vector": ["'dictionary_expression'"],
    "debug_physical_table_scan_execution_strategy": ["'synchronous'"],
    "default_transaction_invalidation_policy": ["'SYNTACTIC_ERRORS_DO_NOT_INVALIDATE'"],
    "current_transaction_invalidation_policy": ["'SYNTACTIC_ERRORS_DO_NOT_INVALIDATE'"],
    "checkpoint_on_detach": ["'disabled'"],
    "force_compression": ["'rle'", "'dictionary'", "'fsst'"],
    "disabled_compression_methods": ["'rle,bitpacking,dictionary,fsst'"],
    "explain_output": ["'all'"],
    "show_behavior": ["'table'"],
    "pin_threads": ["'off'"],
    "index_scan_percentage": ["0.0", "1.0"],
    "threads": ["1", "3"],
    "max_expression_depth": ["100", "5000"],
}
"""Beside these, a truth value is turned round, and a number is set to 1 and to 7."""
CHOSEN = {"perfect_ht_threshold": "18"}
"""Settings that are sealed otherwise than DuckDB has them, because marginals are counted quicker so."""
NOT_TRIED = {
    "enable_external_access",  # cannot be turned back, and dpsql is loaded already
    "lock_configuration",
    "disabled_filesystems",
    "max_execution_time",  # stops the caller's own statement too, which reads what was published
}


def others(name: str, value: str, kind: str) -> list[str]:
    """Values of a setting to try."""
    if name in VALUES:
        return VALUES[name]
    if kind == "BOOLEAN":
        return ["false" if value in ("true", "1") else "true"]
    return ["1", "7"] if kind in ("UBIGINT", "BIGINT", "DOUBLE") else []


TABLE = """
    CREATE TABLE t AS SELECT
        (['abc', 'ABC', 'äbc', 'aBć', 'straße', 'STRASSE', NULL])[1 + i % 7] || (i // 70) AS who,
        (['a', 'A', 'ä', 'Ä', 'ß', 'ss', '', NULL])[1 + i * 5 % 8] AS word,
        CASE WHEN i % 11 > 0 THEN i * 7 % 60 END::INTEGER AS age,
        ((i * 37 % 1000) / 8)::DECIMAL(9, 3) AS cost,
        CASE WHEN i % 13 = 0 THEN 'nan' WHEN i % 17 = 0 THEN '-0.0' ELSE (i % 5)::VARCHAR END::DOUBLE AS size,
        DATE '2024-01-01' + (i % 90)::INTEGER AS day,
        TIMESTAMPTZ '2024-03-31 00:30:00+00' + to_minutes(i % 300) AS at,
        i % 3 = 0 AS sick
    FROM range(700) r(i)
"""
ASKED = [
    "SELECT word, count(*) AS n, count(DISTINCT who) AS m FROM t GROUP BY word",
    "SELECT word = 'a' AS k, sum(age) AS n, avg(age) AS m FROM t GROUP BY 1",
    "SELECT age / 7 AS k, count(*) AS n FROM t WHERE age < 21 GROUP BY 1",
    "SELECT age // 20 AS k, count(*) AS n FROM t WHERE age > 1 / 2 GROUP BY 1",
    "SELECT month(day) AS k, sum(cost) AS n FROM t GROUP BY 1",
    "SELECT word LIKE '%A%' AS k, regexp_matches(word, 'a') AS l, count(*) AS n FROM t GROUP BY ALL",
]


@pytest.fixture(scope="module")
def base():
    with dpsql.connect() as db:
        db.sql(TABLE)
        db.protect("t", epsilon=1000.0, delta=1e-6, privacy_unit="who", max_rows=3)
        db.domain("t", "word", values=["a", "A", "ä", "Ä", "ß", "ss", ""])
        db.domain("t", "age", lower=0, upper=59, bins=60)
        db.domain("t", "cost", lower=0, upper=125, bins=10)
        db.domain("t", "size", lower=0, upper=5, bins=5)
        db.domain("t", "day", lower="2024-01-01", upper="2024-03-31", bins=91)
        db.domain("t", "at", lower="2024-03-31 00:00:00+00", upper="2024-03-31 06:00:00+00", bins=12)
        yield db


def answers(db, release: str, *, marginals: bool) -> list:
    """Everything that is told, without noise: of queries, and of a synthetic table the marginals."""
    told: list = []
    for number, sql in enumerate(ASKED):
        call = "SELECT CAST(columns(*) AS VARCHAR) FROM dp_query(?, epsilon := 0.01, release := ?)"
        rows = db.connection.cursor().execute(call, [sql, f"{release} {number}"]).fetchall()
        told.append(sorted(tuple(map(str, row)) for row in rows))
    if not marginals:
        return told
    made = (
        "dp_synthesize('t', epsilon := 0.01, mechanism := 'direct', workload := 'all 1-way', rows := 5, release := ?)"
    )
    db.connection.cursor().execute(f"SELECT count(*) FROM {made}", [release]).fetchall()
    cells = db.connection.cursor().execute("FROM dp_measurements(?)", [release])
    names = [column[0] for column in cells.description]
    told.append(sorted(str([v for n, v in zip(names, row, strict=True) if n != "release"]) for row in cells.fetchall()))
    return told


@pytest.fixture
def silent(monkeypatch):
    for kind in ("gaussian", "laplace"):
        monkeypatch.setattr(f"dpsql.privacy.distributions.discrete_{kind}", lambda v, n, e=None: np.zeros(n, np.int64))


def put_back(base, back):
    """On a busy machine `max_execution_time` stops the very statement that resets it: then it is tried again."""
    for _ in range(20):
        try:
            return base.connection.execute(back)
        except duckdb.Error as error:
            stopped = error
    raise stopped


def tried(db, name: str) -> list[tuple[str, str]]:
    """The statements that set it, for all or for the caller alone, and those that set it back."""
    row = db.connection.cursor().execute("SELECT value, input_type FROM duckdb_settings() WHERE name = ?", [name])
    value, kind = row.fetchall()[0]
    found = []
    for other in others(name, value or "", kind):
        for scope in ("GLOBAL", "SESSION"):
            try:
                db.connection.execute(f'SET {scope} "{name}" = {other}')
            except duckdb.Error:
                continue
            found.append((f'SET {scope} "{name}" = {other}', f'RESET {scope} "{name}"'))
            put_back(db, f'RESET {scope} "{name}"')
    return found


@cache
def without(db, *, marginals: bool) -> list:
    """The answers as they are by default."""
    return answers(db, "without", marginals=marginals)


def compare(db, statements: list[tuple[str, str]], *, marginals: bool = True) -> None:
    """The answers with some settings are those without, to the last digit."""
    try:
        for statement, _ in statements:
            db.connection.execute(statement)
        found = answers(db, repr(statements), marginals=marginals)
    finally:
        for _, back in statements:
            db.connection.execute(back)
    assert found == without(db, marginals=marginals), statements


TRIED = [name for kind in ("sealed", "inert") for name in named(kind) if name not in NOT_TRIED and "PRAGMA" not in name]


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [pytest.param(TRIED[place::10], marks=[pytest.mark.audit] if place > 1 else []) for place in range(10)],
    ids=range(10),
)
def test_settings_change_nothing(base, silent, names):
    """Sealed and inert ones, some at a time: all their first values, all their second, …; for all, and the caller's."""
    statements = [tried(base, name) for name in names]
    for place in range(max(map(len, statements))):
        compare(base, [known[place] for known in statements if place < len(known)])


PRAGMAS = [name for name in HERE if name.startswith("PRAGMA") and HERE[name]["kind"] in ("session", "inert")]


@pytest.mark.slow
@pytest.mark.parametrize("pragma", PRAGMAS)
def test_a_pragma_changes_nothing(base, silent, pragma):
    caller = base.connection.cursor()
    caller.execute(pragma)
    found = answers(base, pragma, marginals=False)
    caller.close()
    assert found == without(base, marginals=False)


@pytest.mark.medium
@pytest.mark.parametrize("setting", ["default_collation", "integer_division", "TimeZone", "default_null_order"])
def test_the_worst_settings_change_nothing(base, silent, setting):
    """The quick part of the above."""
    compare(base, tried(base, setting)[:1], marginals=False)


@pytest.mark.medium
def test_sealed_settings_are_what_they_are_called(base):
    """On a connection of dpsql's own, whatever the instance says; and no other setting of a session comes along."""
    before = dict(base.connection.cursor().execute("SELECT name, value FROM duckdb_settings()").fetchall())
    statements = [tried(base, name)[0] for name in named("sealed") if tried(base, name) and "depth" not in name]
    for statement, _ in statements:
        base.connection.execute(statement)
    try:
        with base.instance.cursor() as cursor:
            seen = dict(cursor.execute("SELECT name, value FROM duckdb_settings()").fetchall())
    finally:
        for _, back in sorted(statements, key=lambda pair: "execution_time" not in pair[0]):  # it could stop the others
            put_back(base, back)
    assert len(statements) > 10
    for name in named("sealed"):
        if name not in ("TimeZone", "python_enable_replacements", *ALIASES):
            usual = CHOSEN.get(name, before[name])
            assert seen[name].upper() in (usual.upper(), "ASC", "FALSE" if usual == "0" else ""), name
    assert seen["TimeZone"] == "UTC"


def test_what_is_of_one_connection_or_fixed_cannot_be_set_for_all(base):
    for name in [name for name in [*named("session"), *named("frozen")] if not name.startswith("PRAGMA")]:
        with pytest.raises(duckdb.Error):
            base.connection.execute(f"SET GLOBAL \"{name}\" = '1'")


def test_a_locked_configuration_is_refused_not_ignored():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t (a BOOLEAN)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.sql(
            "SET default_collation = 'nocase'; SET GLOBAL default_collation = 'nocase'; SET lock_configuration = true"
        )
        with pytest.raises(duckdb.Error):
            db.sql("FROM dp_query('SELECT count(*) AS n FROM t', epsilon := 1)").fetchall()
        with pytest.raises(duckdb.Error):
            db.sql("FROM dp_synthesize('t', epsilon := 1)").fetchall()
