"""Queries that can be answered with noise: grouped counts, sums and averages over one protected table.

    SELECT keys, aggregates FROM source WHERE … GROUP BY keys HAVING … ORDER BY … LIMIT …

is parsed by sqlglot and taken apart, never run. What it says about rows (keys, filters, arguments of aggregates)
becomes expressions over the columns of the protected table, whatever views, CTEs and subqueries lie between; what it
says about results (HAVING, ORDER BY, LIMIT) becomes expressions over the keys k0, k1, … and the noisy answers a0, ….
All else is refused with the reason, its place in the text, and the nearest thing that works.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NoReturn, Protocol, cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.core.names import fold, pick, quote, shorten
from dpsql.errors import InvalidQuery, UnknownName
from dpsql.runtime.process_settings import deep_recursion

_LONGEST: Final = 200_000  # characters
_MOST_CONDITIONS: Final = 12_000
_MOST_SETS: Final = 1024
_DEEPEST: Final = 20  # views, CTEs and subqueries inside one another
_DEEPEST_NODES: Final = 300
_MOST_NODES: Final = 200_000
INSTEAD: Final = "a query is SELECT keys, count(*) FROM the_table WHERE … GROUP BY keys, with count, sum or avg"


@dataclass(frozen=True)
class Scope:
    """The rows of one protected table, as a FROM clause shows them.

    Attributes:
        origin: the protected table.
        columns: each visible column as an expression over the origin's columns, which are quoted and unqualified.
        filters: which rows there are: conditions over the origin's columns.
        tables: the columns again, by the name that qualifies them.
        ambiguous: names, in lower case, of columns that two tables have: they must be qualified.
        dimensions: public tables that are joined, one row of each for a row of the origin at most.
    """

    origin: Any
    columns: Mapping[str, exp.Expr]
    filters: tuple[exp.Expr, ...] = ()
    tables: Mapping[str, Mapping[str, exp.Expr]] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()
    dimensions: tuple[Dimension, ...] = ()

    def named(self, name: str) -> Scope:
        """The same, its columns qualified by a name."""
        return replace(self, tables={name: self.columns}, ambiguous=frozenset())

    @property
    def title(self) -> str:
        """What FROM calls it."""
        return " and ".join(self.tables)


@dataclass(frozen=True)
class Dimension:
    """A public table that is joined on columns of which no two of its rows have the same values.

    Its column number i is read as `(SELECT name.dpsql_d<i> FROM name WHERE name.dpsql_d<k> = key AND …)`.

    Attributes:
        name: of it in expressions.
        origin: the table.
        columns: names and types of its columns.
        keys: numbers of the columns that it is joined on.
    """

    name: str
    origin: Any
    columns: tuple[tuple[str, str], ...]
    keys: tuple[int, ...]


def sql_of(tree: exp.Expr) -> str:
    """An expression as DuckDB's SQL; a quoted column, as most are, without the copy that is made for a generator."""
    name = tree.this
    plain = isinstance(tree, exp.Column) and isinstance(name, exp.Identifier) and name.quoted and not tree.comments
    if plain and not any(value for part, value in tree.args.items() if part != "this"):
        return quote(name.name)
    return tree.sql(dialect="duckdb")


def structure(tree: exp.Expr) -> str:
    """A text that tells expressions apart: their nodes in brackets. Long chains are deep: `repr` would indent them.

    >>> structure(sqlglot.parse_one("a + 1"))
    "Add(this=Column(this=Identifier(this='a', quoted=False, ), ), expression=Literal(this='1', is_string=False, ), )"
    """
    parts: list[str] = []
    left: list[tuple[bool, Any]] = [(False, tree)]
    while left:
        is_text, item = left.pop()
        if is_text:
            parts.append(item)
        elif isinstance(item, exp.Expr):
            parts.append(f"{type(item).__name__}(")
            left.append((True, ")"))
            for name, value in reversed(item.args.items()):
                if value is not None and value != []:
                    left += [(True, ", "), (False, value), (True, f"{name}=")]
        elif isinstance(item, list):
            parts.append("[")
            left.append((True, "]"))
            for value in reversed(item):
                left += [(True, ", "), (False, value)]
        else:
            parts.append(repr(item))
    return "".join(parts)


def columns_read(tree: exp.Expr) -> set[str]:
    """The names of the origin's columns in an expression: those of dimensions are qualified, they are not."""
    return {column.name for column in tree.find_all(exp.Column) if not column.table}


class Catalog(Protocol):
    """What names in FROM mean."""

    def public(self, table: exp.Table) -> tuple[Any, Sequence[tuple[str, str]]]:
        """A table that is not protected: what it is, and names and types of its columns.

        Raises:
            DpsqlError: unknown, or protected.
        """

    def find(self, table: exp.Table) -> Scope | tuple[exp.Query, Catalog]:
        """A protected table, or the query of a view and what names mean there.

        Raises:
            DpsqlError: unknown, or not protected.
        """


