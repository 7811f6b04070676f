from __future__ import annotations

import pytest
from sqlglot.dialects.duckdb import DuckDB

from dpsql.language import interpreted

STATEMENTS = [
    "SELECT sex, count(*) AS n FROM people WHERE age BETWEEN 18 AND 30 GROUP BY ROLLUP (sex) HAVING n > 3 ORDER BY 1",
    "FROM visits v LEFT JOIN patients USING (pid) SELECT v.* EXCLUDE (day), list_transform([1], lambda x : x + 1)",
    "WITH t AS (SELECT 1 AS a UNION ALL SELECT 2) SELECT a::DECIMAL(5, 2), CASE WHEN NOT a = 1 THEN 'x' END FROM t",
    "SELECT x[1], {'a': 1}.a, $1, INTERVAL 3 DAY, date '2020-01-01' - 1 FROM range(3) r(x) QUALIFY row_number() OVER () = 1",
]


@pytest.fixture
def from_source(monkeypatch):
    """The parser as it is made where sqlglot is compiled."""
    monkeypatch.setattr(interpreted, "_is_compiled", lambda name: True)
    return interpreted.duckdb_parser.__wrapped__()


def test_a_parser_from_its_source_reads_what_sqlglot_reads(from_source):
    dialect = DuckDB()
    for sql in STATEMENTS:
        tokens = dialect.tokenize(sql)
        assert from_source(dialect=dialect).parse(tokens, sql) == DuckDB.Parser(dialect=dialect).parse(tokens, sql)


def test_a_parser_from_its_source_can_be_extended_and_is_no_other_ones(from_source):
    """A compiled class takes no heir; and what is imported beside stays as it is."""
    assert from_source is not DuckDB.Parser
    assert from_source.__mro__[1] is not DuckDB.Parser.__mro__[1], "the class that it extends is of the source, too"

    class Heir(from_source):
        def _parse_unary(self):
            node = super()._parse_unary()
            if node is not None:
                node.meta["seen"] = True
            return node

    dialect = DuckDB()
    (tree,) = Heir(dialect=dialect).parse(dialect.tokenize("SELECT -a"), "SELECT -a")
    assert tree.selects[0].meta["seen"]


def test_the_parser_in_use_can_be_extended():
    """In whichever way sqlglot is installed."""
    type("Heir", (interpreted.duckdb_parser(),), {})
