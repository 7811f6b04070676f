"""The result of a query: names and types of its columns, and the SELECT that makes it from stored answers.

    stored  k0, k1, …                                         the keys of a group
            a0, a0_stderr, a0_low, a0_high, a1, …             each aggregate with its error and 95 % interval
    shown   the query's own columns in order; after each noisy one x also x_stderr, x_low and x_high

HAVING, ORDER BY and LIMIT apply to the stored answers. Everything is bound on tables without rows, in a database of its
own, before anything is charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.names import fold
from dpsql.engines.duckdb.frames import Columns as Frame
from dpsql.engines.duckdb.frames import shown_as
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.source import Source
from dpsql.evaluation.around import Outer
from dpsql.evaluation.decode import as_read
from dpsql.evaluation.evaluated import Evaluated
from dpsql.evaluation.own_parts import without_lookups
from dpsql.evaluation.refused import refused
from dpsql.evaluation.sandbox import check_expressions, empty_database
from dpsql.evaluation.shown_columns import SUFFIXES, with_errors
from dpsql.evaluation.wording import check_written, different_words
from dpsql.evaluation.workers import Empty
from dpsql.language.arithmetic import errors_of, is_answer
from dpsql.language.around import Around
from dpsql.language.expressions import columns_read, spelled, unwrapped
from dpsql.language.query import Query
from dpsql.language.size_bounds import NUMBER, Columns, check_sizes
from dpsql.language.value_types import check_types
from dpsql.language.windows import parts_of

_AGGREGATES: Final = (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.Window)


@dataclass(frozen=True)
class Result:
    """What a query shows.

    Attributes:
        query: taken apart.
        columns: names and types of the query's own result.
        stored: names and types of the stored answers.
        outer: what is shown in their place, of a query around a query of groups.
    """

    query: Query
    columns: tuple[tuple[str, str], ...]
    stored: Mapping[str, str]
    outer: Outer | None = None

    @staticmethod
    def of(source: Source, query: Query, evaluated: Evaluated) -> Result:
        """The result of a query, bound.

        Raises:
            InvalidQuery: DuckDB cannot bind it, or it calls what is not plain.
        """
        source = as_read(source, evaluated.linear.domain)
        with empty_database() as empty:
            columns = _columns(empty, source, query)
            stored = {f"k{number}": kind for number, kind in enumerate(_key_types(empty, source, query))}
            for kind in (*(kind for _, kind in columns), *stored.values()):  # this process casts texts to them
                check_types(data_type(kind))
            for number, kind in enumerate(_value_types(evaluated)):
                stored |= {f"a{number}{suffix}": "DOUBLE" if suffix else kind for suffix in SUFFIXES}
            result = Result(query, columns, stored)
            result._check(empty)
            if result.is_plain:
                return result
            sizes = result._sizes(evaluated)
            return result if query.around is None else replace(result, outer=result._outer(empty, query.around, sizes))

    def _outer(self, empty: Empty, around: Around, sizes: Sequence[int]) -> Outer:
        nothing = self.select(self._nothing()).sql(dialect="duckdb")
        groups = [(name, size) for (name, _), size in zip(self.columns, sizes, strict=True)]
        outer = Outer.of(around, groups, self._named, lambda text: _described_text(empty, text), nothing)
        for column in outer.columns:
            check_types(data_type(column.kind))
        return outer

    def _sizes(self, evaluated: Evaluated) -> list[int]:
        """The most characters of each column; refuses what could be too large for keys as long as they are."""
        keys = [(f"k{n}", max(_longest(part[n]) for part in evaluated.keys)) for n in range(len(self.query.keys))]
        numbers = [(name, NUMBER) for name in self.stored if name.startswith("a")]
        answers = Columns([*keys, *numbers])
        windows = check_sizes(self.query.windows, answers)
        for number, size in enumerate(windows):
            answers.add(f"w{number}", size)
        check_sizes(self._over_answers(), answers)
        return check_sizes(self.query.outputs, answers)

    def shown(self) -> list[tuple[str, str]]:
        """Names and types of all columns; a name that is there already gets a number."""
        if self.outer is not None:
            return with_errors((column.name, column.kind, column.errors is not None) for column in self.outer.columns)
        return self._answers

    @cached_property
    def _answers(self) -> list[tuple[str, str]]:
        """The same of the query itself, without what is around it."""
        pairs = zip(self.columns, self.query.noisy, strict=True)
        return with_errors((name, kind, noisy is not None) for (name, kind), noisy in pairs)

    @property
    def _named(self) -> list[list[str]]:
        """The names of `_answers`, those of a column together."""
        names = iter(name for name, _ in self._answers)
        return [[next(names) for _ in (SUFFIXES if noisy is not None else ("",))] for noisy in self.query.noisy]

    @cached_property
    def schema(self) -> str:
        """A SELECT with the columns of the result."""
        listed = [_null(kind, name) for name, kind in self.shown()]
        return exp.select(*listed).limit(0).sql(dialect="duckdb")

    def _with_windows(self, table: exp.Expr, *, non_negative: bool = False) -> exp.Expr:
        """The stored answers; where there are windows those that HAVING leaves, with the windows over them."""
        if not self.query.windows:
            return table
        counts = {f"a{n}" for n, a in enumerate(self.query.aggregates) if a.kind in ("count", "units") and non_negative}

        def shown(node: exp.Expr) -> exp.Expr:
            return _floored(node, floor=True) if is_answer(node) and node.name in counts else node

        windows = [exp.alias_(w.transform(shown), f"w{number}") for number, w in enumerate(self.query.windows)]
        select = exp.select("*", *windows).from_(table)
        chosen = select if self.query.having is None else select.where(self.query.having.copy())
        return chosen.subquery("dpsql_windows")

    def select(self, table: exp.Expr, *, non_negative: bool = False) -> exp.Select:
        """The result, from the stored answers.

        Args:
            table: that holds them.
            non_negative: show counts below 0 as 0.
        """
        query, names = self.query, iter(name for name, _ in self._answers)
        listed = []
        for tree, noisy, (_, kind) in zip(query.outputs, query.noisy, self.columns, strict=True):
            if noisy is None:
                listed.append(exp.alias_(exp.cast(tree.copy(), data_type(kind)), next(names), quoted=True))
            elif _is_answer_alone(tree):
                floor = non_negative and query.aggregates[noisy].kind in ("count", "units")
                value = _try_cast(_floored(tree, floor=floor), data_type(kind))  # noise may leave the type
                listed.append(exp.alias_(value, next(names), quoted=True))
                for suffix in SUFFIXES[1:]:
                    error = _floored(exp.column(f"a{noisy}{suffix}"), floor=floor)
                    if suffix != "_stderr" and _is_cast_to_number(tree):  # which may round
                        error = exp.TryCast(this=_try_cast(error, data_type(kind)), to=data_type("DOUBLE"))
                    listed.append(exp.alias_(error, next(names), quoted=True))
            else:
                made = self._arithmetic(tree, data_type(kind), non_negative=non_negative)
                listed += [exp.alias_(value, next(names), quoted=True) for value in made]
        rows = self._with_windows(table, non_negative=non_negative)
        of_rows = partial(_qualified, table=rows.alias_or_name)
        select = exp.select(*map(of_rows, listed)).from_(rows)
        chosen = query.qualify if query.windows else query.having
        if chosen is not None:
            select = select.where(of_rows(chosen.copy()))
        if query.order:
            select.set("order", exp.Order(expressions=[of_rows(item.copy()) for item in query.order]))
        if query.limit is not None:
            select = select.limit(query.limit)
        return select.offset(query.offset) if query.offset else select

    def _arithmetic(self, tree: exp.Expr, kind: exp.DataType, *, non_negative: bool) -> list[exp.Expr]:
        """A number that answers make, and what is known of its error; NULL where it cannot be made of them."""
        counts = {n for n, a in enumerate(self.query.aggregates) if a.kind in ("count", "units")}
        sums = {n for n, a in enumerate(self.query.aggregates) if a.kind == "sum"}
        errors = errors_of(tree, counts | sums)
        errors_there = [exp.null()] * 3 if errors is None else [errors.stderr, errors.low, errors.high]
        alone = len({column.name for column in tree.find_all(exp.Column) if is_answer(column)}) == 1
        suffixes = ("", "_low", "_high") if alone else ("",)  # widths that are added are those of the noise
        floored = {f"a{n}{suffix}" for n in counts for suffix in suffixes} if non_negative else set()

        def shown(node: exp.Expr) -> exp.Expr:
            is_floored = isinstance(node, exp.Column) and not node.table and node.name in floored
            return _floored(node, floor=True) if is_floored else node  # itself, so that what is in it is looked at

        return [
            exp.TryCast(this=exp.Anonymous(this="try", expressions=[part.transform(shown)]), to=to)
            for part, to in zip((tree, *errors_there), (kind, *(data_type("DOUBLE"),) * 3), strict=True)
        ]

    @property
    def is_plain(self) -> bool:
        """Whether the result shows keys and answers as they are: then no expression of a user's runs to make it."""
        if self.query.having is not None or self.query.order or self.query.windows or self.query.around is not None:
            return False
        pairs = zip(self.query.outputs, self.query.noisy, strict=True)
        shown = [tree.this if isinstance(tree, exp.Cast) and noisy is not None else tree for tree, noisy in pairs]
        return all(isinstance(tree, exp.Column) for tree in shown)

    def rows(self, answers: Frame, *, non_negative: bool) -> list[tuple[str | None, ...]]:
        """The result's rows as text, made in a database of its own.

        Args:
            answers: the stored columns as text, None for NULL.
            non_negative: show counts below 0 as 0.

        Raises:
            InvalidQuery: an expression fails on the keys or the noisy answers.
        """
        made = self.select(self._stored_rows(), non_negative=non_negative)
        shown = [name for name, _ in self.shown()]
        if self.outer is None:
            names = [exp.column(exp.to_identifier(name, quoted=True)) for name in shown]
            texts = [exp.cast(name, "VARCHAR", dialect="duckdb") for name in names]
            text = exp.select(*texts).from_(made.subquery("dpsql_result")).sql(dialect="duckdb")
        else:
            groups = [name for name, _ in self.columns]
            text = self.outer.text(groups, self._named, made.sql(dialect="duckdb"), shown)
        with empty_database() as empty:
            try:
                with shown_as(empty, "dpsql_known", answers):
                    return empty.execute(text).fetchall()
            except duckdb.Error as error:  # of released values and public keys only
                raise refused(error) from None

    def check_words(self, answers: Frame) -> None:
        """Refuse expressions over keys and answers that are something else than in the words that people wrote.

        Args:
            answers: as of `rows`, of public keys and whatever numbers.

        Raises:
            InvalidQuery: with those words.
        """
        written = different_words(self._over_answers())
        if not written:
            return
        with empty_database() as empty:
            try:
                with shown_as(empty, "dpsql_known", answers):
                    check_written(empty, written, self._with_windows(self._stored_rows()))
            except duckdb.Error as error:  # of public values only
                raise refused(error) from None

    def _stored_rows(self) -> exp.Subquery:
        """The stored answers, from their texts in `dpsql_known`."""
        typed = [exp.alias_(exp.cast(exp.column(name), data_type(kind)), name) for name, kind in self.stored.items()]
        return exp.select(*typed).from_("dpsql_known").subquery("dpsql_answers")

    def _over_answers(self) -> list[exp.Expr]:
        """What is made of keys and answers."""
        query = self.query
        chosen = [tree for tree in (query.having, query.qualify) if tree is not None]
        of_windows = [part for window in query.windows for part in parts_of(window)]
        return [*query.outputs, *chosen, *(o.this for o in query.order), *of_windows]

    def _check(self, empty: Empty) -> None:
        _check_words(self._over_answers())
        for non_negative in (False, True):
            _described(empty, self.select(self._nothing(), non_negative=non_negative))

    def _nothing(self) -> exp.Subquery:
        """The stored answers, without rows."""
        nothing = exp.select(*(_null(kind, name) for name, kind in self.stored.items())).limit(0)
        return nothing.subquery("dpsql_answers")