@dataclass(frozen=True)
class Aggregate:
    """A count, a sum or an average of an expression over the rows that satisfy all filters.

    Of kind `units`: how many different values the argument has, which must be the privacy unit's column.
    """

    kind: Literal["count", "units", "sum", "avg"]
    argument: exp.Expr | None
    filters: tuple[exp.Expr, ...]

    @property
    def trees(self) -> tuple[exp.Expr, ...]:
        """Its expressions; not the privacy unit's column, which has no domain."""
        return self.filters if self.argument is None or self.kind == "units" else (self.argument, *self.filters)


@dataclass(frozen=True)
class Query:
    """A query taken apart.

    Attributes:
        scope: where its rows come from.
        select: as it was written, for the names and types of its columns.
        keys: expressions over the origin's columns, without repetition.
        sets: the grouping sets, as numbers of keys; one set for plain GROUP BY, the empty set without.
        aggregates: without repetition.
        outputs: for each column of the result its expression over k0, … and a0, …
        noisy: for each column of the result the number of its aggregate, None for keys.
        filters: conditions over the origin's columns, all of which hold.
        having: over keys and aggregates.
        order: likewise.
        limit: how many rows of the result.
        offset: after how many.
    """

    scope: Scope
    select: exp.Select
    keys: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[exp.Expr, ...]
    noisy: tuple[int | None, ...]
    filters: tuple[exp.Expr, ...]
    having: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def trees(self) -> list[exp.Expr]:
        """All that it says about rows: keys, filters, and what its aggregates are of."""
        return [*self.keys, *self.filters, *(tree for aggregate in self.aggregates for tree in aggregate.trees)]

    @property
    def fingerprint(self) -> str:
        """Tells queries apart that mean or show something else."""
        trees = [*self.keys, *self.filters, *self.outputs, *self.scope.columns.values(), self.select]
        trees += [] if self.having is None else [self.having]
        texts = [sql_of(tree) for tree in (*trees, *self.order)]
        aggregates = [
            [a.kind, a.argument and structure(a.argument), *map(structure, a.filters)] for a in self.aggregates
        ]
        shown = (
            {name: list(columns) for name, columns in self.scope.tables.items()},
            self.sets,
            self.noisy,
            self.limit,
            self.offset,
        )
        return repr((texts, aggregates, shown, len(self.keys), len(self.filters)))


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


_CONDITION: Final = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


def parse_statements(text: str) -> list[exp.Expr]:
    """The statements of a text.

    Raises:
        InvalidQuery: no SQL, too long, or nothing in it.
    """
    if len(text) > _LONGEST:
        raise InvalidQuery(f"the query has {len(text)} characters, more than {_LONGEST}: split it")
    plain = text.lower().count(" or ") + text.lower().count(" and ")
    if plain > _MOST_CONDITIONS or len(_CONDITION.findall(text)) > _MOST_CONDITIONS:
        raise InvalidQuery(f"the query has more than {_MOST_CONDITIONS} times AND or OR: say x IN (…) instead")
    try:
        with deep_recursion():
            statements = [statement for statement in sqlglot.parse(text, read="duckdb") if statement is not None]
    except SqlglotError as error:
        raise InvalidQuery(f"query: {first_line(error)}; {INSTEAD}") from None
    except RecursionError:
        raise InvalidQuery("query: nested too deeply") from None
    if not statements:
        raise InvalidQuery(f"the query is empty; {INSTEAD}")
    return statements


def check_depth(tree: exp.Expr) -> list[exp.Expr]:
    """Refuse what is nested too deeply: a chain of one operator, as x OR y OR …, counts as one.

    Returns:
        All nodes, what is outside first.
    """
    nodes = list(tree.bfs())
    if len(nodes) <= _DEEPEST_NODES:
        return nodes
    depths = {id(tree): 1}
    for node in nodes:
        for child in node.iter_expressions():
            chained = isinstance(node, exp.Binary) and type(node) is type(child)
            depths[id(child)] = depth = depths[id(node)] + (0 if chained else 1)
            if depth > _DEEPEST_NODES:
                raise InvalidQuery(
                    f"query: nested too deeply: more than {_DEEPEST_NODES} expressions inside one another"
                )
    return nodes


def first_line(error: Exception) -> str:
    """An error's first line without colours."""
    return re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()[0].rstrip(".")


# --- refusing ---------------------------------------------------------------------------------------------------------


def refuse(node: exp.Expr, reason: str, instead: str = INSTEAD) -> NoReturn:
    """Say what cannot be answered, where it is, and what can."""
    shown = shorten(node.sql(dialect="duckdb"))
    first = min((n.meta for n in node.walk() if n.meta.get("line")), key=lambda meta: meta["start"], default=None)
    where = f" (line {first['line']}, column {first['col'] - first['end'] + first['start']})" if first else ""
    raise InvalidQuery(f"query: {reason}, in: {shown}{where}; {instead}")


