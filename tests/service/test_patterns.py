"""Patterns that a statement writes out: PostgreSQL's matches, or a refusal that says what to write."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import strategies as st

from dpsql.service.allowlist import NotAllowed
from dpsql.service.patterns import Pattern
from dpsql.service.respell import respelled
from tests.service.beside_postgres import compare

texts = st.text("abAB1é. \n-", max_size=8)
pieces = [
    *(
        "a",
        "b",
        "1",
        "é",
        ".",
        "[ab]",
        "[^a]",
        "(b)",
        "(a.)",
        "(?:ab)",
        "\\w",
        "\\W",
        "\\d",
        "\\s",
        "[[:alpha:]1]",
        "\\.",
    ),
    *(
        "\\y",
        "\\m",
        "\\M",
        "\\Y",
        "^",
        "$",
        "a*",
        ".+",
        "b?",
        "a*?",
        ".+?",
        "b??",
        "\\w+?",
        "[^1]*?",
        "a{2}",
        "b{1,2}?",
    ),
    *("(.*?)", "(a+?)", "|", "\\A", "\\Z", "\\u0061", "\\b", "\\1", "[\\w-]"),
]
patterns = st.lists(st.sampled_from(pieces), min_size=1, max_size=4).map("".join)
lazy = st.lists(
    st.sampled_from(["a", "b", ".", "[ab]", "(b)", "a*?", "b+?", ".*?", ".+?", "(.*?)", "[ab]+?", "^", "$"]), max_size=5
).map("".join)
CALLS = {
    "%s ~ %s": st.tuples(texts, patterns),
    "%s !~* %s": st.tuples(texts, patterns),
    "(%s || 'a') ~* %s AND true": st.tuples(texts, patterns),
    "regexp_like(%s, %s)": st.tuples(texts, patterns),
    "regexp_match(%s, %s)": st.tuples(
        texts, patterns.filter(lambda pattern: "?" not in pattern.replace("*?", "").replace("+?", ""))
    ),
    "regexp_match(%s, %s) AS lazy": st.tuples(texts, lazy),
    "regexp_replace(%s, %s, '<\\&>')": st.tuples(texts, lazy.filter(bool)),
    "regexp_replace(%s, %s, 'x', 'g')": st.tuples(texts, st.sampled_from(["a+?", "\\w", "\\ya", ".", "[^a]+", "\\M"])),
    "substring(%s FROM %s)": st.tuples(texts, lazy),
    "regexp_count(%s, %s)": st.tuples(texts, patterns),
}


@pytest.mark.medium
@pytest.mark.parametrize("call", CALLS)
def test_a_value_is_postgresqls_or_refused(browsed, real, call):
    compare(browsed, real, call, CALLS[call], 40)


@pytest.mark.medium
def test_letters_are_those_of_postgresql(browsed, real):
    """Of every hundredth sign of Unicode it is the same one whether it is a letter."""
    sql = "SELECT n FROM generate_series(161, 55000, 97) AS n WHERE chr(n::int) ~ '\\w'"
    ours, theirs = ({row[0] for row in connection.execute(sql).fetchall()} for connection in (browsed, real))
    assert len(ours) > 300
    assert len(ours ^ theirs) < len(ours) / 20, "Unicode's versions differ a little"


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("a.b", "(?s)a.b"),
        ("(?i)a.", "(?is)a."),
        ("<.+?>(.*?)", "(?Us)<.+>(.*)"),
        ("\\yab\\M", "(?:\\b){1}ab(?:\\b){1}"),
        ("[\\w-]\\w", "[\\pL\\p{Nd}_-][\\pL\\p{Nd}_]"),
        ("\\u00e9\\x41", "\\x{00e9}\\x{41}"),
        ("a\\.b", "a\\.b"),
    ],
)
def test_what_re2_reads(text, spelled):
    assert Pattern(text).spelled == spelled


REFUSED = {
    "x ~ '\\bfoo'": "write \\y",
    "x ~ '(a)\\1'": "earlier part",
    "regexp_match(x, 'a+b+?')": "behind all of them",
    "regexp_replace(x, '(ab)*?', '')": "behind no parentheses",
    "x ~ '(?x)a'": "(?i) is served",
    "x ~ 'a(?i)'": "at its begin",
    "x ~ '\\m-'": "write \\y",
    "a || b ~ '\\ya'": "parentheses",
    "x ~ '[\\b]'": "in brackets",
    "x ~ '\\cA'": "not served",
    "x ~ '" + "[" * 50_000 + "'": "has no ]",
    "x ~ '" + "[[:" * 30_000 + "'": "has no ]",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused_says_what_works(expression):
    with pytest.raises(NotAllowed) as refusal:
        respelled(f"SELECT {expression} FROM t")
    assert REFUSED[expression] in str(refusal.value)


@pytest.mark.medium
@pytest.mark.parametrize("expression", ["'é' ~ '\\ya'", "regexp_replace('é', '\\ya', '')"])
def test_ends_of_words_are_looked_for_in_ascii(browsed, expression):
    with pytest.raises(psycopg.Error, match="ASCII"):
        browsed.execute(f"SELECT {expression}")
