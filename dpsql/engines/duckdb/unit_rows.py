"""Exact counts of units' rows (`dpsql.core.unit_row`): the rows of a tree of tables, joined inside DuckDB.

    coded_t   =  SELECT codes, keys, md5(secret ‖ all stored columns) AS content FROM t           (every member t)
    rows_t    =  coded_t JOIN parents ON key = references,   n-th of its parent and role by md5(content ‖ alike)
                 of a link in order: first the row of least digest of those with one after it, second the one after it
    role      =  that whose codes the row has, of the first such row of its parent in that order; 0 of all others
    parents   =  rows of the table above with keys that are not NULL, of those with equal keys the first by content
                 (units of a table with a privacy unit: its values that are not NULL, each once)
    units     =  root LEFT JOIN first child LEFT JOIN second child …, numbers of children in bins

Keys are told apart by the bytes that tell privacy units apart, on both sides, see `dpsql.engines.duckdb.units`. A row
whose key is NULL or leads nowhere is in no unit. A key that several rows of the table above share leads to one of them,
chosen by content, whatever constraints say: else one row would be in two units. `alike` numbers rows of equal contents;
the one that a key leads to is numbered 1, so that it does not matter where rows are stored.

All members are read in one transaction. The secret is that of the account, see `dpsql.engines.duckdb.units`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import duckdb
import numpy as np
from sqlglot import exp

from dpsql.core.column_types import column_type
from dpsql.core.column_types.base import TEXT_BYTES
from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Clique
from dpsql.core.marginal import Marginal
from dpsql.core.tree import UNITS, Link, Role
from dpsql.core.unit_row import Below, UnitRow
from dpsql.engines.duckdb.codes import Codes, sum_of
from dpsql.engines.duckdb.counting import DuckDBCounter, constant_errors
from dpsql.engines.duckdb.types import filled
from dpsql.engines.duckdb.units import content_of
from dpsql.engines.source import Source
from dpsql.errors import DpsqlError

_SIZES: Final = ((2**8, "UTINYINT"), (2**16, "USMALLINT"), (2**31, "INTEGER"))


class UnitCounter(DuckDBCounter):
    """A curator's `Counter` of units' rows.

    Args:
        cursor: a connection of its own.
        sources: the members by what the books call them.
        unit_row: their flat domain.
        secret: what the choice of children is drawn from, an expression.
        roles: the codes of each role.
        before: done once, when rows are about to be read for the first time.
    """

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        sources: Mapping[str, Source],
        unit_row: UnitRow,
        secret: exp.Expr,
        *,
        roles: Mapping[tuple[str, str], Allowed] | None = None,
        before: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(cursor, sources[unit_row.tree.tables[0]], unit_row.domain, before=before)
        self._sources, self._unit_row, self._secret, self._roles = sources, unit_row, secret, roles or {}
        self._units: exp.Table | None = None

    def marginal(self, clique: Clique) -> Marginal:
        """The exact marginal of a clique; the empty clique counts all units."""
        if clique:
            return super().marginal(clique)
        table = self._tuples()  # decides what the weight of a row is
        rows = self._fetch(exp.select(exp.alias_(self._weight.copy(), "n")).from_(table.copy()))
        return Marginal((), 1, np.zeros(1, np.int64), rows["n"])

    def among(self, places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> DuckDBCounter:
        """A counter of some units only; see `Counter.among`."""
        self._tuples()
        assert self._units is not None
        sample = UnitCounter(self._cursor, self._sources, self._unit_row, self._secret)
        drawn = exp.select("place").from_("dpsql_drawn")
        self._cursor.register("dpsql_drawn", {"place": places + 1})
        try:
            chosen = exp.select(*self._names).from_(self._units.copy()).where(exp.column("id").isin(query=drawn))
            sample._table = self._create(chosen)
        finally:
            self._cursor.unregister("dpsql_drawn")
        self._samples.append(sample)
        return sample

    def _drop(self) -> None:
        super()._drop()
        if self._units is not None:
            self._drop_table(self._units)
            self._units = None

    def _roll_back(self) -> None:
        super()._roll_back()
        self._units = None

    def _drop_table(self, table: exp.Table) -> None:
        with constant_errors():
            self._cursor.execute(f"DROP TABLE {table.sql(dialect='duckdb')}")

    def _make_tuples(self) -> None:
        units = self._joined()
        self._rows_seen = self._number_of(units)
        query = exp.select(*self._names).from_(units.copy())
        if self._repeat(query.copy()):
            weight = exp.alias_(exp.Count(this=exp.Star()), "weight")
            self._table = self._create(query.select(weight).group_by(*self._names))
            self._weight = sum_of("weight")
        else:
            self._table = self._create(query)
        self._units = units

    def _joined(self) -> exp.Table:
        """A temporary table of the units' rows, with a number `id`."""
        rows: dict[str, exp.Table] = {}
        for table in self._unit_row.tree.tables:
            coded = self._coded(table)
            link = self._unit_row.tree.link_of.get(table)
            if link is not None and link.parent == UNITS:
                rows[UNITS] = self._create(self._units_of(coded))
            rows[table] = self._create(self._placed(coded, link, None if link is None else rows[link.parent]))
            self._drop_table(coded)
        units = self._create(self._flat(rows))
        root = self._unit_row.tree.root
        whole = rows[UNITS] if root == UNITS else self._sources[root].table()
        if self._number_of(units) != self._number_of(whole):
            raise DpsqlError(_NOT_READ.format(self._source.name))
        for made in rows.values():
            self._drop_table(made)
        return units

    def _number_of(self, table: exp.Expr) -> int:
        return int(self._fetch(exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(table.copy()))["n"][0])

    def _coded(self, table: str) -> exp.Table:
        """The codes of a member's rows, its keys, and the digest of what each row holds."""
        source, tree = self._sources[table], self._unit_row.tree
        query = Codes(source, self._unit_row.members[table]).of(source.table())
        keys: list[exp.Expr] = [exp.alias_(content_of(source, self._secret), "content")]
        if (link := tree.link_of.get(table)) is not None:
            keys += self._keys_of(link, table, "key")
            if link.ordered_by:
                keys.append(exp.column(link.ordered_by, quoted=True).as_("at"))
        for place, below in enumerate(tree.children(table)):
            keys += self._keys_of(below, table, f"down{place}_")
        coded = self._create(query.select(*keys))
        if self._number_of(coded) != self._number_of(source.table()):
            raise DpsqlError(_NOT_READ.format(source.name))
        return coded

    def _keys_of(self, link: Link, table: str, name: str) -> list[exp.Expr]:
        """The columns of a link on one of its sides, as what tells values apart."""
        child = self._sources[link.child]
        parent = child if link.parent == UNITS else self._sources[link.parent]
        keys: list[exp.Expr] = []
        for place, (mine, theirs) in enumerate(zip(link.key, link.references, strict=True)):
            types = (child.column(mine).type, parent.column(theirs).type)
            column = exp.column(mine if table == link.child else theirs, quoted=True)
            keys.append(exp.alias_(filled(_template(*types), x=column), f"{name}{place}"))
        return keys

    def _units_of(self, coded: exp.Table) -> exp.Select:
        """The privacy units of a table: its values that are not NULL, each once, in the order of a digest of them."""
        key = exp.column("key0")
        there = exp.Not(this=exp.Is(this=key.copy(), expression=exp.null()))
        text = exp.Min(this=exp.TryCast(this=key.copy(), to=exp.DataType.build("VARCHAR", dialect="duckdb")))
        texts = exp.select(key.as_("down0_0"), text.as_("text")).from_(coded.copy()).where(there).group_by(key.copy())
        digest = exp.func("md5", exp.DPipe(this=self._secret.copy(), expression=exp.column("text")), dialect="duckdb")
        units = exp.select("down0_0", digest.as_("content")).from_(texts.subquery("texts"))
        number = exp.Window(this=exp.RowNumber(), order=_ordered(exp.column("content")))
        return exp.select("*", exp.Literal.number(1).as_("alike"), number.as_("id")).from_(units.subquery("units"))

    def _placed(self, coded: exp.Table, link: Link | None, above: exp.Table | None) -> exp.Select:
        """The rows of a member with a number `id`, the `id` of their parent as `up`, and which child of it they are."""
        numbered = exp.select("*", _number_in("content").as_("alike")).from_(coded.copy())
        if link is None or above is None:
            return exp.select("*", exp.Window(this=exp.RowNumber()).as_("id")).from_(numbered.subquery("own"))
        children = list(self._unit_row.tree.children(link.parent))
        theirs = [f"down{children.index(link)}_{place}" for place in range(len(link.key))]
        parents = exp.select("id", *theirs).from_(above.copy())
        for name in theirs:
            parents = parents.where(exp.Not(this=exp.Is(this=exp.column(name), expression=exp.null())))
        parents.set("qualify", exp.Qualify(this=_first_of_key(theirs)))
        equal = [
            exp.EQ(this=exp.column(f"key{place}", table="own"), expression=exp.column(name, table="parents"))
            for place, name in enumerate(theirs)
        ]
        joined = exp.select("own.*", exp.column("id", table="parents").as_("up")).from_(numbered.subquery("own"))
        joined = joined.join(parents.subquery("parents"), on=exp.and_(*equal))
        shuffled = exp.func("md5", exp.DPipe(this=exp.column("content"), expression=_salt()), dialect="duckdb")
        placed = exp.select("*", exp.Window(this=exp.RowNumber()).as_("id"))
        if link.ordered_by:
            return self._in_order(link, shuffled, joined)
        if not link.roles:
            return placed.select(_in_parent(shuffled).as_("place")).from_(joined.subquery("found"))
        able = exp.select("*", self._able(link).as_("able")).from_(joined.subquery("found"))
        first = exp.EQ(this=_in_parent(shuffled.copy(), "able"), expression=exp.Literal.number(1))
        role = exp.case().when(first, exp.column("able")).else_("0")
        cast = exp.select("*", role.as_("role")).from_(able.subquery("able"))
        return placed.select(_in_parent(shuffled, "role").as_("place")).from_(cast.subquery("cast"))

    def _in_order(self, link: Link, shuffled: exp.Expr, joined: exp.Select) -> exp.Select:
        """The rows of a link in order: two that follow each other have the places 1 and 2; see `before` in `core`.

        The order is that of codes, so that NULL is last, then of values and of the digest. The digest alone chooses the
        earlier row among those that have one after them, or the only one. So all depends on rows of one parent.
        """
        code = exp.column(f"c{self._unit_row.members[link.child].names.index(link.ordered_by)}")
        numbers = exp.select(
            "*", shuffled.as_("drawn"), _in_parent(_ordered(code, exp.column("at"), shuffled.copy())).as_("nth")
        )
        numbered = numbers.select(_PAIR["all"].copy().as_("whole")).from_(joined.subquery("found"))
        chosen = exp.select("*", _PAIR["first"].copy().as_("pick")).from_(numbered.subquery("numbered"))
        placed = exp.select("*", exp.Window(this=exp.RowNumber()).as_("id"))
        for name in ("place", "before"):
            placed = placed.select(_PAIR[name].copy().as_(name))
        return placed.from_(chosen.subquery("chosen"))

    def _able(self, link: Link) -> exp.Expr:
        """The number of the role whose codes a row has, 0 without one; no row has those of two."""
        names, case = self._unit_row.members[link.child].names, exp.case()
        for number, role in enumerate(link.roles, 1):
            allowed = self._roles[link.child, role.name]
            columns = [exp.column(f"c{names.index(name)}") for name in allowed.clique]
            tuples = [
                exp.Tuple(expressions=[exp.Literal.number(code) for code in row]) for row in allowed.codes.tolist()
            ]
            case = case.when(exp.In(this=exp.Tuple(expressions=columns), expressions=tuples), str(number))
        return case.else_("0")

    def _flat(self, rows: Mapping[str, exp.Table]) -> exp.Select:
        """The rows of units: the slots of each beside each other."""
        unit_row = self._unit_row
        root = unit_row.slots[0].table
        query = exp.select(exp.column("id", table="s0").as_("id")).from_(rows[root].copy().as_("s0"))
        for number, slot in enumerate(unit_row.slots):
            if slot.above is not None:
                mine = [_equal("up", f"s{number}", "id", f"s{slot.above}"), _nth(f"s{number}", slot.nth)]
                if (link := unit_row.tree.link_of[slot.table]).roles:
                    mine.append(_has_role(link, slot.role, f"s{number}"))
                query = query.join(rows[slot.table].copy().as_(f"s{number}"), on=exp.and_(*mine), join_type="left")
        codes: list[exp.Expr] = []
        for number, slot in enumerate(unit_row.slots):
            attributes = unit_row.domain.attributes[unit_row.places[number]]
            own = len(unit_row.members[slot.table])
            for place, attribute in enumerate(attributes[:own]):
                codes.append(_code(exp.column(f"c{place}", table=f"s{number}"), f"s{number}", attribute))
            for below, attribute in zip(unit_row.below(slot.table), attributes[own:], strict=True):
                counts, name = _counts(below, rows[below.link.child]), f"n{len(codes)}"
                query = query.join(counts.subquery(name), on=_equal("up", name, "id", f"s{number}"), join_type="left")
                codes.append(_code(_bin(exp.column("n", table=name), below.starts), f"s{number}", attribute))
        return query.select(*(code.as_(name) for code, name in zip(codes, self._names, strict=True)))