_NOT_SELECT: Final = {
    "distinct": ("DISTINCT", "say GROUP BY the columns, with count(*)"),
    "windows": ("a window", "say the window around it: SELECT … OVER … FROM dp_query('…')"),
    "qualify": ("QUALIFY", "say it around: SELECT … FROM dp_query('…') QUALIFY …"),
    "laterals": ("LATERAL", INSTEAD),
    "sample": ("TABLESAMPLE", "leave it out: noise does not shrink with a sample"),
    "into": ("INTO", "say CREATE TABLE … AS FROM dp_query('…')"),
    "pivots": ("PIVOT", "say it around: PIVOT (FROM dp_query('…')) …"),
}
_OF_ROWS: Final = frozenset({"expressions", "from_", "joins", "where", "with_"})
_OF_GROUPS: Final = _OF_ROWS | {"group", "having", "order", "limit", "offset"}
_JOIN: Final = "join public tables on their key, many rows to one: FROM protected JOIN public ON public.key = …"
DISTINCT: Final = "count(DISTINCT …) counts privacy units; else count groups: GROUP BY the column"
_RAW: Final = "say count(*), sum or avg of it with GROUP BY, or make a table: FROM dp_synthesize('…', epsilon := …)"


def _check_clauses(select: exp.Select, allowed: frozenset[str], *, inside: bool = False) -> None:
    for name, value in select.args.items():
        if not value or name in allowed or name == "kind":
            continue
        reason, instead = _NOT_SELECT.get(name, (name.strip("_").upper(), INSTEAD))
        if inside and name in _OF_GROUPS:
            reason, instead = f"{reason} inside FROM", "select, filter and rename rows there, and group outside"
        refuse(select, f"{reason} is not supported", instead)


_ALLOWED: Final = (
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
    exp.Var,
    exp.Func,
    exp.Tuple,
    exp.Array,
    exp.Predicate,
)
_REFUSED: Final = (exp.AggFunc, exp.Query, exp.UDTF, exp.Window, exp.Lambda)


def _check_scalar(tree: exp.Expr) -> None:
    """Refuse what is not an expression of one row; which functions are allowed is checked where they would run."""
    for node in tree.walk():
        if isinstance(node, exp.Query | exp.Subquery | exp.Exists):
            refuse(node, "a subquery in an expression is not supported", "say WITH or FROM (SELECT …) for one table")
        if isinstance(node, exp.Window):
            refuse(node, *_unpacked(_NOT_SELECT["windows"]))
        if isinstance(node, exp.AggFunc):
            refuse(node, f"{_named(node)} is not supported here")
        if isinstance(node, exp.Star):
            refuse(node, "* is not supported here", _RAW)
        if isinstance(node, _REFUSED) or not isinstance(node, _ALLOWED):
            refuse(node, f"{type(node).__name__.upper()} is not supported")


def _unpacked(pair: tuple[str, str]) -> tuple[str, str]:
    return f"{pair[0]} is not supported", pair[1]


def _named(function: exp.Expr) -> str:
    return function.sql(dialect="duckdb").split("(")[0].lower() + "(…)"


# --- FROM -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where a query stands: what names mean, the CTEs in sight, how deep it is."""

    catalog: Catalog
    named: Mapping[str, tuple[exp.Query, tuple[str, ...], _Place]] = field(default_factory=dict)
    depth: int = 0

    def with_(self, query: exp.Query) -> _Place:
        """With a query's CTEs."""
        clause = query.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive"):
            refuse(clause, "WITH RECURSIVE is not supported")
        place = self
        for part in clause.expressions:
            columns = tuple(column.name for column in part.args["alias"].args.get("columns") or ())
            place = replace(place, named={**place.named, fold(part.alias): (part.this, columns, place)})
        return place


def _from(select: exp.Select, place: _Place) -> Scope:
    origin = select.args.get("from_")
    if origin is None:
        refuse(select, "there is no FROM")
    return _with_joins(origin.this, select.args.get("joins") or (), place)


def _with_joins(item: exp.Expr, joins: Sequence[exp.Join], place: _Place) -> Scope:
    """One item of FROM, and the public tables that are joined to it."""
    inside = item.this if isinstance(item, exp.Subquery | exp.Paren) and isinstance(item.this, exp.Table) else None
    if inside is not None and not item.args.get("alias"):  # (a JOIN b ON …), as DuckDB writes views down
        plain = inside.copy()
        plain.set("joins", None)
        scope = _with_joins(plain, inside.args.get("joins") or (), place)
        for join in joins:
            scope = _joined(scope, join, place)
        return scope
    if isinstance(item, exp.Table):
        scope = _table(item, place)
    elif isinstance(item, exp.Subquery):
        for name, value in item.args.items():
            if value and name not in ("this", "alias", "with_"):
                refuse(item, *_unpacked(_NOT_SELECT.get(name, (name.upper(), INSTEAD))))
        scope = _rows(item.this, replace(place.with_(item), depth=place.depth + 1))
    else:
        refuse(item, f"FROM {type(item).__name__.upper()} is not a protected table")
    alias = item.args.get("alias")
    renamed = [column.name for column in alias.args.get("columns") or ()] if alias is not None else []
    scope = _renamed(scope, renamed, item).named(item.alias_or_name)
    for join in joins:
        scope = _joined(scope, join, place)
    return scope


