r"""What the expressions of a query are on every cell of the declared domain: keys, filters and weights.

Expressions that share columns form a part. Each part is evaluated by DuckDB in an empty database, on the product of its
columns' values, never on private rows. A bin that holds several values is tried at several of them: at all if they can
be counted, else at its ends and around every constant of the expression, which tells all that a comparison or a
monotone function can do inside. An expression that is not the same in all of a bin cannot be answered from its counts:
then the columns are taken value by value, where their type has steps and the bounds leave few enough of them.

    cells of a part  →  number of the key among the part's distinct keys, filter (0 or 1), weight of each aggregate
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import INTEGER_TYPES, Attribute, Domain, decimal_scale
from dpsql.core.formula import COLUMN, Formula
from dpsql.core.linear_query import Choice, Integers, LinearQuery, Moment, Part
from dpsql.core.names import fold, quote
from dpsql.engines.duckdb.catalog import Source
from dpsql.engines.duckdb.encoding import data_type, decode, edge_texts, tick
from dpsql.engines.duckdb.formulas import formula_of, is_there, numbered_case
from dpsql.errors import DomainTooLarge, DpsqlError, InvalidQuery
from dpsql.evaluation.lookups import Loaded
from dpsql.evaluation.moments import FINEST, LARGEST_WEIGHT, Branch, moments_of, unit_of
from dpsql.evaluation.sandbox import check_expressions, scratch
from dpsql.language.expressions import columns_read
from dpsql.language.query import Aggregate, Query

_MOST_POINTS: Final = 4_000_000
_MOST_GROUPS: Final = 5_000_000
_TOO_MANY_GROUPS: Final = (
    f"query: the declared domain has {{:.3g}} groups, more than {_MOST_GROUPS}, and every one gets an answer: group by "
    "fewer or coarser columns"
)
_MOST_STEPS: Final = 200_000  # of one column, taken value by value
_MOST_BRANCHES: Final = 64  # formulas in one sum, each of which is counted by itself
_MOST_CUTS: Final = 2_000  # edges that are not evenly spaced, added to a column's own
_COMPARES: Final = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Between,
    exp.In,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)
_MONOTONE: Final = (
    exp.Floor,
    exp.Ceil,
    exp.Round,
    exp.Trunc,
    exp.IntDiv,
    exp.Year,
    exp.DateTrunc,
    exp.TimestampTrunc,
    exp.TsOrDsToDate,
)
_ORDERED: Final = (
    *exp.DataType.NUMERIC_TYPES,
    exp.DataType.Type.DATE,
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMP_S,
    exp.DataType.Type.TIMESTAMP_MS,
)
_SECOND: Final = {"TIME": 1_000_000, "TIMESTAMP": 1_000_000, "TIMESTAMP_MS": 1000, "TIMESTAMP_S": 1}  # in ticks
_WRITTEN: Final = "dpsql_written"  # of an expression of ours: the user's
_PERIODS: Final = (86_400, 3600, 60, 1)  # seconds: a day, an hour, a minute, a second
_CLOCK_PARTS: Final = {"hour": 3600, "minute": 60, "second": 1}
_DATE_PARTS: Final = frozenset(
    {"year", "quarter", "month", "monthname", "week", "weekofyear", "yearweek", "isoyear", "day", "dayofmonth", "dow"}
    | {"dayofweek", "dayofweekiso", "isodow", "weekday", "dayname", "dayofyear", "doy", "decade", "century"}
)


@dataclass(frozen=True)
class Evaluated:
    """A query on its domain.

    Attributes:
        linear: what to count: first the queries' own aggregates in order, an average as its sum and its count.
        units: for each weight of `linear` the value of 1, such as 1/100 for a sum of DECIMAL(9, 2).
        keys: for each grouping set, the text of each key of the query in each group (None is NULL); None for keys that
            are not in the set.
        present: for each grouping set, which groups can have a row, by the filters.
    """

    linear: LinearQuery
    units: tuple[Fraction, ...]
    keys: tuple[tuple[npt.NDArray[Any] | None, ...], ...]
    present: tuple[npt.NDArray[np.bool_], ...]


@dataclass(frozen=True)
class _Weight:
    """One weight: the argument of a sum, or 1, where all filters hold; of rows, or of units that have such a row."""

    argument: exp.Expr | None
    filters: tuple[exp.Expr, ...]
    of_units: bool = False


def weights_of(aggregates: Sequence[Aggregate]) -> tuple[list[_Weight], list[tuple[int, ...]]]:
    """The distinct weights of some aggregates, and for each aggregate which it is made of: one, or sum and count."""
    found: dict[_Weight, int] = {}
    made_of = []
    for aggregate in aggregates:
        parts = []
        if aggregate.kind in ("sum", "avg"):
            parts.append(_Weight(aggregate.argument, aggregate.filters))
        if aggregate.kind == "avg":
            assert aggregate.argument is not None
            there = is_there(aggregate.argument)
            always = isinstance(there, exp.Boolean) and there.this
            parts.append(_Weight(None, aggregate.filters if always else (*aggregate.filters, there)))
        if aggregate.kind in ("count", "units"):
            parts.append(_Weight(None, aggregate.filters, aggregate.kind == "units"))
        made_of.append(tuple(found.setdefault(part, len(found)) for part in parts))
    return list(found), made_of


def evaluate(source: Source, domain: Domain, query: Query, dimensions: Sequence[Loaded] = ()) -> Evaluated:
    """Evaluate a query's expressions on the domain of its columns.

    Args:
        source: the protected table.
        domain: of its columns.
        query: taken apart, over the columns of `source`.
        dimensions: the public tables that it joins.

    Raises:
        InvalidQuery: an expression fails, calls what is not plain, or is not the same in all of a bin.
        DomainTooLarge: too many cells to try, or too many groups.
    """
    weights, _ = weights_of(query.aggregates)
    _check_groups(domain, query)
    components = _components(domain, query.trees)
    for names in components:
        _check_points(names, domain.size(names))
    check_expressions([part for tree in query.trees for part in own_parts(tree)])
    pieces = []
    with scratch() as empty:
        for loaded in dimensions:
            loaded.create(empty)
        for number, names in enumerate(components):
            pieces.append(_Piece(empty, source, domain, names, query, weights, is_first=number == 0))
    return _joined(domain, query, weights, pieces)


def _check_points(names: Sequence[str], points: int) -> None:
    """Refuse expressions of too many combinations of values."""
    if points > _MOST_POINTS:
        raise DomainTooLarge(
            f"query: the expressions join {', '.join(names)}, whose domains have {points:.3g} combinations of values, "
            f"more than {_MOST_POINTS}: use fewer of them in one expression, or declare coarser domains"
        )


def _check_groups(domain: Domain, query: Query) -> None:
    """Refuse at once what has too many groups whatever its expressions are: those of plain columns that no filter
    reads.
    """
    filtered = {name for tree in query.filters for name in columns_read(tree)}
    plain = {n: tree.name for n, tree in enumerate(query.keys) if isinstance(tree, exp.Column) and not tree.table}
    for chosen in query.sets:
        names = {plain[number] for number in chosen if number in plain} - filtered
        groups = math.prod(domain.by_name[name].size for name in names)
        if groups > _MOST_GROUPS:
            raise DomainTooLarge(_TOO_MANY_GROUPS.format(groups))


def without_lookups(tree: exp.Expr) -> exp.Expr:
    """An expression where values of joined tables, which are ours, are NULLs of their types."""

    def known(node: exp.Expr) -> exp.Expr:
        kind = node.meta.get("dpsql_type") if isinstance(node, exp.Subquery) else None
        return node if kind is None else exp.cast(exp.null(), data_type(kind))

    return tree.transform(known)


def own_parts(tree: exp.Expr) -> list[exp.Expr]:
    """All that is a user's of an expression: itself without look-ups, and the keys of those."""
    lookups = [node for node in tree.find_all(exp.Subquery) if node.meta.get("dpsql_type") is not None]
    keys = [equal.expression for lookup in lookups for equal in lookup.find_all(exp.EQ)]
    return [without_lookups(part) for part in (tree, *keys)]


