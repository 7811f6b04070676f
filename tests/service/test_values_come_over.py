"""Values of any type go by Arrow and come back equal: hostile texts, in lists, structs and maps, drawn at random."""

from __future__ import annotations

import random
import warnings

import duckdb
import pytest

from dpsql.service.arrow import as_texts, received, sent

TEXTS = [
    "",
    " ",
    "NULL",
    "null",
    "'",
    '"',
    "\\",
    "\\'",
    '\\"',
    "{",
    "}",
    "[",
    "]",
    "(",
    ",",
    ":",
    "=",
    "a, b",
    "😀",
    "x'y\"z\\",
]
NAMES = ["a", "JSON", "UNION", 'q"u', "a b, c)", "it's", "select", "VARCHAR"]
LEAVES = [
    *(f"'{text.replace(chr(39), chr(39) * 2)}'" for text in TEXTS),
    *(
        "chr(10)",
        "chr(9)",
        "NULL::VARCHAR",
        "repeat('''\"\\', 3000)",
        "'nan'::DOUBLE",
        "5e-324::DOUBLE",
        "1e-40::FLOAT",
    ),
    *(
        "'{\"a\": \"it''s \\\\ [}\"}'::JSON",
        "'null'::JSON",
        "'\"NULL\"'::JSON",
        "NULL::JSON",
        "NULL::ENUM('JSON', 'it''s')",
    ),
    *("'it''s'::ENUM('JSON', 'it''s', '', 'a, b')", "''::ENUM('', 'NULL')", "'\\x00\\x5C\\x27\\x22'::BLOB"),
    *("'infinity'::TIMESTAMP", "TIMESTAMP '0044-03-15 (BC) 10:00:00'", "DATE '0044-03-15 (BC)'", "'-infinity'::DATE"),
    *(
        "INTERVAL '-1 month 2 days -03:00:00.5'",
        "'24:00:00'::TIME",
        "'10:00:00+15:59:59'::TIMETZ",
        "1.5::DECIMAL(38, 10)",
    ),
    *("union_value(n := '{}'::JSON)", 'union_value("JSON" := 1)', "'0101'::BIT", "NULL"),
]


def drawn(chance, depth):
    """An expression of a random type."""
    form = chance.choice(["leaf", "list", "struct", "map", "array"]) if depth else "leaf"
    if form == "leaf":
        return chance.choice(LEAVES)
    inner = drawn(chance, depth - 1)
    if form == "struct":
        names = chance.sample(NAMES, 2)
        shown = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}': {inner}" for name in names)
        return f"{{{shown}}}"
    if form == "map":
        return f"MAP {{{chance.choice(LEAVES[: len(TEXTS)])}: {inner}}}"
    return f"[{inner}, NULL]" if form == "list" else f"array_value({inner}, {inner})"


@pytest.mark.medium
def test_whatever_is_published_comes_over():
    chance = random.Random(4)
    names = [f"v{number}" for number in range(80)]
    with duckdb.connect() as source, duckdb.connect() as target:
        shown = ", ".join(f"{drawn(chance, chance.randrange(4))} AS {name}" for name in names)
        source.execute(f"CREATE TABLE shown AS SELECT {shown}")
        columns = [row[:2] for row in source.execute("DESCRIBE shown").fetchall()]
        assert len({kind for _, kind in columns}) > 40
        with warnings.catch_warnings(action="ignore"):
            rows = source.sql(sent("FROM shown", columns)).to_arrow_table()
        target.register("came", rows)
        texts = target.execute(f"SELECT COLUMNS(*)::VARCHAR FROM ({received('came', as_texts(columns))})").fetchall()[0]
        unread = []
        for name, text, (_, kind) in zip(names, texts, columns, strict=True):
            there = source.execute(f"SELECT {name}::VARCHAR FROM shown").fetchall()[0][0]
            assert text == there, (name, kind)
            try:
                query = received("came", columns, is_checked=True)
                came = target.execute(f"SELECT {name}::VARCHAR FROM ({query})").fetchall()[0][0]
            except (duckdb.ConversionException, duckdb.InvalidInputException):
                unread.append(kind)
            else:
                assert came == there, (name, kind)
        assert len(unread) <= (0 if duckdb.__version__ >= "2" else 10), unread