def _joined(scope: Scope, join: exp.Join, place: _Place) -> Scope:
    """A protected table beside the row of a public one that its key names; without LEFT only where there is one."""
    table, side = join.this, join.side
    if join.method or side not in ("", "LEFT") or join.kind not in ("", "INNER", "OUTER"):
        refuse(join, f"{' '.join(filter(None, (join.method, side, join.kind)))} JOIN is not supported", _JOIN)
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        refuse(join, "a join with anything but a table is not supported", _JOIN)
    if fold(table.name) in place.named and not table.args.get("db"):
        refuse(join, "a join with a WITH query is not supported", _JOIN)
    if not join.args.get("on") and not join.args.get("using"):
        refuse(join, "a join without ON is not supported", _JOIN)
    origin, columns = place.catalog.public(table)
    alias = table.alias_or_name
    if pick(alias, scope.tables) is not None:
        refuse(join, f"two tables are called {alias!r}", "give one of them an alias")
    mine = [name for name, _ in columns]
    pairs = _key_pairs(join, scope, alias, mine)
    dimension = Dimension(
        f"dpsql_joined_{len(scope.dimensions)}", origin, tuple(columns), tuple(key for key, _ in pairs)
    )
    found = {c: _looked_up(dimension, n, pairs) for n, c in enumerate(mine)}
    shared = {fold(c) for c in mine} & {fold(c) for c in scope.columns}
    using = {fold(identifier.name) for identifier in join.args.get("using") or ()}
    there = exp.Not(this=exp.Is(this=_looked_up(dimension, pairs[0][0], pairs), expression=exp.null()))
    return replace(
        scope,
        columns={**scope.columns, **{c: tree for c, tree in found.items() if fold(c) not in shared}},
        filters=scope.filters if side == "LEFT" else (*scope.filters, there),
        tables={**scope.tables, alias: found},
        ambiguous=scope.ambiguous | (shared - using),
        dimensions=(*scope.dimensions, dimension),
    )


def _key_pairs(join: exp.Join, scope: Scope, alias: str, mine: Sequence[str]) -> list[tuple[int, exp.Expr]]:
    """The numbers of the public table's key columns, each with what it equals over the origin's columns."""
    names = _Names(scope, ())
    if join.args.get("using"):
        found = []
        for identifier in join.args["using"]:
            known = pick(identifier.name, mine)
            if known is None:
                raise UnknownName(f"query: {alias!r} has no column {identifier.name!r}; it has {', '.join(mine)}")
            found.append((mine.index(known), names.find(exp.column(identifier.copy()), aliases=False)))
        return found
    pairs, waiting = [], [join.args["on"]]
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, exp.Paren | exp.And):
            waiting += [tree.this] if isinstance(tree, exp.Paren) else [tree.expression, tree.this]
            continue
        if not isinstance(tree, exp.EQ):
            refuse(tree, "a condition of a join that is no equality is not supported", "say it in WHERE")
        sides = [tree.this, tree.expression]
        theirs = [side for side in sides if _is_of(side, alias, mine, scope)]
        if len(theirs) != 1:
            refuse(tree, f"a join compares a column of {alias!r} with the protected table's", _JOIN)
        other = sides[1] if theirs[0] is sides[0] else sides[0]
        known = pick(theirs[0].name, mine)
        if known is None:
            raise UnknownName(f"query: {alias!r} has no column {theirs[0].name!r}; it has {', '.join(mine)}")
        pairs.append((mine.index(known), _enclosed(names.over_rows(other))))
    return pairs


def _is_of(tree: exp.Expr, alias: str, mine: Sequence[str], scope: Scope) -> bool:
    if not isinstance(tree, exp.Column):
        return False
    if tree.table:
        return fold(tree.table) == fold(alias)
    return pick(tree.name, mine) is not None and pick(tree.name, scope.columns) is None


def _looked_up(dimension: Dimension, number: int, pairs: Sequence[tuple[int, exp.Expr]]) -> exp.Expr:
    """The value of a dimension's column in the row that the keys name; its type is kept beside it."""
    equal = [exp.EQ(this=exp.column(f"dpsql_d{k}", table=dimension.name), expression=tree.copy()) for k, tree in pairs]
    value = exp.select(exp.column(f"dpsql_d{number}", table=dimension.name)).from_(dimension.name).where(*equal)
    found = exp.Subquery(this=value)
    found.meta["dpsql_type"] = dimension.columns[number][1]
    return found


def _renamed(scope: Scope, names: Sequence[str], node: exp.Expr) -> Scope:
    if not names:
        return scope
    if len(names) > len(scope.columns):
        refuse(node, f"{len(names)} names are given for {len(scope.columns)} columns")
    visible = list(scope.columns.items())
    columns = {name: tree for name, (_, tree) in zip(names, visible, strict=False)}
    columns |= dict(visible[len(names) :])
    if len(columns) < len(visible):
        refuse(node, "a name is given to two columns")
    return replace(scope, columns=columns)