def columns_of(domain: Domain, tree: exp.Expr) -> tuple[str, ...]:
    """The columns of the domain that an expression reads."""
    return domain.clique(columns_read(tree))


def _components(domain: Domain, trees: Sequence[exp.Expr]) -> list[tuple[str, ...]]:
    """The columns of each part: those that expressions join. One empty part, if no column is read."""
    parts: list[set[str]] = []
    for tree in trees:
        names = set(columns_of(domain, tree))
        joined = [part for part in parts if part & names]
        parts = [part for part in parts if not part & names] + [names.union(*joined)]
    found = [domain.clique(part) for part in parts if part]
    return sorted(found, key=lambda names: domain.names.index(names[0])) or [()]


@dataclass(frozen=True)
class _Summed:
    """The argument of a sum of columns' own values: formulas of one column each, of which every cell takes one."""

    branches: tuple[tuple[str, Formula], ...]
    kind: str


@dataclass
class _Column:
    """The values of one attribute at which expressions are tried, sorted by code."""

    attribute: Attribute
    codes: Integers
    ticks: npt.NDArray[Any]

    @staticmethod
    def of(attribute: Attribute, constants: Sequence[int | float], *, tried: bool) -> _Column:
        """The lowest value of each code; where expressions read the column, others in its bins too."""
        codes, ticks = [np.arange(attribute.size)], [_lowest(attribute, np.arange(attribute.size))]
        for more_codes, more_ticks in _inside(attribute, constants) if tried else ():
            codes.append(np.asarray(more_codes, np.int64))
            ticks.append(np.asarray(more_ticks))
        together = np.concatenate(codes)
        order = np.argsort(together, kind="stable")
        return _Column(attribute, together[order], np.concatenate(ticks)[order])