def _longest(key: npt.NDArray[np.object_] | None) -> int:
    """The most characters of a key that is shown as text."""
    return 0 if key is None else max((len(text) for text in key if text is not None), default=0)


def _qualified(tree: exp.Expr, table: str) -> exp.Expr:
    """The same, its answers and keys named with their table: so no name that a user gives to a result means them."""
    for column in tree.find_all(exp.Column):
        if not column.table:
            column.set("table", exp.to_identifier(table))
    return tree


def _is_answer_alone(tree: exp.Expr) -> bool:
    """Whether a column shows an answer as it is, or in another type."""
    return is_answer(unwrapped(tree.this if isinstance(tree, exp.Cast) else tree))


def _is_cast_to_number(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Cast) and tree.to.is_type(*exp.DataType.NUMERIC_TYPES)


def _null(kind: str, name: str) -> exp.Expr:
    return exp.alias_(exp.cast(exp.null(), data_type(kind)), name, quoted=True)


def _try_cast(tree: exp.Expr, kind: exp.DataType) -> exp.Expr:
    """A noisy answer in the type that the query gives it; NULL where it does not fit."""
    inside = tree.this if isinstance(tree, exp.Cast) else tree
    return exp.TryCast(this=exp.Paren(this=inside.copy()), to=kind)