def _table(table: exp.Table, place: _Place) -> Scope:
    if not isinstance(table.this, exp.Identifier):
        refuse(table, "a function in FROM is not a protected table")
    for name, value in table.args.items():
        if value and name not in ("this", "db", "catalog", "alias"):
            refuse(table, *_unpacked(_NOT_SELECT.get(name, (name.upper(), INSTEAD))))
    if not table.args.get("db") and fold(table.name) in place.named:
        query, columns, outside = place.named[fold(table.name)]
        return _renamed(_rows(query, replace(outside, depth=place.depth + 1)), columns, table)
    found = place.catalog.find(table)
    if isinstance(found, Scope):
        return found
    query, catalog = found
    return _rows(query, _Place(catalog, depth=place.depth + 1))


def _rows(query: exp.Expr, place: _Place) -> Scope:
    """A subquery that selects, filters and renames rows of one table."""
    if place.depth > _DEEPEST:
        refuse(query, f"views and subqueries are more than {_DEEPEST} deep")
    if not isinstance(query, exp.Select):
        refuse(query, f"{type(query).__name__.upper()} inside FROM is not supported", "ask about each part by itself")
    order, limit = query.args.get("order"), query.args.get("limit")
    if order is not None and limit is None:
        query = query.copy()
        query.set("order", None)  # of rows that are counted
    _check_clauses(query, _OF_ROWS, inside=True)
    inner = _from(query, place.with_(query))
    names_of_rows = _Names(inner, query.expressions)
    filters = _conjuncts(query.args.get("where"), names_of_rows)
    columns: dict[str, exp.Expr] = {}
    for item in query.expressions:
        for name, tree in names_of_rows.listed(item):
            if name in columns:
                refuse(item, f"two columns of a subquery are called {name!r}", "give one of them another name")
            columns[name] = tree
    return Scope(inner.origin, columns, (*inner.filters, *filters), dimensions=inner.dimensions)


class _Names:
    """What column names mean in one SELECT: columns of its FROM first, then names of its SELECT list."""

    def __init__(self, scope: Scope, listed: Sequence[exp.Expr]) -> None:
        self.scope = scope
        self._aliases = {fold(item.alias): item.this for item in listed if isinstance(item, exp.Alias)}
        self._busy: set[str] = set()

    def find(self, column: exp.Column, *, aliases: bool = True) -> exp.Expr:
        """What a column is over the origin's columns, in parentheses if need be."""
        if isinstance(column.this, exp.Star):
            refuse(column, "* is not supported here", _RAW)
        columns = self._of(column)
        known = pick(column.name, columns)
        if known is not None:
            if not column.table and fold(known) in self.scope.ambiguous:
                refuse(column, f"two tables have a column {known!r}", f"say {next(iter(self.scope.tables))}.{known}")
            return _enclosed(columns[known])
        alias = fold(column.name)
        if aliases and not column.table and alias in self._aliases and alias not in self._busy:
            self._busy.add(alias)
            try:
                return _enclosed(self.over_rows(self._aliases[alias]))
            finally:
                self._busy.discard(alias)
        raise UnknownName(
            f"query: there is no column {column.name!r} in {column.table or self.scope.title!r}; the columns are "
            f"{', '.join(columns)}"
        )

    def _of(self, column: exp.Column) -> Mapping[str, exp.Expr]:
        """The columns among which one is looked for: all, or those of the table that qualifies it."""
        if not column.table:
            return self.scope.columns
        table = pick(column.table, self.scope.tables)
        if table is None or column.args.get("db"):
            refuse(column, f"{column.table!r} is not what FROM calls {self.scope.title!r}")
        return self.scope.tables[table]

    def names_aggregate(self, column: exp.Column) -> exp.Expr | None:
        """The expression of the SELECT list that a name means, where no column is called that."""
        if column.table or pick(column.name, self.scope.columns) is not None:
            return None
        return self._aliases.get(fold(column.name))

    def over_rows(self, tree: exp.Expr) -> exp.Expr:
        """A scalar expression with every column replaced by what it is over the origin's columns."""
        _check_scalar(tree)
        if isinstance(tree, exp.Column):  # most are, and to transform copies
            found = self.find(tree)
        else:
            found = tree.transform(lambda node: self.find(node) if isinstance(node, exp.Column) else node)
        if sum(1 for _ in itertools.islice(found.walk(), _MOST_NODES + 1)) > _MOST_NODES:
            refuse(tree, "an expression grows too large where its names are replaced")
        return found

    def listed(self, item: exp.Expr) -> list[tuple[str, exp.Expr]]:
        """The columns that one item of a SELECT list stands for."""
        star = item.this if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else item
        if isinstance(star, exp.Star):
            columns = self._of(item) if isinstance(item, exp.Column) else self.scope.columns
            return self._starred(star, columns)
        if isinstance(item, exp.Alias):
            return [(item.alias, self.over_rows(item.this))]
        if isinstance(item, exp.Column):
            found = self.find(item, aliases=False)
            return [(pick(item.name, self.scope.columns) or item.name, found)]
        return [(item.sql(dialect="duckdb"), self.over_rows(item))]

    def _starred(self, star: exp.Star, visible: Mapping[str, exp.Expr]) -> list[tuple[str, exp.Expr]]:
        left_out = {fold(column.name) for column in star.args.get("except_") or star.args.get("except") or ()}
        replaced = {fold(item.alias): item.this for item in star.args.get("replace") or ()}
        renamed = {fold(item.this.name): item.alias for item in star.args.get("rename") or ()}
        columns = []
        for name, tree in visible.items():
            if fold(name) in left_out:
                continue
            value = self.over_rows(replaced[fold(name)]) if fold(name) in replaced else tree
            columns.append((renamed.get(fold(name), name), value))
        return columns


