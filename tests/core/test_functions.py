"""The catalogue of DuckDB's functions has them all, and nobody may call what a trait, or nobody's look, forbids."""

from __future__ import annotations

from functools import cache

import duckdb
import pytest

import dpsql
from dpsql.api.statement_values import DRAWN, READERS
from dpsql.books.reading.reads import _FUNCTIONS as OF_VIEWS
from dpsql.core import functions
from dpsql.core.functions import Trait as T
from dpsql.evaluation.sandbox import _plain_macros, functions_around, plain_functions
from dpsql.service.allowed import FUNCTIONS as OF_READERS
from dpsql.service.allowed import TABLE_FUNCTIONS
from dpsql.service.allowlist import AllowList, NotAllowed

NEW = "brand_new"


@cache
def catalogue() -> dict[str, set[str]]:
    """Kinds and stabilities of DuckDB's own functions."""
    found: dict[str, set[str]] = {}
    with duckdb.connect() as db:
        for name, *facts in db.execute(
            "SELECT lower(function_name), function_type, stability FROM duckdb_functions() WHERE internal"
        ).fetchall():
            found.setdefault(name, set()).update(facts)
    return found


def test_every_function_of_this_version_is_listed():
    """A new one fails here: put it into a group of `dpsql/core/functions.py`, and `:2.1` behind it."""
    of_tables = {"table", "table_macro", "pragma"}
    values = {name for name, facts in catalogue().items() if facts & {"scalar", "aggregate", "macro", "window"}}
    assert functions.of_version(duckdb.__version__) == values
    tables = {name for name, facts in catalogue().items() if facts & of_tables}
    assert functions.of_version(duckdb.__version__, functions.TABLES) == tables
    assert not functions.TIMES_LONGER.keys() - functions.VALUES.keys()


def test_a_name_stands_once():
    with pytest.raises(ValueError, match="'abs' stands in two groups"):
        functions._listed({T.PURE: "abs", T.CLOCK: "abs:2"})


@pytest.mark.parametrize(
    ("called", "never"),
    [
        (OF_VIEWS, T.WIDTH | T.LEVELS | T.SQUARE | T.PAIRS | T.ZONE | T.MEMBERS | T.CODES | T.CLOCK | T.CHANCE),
        (plain_functions() | _plain_macros(), T.GIVEN | T.ROWS | T.LEVELS | T.CLOCK | T.CHANCE),
        (OF_READERS, T.WIDTH | T.SQUARE | T.PAIRS),
        (functions_around(), T.GATHERS | T.ORDER | T.GIVEN | T.ROWS | T.LEVELS | T.CLOCK | T.CHANCE),
    ],
    ids=["views", "expressions", "readers", "around"],
)
def test_nobody_calls_what_a_trait_forbids(called, never):
    """What reads files or the session, changes something, waits, reads SQL or has no bound, nobody calls at all."""
    never |= T.LENGTH | T.SQL | T.SEQUENCE | T.FILES | T.FILE_ROWS | T.SESSION | T.CHANGES | T.WAITS | T.INTERNAL
    if called is OF_READERS:
        assert functions.having(T.ROWS, functions.TABLES) == TABLE_FUNCTIONS - {
            f for f in TABLE_FUNCTIONS if "dp_" in f
        }
    assert not called & (functions.having(never) - functions.having(T.SYNTAX))
    assert called <= functions.VALUES.keys()


def test_what_duckdb_says_agrees():
    volatile = {name for name, facts in catalogue().items() if "VOLATILE" in facts}
    assert volatile & OF_VIEWS == {"error"}  # which only ends a query
    assert not volatile & plain_functions()
    known = functions.having(T.CHANCE | T.SEQUENCE | T.SESSION | T.CHANGES | T.WAITS | T.INTERNAL)
    assert volatile & functions.VALUES.keys() <= known | {"error"}
    assert not READERS & OF_VIEWS
    assert not DRAWN & OF_VIEWS


ARGUMENTS = ("m", "m, m", "m, 1", "1, m", "m, 'x'", "[m]", "{'a': m}", "MAP {m: m}")


@pytest.mark.medium
def test_no_view_reads_the_members_of_an_enum():
    """Each function gets the same value of two types, whose other members differ: only `MEMBERS` and `CODES` tell them apart."""
    apart = set()
    with duckdb.connect() as db:
        for place, members in enumerate(("'x', 'b'", "'a', 'x', 'c'")):
            db.execute(f"CREATE TYPE e{place} AS ENUM ({members}); CREATE TABLE t{place} AS SELECT 'x'::e{place} AS m")
        for name in sorted(filter(str.isidentifier, OF_VIEWS | functions.having(T.MEMBERS | T.CODES))):
            for arguments in ARGUMENTS:
                answers = []
                for place in range(2):
                    try:
                        sql = f'SELECT ("{name}"({arguments}))::VARCHAR FROM t{place}'
                        answers.append(db.execute(sql).fetchall())
                    except duckdb.Error:
                        answers.append([])
                apart |= {name} if answers[0] != answers[1] else set()
    assert apart - OF_VIEWS > {"typeof", "hash", "enum_code"}
    assert not apart & OF_VIEWS


NUMBERS = ("{n}", "{t}, {n}", "{n}, {t}", "1, {n}", "{n}, 1", "1, 1, {n}", "1, {n}, 1", "{t}, {n}, {t}", "{t}, 1, {n}",
           "[1], {n}", "[1], {n}, 1", "'1'::BIT, {n}", "{t}::BLOB, {n}", "{n}, 2, {n}", "0.0, 1.0, {n}", "{t}, {t}, {n}")  # fmt: skip


@pytest.mark.medium
def test_no_function_makes_a_text_of_any_length():
    """Each function gets a large number and short texts: what comes out is short, or it has a trait that says so."""
    long, most = set(), 20_000
    with duckdb.connect() as db:
        for name in filter(str.isidentifier, OF_READERS | OF_VIEWS | plain_functions() | functions.having(T.LENGTH)):
            for arguments in NUMBERS:
                given = arguments.format(n=most, t="'10'")
                try:
                    (size,) = db.execute(f'SELECT length(("{name}"({given}))::VARCHAR)').fetchone()
                except duckdb.Error:
                    continue
                long |= {name} if (size or 0) > most / 4 else set()
    assert long > {"bitstring", "bitstring_agg", "array_resize", "lpad"}
    assert long <= functions.having(T.LENGTH | T.WIDTH | T.ROWS)


@pytest.mark.medium
def test_a_function_that_nobody_looked_at_is_refused_everywhere():
    allowed = AllowList()
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT 1 AS a")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=9)
        refused = sorted(filter(str.isidentifier, catalogue().keys() - plain_functions()))
        for name in (*refused[:: len(refused) // 60], NEW):
            query = f'SELECT count(*) AS n FROM t WHERE "{name}"(a) IS NULL'
            with pytest.raises(duckdb.Error):
                db.connection.execute("FROM dp_plan($1, epsilon := 0.1)", [query]).fetchall()
        for text in (f"SELECT {NEW}(1)", f"FROM {NEW}(1)", f'SELECT list_transform([1], lambda x: "{NEW}"(x))'):
            with pytest.raises(NotAllowed):
                allowed.check(text)
        assert db.budget().releases[0] == 0
