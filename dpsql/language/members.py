"""`x IN (SELECT …)` and `EXISTS (…)` over public tables: read as values, and asked where expressions are tried.

There the public table is `dpsql_joined_<i>`, so that DuckDB itself says what IN means: of NULL, of no value, of types.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.names import fold, pick
from dpsql.errors import InvalidQuery, UnknownName
from dpsql.language.around import GroupsInside
from dpsql.language.expressions import enclosed
from dpsql.language.joins import PublicTable, RowsOf
from dpsql.language.place import Place
from dpsql.language.refusal import MEMBERS, is_members, refuse
from dpsql.language.scope import Dimension, Scope
from dpsql.language.written import keep_span

_INSTEAD = "join the public table on its key: FROM protected JOIN public ON public.key = …"
_OF_THE_ROW = "say x IN (SELECT key FROM public WHERE …), or join the public table on its key"
_CLAUSES = ("where", "expressions", "group")


def with_members(scope: Scope, select: exp.Select, place: Place, rows_of: RowsOf) -> tuple[Scope, exp.Select]:
    """A SELECT whose conditions ask public tables, with these beside its rows.

    Args:
        scope: its rows.
        select: what it says about them.
        place: where it stands.
        rows_of: the rows of an item of FROM.

    Raises:
        InvalidQuery: a subquery reads something else than one public table, or depends on the row.
    """
    if not any(map(_asks, select.find_all(exp.In, exp.Exists, exp.EQ))):
        return scope, select
    rewrite = select.copy()
    for clause in _CLAUSES:
        parts = rewrite.args.get(clause) or []
        for part in parts if isinstance(parts, list) else [parts]:
            for node in list(part.walk(prune=lambda child: isinstance(child, exp.Query))):
                if _asks(node):
                    scope = _with_public(node, scope, place, rows_of)
    return scope, rewrite


def _asks(node: exp.Expr) -> bool:
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):  # IN, as the definition of a view has it
        return isinstance(node.expression.this, exp.Query)
    return isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None)


def _with_public(node: exp.Expr, scope: Scope, place: Place, rows_of: RowsOf) -> Scope:
    """The scope with the public table that a condition asks; the condition asks it by its name there."""
    if isinstance(node, exp.EQ):
        as_in = exp.In(this=node.this, query=node.expression.this)
        as_in.meta.update(node.meta)
        node = node.replace(as_in)
    exists = isinstance(node, exp.Exists)
    query = node.this if exists else node.args["query"]
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        refuse(node, "this subquery in an expression is not supported", _INSTEAD)
    inner = query.copy()
    distinct = inner.args.get("distinct")
    if distinct is not None and not distinct.args.get("on"):
        inner.set("distinct", None)  # of values that are only looked for
    item = exp.Subquery(this=inner)
    try:
        origin, columns = rows_of(item, place.seen_by(PublicTable(place.catalog))).origin
        name = f"dpsql_joined_{len(scope.dimensions)}"
        dimension = Dimension(name, origin, tuple(columns), ())
        values = {column: exp.column(f"dpsql_d{n}", table=name) for n, (column, _) in enumerate(columns)}
        rows = rows_of(item, place.seen_by(PublicTable(place.catalog, values)))
    except GroupsInside:
        refuse(
            node, "groups in a subquery of an expression are not supported", "make a public table of them, and ask that"
        )
    except (UnknownName, InvalidQuery) as problem:
        if _reads_row(inner, scope, by_name=isinstance(problem, UnknownName)):
            refuse(node, "a subquery that depends on the row is not supported", _OF_THE_ROW)
        raise
    listed = list(rows.columns.values())
    if not exists and len(listed) != 1:
        refuse(node, f"IN takes a subquery of one column, this has {len(listed)}", _INSTEAD)
    conditions = [enclosed(tree) for tree in rows.filters]
    subquery = exp.select(*(tree.copy() for tree in listed)).from_(name).where(*conditions, copy=False)
    keep_span(subquery, query)
    if exists:
        node.set("this", subquery)
        node.meta[MEMBERS] = True
    else:
        marked = exp.Subquery(this=subquery)
        marked.meta[MEMBERS] = True
        node.set("query", marked)
    return scope.beside(dimension)


def _reads_row(inner: exp.Select, scope: Scope, *, by_name: bool) -> bool:
    """Whether a subquery that cannot be read names columns of the tables around it."""
    own = {fold(table.alias_or_name) for table in inner.find_all(exp.Table, exp.Subquery)}
    return any(
        (fold(column.table) not in own and pick(column.table, scope.tables) is not None)
        if column.table
        else by_name and pick(column.name, scope.columns) is not None
        for column in inner.find_all(exp.Column)
    )


def asked_of(tree: exp.Expr) -> list[exp.Select]:
    """The queries of public tables in an expression."""
    return [node.this for node in tree.walk() if is_members(node)]
