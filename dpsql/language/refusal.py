"""What a query cannot say: refused with the reason, its place in the text, and the nearest thing that works."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

from sqlglot import exp

from dpsql.core.names import fold, shorten
from dpsql.errors import InvalidQuery
from dpsql.language.written import as_written, place_of

INSTEAD: Final = "a query is SELECT keys, count(*) FROM the_table WHERE … GROUP BY keys, with count, sum or avg"
DISTINCT: Final = "count(DISTINCT …) counts privacy units; else count groups: GROUP BY the column"
RAW_ROWS: Final = "say count(*), sum or avg of it with GROUP BY, or make a table: FROM dp_synthesize('…', epsilon := …)"
_NOT_SELECT: Final = {
    "distinct": ("DISTINCT", "say GROUP BY the columns, with count(*)"),
    "windows": ("a window", "say the window around it: SELECT … OVER … FROM dp_query('…')"),
    "joins": ("a join inside a join", "join each table to the protected one"),
    "when": ("AT (…)", INSTEAD),
    "laterals": ("LATERAL", INSTEAD),
    "sample": ("TABLESAMPLE", "leave it out: noise does not shrink with a sample"),
    "into": ("INTO", "say CREATE TABLE … AS FROM dp_query('…')"),
    "pivots": ("PIVOT", "say it around: PIVOT (FROM dp_query('…')) …"),
}
OF_ROWS: Final = frozenset({"expressions", "from_", "joins", "where", "with_"})
OF_GROUPS: Final = OF_ROWS | {"group", "having", "order", "limit", "offset", "qualify"}
ALLOWED: Final = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Unary,
    exp.Binary,
    exp.Between,
    exp.In,
    exp.Case,
    exp.If,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.IntervalSpan,
    exp.AtTimeZone,
    exp.Var,
    exp.Func,
    exp.Tuple,
    exp.Array,
    exp.Predicate,
)
RESERVED: Final = "dpsql_"
MEMBERS: Final = "dpsql_members"  # of a query of a public table in an expression
REFUSED: Final = (exp.AggFunc, exp.Query, exp.UDTF, exp.Window, exp.Lambda)


def refuse(node: exp.Expr, reason: str, instead: str = INSTEAD) -> NoReturn:
    """Say what cannot be answered, where it is, and what can."""
    shown = words_of(node)
    spot = place_of(node)
    where = "" if spot is None else f" (line {spot[0]}, column {spot[1]})"
    raise InvalidQuery(f"query: {reason}, in: {shown}{where}; {instead}")


def words_of(node: exp.Expr) -> str:
    """A node in the words of whoever wrote it, for messages: never by sqlglot's name of it."""
    return shorten(as_written(node) or node.sql(dialect="duckdb"))


def first_word(statement: exp.Expr) -> str:
    """What a statement is: its first word, of a set operation the word between both sides."""
    text = statement.sql(dialect="duckdb")
    joined = isinstance(statement, exp.SetOperation)
    return type(statement).__name__.upper() if joined else text.split(maxsplit=1)[0].upper()  # UNION, EXCEPT, INTERSECT


def refuse_clause(node: exp.Expr, name: str) -> NoReturn:
    """Refuse a clause by sqlglot's name of it."""
    reason, instead = _NOT_SELECT.get(name, (name.upper(), INSTEAD))
    refuse(node, f"{reason} is not supported", instead)


def call_of(function: exp.Expr) -> str:
    """What a function is called, for messages."""
    return words_of(function).split("(")[0].strip().lower() + "(…)"


def check_clauses(select: exp.Select, allowed: frozenset[str], *, inside: bool = False) -> None:
    """Refuse clauses of a SELECT that are not allowed, `inside` FROM those that group and order too."""
    for name, value in select.args.items():
        if not value or name in allowed or name == "kind":
            continue
        reason, instead = _NOT_SELECT.get(name, (name.strip("_").upper(), INSTEAD))
        if inside and name in OF_GROUPS:
            reason, instead = f"{reason} inside FROM", "ask that query, and say the rest around it: FROM dp_query('…')"
        refuse(select, f"{reason} is not supported", instead)


def check_names(tree: exp.Expr, shown: exp.Expr | None = None) -> None:
    """Refuse names of tables, columns and results that could mean one of dpsql's own, however they are written.

    Those have no schema and no database before them, so these may be called as they like.

    Args:
        tree: a query.
        shown: what the user wrote of it, such as the name of a view; None where all of it.

    Raises:
        InvalidQuery: with the name.
    """
    for name in tree.find_all(exp.Identifier):
        if is_reserved(name.name) and name.arg_key not in ("db", "catalog"):
            refuse(shown or name, *_reserved(name.name))


def check_columns(names: Iterable[str]) -> None:
    """Refuse columns of a table that are called as something of dpsql's own.

    Raises:
        InvalidQuery: with the name.
    """
    for name in filter(is_reserved, names):
        reason, instead = _reserved(name)
        raise InvalidQuery(f"query: {reason}; {instead}")


def is_reserved(name: str) -> bool:
    """Whether dpsql may give the name to something that stands beside a query's own tables and columns."""
    return fold(name).startswith(RESERVED)


def _reserved(name: str) -> tuple[str, str]:
    reason = f"names that begin with {RESERVED} are reserved, such as {shorten(name)!r}"
    return reason, "give it another name: a column of a table by ALTER TABLE … RENAME"


def check_scalar(tree: exp.Expr) -> None:
    """Refuse what is not an expression of one row; which functions are allowed is checked where they would run."""
    for node in own_nodes(tree):
        if isinstance(node, exp.Query | exp.Subquery | exp.Exists):
            instead = "ask a public table by x IN (SELECT column FROM public WHERE …), or write the value itself"
            refuse(node, "a subquery in an expression is not supported", instead)
        if isinstance(node, exp.Window):
            refuse_clause(node, "windows")
        if isinstance(node, exp.AggFunc):
            refuse(node, f"{call_of(node)} is not supported here", "say a condition on an aggregate in HAVING")
        if isinstance(node, exp.Star):
            refuse(node, "* is not supported here", RAW_ROWS)
        if isinstance(node, REFUSED) or not isinstance(node, ALLOWED):
            refuse(node, f"{words_of(node)} is not supported in an expression")


def is_scalar(tree: exp.Expr) -> bool:
    """Whether it is what `check_scalar` allows."""
    return all(isinstance(node, ALLOWED) and not isinstance(node, REFUSED) for node in own_nodes(tree))


def is_members(node: exp.Expr) -> bool:
    """Whether it is a query of a public table that an expression asks."""
    return bool(node.meta.get(MEMBERS))


def own_nodes(tree: exp.Expr) -> Iterator[exp.Expr]:
    """All nodes of an expression, without the queries of public tables that it asks."""
    return (node for node in tree.walk(prune=is_members) if not is_members(node))