_NOT_READ: Final = (
    "DuckDB did not read every row of {0!r} once, so nothing is released of it; what was charged is kept: close the "
    "database, open it again, and the same call goes on"
)


_PAIR: Final[dict[str, exp.Expr]] = {
    name: exp.maybe_parse(text, dialect="duckdb")
    for name, text in {
        "all": "count(*) OVER (PARTITION BY up)",
        "first": "arg_min(nth, drawn) FILTER (WHERE nth < whole OR whole = 1) OVER (PARTITION BY up)",
        "place": "nth - pick + 1",
        "before": "pick - 1",
    }.items()
}
"""Of the rows of one parent: how many there are, which is the earlier of two, and what follows for each."""


def _counts(below: Below, rows: exp.Table) -> exp.Select:
    """How many rows are below each row above that has some; of a link in order, how many before two of them."""
    if below.before:
        return exp.select("up", exp.column("before").as_("n")).from_(rows.copy()).where(_nth("", 0))
    counts = exp.select("up", exp.Count(this=exp.Star()).as_("n")).from_(rows.copy()).group_by("up")
    return counts.where(_has_role(below.link, below.role)) if below.link.roles else counts


def _template(child: str, parent: str) -> str:
    """SQL of what tells the keys of both sides apart: that of their type, or their text where the types differ."""
    mine, theirs = column_type(child), column_type(parent)
    whole = mine.is_number and theirs.is_number and not (mine.is_float or theirs.is_float or mine.scale or theirs.scale)
    return mine.unit_key if child == parent or (whole and mine.unit_key == theirs.unit_key) else TEXT_BYTES


