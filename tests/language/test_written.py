"""What is evaluated is what somebody wrote: arguments are not dropped, names are not read as other functions."""

from __future__ import annotations

import itertools
import random

import duckdb
import pytest
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

import dpsql
from dpsql.errors import DpsqlError
from dpsql.evaluation.sandbox import one_empty_database, plain_functions
from dpsql.language.interpreted import duckdb_parser
from dpsql.release.query_answers import resolve_query
from dpsql.release.request import QueryRequest

CHANGED = [  # that sqlglot reads, and DuckDB does not take
    "to_char(day, 'YYYY')",
    "sha2(word, 512)",
    "levenshtein(word, 'b', 2)",
    "instr(word, 'b', 1, 2)",
    "nvl(word, 'x')",
    "levenshtein(word, 'b', 1, 1, 1)",
    "strpos(word, 'b', 2)",
]
SIGNATURES = """
    SELECT function_name, parameter_types, coalesce(varargs, '') FROM duckdb_functions()
    WHERE function_type = 'scalar' AND regexp_full_match(function_name, '[a-z_][a-z0-9_]*') ORDER BY ALL
"""
VALUES = {
    "VARCHAR": ["word", "'b'", "'%Y'"],
    "ANY": ["word", "number", "NULL"],
    "INTEGER": ["number::INTEGER", "2"],
    "BIGINT": ["number", "3"],
    "DOUBLE": ["number::DOUBLE", "1.5::DOUBLE"],
    "DECIMAL": ["1.5", "number::DECIMAL(9, 2)"],
    "BOOLEAN": ["(number > 2)", "true"],
    "DATE": ["day", "DATE '2024-02-29'"],
    "TIMESTAMP": ["day::TIMESTAMP", "TIMESTAMP '2024-02-29 12:34:56'"],
    "TIME": ["TIME '12:34:56'"],
    "INTERVAL": ["INTERVAL 2 MONTH"],
    "BLOB": ["word::BLOB"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'::UUID"],
}


@pytest.fixture(scope="module")
def words():
    with dpsql.connect() as db:
        db.sql(
            "CREATE TABLE words AS SELECT (['a', 'b', 'abc'])[1 + i % 3] AS word, i // 3 % 5 AS number, "
            "DATE '2023-12-30' + (i // 15 % 4)::INTEGER AS day FROM range(60) r(i)"
        )
        db.protect("words", epsilon=10.0, delta=1e-9)
        db.domain("words", "word", values=["a", "b", "abc"])
        db.domain("words", "number", lower=0, upper=4)
        db.domain("words", "day", lower="2023-12-30", upper="2024-01-02")
        db.sql("CREATE VIEW far AS SELECT levenshtein(word, 'b') AS far, number FROM words")
        yield db


PLACES = {
    "key": "SELECT {} AS k, count(*) FROM words GROUP BY k",
    "condition": "SELECT count(*) FROM words WHERE {} IS NOT NULL",
    "filter": "SELECT count(*) FILTER (WHERE {} = '2024') FROM words",
    "argument": "SELECT sum(length({}::VARCHAR)) FROM words",
    "column": "SELECT k, count(*) FROM (SELECT {} AS k FROM words) GROUP BY k",
    "results": "SELECT word, day, count(*) FROM words GROUP BY ALL HAVING {} IS NOT NULL",
    "order": "SELECT word, day, count(*) FROM words GROUP BY ALL ORDER BY {}",
    "shown": "SELECT {}, count(*) FROM words GROUP BY word, day",
}


@pytest.mark.medium
@pytest.mark.parametrize("place", PLACES)
def test_a_call_that_duckdb_does_not_take_is_refused_before_the_charge(words, place):
    before = len(words.ledger())
    for call in CHANGED:
        sql = PLACES[place].format(call)
        with pytest.raises(duckdb.Error, match="query: "):
            words.sql("FROM dp_query(?, epsilon := 0.1)", [sql]).fetchall()
    assert len(words.ledger()) == before


def test_what_duckdb_takes_is_answered(words):
    """Also where sqlglot writes another function, and in views."""
    for call in ("if(number > 2, 'x', word)", "date_add(day, INTERVAL 1 DAY)"):
        assert compared(words, call) == "same"
    assert compared(words, "far", source="far") == "same"


def mistranslate(monkeypatch, name):
    """Have sqlglot read a function as upper(x), as what people wrote and as what is written again."""
    for functions in (DuckDB.Parser.FUNCTIONS, duckdb_parser().FUNCTIONS):
        monkeypatch.setitem(functions, name, exp.Upper.from_arg_list)


def test_a_translation_that_means_something_else_is_refused(words, monkeypatch):
    """Whatever sqlglot makes of a call: here its lower(x) is read as upper(x)."""
    mistranslate(monkeypatch, "LOWER")
    before = len(words.ledger())
    for sql in (
        "SELECT lower(word) AS k, count(*) FROM words GROUP BY k",
        "SELECT count(*) FROM words WHERE lower(word) = 'a'",
        "SELECT sum(length(lower(word)) + ascii(lower(word))) FROM words",
        "SELECT word, count(*) FROM words GROUP BY word HAVING lower(word) = 'b'",
    ):
        with pytest.raises(duckdb.Error, match="evaluated as something else"):
            words.sql("FROM dp_query(?, epsilon := 0.1)", [sql]).fetchall()
    assert len(words.ledger()) == before


def test_a_translation_hides_no_call(words, monkeypatch):
    """What people wrote is tried as they wrote it, so it may call nothing that may not be called.

    Here sqlglot reads a call that reads the environment as upper(x).
    """
    mistranslate(monkeypatch, "GETENV")
    with pytest.raises(duckdb.Error, match="getenv.* cannot be used"):
        words.sql("FROM dp_query('SELECT count(*) FROM words WHERE getenv(word) = word', epsilon := 0.1)").fetchall()


TOGETHER = 4
EVERY = """
    FROM (SELECT word FROM words UNION SELECT NULL) w(word), (SELECT number FROM words UNION SELECT NULL) n(number),
    (SELECT day FROM words UNION SELECT NULL) d(day) SELECT word, number, day
"""


def compared(db, *values: str, source: str = "words") -> str:
    """`same`, or the class of the refusal; keys that differ from DuckDB's own fail."""
    with db.instance.cursor() as cursor:
        keys = [f"k{number}" for number in range(len(values))]
        columns = ", ".join(f"{value} AS {key}" for key, value in zip(keys, values, strict=True))
        asked = f"SELECT {', '.join(keys)}, count(*) AS n FROM (SELECT {columns} FROM {source}) GROUP BY ALL"
        try:
            resolved = resolve_query(cursor, QueryRequest(asked, 1.0), to_charge=False)
        except DpsqlError as refused:
            return type(refused).__name__
    lists = ", ".join(f"list(DISTINCT ({value})::VARCHAR)" for value in values)
    (rows,) = db.sql(f"SELECT {lists} FROM {f'({EVERY})' if source == 'words' else source}").fetchall()
    for value, ours, theirs in zip(values, resolved.evaluated.keys[0], rows, strict=True):
        assert {*ours.tolist()} - {None} == {*theirs} - {None}, value
    return "same"


def calls() -> dict[str, bool]:
    """Calls of every scalar function of DuckDB's catalogue: each signature, and one argument more or less.

    Those that DuckDB takes, each with two lists of arguments. What DuckDB refuses, and what is refused by its name, is
    looked at once for each name and number of arguments: the values make no difference there.

    Returns:
        Of each call, whether neither DuckDB nor its name refuses it.
    """
    plain, chosen = plain_functions(), {}
    with duckdb.connect() as con:
        con.execute("CREATE TABLE words (word VARCHAR, number BIGINT, day DATE)")
        for name, kinds, varargs in con.execute(SIGNATURES).fetchall():
            every = [*kinds, *([varargs, varargs] if varargs else [])]
            for types in (every, every[:-1], [*every, "INTEGER"], [*every, "VARCHAR"]):
                lists = [VALUES.get(kind.split("(")[0], ["NULL"]) for kind in types]
                some = zip(*map(itertools.cycle, lists), strict=False) if lists else iter([()])
                for arguments in itertools.islice(some, 2):
                    call = f"{name}({', '.join(arguments)})"
                    takes = name in plain and _takes(con, call)
                    chosen.setdefault(call if takes else (name, len(arguments)), call)
    return {call: call == key for key, call in chosen.items()}


def _takes(con: duckdb.DuckDBPyConnection, call: str) -> bool:
    try:
        con.execute(f"EXPLAIN SELECT {call} FROM words")
    except duckdb.Error:
        return False
    return True


def check(db, chosen: dict[str, bool]) -> None:
    """Calls that should be answered are asked together as keys of one query; by themselves where one is refused."""
    before, same = len(db.ledger()), 0
    likely = [call for call, takes in chosen.items() if takes]
    together = [likely[place : place + TOGETHER] for place in range(0, len(likely), TOGETHER)]
    together += [[call] for call, takes in chosen.items() if not takes]
    with one_empty_database():  # a query opens one of its own otherwise, which takes as long as the rest of it
        for calls_of_query in together:
            if compared(db, *calls_of_query) == "same":
                same += len(calls_of_query)
            elif len(calls_of_query) > 1:
                same += sum(compared(db, call) == "same" for call in calls_of_query)
    assert len(db.ledger()) == before
    assert same > len(likely) * 0.7


@pytest.mark.medium
def test_some_functions_of_the_catalogue_are_what_somebody_wrote(words):
    """The sample is the same in each run."""
    every = calls()
    check(words, {call: every[call] for call in random.Random(31).sample([*every], 80)})


@pytest.mark.slow
@pytest.mark.parametrize("part", [pytest.param(n, marks=[pytest.mark.audit] if n > 1 else []) for n in range(8)])
def test_every_scalar_function_of_the_catalogue_is_what_somebody_wrote(words, part):
    every = calls()
    assert len(every) > 2000
    check(words, {call: every[call] for call in [*every][part::8]})
