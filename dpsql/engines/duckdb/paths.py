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

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.column_types import column_type
from dpsql.engines.duckdb.codes import Codes
from dpsql.engines.duckdb.types import filled
from dpsql.engines.duckdb.units import Bound, content_of, unused
from dpsql.engines.source import Source
from dpsql.engines.source_path import Above, PerUnit, reached

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

    def known(self, source: Source, columns: tuple[str, ...], unit: str, content: str) -> exp.Select:
        """See `Bound.known`."""
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
class NumbersOfRows(Bound):
    """All rows of a table whose rows are units, each with numbers of rows below it; nothing need be bounded.

        SELECT …, least(coalesce(n, 0), most) FROM units LEFT JOIN (SELECT unit, count(*) AS n FROM known GROUP BY unit)

    Attributes:
        numbers: which numbers.
    """

    numbers: tuple[PerUnit, ...] = ()

    def key(self) -> exp.Expr:
        """See `Bound.key`: each row is a unit."""
        return exp.column("rowid")

    def apply(self, source: Source, columns: tuple[str, ...]) -> exp.Select:
        """See `Bound.apply`."""
        places = {number.name: place for place, number in enumerate(self.numbers)}
        listed: list[exp.Expr] = []
        for name in columns:
            value: exp.Expr = exp.column(exp.to_identifier(name, quoted=True), table="units")
            if name in places:
                rows = exp.column("n", table=f"numbers{places[name]}")
                known = exp.func("coalesce", rows, exp.Literal.number(0), dialect="duckdb")
                most = exp.Literal.number(self.numbers[places[name]].most)
                value = exp.cast(exp.func("least", known, most, dialect="duckdb"), "BIGINT", dialect="duckdb")
            listed.append(exp.alias_(value, name, quoted=True))
        query = exp.select(*listed).from_(exp.alias_(source.table(), "units", table=True))
        for place, number in enumerate(self.numbers):
            same = exp.EQ(
                this=exp.column("rowid", table="units"), expression=exp.column("unit", table=f"numbers{place}")
            )
            below = self._rows_below(number).subquery(f"numbers{place}")
            query = query.join(below, on=same, join_type="left")
        return query

    def _rows_below(self, number: PerUnit) -> exp.Select:
        """How many rows each unit has that has some."""
        bound = path_bound(number.table, 1, self.secret, number.path)
        counted = exp.select("unit", exp.alias_(exp.Count(this=exp.Star()), "n")).group_by("unit")
        if number.domain is None:
            return counted.from_(bound.known(number.table, (), "unit", "content").subquery("rows_below"))
        codes, names = Codes(number.table, number.domain), number.domain.names
        rows = bound.known(number.table, names, "unit", "content").subquery("rows_below")
        encoded = codes.of(rows).select("unit").subquery("encoded_below")
        cells = [exp.Literal.number(cell) for cell in number.cells]
        return counted.from_(encoded).where(exp.In(this=codes.cell(names), expressions=cells))