def _first_of_key(names: Sequence[str]) -> exp.Expr:
    """Whether a row is the one that a key leads to, of those that have it."""
    return exp.EQ(this=_number_in(*names, order=("content", "alike")), expression=exp.Literal.number(1))


def _number_in(*columns: str, order: Sequence[str] = ()) -> exp.Window:
    """The number of a row among those that are equal in some columns."""
    by = _ordered(*map(exp.column, order)) if order else None
    return exp.Window(this=exp.RowNumber(), partition_by=[exp.column(name) for name in columns], order=by)


def _in_parent(order: exp.Order | exp.Expr, *among: str) -> exp.Window:
    """The number of a row among those of its parent, that are equal in further columns."""
    by = order if isinstance(order, exp.Order) else _ordered(order)
    return exp.Window(this=exp.RowNumber(), partition_by=[exp.column(name) for name in ("up", *among)], order=by)


def _has_role(link: Link, role: Role | None, table: str = "") -> exp.EQ:
    """Whether a row has a role, or None."""
    number = 0 if role is None else link.roles.index(role) + 1
    return exp.EQ(this=exp.column("role", table=table or None), expression=exp.Literal.number(number))


def _ordered(*by: exp.Expr) -> exp.Order:
    """Rising, whatever the session's `default_order` is."""
    return exp.Order(expressions=[exp.Ordered(this=expression, desc=False) for expression in by])