def _enclosed(tree: exp.Expr) -> exp.Expr:
    simple = isinstance(tree, exp.Column | exp.Literal | exp.Paren | exp.Null | exp.Boolean | exp.Anonymous)
    return tree.copy() if simple else exp.Paren(this=tree.copy())


def _conjuncts(where: exp.Expr | None, names: _Names) -> tuple[exp.Expr, ...]:
    """The parts of a WHERE that all must hold, over the origin's columns."""
    if where is None:
        return ()
    found, waiting = [], [where.this]
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, exp.Paren):
            waiting.append(tree.this)
        elif isinstance(tree, exp.And):
            waiting += [tree.expression, tree.this]
        else:
            found.append(names.over_rows(tree))
    return tuple(found)


# --- SELECT … GROUP BY ------------------------------------------------------------------------------------------------


def analyse(statement: exp.Expr, catalog: Catalog) -> Query:
    """Take one statement apart; see `parse_query`."""
    if isinstance(statement, exp.Subquery) and not any(v for k, v in statement.args.items() if k != "this"):
        statement = statement.this
    if isinstance(statement, exp.SetOperation):
        refuse(statement, f"{type(statement).__name__.upper()} is not supported", "ask each query by itself")
    if not isinstance(statement, exp.Select):
        refuse(statement, f"{statement.key.upper()} is not a query")
    check_depth(statement)
    _check_clauses(statement, _OF_GROUPS)
    for item in statement.expressions:
        window = item.find(exp.Window)
        if window is not None:
            refuse(window, *_unpacked(_NOT_SELECT["windows"]))
    written = statement
    if statement.find(exp.Anonymous) is not None:  # to transform copies
        statement = cast(exp.Select, statement.transform(spelled))
    place = _Place(catalog).with_(statement)
    scope = _from(statement, place)
    return replace(_Analysis(statement, scope).query(), select=written)


