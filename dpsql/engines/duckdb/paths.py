r"""Rows of a linked table, each beside the rows above it that its keys lead to, bounded by the unit at the top.

    parent_i  =  SELECT … FROM table_i QUALIFY row_number() OVER (PARTITION BY references ORDER BY content) = 1
    known     =  SELECT … FROM table JOIN parent_1 ON key = references JOIN parent_2 ON …
    bounded   =  as of a table with a unit's column (`dpsql.engines.duckdb.units`), by the references of the top row

Every row has one row above it at most, so one unit: of several with the same references one is chosen, by a digest of
what they hold. No constraint need say that they are unique, and a wrong declaration breaks no promise. Keys are
compared by what tells privacy units apart (`ColumnType.unit_key`), on both sides. A row whose key has a NULL, or leads
nowhere, has no unit and counts nowhere.

Which rows of a unit count goes by what the rows of the table itself hold, so it is one choice for every query, whatever
columns of tables above it reads. All tables are read by one statement, in one state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.column_types import column_type
from dpsql.engines.duckdb.codes import Codes
from dpsql.engines.duckdb.types import filled
from dpsql.engines.duckdb.units import Bound, content_of, unused
from dpsql.engines.source import Above, PerUnit, Source
from dpsql.engines.source_path import reached

_UNIT = "dpsql_unit_above"
_NUMBER = "dpsql_number"


@dataclass(frozen=True)
class PathBound(Bound):
    """Which rows of a linked table count; see `Bound`. Its column is one that it makes of the top row's references.

    Attributes:
        path: the tables above, the next one first.
    """

    path: tuple[Above, ...] = ()

    def key(self) -> exp.Expr:
        """See `Bound.key`."""
        return exp.column(self.column, quoted=True)

    def columns_of(self, source: Source, columns: tuple[str, ...], unit: str, content: str) -> exp.Select:
        """See `Bound.columns_of`."""
        names = {
            reached(step.source, c.name): (n + 1, c.name)
            for n, step in enumerate(self.path)
            for c in step.source.columns
        }
        own = {c.name for c in source.columns} - set(names)
        rows = _beside(source, own, self.secret, content)
        listed: list[exp.Expr] = []
        for name in columns:
            level, inner = names.get(name, (0, name))
            value = self._unit() if name == self.column else _of(level, inner)
            listed.append(exp.alias_(value, name, quoted=True))
        query = exp.select(*listed, exp.alias_(self._unit(), unit), exp.alias_(_of(0, content), content))
        query = query.from_(rows.subquery("t0"))
        below = source
        for level, step in enumerate(self.path, 1):
            met = [
                exp.EQ(this=_key(below, name, level - 1), expression=_key(step.source, other, level))
                for name, other in zip(step.key, step.references, strict=True)
            ]
            query = query.join(self._one_each(step), on=exp.and_(*met), join_alias=f"t{level}")
            below = step.source
        return query

    def _unit(self) -> exp.Expr:
        """What tells the top rows apart in one statement: where they are stored."""
        return _of(len(self.path), _NUMBER)

    def _one_each(self, step: Above) -> exp.Select:
        """The rows of a table above, of those with the same references one."""
        names = [column.name for column in step.source.columns if not column.generated]
        keys = [_key(step.source, name, None) for name in step.references]
        order = exp.Order(expressions=[exp.Ordered(this=content_of(step.source, self.secret))])
        number = exp.Window(this=exp.RowNumber(), partition_by=keys, order=order)
        listed = (exp.column(name, quoted=True) for name in names)
        stored_at = exp.alias_(exp.column("rowid"), _NUMBER)
        rows = exp.select(*listed, stored_at).from_(step.source.table())
        rows.set("qualify", exp.Qualify(this=exp.EQ(this=number, expression=exp.Literal.number(1))))
        return rows


def path_bound(source: Source, rows: int, secret: exp.Expr, path: Sequence[Above]) -> PathBound:
    """A bound by the unit at the end of a path."""
    return PathBound(unused(source, _UNIT), "", rows, secret, tuple(path))


def _beside(source: Source, own: set[str], secret: exp.Expr, content: str) -> exp.Select:
    """The rows of a table with a digest of what each holds."""
    stored = [column for column in source.columns if column.name in own and not column.generated]
    digest = content_of(Source(*source.parts, tuple(stored)), secret)
    return exp.select(*(exp.column(column.name, quoted=True) for column in stored), exp.alias_(digest, content)).from_(
        source.table()
    )


def _of(level: int, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=f"t{level}")


def _key(source: Source, name: str, level: int | None) -> exp.Expr:
    """What tells the values of a key's column apart."""
    column = exp.column(exp.to_identifier(name, quoted=True), table=None if level is None else f"t{level}")
    return filled(column_type(source.column(name).type).unit_key, x=column)