def _salt() -> exp.Expr:
    """What tells rows of equal contents apart."""
    number = exp.cast(exp.column("alike"), "VARCHAR", dialect="duckdb")
    return exp.paren(exp.DPipe(this=exp.Literal.string("/"), expression=number))


def _equal(column: str, table: str, other: str, of: str) -> exp.EQ:
    return exp.EQ(this=exp.column(column, table=table), expression=exp.column(other, table=of))


def _nth(table: str, nth: int) -> exp.EQ:
    return exp.EQ(this=exp.column("place", table=table or None), expression=exp.Literal.number(nth + 1))


def _bin(number: exp.Expr, starts: Sequence[int]) -> exp.Expr:
    """Which bin a number of children is in; no row of the table below is none."""
    whole = exp.func("coalesce", number, exp.Literal.number(0), dialect="duckdb")
    case = exp.case()
    for code in range(len(starts) - 1, 0, -1):
        case = case.when(exp.GTE(this=whole.copy(), expression=exp.Literal.number(starts[code])), str(code))
    return case.else_("0")


def _code(code: exp.Expr, slot: str, attribute: Attribute) -> exp.Expr:
    """A row's own code as one of the flat domain, in the smallest type that holds it."""
    if attribute.absent_code is not None:
        none = exp.Literal.number(attribute.absent_code)
        missing = exp.Is(this=exp.column("id", table=slot), expression=exp.null())
        later = exp.GTE(this=code.copy(), expression=none.copy())
        after = exp.Add(this=exp.cast(code.copy(), "INTEGER", dialect="duckdb"), expression=exp.Literal.number(1))
        code = exp.case().when(missing, none).when(later, after).else_(code)
    kind = next(kind for size, kind in _SIZES if attribute.size <= size)
    return exp.cast(code, kind, dialect="duckdb")