def _lowest(attribute: Attribute, codes: Integers) -> npt.NDArray[Any]:
    if attribute.kind != "bins":
        return np.zeros(len(codes), np.int64)
    return np.array(attribute.ticks)[np.minimum(codes, attribute.regular - 1)]


def _inside(attribute: Attribute, constants: Sequence[int | float]) -> Iterator[tuple[Any, Any]]:
    """Codes of bins and further ticks in them: all, or the highest and those around constants."""
    if attribute.kind != "bins":
        return
    if attribute.is_float:
        edges = np.array(attribute.ticks, np.float32 if attribute.type == "FLOAT" else np.float64)
        highest = np.nextafter(edges[1:], -np.inf)
        highest[-1] = edges[-1]
        yield np.arange(attribute.regular), highest.astype(float)
        for constant in constants:
            value = edges.dtype.type(constant)
            for near in (np.nextafter(value, -np.inf), value, np.nextafter(value, np.inf)):
                if edges[0] <= near <= edges[-1]:
                    code = min(int(np.searchsorted(edges, near, side="right")) - 1, attribute.regular - 1)
                    yield [code], [float(near)]
        return
    ticks = np.array(attribute.ticks, np.int64)
    if attribute.has_single_values:
        return
    if ticks[-1] - ticks[0] <= _MOST_STEPS:
        every = np.arange(ticks[0], ticks[-1])
        codes = np.searchsorted(ticks, every, side="right") - 1
        more = every != ticks[codes]
        yield codes[more], every[more]
        return
    yield np.arange(attribute.regular), ticks[1:] - 1
    for constant in constants:
        for near in (int(constant) - 1, int(constant), int(constant) + 1):
            if ticks[0] <= near < ticks[-1]:
                yield [int(np.searchsorted(ticks, near, side="right")) - 1], [near]