@dataclass(frozen=True)
class OfUnits(Bound):
    """All rows of a table whose rows are units, each with what its rows below are asked for; nothing need be bounded.

        units LEFT JOIN (SELECT unit, count(*) AS asked FROM … GROUP BY unit):  least(coalesce(asked, 0), most)
        units LEFT JOIN (SELECT unit, value AS asked FROM … QUALIFY row_number() OVER (…) = 1):  asked

    Attributes:
        questions: what they are.
    """

    questions: tuple[PerUnit, ...] = ()

    def key(self) -> exp.Expr:
        """See `Bound.key`: each row is a unit."""
        return exp.column("rowid")

    def apply(self, source: Source, columns: tuple[str, ...]) -> exp.Select:
        """See `Bound.apply`."""
        places = {derived.name: place for place, derived in enumerate(self.questions)}
        listed: list[exp.Expr] = []
        for name in columns:
            value: exp.Expr = exp.column(exp.to_identifier(name, quoted=True), table="units")
            if name in places:
                value = exp.column("asked", table=f"below{places[name]}")
                if not self.questions[places[name]].question.value:
                    number = exp.func("coalesce", value, exp.Literal.number(0), dialect="duckdb")
                    most = exp.Literal.number(self.questions[places[name]].most)
                    value = exp.cast(exp.func("least", number, most, dialect="duckdb"), "BIGINT", dialect="duckdb")
            listed.append(exp.alias_(value, name, quoted=True))
        query = exp.select(*listed).from_(exp.alias_(source.table(), "units", table=True))
        for place, derived in enumerate(self.questions):
            if derived.name in columns:
                same = exp.EQ(
                    this=exp.column("rowid", table="units"), expression=exp.column("unit", table=f"below{place}")
                )
                query = query.join(self._below(derived).subquery(f"below{place}"), on=same, join_type="left")
        return query

    def _below(self, derived: PerUnit) -> exp.Select:
        """Each unit that has rows, with what is asked of them."""
        unit = exp.column("dpsql_unit")
        if not derived.question.value:
            counted = exp.select(exp.alias_(unit, "unit"), exp.alias_(exp.Count(this=exp.Star()), "asked"))
            return counted.from_(self._rows(derived, {}).subquery("rows_below")).group_by(unit.copy())
        ordered = [exp.Ordered(this=exp.column("dpsql_content"))]
        read = {"dpsql_value": derived.question.value}
        if derived.question.by:
            read["dpsql_by"] = derived.question.by
            by, first = exp.column("dpsql_by"), derived.question.nulls_first
            ordered.insert(0, exp.Ordered(this=by, desc=derived.question.descending, nulls_first=first))
        skipped = {f"dpsql_skip_{n}": name for n, name in enumerate(derived.question.skips)}
        there = [exp.Not(this=exp.Is(this=exp.column(name), expression=exp.null())) for name in skipped]
        placed = exp.Window(this=exp.RowNumber(), partition_by=[unit.copy()], order=exp.Order(expressions=ordered))
        rows = self._rows(derived, read | skipped).subquery("rows_below")
        chosen = exp.select(exp.alias_(unit, "unit"), exp.alias_(exp.column("dpsql_value"), "asked")).from_(rows)
        chosen = chosen.where(*there)
        chosen.set("qualify", exp.Qualify(this=exp.EQ(this=placed, expression=exp.Literal.number(1))))
        return chosen

    def _rows(self, derived: PerUnit, read: Mapping[str, str]) -> exp.Select:
        """The rows below the units that satisfy the conditions: unit, digest, and columns by new names."""
        bound = path_bound(derived.table, 1, self.secret, derived.path)
        names = () if derived.domain is None else derived.domain.names
        columns = tuple(dict.fromkeys((*names, *read.values())))
        rows: exp.Expr = bound.columns_of(derived.table, columns, "dpsql_unit", "dpsql_content").subquery("known_below")
        listed = [exp.alias_(exp.column(name, quoted=True), called) for called, name in read.items()]
        if derived.domain is None:
            return exp.select("dpsql_unit", "dpsql_content", *listed).from_(rows)
        codes = Codes(derived.table, derived.domain)
        rows = codes.of(rows).select("dpsql_unit", "dpsql_content", *listed).subquery("encoded_below")
        query = exp.select("dpsql_unit", "dpsql_content", *read).from_(rows)
        for clique, cells in derived.cells:
            allowed = [exp.Literal.number(cell) for cell in cells]
            query = query.where(exp.In(this=codes.cell(clique), expressions=allowed))
        return query
