"""Queries that can be answered with noise: grouped counts, sums and averages over one protected table.

    SELECT keys, aggregates FROM source WHERE … GROUP BY keys HAVING … ORDER BY … LIMIT …

is parsed by sqlglot and taken apart, never run. What it says about rows (keys, filters, arguments of aggregates)
becomes expressions over the columns of the protected table, whatever views, CTEs and subqueries lie between; what it
says about results (HAVING, ORDER BY, LIMIT) becomes expressions over the keys k0, k1, … and the noisy answers a0, ….
All else is refused with the reason, its place in the text, and the nearest thing that works.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.core.names import fold, pick
from dpsql.language.columns import ColumnNames, conjuncts
from dpsql.language.expressions import (
    comparable,
    enclosed,
    has_aggregate,
    holds_values,
    unwrapped,
)
from dpsql.language.grouping import grouping_sets, whole_number
from dpsql.language.preserved import check_preserved
from dpsql.language.query import Aggregate, Query
from dpsql.language.refusal import (
    ALLOWED,
    DISTINCT,
    RAW_ROWS,
    REFUSED,
    call_of,
    check_scalar,
    is_scalar,
    own_nodes,
    refuse,
    refuse_clause,
)
from dpsql.language.scope import Catalog, Scope
from dpsql.language.statistics import ANSWERED, constants_apart, ratio_of, statistic, within_group
from dpsql.language.windows import first_answer, over_answers
from dpsql.language.written import keep_words


class Analysis:
    """One grouped SELECT."""

    def __init__(self, select: exp.Select, scope: Scope, catalog: Catalog) -> None:
        self._select, self._scope, self._catalog = select, scope, catalog
        self._names = ColumnNames(scope, select.expressions)
        self._aggregates: dict[Aggregate, int] = {}
        self._keys: dict[str, tuple[int, exp.Expr]] = {}
        self._windows: list[exp.Window] = []

    def query(self) -> Query:
        """The query taken apart."""
        select = self._select
        filters = (*self._scope.filters, *conjuncts(select.args.get("where"), self._names))
        sets = self._grouping(select.args.get("group"))
        if select.find(exp.Grouping) is not None:
            sets = self._numbered_sets(sets)
        outputs = [self._output(item.unalias()) for item in select.expressions]
        having = select.args.get("having")
        over_results = None if having is None else self._over_results(having.this)
        qualify = select.args.get("qualify")
        chosen = None if qualify is None else self._over_results(qualify.this)
        order = self._order(select.args.get("order"), [tree for tree, _ in outputs])
        if select.args.get("distinct") is not None and not self._shows_keys(sets, [tree for tree, _ in outputs]):
            refuse_clause(select, "distinct")
        if not self._aggregates:
            refuse(select, "the query selects rows, and counts nothing", RAW_ROWS)
        check_preserved(self._scope, [tree for _, tree in self._keys.values()], filters, tuple(self._aggregates))
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
            whole_number(select.args.get("limit"), "LIMIT"),
            whole_number(select.args.get("offset"), "OFFSET") or 0,
            tuple(self._windows),
            chosen,
        )

    def _shows_keys(self, sets: Sequence[Sequence[int]], outputs: Sequence[exp.Expr]) -> bool:
        """Whether no two rows of the result can be alike, so that DISTINCT changes nothing."""
        shown = {tree.name for tree in outputs if isinstance(tree, exp.Column)}
        return len(sets) == 1 and shown >= {f"k{number}" for number in sets[0]}

    # keys

    def _grouping(self, group: exp.Group | None) -> tuple[tuple[int, ...], ...]:
        if group is None:
            return ((),)
        extra = [name for name, value in group.args.items() if value and name not in ("expressions", "all")]
        if extra:
            refuse(group, f"{extra[0].replace('_', ' ').upper()} is not supported in this place")
        if group.args.get("all"):
            items = [item.unalias() for item in self._select.expressions]
            plain = [item for item in items if not has_aggregate(item)]
            constant = [item for item in plain if isinstance(item, exp.Literal) or not item.find(exp.Column, exp.Star)]
            return (self._key_set([item for item in plain if item not in constant]),)
        sets = grouping_sets(group)
        key_sets = tuple(self._key_set(trees) for trees in sets)
        if len(sets) > 1 and any(len(keys) < len(trees) for keys, trees in zip(key_sets, sets, strict=True)):
            refuse(group, "grouping sets name an expression twice", "name each once")
        return key_sets

    def _numbered_sets(self, sets: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """The grouping sets, each with its number as one more key, from which GROUPING(…) is told."""
        if self._select.args.get("group") is None:
            refuse(self._select, "GROUPING(…) is of GROUP BY, which is not there")
        numbers = [exp.cast(exp.Literal.number(number), "INTEGER", dialect="duckdb") for number in range(len(sets))]
        added = [self._keys.setdefault(f"set {n}", (len(self._keys), tree))[0] for n, tree in enumerate(numbers)]
        self._set_keys = [exp.column(f"k{key}") for key in added]
        self._sets = sets
        return tuple((*keys, key) for keys, key in zip(sets, added, strict=True))

    def _grouping_of(self, tree: exp.Grouping) -> exp.Expr:
        """GROUPING(…): bits, the first argument's the highest, of the keys that a grouping set leaves out."""
        keys = [self._keys.get(comparable(self._names.over_rows(key))) for key in tree.expressions]
        key_trees = [key[0] for key in keys if key is not None]
        if len(key_trees) < len(keys):
            refuse(tree, "GROUPING(…) takes expressions of GROUP BY")
        of_set = exp.Coalesce(this=self._set_keys[0].copy(), expressions=[key.copy() for key in self._set_keys[1:]])
        case_tree = exp.Case(this=of_set, ifs=[])
        for number, chosen in enumerate(self._sets):
            bits = sum((key not in chosen) << place for place, key in enumerate(reversed(key_trees)))
            case_tree = case_tree.when(exp.Literal.number(number), exp.Literal.number(bits))
        return case_tree

    def _key_set(self, trees: Sequence[exp.Expr]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self._key(tree) for tree in trees))

    def _key(self, tree: exp.Expr) -> int:
        if isinstance(tree, exp.Paren):
            return self._key(tree.this)
        if isinstance(tree, exp.Literal) and tree.is_int:
            listed = self._select.expressions
            if not 1 <= int(tree.name) <= len(listed):
                refuse(tree, f"GROUP BY {tree.name} is not a column of the SELECT list", f"say 1 to {len(listed)}")
            tree = listed[int(tree.name) - 1].unalias()
        if isinstance(tree, exp.Column) and (named := self._names.names_aggregate(tree)) is not None:
            tree = named
        if has_aggregate(tree):
            refuse(tree, "GROUP BY an aggregate is not supported")
        if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
            refuse(tree, "* is not supported here", RAW_ROWS)
        key = self._names.over_rows(tree)
        return self._keys.setdefault(comparable(key), (len(self._keys), key))[0]

    # aggregates

    def _output(self, item: exp.Expr) -> tuple[exp.Expr, int | None]:
        constant = self._keys.get(comparable(item)) if item.find(exp.Column, exp.AggFunc, exp.Star) is None else None
        if (ratio := self._ratio(item)) is not None:
            return ratio, int(ratio.name[1:])
        tree = exp.column(f"k{constant[0]}") if constant is not None else self._over_results(item, shown=True)
        return tree, first_answer(tree, self._windows)

    def _over_results(self, tree: exp.Expr, *, shown: bool = False) -> exp.Expr:
        """An expression over keys and aggregates: each replaced by its name in the result.

        Args:
            tree: the expression.
            shown: whether it is of the SELECT list, where a ratio in arithmetic is measured as one.
        """
        replaced: list[tuple[exp.Expr, exp.Expr]] = []
        expression = self._named_results(tree.copy(), replaced, shown=shown)
        if not (expression.args.get("table") is None and isinstance(expression, exp.Column)):
            keep_words(expression, tree, replaced)
        return expression

    def _named_results(self, tree: exp.Expr, replaced: list[tuple[exp.Expr, exp.Expr]], *, shown: bool) -> exp.Expr:
        """The same, of an expression that may be changed; adds what stands for which part of it."""
        replacement = self._window(tree) or self._result(tree) or (self._scaled_ratio(tree) if shown else None)
        if replacement is None and isinstance(tree, exp.Column):
            named = self._names.names_aggregate(tree, first=not shown)
            if named is not None:
                replacement = self._ratio(named) or enclosed(self._over_results(named, shown=True))
        if replacement is not None:
            replaced.append((tree, replacement))
            return replacement
        self._check_over_results(tree)

        def inside(value: object) -> object:
            is_tree = isinstance(value, exp.Expr) and holds_values(value)
            return self._named_results(value, replaced, shown=shown) if is_tree else value  # type: ignore[arg-type]

        for name, value in list(tree.args.items()):
            if isinstance(value, exp.Expr | list):
                tree.set(name, [inside(v) for v in value] if isinstance(value, list) else inside(value))
        return tree

    def _window(self, tree: exp.Expr) -> exp.Expr | None:
        """w<i> where the expression is a window over the groups."""
        if not isinstance(tree, exp.Window):
            return None
        window = over_answers(tree, self._over_results)
        if window not in self._windows:
            self._windows.append(window)
        return exp.column(f"w{self._windows.index(window)}")

    def _check_over_results(self, tree: exp.Expr) -> None:
        """Refuse what is no part of an expression over keys and aggregates."""
        if isinstance(tree, exp.Column):
            self._names.find(tree)
            refuse(tree, "a column is used that is not in GROUP BY", "add it to GROUP BY, or take it out")
        if isinstance(tree, exp.Star):
            refuse(tree, "* selects rows", RAW_ROWS)
        is_aggregate = isinstance(tree, exp.Anonymous) and tree.name.lower() in self._catalog.aggregates()
        if is_aggregate or (isinstance(tree, exp.IgnoreNulls) and isinstance(tree.this, exp.AggFunc)):
            refuse(tree, f"{call_of(tree)} is not supported", ANSWERED)
        if isinstance(tree, exp.Query | exp.Subquery | exp.Exists):
            refuse(tree, "a subquery in an expression is not supported", "say it around: SELECT … FROM dp_query('…')")
        if isinstance(tree, REFUSED) or not isinstance(tree, (*ALLOWED, exp.Ordered)):
            check_scalar(tree)

    def _result(self, tree: exp.Expr) -> exp.Expr | None:
        """k<i> where the expression is a key, a<i> where it is an aggregate."""
        if isinstance(tree, exp.Grouping):
            return self._grouping_of(tree)
        aggregate = self._aggregate(tree)
        if aggregate is not None:
            return self._numbered(aggregate)
        kinds = {exp.Column, exp.Paren, *(type(unwrapped(key)) for _, key in self._keys.values())}
        if (
            not self._keys
            or type(tree) not in kinds  # before all that looks at what is inside, which is done of each node
            or tree.find(exp.Column) is None
            or has_aggregate(tree)
            or isinstance(tree, exp.Literal | exp.Null | exp.Boolean | exp.DataType | exp.Var)
        ):
            return None
        if any(
            isinstance(node, exp.Star | exp.Query) or (isinstance(node, exp.Column) and not self._of_rows(node))
            for node in own_nodes(tree)
        ):
            return None
        key_entry = self._keys.get(comparable(self._names.over_rows(tree))) if is_scalar(tree) else None
        return None if key_entry is None else exp.column(f"k{key_entry[0]}")

    def _of_rows(self, column: exp.Column) -> bool:
        return bool(column.table) or pick(column.name, self._scope.columns) is not None

    def _aggregate(self, tree: exp.Expr) -> Aggregate | None:
        filters: tuple[exp.Expr, ...] = ()
        if isinstance(tree, exp.Filter):
            filters = conjuncts(tree.expression, self._names)
            tree = tree.this
        if isinstance(tree, exp.WithinGroup):
            tree = within_group(tree)
        if not isinstance(tree, exp.AggFunc):
            return None
        argument = tree.this
        if isinstance(argument, exp.Distinct):
            return Aggregate("units", self._distinct(tree, argument), filters)
        if tree.args.get("expressions") or tree.args.get("order"):
            refuse(tree, f"{call_of(tree)} of several arguments is not supported")
        if isinstance(tree, exp.Count):
            if argument is None or isinstance(argument, exp.Star):
                return Aggregate("count", None, filters)
            operand = self._names.over_rows(argument)
            there = exp.Not(this=exp.Is(this=enclosed(operand), expression=exp.null()))
            return Aggregate("count", None, (*filters, there))
        if isinstance(tree, exp.CountIf):
            return Aggregate("count", None, (*filters, self._names.over_rows(argument)))
        return statistic(tree, filters, self._names)

    def _ratio(self, tree: exp.Expr) -> exp.Expr | None:
        """a<i> where an item of the SELECT list is a sum or count over another; else None."""
        sides = ratio_of(tree)
        if sides is None:
            return None
        aggregates = [self._aggregate(side) for side in sides]
        of = tuple(side for side in aggregates if side is not None and side.kind in ("count", "units", "sum"))
        return self._numbered(Aggregate("ratio", None, (), sides=of)) if len(of) == len(aggregates) else None

    def _scaled_ratio(self, tree: exp.Expr) -> exp.Expr | None:
        """C * a<i> where a part of an item is a sum or count, times constants, over another; else None."""
        constants, quotient = constants_apart(tree)
        ratio = None if quotient is None else self._ratio(quotient)
        if ratio is None:
            return None
        for constant in constants:
            ratio = exp.Mul(this=ratio, expression=constant.copy())
        return exp.Paren(this=ratio) if constants else ratio

    def _numbered(self, aggregate: Aggregate) -> exp.Expr:
        return exp.column(f"a{self._aggregates.setdefault(aggregate, len(self._aggregates))}")

    def _distinct(self, tree: exp.Expr, argument: exp.Distinct) -> exp.Expr:
        """What count(DISTINCT …) counts: a column, as only the privacy unit's can be counted."""
        columns = argument.expressions
        if not isinstance(tree, exp.Count) or len(columns) != 1 or argument.args.get("on"):
            refuse(tree, "DISTINCT inside an aggregate is not supported", DISTINCT)
        column = unwrapped(self._names.over_rows(columns[0]))
        if not isinstance(column, exp.Column):
            refuse(tree, "DISTINCT inside an aggregate is not supported", DISTINCT)
        return column

    # order

    def _order(self, order: exp.Order | None, outputs: Sequence[exp.Expr]) -> tuple[exp.Ordered, ...]:
        if order is None:
            return ()
        terms = []
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
                isinstance(key, exp.Column) and not key.args.get("table") and not key.this.args.get("quoted")
            )
            every = bare and fold(key.name) == "all" and place is None
            for n in range(len(outputs)) if every else (place,):
                term = ordered.copy()
                term.set("this", self._over_results(key) if n is None else outputs[n].copy())
                terms.append(term)
        return tuple(terms)
