"""What a statement calls and casts to, where the table that it makes or changes is then public.

Views that it names are looked through too. What stays in the table are values: the clock's and random ones tell nothing
of any row, and a release that reads the table is made again with the same ones. A view that calls them is not read as
public: see `dpsql.books.reading.reads`. Numbers of a sequence tell how many came before, perhaps of a protected table;
and members of an ENUM type may have been made from protected rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, cast

import duckdb
import sqlglot
from sqlglot import TokenType
from sqlglot.errors import SqlglotError

from dpsql.api.wording import Wording
from dpsql.books.reading.reads import Unclear, check_calls
from dpsql.core.functions import TABLES, having
from dpsql.core.functions import Trait as T
from dpsql.core.names import fold

Ask = Callable[[str], list[tuple[Any, ...]]]
"""Gives the rows of a query on the caller's connection, by the means by which the statement itself runs."""
READERS: Final = having(T.FILE_ROWS, TABLES)
"""Functions whose rows are the owner's to answer for."""
DRAWN: Final = having(T.CHANCE | T.CLOCK)
"""Functions whose values tell nothing of any row."""
_CODES: Final = having(T.CODES)
"""Functions that tell members of an ENUM type apart."""
_CASTS: Final = frozenset({"::", "cast", "try_cast"})
_ENUMS: Final = """
    SELECT type_name FROM duckdb_types() WHERE NOT internal AND logical_type = 'ENUM'
    UNION ALL SELECT '' FROM duckdb_columns() WHERE NOT internal AND contains(data_type, 'ENUM(')
"""


def check_values(ask: Ask, text: str, wording: Wording) -> None:
    """Refuse a statement whose values may tell of rows that its text does not name.

    Args:
        ask: runs a query on the caller's connection.
        text: the statement.
        wording: what its text names.

    Raises:
        Unclear: it calls what may read tables or tell of private rows, or casts to an ENUM type.
    """
    enums = {fold(name) for (name,) in ask(_ENUMS)}
    if enums - {""} and _casts_to(text, enums):
        raise Unclear("a cast to an ENUM")
    if not (wording.reads or wording.calls):
        return
    words = {part for name in wording.names for part in name} | wording.calls
    beside = {word for word in words if word.startswith("dp_")} | (frozenset() if enums else _CODES)
    connection = _CallerConnection(ask)
    check_calls(cast("duckdb.DuckDBPyConnection", connection), text, READERS | DRAWN | beside)
    functions = connection.answers[0]  # all of them, with the definitions of macros
    if {fold(name) for name, internal, text in functions if text is not None and not internal} & words:
        raise Unclear("a macro")


def _casts_to(text: str, names: Collection[str]) -> bool:
    """Whether a text casts, and says one of these names outside of its strings; so of a text that is not read.

    A column is often called as its type, so a name alone tells nothing.
    """
    try:
        tokens = sqlglot.tokenize(text, read="duckdb")
    except SqlglotError:
        return True
    names_type = [token.token_type is not TokenType.STRING and fold(token.text) in names for token in tokens]
    constants = any(
        here and after.token_type is TokenType.STRING for here, after in zip(names_type, tokens[1:], strict=False)
    )
    return any(names_type) and (constants or any(token.text.lower() in _CASTS for token in tokens))


@dataclass
class _CallerConnection:
    """The caller's connection, as far as `check_calls` needs it."""

    ask: Ask
    answers: list[list[tuple[Any, ...]]] = field(default_factory=list)

    def execute(self, query: str) -> _CallerConnection:
        self.answers.append(self.ask(query))
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.answers[-1]