def spelled(node: exp.Expr) -> exp.Expr:
    """DuckDB's other names of aggregates."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "mean" and len(node.expressions) == 1:
        return exp.Avg(this=node.expressions[0])
    return node


class _Analysis:
    """One grouped SELECT."""

    def __init__(self, select: exp.Select, scope: Scope) -> None:
        self._select, self._scope = select, scope
        self._names = _Names(scope, select.expressions)
        self._aggregates: dict[Aggregate, int] = {}
        self._keys: dict[str, tuple[int, exp.Expr]] = {}

    def query(self) -> Query:
        """The query taken apart."""
        select = self._select
        filters = (*self._scope.filters, *_conjuncts(select.args.get("where"), self._names))
        sets = self._grouping(select.args.get("group"))
        outputs = [self._output(item.unalias()) for item in select.expressions]
        having = select.args.get("having")
        over_results = None if having is None else self._over_results(having.this)
        order = self._order(select.args.get("order"), [tree for tree, _ in outputs])
        if not self._aggregates:
            refuse(select, "the query selects rows, and counts nothing", _RAW)
        return Query(
            self._scope,
            select,
            tuple(tree for _, tree in self._keys.values()),
            sets,
            tuple(self._aggregates),
            tuple(tree for tree, _ in outputs),
            tuple(noisy for _, noisy in outputs),
            filters,
            over_results,
            order,
            _whole(select.args.get("limit"), "LIMIT"),
            _whole(select.args.get("offset"), "OFFSET") or 0,
        )

    # keys

    def _grouping(self, group: exp.Group | None) -> tuple[tuple[int, ...], ...]:
        if group is None:
            return ((),)
        extra = [name for name, value in group.args.items() if value and name not in ("expressions", "all")]
        if extra:
            refuse(group, f"{extra[0].replace('_', ' ').upper()} is not supported in this place")
        if group.args.get("all"):
            items = [item.unalias() for item in self._select.expressions]
            plain = [item for item in items if not _counts(item)]
            constant = [item for item in plain if isinstance(item, exp.Literal) or not item.find(exp.Column, exp.Star)]
            return (self._key_set([item for item in plain if item not in constant]),)
        sets: list[tuple[exp.Expr, ...]] = [()]
        for item in group.expressions:
            added = _sets(item)
            if len(sets) * len(added) > _MOST_SETS:
                refuse(group, f"there are more than {_MOST_SETS} grouping sets", "list those that matter")
            sets = [before + more for before in sets for more in added]
        found = tuple(self._key_set(trees) for trees in sets)
        if len(sets) > 1 and any(len(keys) < len(trees) for keys, trees in zip(found, sets, strict=True)):
            refuse(group, "grouping sets name an expression twice", "name each once")
        return found

    def _key_set(self, trees: Sequence[exp.Expr]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self._key(tree) for tree in trees))

    def _key(self, tree: exp.Expr) -> int:
        if isinstance(tree, exp.Paren):
            return self._key(tree.this)
        if isinstance(tree, exp.Literal) and tree.is_int:
            listed = self._select.expressions
            if not 1 <= int(tree.name) <= len(listed):
                refuse(tree, f"GROUP BY {tree.name} is not a column of the SELECT list")
            tree = listed[int(tree.name) - 1].unalias()
        if isinstance(tree, exp.Column) and (named := self._names.names_aggregate(tree)) is not None:
            tree = named
        if _counts(tree):
            refuse(tree, "GROUP BY an aggregate is not supported")
        if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
            refuse(tree, "* is not supported here", _RAW)
        found = self._names.over_rows(tree)
        return self._keys.setdefault(_bare(found), (len(self._keys), found))[0]

    # aggregates

    def _output(self, item: exp.Expr) -> tuple[exp.Expr, int | None]:
        constant = self._keys.get(_bare(item)) if item.find(exp.Column, exp.AggFunc, exp.Star) is None else None
        tree = self._over_results(item) if constant is None else exp.column(f"k{constant[0]}")
        inside = tree.this if isinstance(tree, exp.Cast) else tree
        while isinstance(inside, exp.Paren):
            inside = inside.this
        answers = [column for column in tree.find_all(exp.Column) if column.name.startswith("a")]
        if not answers:
            return tree, None
        if not isinstance(inside, exp.Column):
            refuse(item, "arithmetic with aggregates is not supported", "say it around: SELECT … FROM dp_query('…')")
        return tree, int(inside.name[1:])

    def _over_results(self, tree: exp.Expr) -> exp.Expr:
        """An expression over keys and aggregates: each replaced by its name in the result."""
        return self._named_results(tree.copy())

    def _named_results(self, tree: exp.Expr) -> exp.Expr:
        """The same, of an expression that may be changed."""
        found = self._result(tree)
        if found is not None:
            return found
        if isinstance(tree, exp.Column):
            named = self._names.names_aggregate(tree)
            if named is not None:
                return _enclosed(self._over_results(named))
            self._names.find(tree)
            refuse(tree, "a column is used that is not in GROUP BY", "add it to GROUP BY, or take it out")
        if isinstance(tree, exp.Star):
            refuse(tree, "* selects rows", _RAW)
        if isinstance(tree, exp.Query | exp.Subquery | exp.Exists):
            refuse(tree, "a subquery in an expression is not supported", "say it around: SELECT … FROM dp_query('…')")
        if isinstance(tree, _REFUSED) or not isinstance(tree, (*_ALLOWED, exp.Ordered)):
            _check_scalar(tree)
        for name, value in list(tree.args.items()):
            if isinstance(value, exp.Expr):
                tree.set(name, self._named_results(value) if _holds_values(value) else value)
            elif isinstance(value, list):
                listed = [self._named_results(v) if isinstance(v, exp.Expr) and _holds_values(v) else v for v in value]
                tree.set(name, listed)
        return tree

    def _result(self, tree: exp.Expr) -> exp.Expr | None:
        """k<i> where the expression is a key, a<i> where it is an aggregate."""
        aggregate = self._aggregate(tree)
        if aggregate is not None:
            return exp.column(f"a{self._aggregates.setdefault(aggregate, len(self._aggregates))}")
        kinds = {exp.Column, exp.Paren, *(type(_unwrapped(known)) for _, known in self._keys.values())}
        if (
            not self._keys
            or type(tree) not in kinds  # before all that looks at what is inside, which is done of each node
            or tree.find(exp.Column) is None
            or _counts(tree)
            or isinstance(tree, exp.Literal | exp.Null | exp.Boolean | exp.DataType | exp.Var)
        ):
            return None
        if any(
            isinstance(node, exp.Star | exp.Query) or (isinstance(node, exp.Column) and not self._of_rows(node))
            for node in tree.walk()
        ):
            return None
        known = self._keys.get(_bare(self._names.over_rows(tree))) if _is_scalar(tree) else None
        return None if known is None else exp.column(f"k{known[0]}")

    def _of_rows(self, column: exp.Column) -> bool:
        return bool(column.table) or pick(column.name, self._scope.columns) is not None

    def _aggregate(self, tree: exp.Expr) -> Aggregate | None:
        filters: tuple[exp.Expr, ...] = ()
        if isinstance(tree, exp.Filter):
            filters = _conjuncts(tree.expression, self._names)
            tree = tree.this
        if not isinstance(tree, exp.AggFunc):
            return None
        argument = tree.this
        if isinstance(argument, exp.Distinct):
            return Aggregate("units", self._distinct(tree, argument), filters)
        if tree.args.get("expressions"):
            refuse(tree, f"{_named(tree)} of several arguments is not supported")
        if isinstance(tree, exp.Count):
            if argument is None or isinstance(argument, exp.Star):
                return Aggregate("count", None, filters)
            known = self._names.over_rows(argument)
            there = exp.Not(this=exp.Is(this=_enclosed(known), expression=exp.null()))
            return Aggregate("count", None, (*filters, there))
        if isinstance(tree, exp.CountIf):
            return Aggregate("count", None, (*filters, self._names.over_rows(argument)))
        if isinstance(tree, exp.Sum | exp.Avg):
            kind: Literal["sum", "avg"] = "sum" if isinstance(tree, exp.Sum) else "avg"
            return Aggregate(kind, self._names.over_rows(argument), filters)
        refuse(tree, f"{_named(tree)} is not supported", "count, count_if, sum and avg are; or group by bins and count")

    def _distinct(self, tree: exp.Expr, argument: exp.Distinct) -> exp.Expr:
        """What count(DISTINCT …) counts: a column, as only the privacy unit's can be counted."""
        columns = argument.expressions
        if not isinstance(tree, exp.Count) or len(columns) != 1 or argument.args.get("on"):
            refuse(tree, "DISTINCT inside an aggregate is not supported", DISTINCT)
        found = _unwrapped(self._names.over_rows(columns[0]))
        if not isinstance(found, exp.Column):
            refuse(tree, "DISTINCT inside an aggregate is not supported", DISTINCT)
        return found

    # order

    def _order(self, order: exp.Order | None, outputs: Sequence[exp.Expr]) -> tuple[exp.Ordered, ...]:
        if order is None:
            return ()
        found = []
        aliases = {fold(item.alias): n for n, item in enumerate(self._select.expressions) if item.alias}
        for item in order.expressions:
            ordered = item.copy()
            key = item.this
            place = aliases.get(fold(key.name)) if isinstance(key, exp.Column) and not key.table else None
            if isinstance(key, exp.Literal) and key.is_int:
                place = int(key.name) - 1
                if not 0 <= place < len(outputs):
                    refuse(item, f"ORDER BY {key.name} is not a column of the SELECT list")
            bare = isinstance(key, exp.Var) or (
                isinstance(key, exp.Column) and not key.args.get("table") and _is_unquoted(key.this)
            )
            every = bare and fold(key.name) == "all" and place is None
            for n in range(len(outputs)) if every else (place,):
                one = ordered.copy()
                one.set("this", self._over_results(key) if n is None else outputs[n].copy())
                found.append(one)
        return tuple(found)