def _floored(tree: exp.Expr, *, floor: bool) -> exp.Expr:
    if not floor:
        return tree.copy()
    inside = tree.this if isinstance(tree, exp.Cast) else tree
    return exp.Greatest(this=inside.copy(), expressions=[exp.Literal.number(0)])


def _check_words(trees: Sequence[exp.Expr]) -> None:
    check_expressions([without_lookups(tree) for tree in trees])


def _described(empty: Empty, select: exp.Select) -> list[tuple[str, str]]:
    """Names and types of a SELECT that reads no table."""
    return _described_text(empty, select.sql(dialect="duckdb"))


def _described_text(empty: Empty, text: str) -> list[tuple[str, str]]:
    try:
        described_rows = empty.execute(f"DESCRIBE {text}").fetchall()
    except duckdb.Error as error:  # no private row is there, so its text may be shown
        raise refused(error) from None
    return [(row[0], row[1]) for row in described_rows]


def _columns(empty: Empty, source: Source, query: Query) -> tuple[tuple[str, str], ...]:
    """Names and types of the query's result, as DuckDB tells them for a table without rows."""
    select = query.select.copy()
    for clause in ("with_", "where", "order", "limit", "offset", "having", "qualify"):
        select.set(clause, None)

    def constant(node: exp.Expr) -> exp.Expr:
        return exp.Literal.number(0) if isinstance(node, _AGGREGATES) else node

    for column in select.find_all(exp.Column):  # of tables that are there by their last name
        column.set("db", None)
        column.set("catalog", None)
    select.set("expressions", [without_lookups(item) for item in select.expressions])
    _check_words([item.unalias().transform(spelled).transform(constant) for item in select.expressions])
    wanted = {fold(column.name) for column in select.find_all(exp.Column)}
    joins: list[exp.Join] = select.args.get("joins") or []
    wanted |= {fold(key.name) for join in joins for key in join.args.get("using") or ()}
    if any(join.method for join in joins):  # NATURAL, whose keys are the names that both have
        wanted |= {fold(name) for columns in query.scope.tables.values() for name in columns}
    tables = []
    for table, columns in query.scope.tables.items():
        seen = {name: without_lookups(tree) for name, tree in columns.items() if fold(name) in wanted}
        seen = seen or {"dpsql_nothing": exp.null()}
        visible = [exp.alias_(tree, name, quoted=True) for name, tree in seen.items()]
        rows = exp.select(*visible).from_(_nothing(source, list(seen.values())))
        tables.append(rows.subquery(exp.to_identifier(table or "dpsql_rows", quoted=True)))
    select.set("from_", exp.From(this=tables[0]))
    for number, join in enumerate(joins):
        join.set("this", tables[number + 1])
    return tuple(_described(empty, select))