class _Piece:
    """The expressions of one part, on its cells."""

    def __init__(
        self,
        empty: duckdb.DuckDBPyConnection,
        source: Source,
        domain: Domain,
        names: tuple[str, ...],
        query: Query,
        weights: Sequence[_Weight],
        *,
        is_first: bool,
    ) -> None:
        self._empty, self._source = empty, source
        self._prefix = "dpsql_"  # of no column of the source
        while any(fold(column.name).startswith(self._prefix) for column in source.columns):
            self._prefix = "_" + self._prefix

        def inside(tree: exp.Expr | None) -> bool:
            if tree is None:
                return False
            read = columns_of(domain, tree)
            return set(read) <= set(names) if read else is_first

        self.keys = [number for number, tree in enumerate(query.keys) if inside(tree)]
        self._key_trees = [query.keys[number] for number in self.keys]
        self._filters = [tree for tree in query.filters if inside(tree)]
        self._weights = [
            (weight.argument if inside(weight.argument) else None, [f for f in weight.filters if inside(f)])
            for weight in weights
        ]
        attributes = [domain.by_name[name] for name in names]
        self.moments: dict[int, Moment | Choice] = {}
        self._summed: dict[int, _Summed] = {}
        self._sum_values_of([attribute for attribute in attributes if not _all_tried(attribute)], plain=True)
        try:
            self._evaluate(attributes)
        except (_Varies, DomainTooLarge) as problem:
            self._refine(attributes, problem)
        for number, summed in self._summed.items():
            self._sum(number, summed)

    def _sum(self, number: int, summed: _Summed) -> None:
        """Make a weight, which is the branch that a cell takes and 0 where it does not count, a sum of values.

        Its bounds are those of the values that its filters and conditions leave of the columns.
        """
        picks, shape = self.factors[number], [attribute.size for attribute in self.attributes]
        every = dict(zip(self.names, np.unravel_index(np.arange(math.prod(shape)), shape), strict=True))
        columns = dict(zip(self.names, self.attributes, strict=True))
        branches = []
        for branch, (name, formula) in enumerate(summed.branches, start=1):
            possible = np.zeros(columns[name].size, bool)
            possible[every[name][picks == branch]] = True
            branches.append(Branch(columns[name], formula, possible))
        moments, self.units[number], there = moments_of(branches, summed.kind)
        for branch, (of_codes, (name, _)) in enumerate(zip(there, summed.branches, strict=True), start=1):
            picks = np.where((picks == branch) & ~of_codes[every[name]], 0, picks)
        taken = np.unique(picks[picks > 0])
        self.factors[number] = (picks > 0).astype(np.int64)
        if len(taken) > 1:
            self.moments[number] = Choice(moments, self.names, picks.astype(np.uint8).tobytes())
        else:
            self.moments[number] = moments[int(taken[0]) - 1 if len(taken) else 0]

    def _refine(self, attributes: list[Attribute], problem: _Varies | DomainTooLarge) -> None:
        """Evaluate on finer bins, or sum a column's own values, or both: the first that leaves nothing unknown."""
        varies = isinstance(problem, _Varies)
        if varies and self._fits(attributes, [attributes]):
            return
        if not self._sum_values_of(attributes):
            raise problem.refusal() if isinstance(problem, _Varies) else problem
        try:
            self._evaluate(attributes)
        except _Varies as still:
            if not self._fits(attributes, [attributes]):
                raise still.refusal() from None

    def _fits(self, attributes: list[Attribute], tried: list[list[Attribute]]) -> bool:
        """Evaluate on finer bins: single values, days or hours; those cut at the constants of comparisons."""
        finest = [[_finest(attribute, period) for attribute in attributes] for period in _PERIODS]
        cut = ([_cut(a, self._constants(a)) for a in finer] for finer in [attributes, *finest])
        for finer in itertools.chain(finest, cut):
            if finer in tried:
                continue
            tried.append(finer)
            try:
                self._evaluate(finer)
            except (_Varies, DomainTooLarge):
                continue
            return True
        return False

    def _sum_values_of(self, attributes: Sequence[Attribute], *, plain: bool = False) -> bool:
        """Sum the rows' own values where an argument is a formula of one of these columns; whether there is any.

        Args:
            attributes: of which those of numbers in wide bins are looked at.
            plain: only where the argument is the column itself.
        """
        numbers = {a.name: a for a in attributes if a.kind == "bins" and a.is_number}
        wide = {name for name, attribute in numbers.items() if not attribute.has_single_values}
        found = {}
        for number, (argument, filters) in enumerate(self._weights):
            if argument is None or wide.isdisjoint(columns_read(argument)):
                continue
            pick: exp.Expr | None = None
            branch = self._branch(argument, numbers)
            if branch is not None and (branch[1] == COLUMN or not plain):
                kind = numbers[branch[0]].type if branch[1] == COLUMN else self._kind(argument)
                found[number] = _Summed((branch,), kind)
            elif not plain:
                branches, pick = self._branches(argument, numbers)
                if not branches:
                    continue
                found[number] = _Summed(branches, self._kind(argument))
            else:
                continue
            self._weights[number] = pick, filters
        self._summed |= found
        return bool(found)

    def _branch(self, tree: exp.Expr, columns: Mapping[str, Attribute]) -> tuple[str, Formula] | None:
        """An expression of one of some columns, or of none, as a formula; None if it is no such thing."""
        names = columns_read(tree) or set(itertools.islice(columns, 1))
        if len(names) != 1 or not names <= set(columns):
            return None
        attribute = columns[names.pop()]
        formula = formula_of(tree, attribute.name, partial(self._number, attribute))
        return None if formula is None else (attribute.name, formula)

    def _branches(
        self, argument: exp.Expr, columns: Mapping[str, Attribute]
    ) -> tuple[tuple[tuple[str, Formula], ...], exp.Expr | None]:
        """The formulas in the branches of a CASE, and the CASE of their numbers from 1 on; none if it is none."""
        found: dict[tuple[str, Formula], int] = {}

        def number_of(tree: exp.Expr) -> int | None:
            branch = self._branch(tree, columns)
            return None if branch is None else found.setdefault(branch, len(found) + 1)

        pick = numbered_case(argument, number_of)
        if pick is None or len(found) > _MOST_BRANCHES:
            return (), None
        pick.meta[_WRITTEN] = argument
        return tuple(found), pick

    def _number(self, attribute: Attribute, tree: exp.Expr) -> float | None:
        """A constant of a formula, in the type of its column if that is FLOAT."""
        typed: exp.Expr = exp.Paren(this=tree.copy())
        for kind in ("FLOAT", "DOUBLE") if attribute.type == "FLOAT" else ("DOUBLE",):
            typed = exp.cast(typed, kind, dialect="duckdb")
        found = self._asked(exp.select(typed))[0][0]
        return None if found is None else float(found)

    def _kind(self, argument: exp.Expr) -> str:
        """The type of an argument."""
        types = {column.name: column.type for column in self._source.columns}
        nulls = [
            exp.alias_(exp.cast(exp.null(), data_type(types[name])), name, quoted=True)
            for name in columns_read(argument)
        ]
        select = exp.select(exp.func("typeof", exp.Paren(this=argument.copy()), dialect="duckdb"))
        return str(self._asked(select.from_(exp.select(*nulls).subquery("dpsql_typed")))[0][0])

    def _asked(self, select: exp.Select) -> list[tuple[Any, ...]]:
        """The rows of a statement of constants."""
        try:
            return self._empty.execute(_sql(select)).fetchall()
        except duckdb.Error as error:  # of public values only, so its text may be shown
            raise InvalidQuery(f"query: {str(error).splitlines()[0]}") from None

    def _evaluate(self, attributes: list[Attribute]) -> None:
        self.attributes = tuple(attributes)
        self.names = tuple(attribute.name for attribute in attributes)
        shape = [attribute.size for attribute in attributes]
        read = set().union(*(columns_read(tree) for tree in self._trees))
        columns = [_Column.of(a, list(self._constants(a)), tried=a.name in read) for a in attributes]
        points = math.prod(len(column.codes) for column in columns)
        _check_points(self.names, points)
        picked = np.unravel_index(np.arange(points), [len(c.codes) for c in columns]) if columns else ()
        codes = [column.codes[pick] for column, pick in zip(columns, picked, strict=True)]
        frame = {f"{self._prefix}point": np.arange(points)}
        for number, (column, pick) in enumerate(zip(columns, picked, strict=True)):
            frame[f"{self._prefix}c{number}"] = codes[number]
            if column.attribute.kind == "bins":
                frame[f"{self._prefix}t{number}"] = column.ticks[pick]
        cells = np.ravel_multi_index(codes, shape) if codes else np.zeros(points, np.int64)
        self._order = np.argsort(cells, kind="stable")
        self._starts = np.searchsorted(cells[self._order], np.arange(math.prod(shape)))
        self._read(self._run(frame))

    def _run(self, frame: dict[str, Any]) -> dict[str, Any]:
        """The values of all expressions at all points, in the order of the points."""
        types = {column.name: column.type for column in self._source.columns}
        point = f"{self._prefix}point"
        values: list[exp.Expr] = [exp.column(point)]
        for number, attribute in enumerate(self.attributes):
            value = decode(attribute, f"{self._prefix}c{number}", f"{self._prefix}t{number}")
            typed = exp.cast(value, data_type(types[attribute.name]))
            values.append(exp.alias_(typed, attribute.name, quoted=True))
        decoded = exp.select(*values).from_("dpsql_points").subquery("dpsql_decoded")
        wanted: dict[str, exp.Expr] = {}
        for number, tree in enumerate(self._key_trees):
            order = exp.Order(expressions=[exp.Paren(this=tree.copy())])
            rank = exp.Window(this=exp.DenseRank(), order=order)
            wanted[f"k{number}"] = exp.Sub(this=rank, expression=exp.Literal.number(1))
            wanted[f"v{number}"] = exp.cast(exp.Paren(this=tree.copy()), "VARCHAR", dialect="duckdb")
        wanted |= {f"f{number}": _holds(tree) for number, tree in enumerate(self._filters)}
        for number, (argument, filters) in enumerate(self._weights):
            if argument is not None:
                wanted[f"w{number}"] = exp.Paren(this=argument.copy())
            wanted |= {f"g{number}_{place}": _holds(tree) for place, tree in enumerate(filters)}
        listed = [exp.alias_(tree, name) for name, tree in wanted.items()]
        evaluated = exp.select(point, *listed).from_(decoded)
        self._empty.register("dpsql_points", frame)
        try:
            kinds = {row[0]: row[1] for row in self._empty.execute(f"DESCRIBE {_sql(evaluated)}").fetchall()}
            self._units = {name: unit_of(kinds[name]) for name in wanted if name.startswith("w")}
            columns = [_whole_number(name, kinds[name]) if name in self._units else exp.column(name) for name in wanted]
            final = exp.select(point, *columns).from_(evaluated.subquery("dpsql_values")).order_by(point)
            return dict(self._empty.execute(_sql(final)).fetchnumpy())
        except duckdb.Error as error:  # of public values only, so its text may be shown
            raise InvalidQuery(f"query: {str(error).splitlines()[0]}") from None
        finally:
            self._empty.unregister("dpsql_points")

    def _read(self, found: dict[str, Any]) -> None:
        """Values at points to values of cells; refuses what differs inside a cell."""
        self.mask = np.ones(len(self._starts), bool)
        for number, tree in enumerate(self._filters):
            values = np.asarray(found[f"f{number}"]).astype(np.int64)
            self.mask &= self._constant(values, _as_condition(tree)).astype(bool)
        self.key_numbers, self.key_texts = [], []
        for number, tree in enumerate(self._key_trees):
            numbers = self._constant(np.asarray(found[f"k{number}"], np.int64), tree)
            texts = found[f"v{number}"]
            plain = np.asarray(np.ma.getdata(texts), object).copy()
            plain[np.ma.getmaskarray(np.ma.asarray(texts))] = None
            self.key_numbers.append(numbers)
            self.key_texts.append(plain[self._order][self._starts] if len(self._starts) else plain)
        self.factors, self.units = [], []
        for number, (argument, filters) in enumerate(self._weights):
            factor = np.ones(len(self._starts), np.int64)
            unit = Fraction(1)
            if argument is not None:
                factor, unit = self._weight(found[f"w{number}"], f"w{number}", argument)
            for place, tree in enumerate(filters):
                values = np.asarray(found[f"g{number}_{place}"]).astype(np.int64)
                factor = factor * self._constant(values, _as_condition(tree))
            self.factors.append(factor * self.mask)
            self.units.append(unit)

    def _weight(self, values: Any, name: str, tree: exp.Expr) -> tuple[Integers, Fraction]:
        masked = np.ma.asarray(values)
        unit = self._units[name]
        plain = np.ma.filled(masked.astype(np.float64), 0.0)
        if not all(map(_all_tried, self.attributes)):
            self._constant(plain, tree, summed=True)  # what differs inside a bin may yet be summed value by value
        if not np.isfinite(plain).all():
            raise InvalidQuery(f"query: {_sql(tree)} is not finite for some values of the declared domain")
        if np.abs(plain).max(initial=0.0) > LARGEST_WEIGHT:
            raise InvalidQuery(
                f"query: {_sql(tree)} is as large as {np.abs(plain).max():.3g} on the declared domain, more than 2^32 "
                "steps of its type: divide it, or cast it to a coarser type"
            )
        if unit is not None:
            whole = np.rint(plain).astype(np.int64)
        elif (plain == np.rint(plain)).all():
            whole, unit = plain.astype(np.int64), Fraction(1)
        else:
            exponent = math.ceil(math.log2(np.abs(plain).max()))
            unit = Fraction(2) ** exponent / FINEST
            whole = np.rint(plain / float(unit)).astype(np.int64)
        return self._constant(whole, tree, summed=True), unit

    def _constant(self, values: npt.NDArray[Any], tree: exp.Expr, *, summed: bool = False) -> Integers:
        """The value in each cell, of the values at its points.

        Args:
            values: at all points.
            tree: what they are of.
            summed: whether it is the argument of a sum.
        """
        if len(values) == len(self._starts):
            return values[self._order]
        ordered = values[self._order]
        low, high = np.minimum.reduceat(ordered, self._starts), np.maximum.reduceat(ordered, self._starts)
        differs = low != high
        if differs.any():
            raise _Varies(tree, self.attributes, int(np.flatnonzero(differs)[0]), summed=summed)
        for attribute in self.attributes:
            if not _all_tried(attribute) and not _told_by_ends(tree, attribute):
                raise _Varies(tree, self.attributes, None, summed=summed)
        return low

    @property
    def _trees(self) -> list[exp.Expr]:
        """All expressions that are evaluated."""
        arguments = [tree for argument, filters in self._weights for tree in (argument, *filters) if tree is not None]
        return [*self._key_trees, *self._filters, *arguments]

    def _constants(self, attribute: Attribute) -> Iterator[int | float]:
        """The ticks of the constants in the part's expressions that are of the attribute's type."""
        if attribute.kind != "bins" or _all_tried(attribute):
            return
        found = itertools.chain.from_iterable(tree.find_all(exp.Column) for tree in self._trees)
        compared = [column for column in found if column.name == attribute.name and not column.table]
        constants = itertools.chain.from_iterable(_operands(column) or () for column in compared)
        operands = {_sql(other): other for other in constants if not isinstance(other, exp.Null)}
        for text, operand in operands.items():
            yield from self._around(text, operand, attribute)

    def _around(self, text: str, operand: exp.Expr, attribute: Attribute) -> Iterator[int | float]:
        """The ticks next to a constant that the attribute is compared with, whatever type the constant has."""
        number = attribute.type in INTEGER_TYPES or decimal_scale(attribute.type) is not None
        kind = "DOUBLE" if number or attribute.is_float else attribute.type
        try:
            query = exp.select(exp.cast(exp.cast(exp.Paren(this=operand.copy()), kind, dialect="duckdb"), "VARCHAR"))
            value = self._empty.execute(query.sql(dialect="duckdb")).fetchall()[0][0]
            if value is None:
                return
            if number:
                steps = float(value) * 10 ** (decimal_scale(attribute.type) or 0)
                yield from (math.floor(steps), math.ceil(steps))
            else:
                yield tick(self._empty, value, attribute.type, "constant")
        except (DpsqlError, ValueError, OverflowError, duckdb.Error):
            raise InvalidQuery(
                f"query: {attribute.name!r} is compared with {text}, which is no constant of its type"
            ) from None


