"""A text of SQL as one query: parsed, and taken apart where it stands, with what stands around its groups."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sqlglot import exp

from dpsql.errors import InvalidQuery
from dpsql.language.analysis import Analysis
from dpsql.language.around import Around, GroupsInside, around, words_around
from dpsql.language.expressions import columns_read, spelled
from dpsql.language.from_clause import rows_and_words
from dpsql.language.place import Place
from dpsql.language.query import Query
from dpsql.language.refusal import (
    INSTEAD,
    OF_GROUPS,
    check_clauses,
    check_columns,
    check_names,
    first_word,
    refuse,
)
from dpsql.language.scope import Catalog
from dpsql.language.syntax import check_depth, parse_statements
from dpsql.runtime.process_settings import deep_recursion


def parse_query(text: str, catalog: Catalog) -> Query:
    """Parse a query over one protected table.

    Args:
        text: one SELECT.
        catalog: what names in FROM mean.

    Raises:
        InvalidQuery: it cannot be answered with noise; says why, where, and what can.
        UnknownName: a table or column that is not there.
    """
    statements = parse_statements(text)
    if len(statements) != 1:
        raise InvalidQuery(f"there are {len(statements)} statements: give one query; {INSTEAD}")
    try:
        with deep_recursion():
            return analyse(statements[0], catalog)
    except RecursionError:
        raise InvalidQuery("query: nested too deeply") from None


def analyse(statement: exp.Expr, catalog: Catalog) -> Query:
    """Take one statement apart; see `parse_query`."""
    if isinstance(statement, exp.Subquery) and not any(v for k, v in statement.args.items() if k != "this"):
        statement = statement.this
    if isinstance(statement, exp.SetOperation):
        refuse(
            statement,
            f"{first_word(statement)} is not supported",
            "ask each by itself: FROM dp_query('…') UNION ALL FROM dp_query('…')",
        )
    if not isinstance(statement, exp.Select):
        refuse(statement, f"{first_word(statement)} is not a query")
    check_depth(statement)
    check_names(statement)
    return _in_place(statement, Place(catalog))


def _in_place(statement: exp.Select, place: Place) -> Query:
    """A query that stands somewhere; of groups in FROM of another, with that."""
    distinct = statement.args.get("distinct")
    plain = distinct is not None and not distinct.args.get("on") and statement.args.get("group") is not None
    place = place.with_(statement)
    try:
        scope, written = rows_and_words(statement, place)
    except GroupsInside as inside:
        words = words_around(statement, place, inside)
        query = _in_place(inside.select, inside.place)
        if query.around is None:
            return replace(query, around=around(words, statement, place, inside, query.noisy))
        return replace(query, around=Around(words_around(statement, place, inside, query.around.words)))
    check_clauses(statement, OF_GROUPS | {"distinct"} if plain else OF_GROUPS)
    statement = written
    if statement.find(exp.Anonymous) is not None:  # to transform copies
        statement = cast(exp.Select, statement.transform(spelled))
    query = Analysis(statement, scope, place.catalog).query()
    for tree in query.trees:  # of columns that were given other names by their places
        check_columns(columns_read(tree))
    return replace(query, select=written)
