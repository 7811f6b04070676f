"""An empty database in memory, where expressions that users write run on public domains and released values.

No table, macro or file of anyone's is there, and what a function may be called is checked first, so that an expression
can neither meet a private row nor look around.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

import duckdb
from sqlglot import Token, TokenType

_BARE_WORDS: Final = frozenset(
    """current_date current_time current_timestamp localtime localtimestamp current_user session_user current_role
    current_schema current_catalog""".split()  # noqa: SIM905
)
_NOT_PLAIN: Final = frozenset({"age", "current_setting", "getvariable"})  # they look around; DuckDB 1.5 says not
_BEFORE_PARENTHESES: Final = frozenset(  # words that are no functions
    """and any array as between case cast coalesce date decimal distinct else end escape extract from ilike in interval
    is like not nullif numeric or row struct then time timestamp to try_cast varchar when""".split()  # noqa: SIM905
)


_opening = threading.Lock()


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"enable_external_access": "false"})


@contextmanager
def scratch() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the empty database; what is registered or created on it must be temporary."""
    with _opening:
        connection = _database().cursor()
    try:
        yield connection
    finally:
        connection.close()


@lru_cache(maxsize=1)
def plain_functions() -> frozenset[str]:
    """The names, in lower case, of DuckDB's own functions that depend on their arguments alone."""
    sql = (
        "SELECT lower(function_name) FROM duckdb_functions() GROUP BY 1 "
        "HAVING bool_and(internal AND function_type = 'scalar' AND stability = 'CONSISTENT')"
    )
    with scratch() as empty:
        return frozenset(name for (name,) in empty.execute(sql).fetchall()) - _NOT_PLAIN


def foreign_word(tokens: Sequence[Token]) -> str | None:
    """A word that calls what may change from one moment to the next, or is not DuckDB's own; None if there is none."""
    plain = [token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) for token in tokens]
    called = set()
    for place, token in enumerate(tokens):
        word = token.text.lower()
        calls = place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.L_PAREN
        if plain[place] and not calls and word in _BARE_WORDS:
            return word
        named = token.token_type is TokenType.IDENTIFIER or (plain[place] and word.replace("_", "a").isalnum())
        if calls and named and not word[0].isdigit() and not (plain[place] and word in _BEFORE_PARENTHESES):
            called.add(word)
    return next((f"{word}(…)" for word in sorted(called - plain_functions())), None)
