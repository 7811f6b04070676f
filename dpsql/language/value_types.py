"""Types that people's expressions may have, and how deep texts may be nested, told from the text.

DuckDB calls itself for each level of some values: a text of brackets that becomes a VARIANT ends its process. So types
are on a list, as functions are, and a type that nobody has looked at is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import Token, TokenType, exp

from dpsql.errors import InvalidQuery

_T: Final = exp.DataType.Type
_NESTED: Final = frozenset({_T.ARRAY, _T.LIST, _T.STRUCT, _T.MAP})
_LISTED: Final = _NESTED | {
    *(_T.BOOLEAN, _T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT, _T.INT128, _T.FLOAT, _T.DOUBLE, _T.DECIMAL, _T.BIGNUM),
    *(_T.UTINYINT, _T.USMALLINT, _T.UINT, _T.UBIGINT, _T.UINT128),
    *(_T.CHAR, _T.VARCHAR, _T.NVARCHAR, _T.TEXT, _T.BINARY, _T.VARBINARY, _T.BLOB, _T.BIT),
    *(_T.UUID, _T.JSON, _T.NULL, _T.ENUM),
    *(_T.DATE, _T.TIME, _T.TIMETZ, _T.TIME_NS, _T.INTERVAL),
    *(_T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ, _T.TIMESTAMPNTZ, _T.TIMESTAMP_S, _T.TIMESTAMP_MS, _T.TIMESTAMP_NS),
    *(_T.DATETIME, _T.DATETIME64),
}
_DEEPEST_TYPE: Final = 4
_DEEPEST_TEXT: Final = 300
_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_INDEXED: Final = frozenset(
    {TokenType.R_BRACKET, TokenType.R_PAREN, TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING}
)
_MOST_INDICES: Final = 200  # sqlglot looks at all that stands before each
_PREFIXES: Final = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})


def check_types(tree: exp.Expr) -> None:
    """Refuse types that are not listed, or are too deep inside one another.

    Raises:
        InvalidQuery: with the type.
    """
    for kind in tree.find_all(exp.DataType):
        depth, outside = 1, kind.parent
        while outside is not None:
            depth, outside = depth + isinstance(outside, exp.DataType), outside.parent
        if kind.this not in _LISTED or depth > _DEEPEST_TYPE:
            shown = kind.sql(dialect="duckdb")[:80]
            raise InvalidQuery(
                f"query: {shown} is no type that expressions may have: cast to a number, a text, a time, or lists of "
                "them"
            )


def check_nesting(tokens: Sequence[Token]) -> None:
    """Refuse brackets, CASE and signs too deep inside one another, before a parser calls itself for each.

    Raises:
        InvalidQuery: there are too many.
    """
    depth = signs = indices = 0
    before = None
    for token in tokens:
        kind = token.token_type
        indices += kind is TokenType.L_BRACKET and before in _INDEXED
        before = kind
        depth += (kind in _OPENING) - (kind in _CLOSING and depth > 0)
        signs = signs + 1 if kind in _PREFIXES else 0
        if depth > _DEEPEST_TEXT or signs > _DEEPEST_TEXT:
            raise InvalidQuery(f"query: nested too deeply: more than {_DEEPEST_TEXT} expressions inside one another")
    if indices > _MOST_INDICES:
        raise InvalidQuery(f"query: nested too deeply: more than {_MOST_INDICES} times x[i]")