def _key_types(empty: Empty, source: Source, query: Query) -> list[str]:
    """The DuckDB type of each key."""
    if not query.keys:
        return []
    listed = [exp.alias_(without_lookups(tree), f"k{number}") for number, tree in enumerate(query.keys)]
    return [kind for _, kind in _described(empty, exp.select(*listed).from_(_nothing(source, query.keys)))]


def _nothing(source: Source, trees: Sequence[exp.Expr]) -> exp.Subquery:
    """The columns that some expressions read, without rows."""
    names = {name for tree in trees for name in columns_read(tree)}
    columns = [_null(column.type, column.name) for column in source.columns if column.name in names]
    return exp.select(*(columns or [exp.null()])).limit(0).subquery("dpsql_base")


def _value_types(evaluated: Evaluated) -> list[str]:
    """The type in which the answers of each aggregate are stored."""
    types = []
    for measured in evaluated.measured:
        scale = steps_of_ten(evaluated.units[measured.weights[0]])
        if measured.kind not in ("count", "units", "sum") or scale is None:
            types.append("DOUBLE")
        else:
            types.append("BIGINT" if scale == 0 else f"DECIMAL(38, {scale})")
    return types


def steps_of_ten(unit: Fraction) -> int | None:
    """S where the unit is 10^−s; None for the step of floats.

    >>> steps_of_ten(Fraction(1, 100)), steps_of_ten(Fraction(1, 1024))
    (2, None)
    """
    digits = len(str(unit.denominator)) - 1
    return digits if unit.numerator == 1 and unit.denominator == 10**digits else None