class _Varies(Exception):
    """An expression is not the same in all of a bin."""

    def __init__(self, tree: exp.Expr, attributes: Sequence[Attribute], cell: int | None, *, summed: bool) -> None:
        self._tree, self._attributes, self._cell = tree.meta.get(_WRITTEN, tree), attributes, cell
        self._sums_several = summed and len(columns_read(self._tree)) > 1

    def refusal(self) -> InvalidQuery:
        """What to tell."""
        shape = [attribute.size for attribute in self._attributes]
        codes = np.unravel_index(self._cell, shape) if self._cell is not None else None
        wide = [
            (attribute, None if codes is None else int(codes[place]))
            for place, attribute in enumerate(self._attributes)
            if attribute.kind == "bins" and not attribute.has_single_values
        ]
        attribute, code = wide[0]
        where = f"in the bin {attribute.labels()[code]} of" if code is not None else "in every bin of"
        of_one = f"sum one column where a condition holds, as sum({quote(attribute.name)}) FILTER (WHERE …); or "
        edges = f"{', '.join(attribute.edges[:12])}{', …' if len(attribute.edges) > 12 else ''}"
        return InvalidQuery(
            f"query: {_sql(self._tree)} is not known to be the same {where} {attribute.name!r}: "
            f"{of_one if self._sums_several else ''}use the edges of its bins ({edges}), or the owner declares edges "
            f"where it changes with dp_domain(…, {attribute.name!r}, edges := […])"
        )