def _is_unquoted(name: exp.Expr) -> bool:
    return isinstance(name, exp.Identifier) and not name.quoted


def _whole(clause: exp.Expr | None, what: str) -> int | None:
    """The number of a LIMIT or OFFSET."""
    if clause is None:
        return None
    number = clause.expression
    if not (isinstance(number, exp.Literal) and number.is_int) or clause.args.get("limit_options"):
        refuse(clause, f"{what} takes a whole number", "say it around: FROM dp_query('…') LIMIT …")
    return int(number.name)


def _counts(tree: exp.Expr) -> bool:
    """Whether an aggregate is in it."""
    return not isinstance(tree, exp.Column) and tree.find(exp.AggFunc, exp.Filter) is not None


def _is_scalar(tree: exp.Expr) -> bool:
    return all(isinstance(node, _ALLOWED) and not isinstance(node, _REFUSED) for node in tree.walk())


def _holds_values(node: exp.Expr) -> bool:
    """Whether a child of an expression is an expression with a value, not a type or a unit."""
    return not isinstance(node, exp.DataType | exp.Identifier | exp.Var | exp.IntervalSpan)


def _bare(tree: exp.Expr) -> str:
    """The text of an expression without its parentheses, to compare the trees: each node in brackets of its own."""
    tree = _unwrapped(tree)
    if isinstance(tree, exp.Column):
        return sql_of(tree)
    return structure(tree if tree.find(exp.Paren) is None else tree.transform(lambda node: _unwrapped(node)))


def _unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _sets(item: exp.Expr) -> list[tuple[exp.Expr, ...]]:
    """The grouping sets that one item of GROUP BY stands for."""
    if isinstance(item, exp.GroupingSets):
        return [found for part in item.expressions for found in _sets(part)]
    if isinstance(item, exp.Rollup):
        parts = [_members(part) for part in item.expressions]
        return [tuple(itertools.chain(*parts[:length])) for length in range(len(parts), -1, -1)]
    if isinstance(item, exp.Cube):
        parts = [_members(part) for part in item.expressions]
        if 2 ** len(parts) > _MOST_SETS:
            refuse(item, f"there are more than {_MOST_SETS} grouping sets", "list those that matter")
        chosen = itertools.product((True, False), repeat=len(parts))
        return [tuple(itertools.chain(*itertools.compress(parts, picks))) for picks in chosen]
    return [_members(item)]


def _members(item: exp.Expr) -> tuple[exp.Expr, ...]:
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    return (item.this,) if isinstance(item, exp.Paren) else (item,)