def _all_tried(attribute: Attribute) -> bool:
    """Whether every value of every bin is tried."""
    if attribute.kind != "bins":
        return True
    return not attribute.is_float and attribute.ticks[-1] - attribute.ticks[0] <= _MOST_STEPS


def _told_by_ends(tree: exp.Expr, attribute: Attribute) -> bool:
    """Whether an expression changes inside a bin only around constants, or not at all if its ends agree.

    That is so if the column stands by itself in comparisons with constants, or the whole is one monotone function of
    it, as floor(x / 10), or asks for the hour, the month, … of a bin that lies within one.
    """
    for column in tree.find_all(exp.Column):
        if column.name == attribute.name and not column.table:
            told = _operands(column) is not None or _in_monotone(column, tree) or _in_calendar(column, attribute)
            if not told:
                return False
    return True


def _in_calendar(column: exp.Column, attribute: Attribute) -> bool:
    """Whether a column stands in a function of its date or its clock, and each bin lies within a day, an hour, …."""
    second = _SECOND.get(attribute.type)
    node = column.parent
    while isinstance(node, exp.Paren) or (type(node) is exp.Cast and node.to.is_type("DATE", "TIMESTAMP", "TIME")):
        node = node.parent
    if second is None or node is None:
        return False
    name = (node.name if isinstance(node, exp.Anonymous) else node.key).lower()
    if name in ("date_part", "datepart"):
        name = node.expressions[0].name.lower() if isinstance(node.expressions[0], exp.Literal) else ""
    elif name == "extract":
        name = node.name.lower()
    period = _PERIODS[0] if name in _DATE_PARTS else _CLOCK_PARTS.get(name, 0)
    if not period:
        return False
    ticks = np.array(attribute.ticks, np.int64)
    return bool((ticks[:-1] // (period * second) == (ticks[1:] - 1) // (period * second)).all())


def _operands(column: exp.Column) -> list[exp.Expr] | None:
    """The constants that a column, standing by itself, is compared with; None if it is not."""
    node: exp.Expr = column
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    parent = node.parent
    if not isinstance(parent, _COMPARES):
        return None
    others: list[exp.Expr] = [child for child in parent.iter_expressions() if child is not node]
    return others if all(map(_is_constant, others)) else None


def _is_constant(tree: exp.Expr) -> bool:
    kinds = (exp.Literal, exp.Null, exp.Neg, exp.Cast, exp.DataType, exp.Paren, exp.DataTypeParam)
    return all(isinstance(node, kinds) for node in tree.walk())


def _in_monotone(column: exp.Column, tree: exp.Expr) -> bool:
    """Whether every step from the column up to the root of the expression is monotone in it, or a constant's sum."""
    if sum(1 for other in tree.find_all(exp.Column) if other.name == column.name and not other.table) > 1:
        return False
    node: exp.Expr = column
    while node is not tree:
        parent = node.parent
        assert parent is not None
        others = [child for child in parent.iter_expressions() if child is not node]
        scaled = isinstance(parent, exp.Add | exp.Sub | exp.Mul | exp.Div)
        cast = type(parent) is exp.Cast and parent.to.is_type(*_ORDERED)
        if not isinstance(parent, exp.Paren) and not (isinstance(parent, _MONOTONE) or scaled or cast):
            return False
        if isinstance(parent, (exp.Div, *_MONOTONE)) and parent.this is not node:
            return False
        if not all(_is_constant(other) or isinstance(other, exp.Var | exp.DataType) for other in others):
            return False
        node = parent
    return True


def _finest(attribute: Attribute, period: int) -> Attribute:
    """The same bounds with a bin for each value, or for each period of so many seconds, where there are few enough."""
    unit = _SECOND.get(attribute.type, 0) * period
    if attribute.kind != "bins" or (not _all_tried(attribute) and not unit) or attribute.has_single_values:
        return attribute
    low, high = int(attribute.ticks[0]), int(attribute.ticks[-1])
    if _all_tried(attribute):
        return _with_ticks(attribute, range(low, high + 1))
    uneven = any(edge % unit for edge in attribute.ticks[1:-1])  # a search tree of the edges is parsed for seconds
    if (high - low) // unit > (_MOST_CUTS if uneven else _MOST_STEPS):
        return attribute
    return _with_ticks(attribute, {*map(int, attribute.ticks), *range(-(-low // unit) * unit, high, unit)})


def _cut(attribute: Attribute, constants: Iterable[int | float]) -> Attribute:
    """The same bounds with each of some constants, as ticks, in a bin of its own."""
    if attribute.kind != "bins" or _all_tried(attribute):
        return attribute
    lowest, last = attribute.ticks[0], attribute.ticks[-1]
    cuts: set[int | float] = set()
    for constant in constants:
        if attribute.is_float:
            near = (np.float32 if attribute.type == "FLOAT" else np.float64)(constant)
            cuts |= {float(near), float(np.nextafter(near, near.dtype.type(np.inf)))}
        else:
            cuts |= {int(constant), int(constant) + 1}
    if len(cuts) > _MOST_CUTS:
        return attribute
    return _with_ticks(attribute, {*attribute.ticks, *(cut for cut in cuts if lowest < cut < last)})


def _with_ticks(attribute: Attribute, ticks: Iterable[int | float]) -> Attribute:
    """The same with other edges."""
    ordered = tuple(sorted(ticks))
    if ordered == attribute.ticks:
        return attribute
    with scratch() as empty:
        return replace(attribute, ticks=ordered, edges=edge_texts(empty, ordered, attribute.type))


def _sql(tree: exp.Expr) -> str:
    return tree.sql(dialect="duckdb")


def _as_condition(tree: exp.Expr) -> exp.Expr:
    """A filter as what is evaluated: a number is cast to BOOLEAN, which no step of it says."""
    known = isinstance(tree, exp.Predicate | exp.Connector | exp.Not | exp.Boolean)
    return tree if known else exp.cast(exp.Paren(this=tree.copy()), "BOOLEAN", dialect="duckdb")


def _holds(tree: exp.Expr) -> exp.Expr:
    """Whether a condition holds: NULL does not."""
    truth = exp.cast(exp.Paren(this=tree.copy()), "BOOLEAN", dialect="duckdb")
    return exp.Coalesce(this=truth, expressions=[exp.false()])


def _whole_number(name: str, kind: str) -> exp.Expr:
    """A weight as a DOUBLE: of a DECIMAL in its steps, which stay exact up to 2^53."""
    value: exp.Expr = exp.column(name)
    if decimal_scale(kind):
        text = exp.cast(value, "VARCHAR", dialect="duckdb")
        value = exp.func("replace", text, exp.Literal.string("."), exp.Literal.string(""), dialect="duckdb")
    return exp.alias_(exp.cast(value, "DOUBLE", dialect="duckdb"), name)


# --- the parts together -----------------------------------------------------------------------------------------------


def _joined(domain: Domain, query: Query, weights: Sequence[_Weight], pieces: Sequence[_Piece]) -> Evaluated:
    finer = {attribute.name: attribute for piece in pieces for attribute in piece.attributes}
    refined = replace(domain, attributes=tuple(finer.get(a.name, a) for a in domain))
    units = tuple(
        math.prod((piece.units[number] for piece in pieces), start=Fraction(1)) for number in range(len(weights))
    )
    parts, local = [], []
    for piece in pieces:
        by_set = [_local_keys(piece, chosen) for chosen in query.sets]
        local.append(by_set)
        counts = tuple(max(1, len(cells)) for _, cells in by_set)
        groups = np.stack([groups for groups, _ in by_set])
        parts.append(Part(piece.names, np.stack(piece.factors), groups, counts))
    units_of = frozenset(number for number, weight in enumerate(weights) if weight.of_units)
    moments = {number: moment for piece in pieces for number, moment in piece.moments.items()}
    linear = LinearQuery(refined, tuple(parts), units_of, moments)
    if sum(linear.groups) > _MOST_GROUPS:
        raise DomainTooLarge(_TOO_MANY_GROUPS.format(sum(linear.groups)))
    if max(linear.scales) > LARGEST_WEIGHT:
        raise InvalidQuery("query: the weights are too large to be summed exactly: divide them")
    keys, present = [], []
    for number, chosen in enumerate(query.sets):
        places = np.unravel_index(np.arange(linear.groups[number]), [part.keys[number] for part in parts])
        columns: list[npt.NDArray[Any] | None] = [None] * len(query.keys)
        alive = np.ones(linear.groups[number], bool)
        for piece, by_set, place in zip(pieces, local, places, strict=True):
            _, cells = by_set[number]
            alive &= bool(len(cells)) or not chosen  # without keys there is one group, of no rows too
            for key, texts in zip(piece.keys, piece.key_texts, strict=True):
                if key in chosen and len(cells):
                    columns[key] = texts[cells][place]
        keys.append(tuple(columns))
        present.append(alive)
    return Evaluated(linear, units, tuple(keys), tuple(present))


def _local_keys(piece: _Piece, chosen: Sequence[int]) -> tuple[Integers, Integers]:
    """The group of each cell of a part, and one cell of each group, for the keys of one grouping set.

    Only keys of cells that the filters keep are groups; the others get group 0, where their weights are 0.
    """
    groups = np.zeros(len(piece.mask), np.int64)
    kept = np.flatnonzero(piece.mask)
    numbers = [n for key, n in zip(piece.keys, piece.key_numbers, strict=True) if key in chosen]
    if not numbers or not len(kept):
        return groups, kept[:1]
    _, first, inverse = np.unique(np.stack(numbers)[:, kept], axis=1, return_index=True, return_inverse=True)
    groups[kept] = inverse.ravel()
    return groups, kept[first]
