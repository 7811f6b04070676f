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
from dpsql.engines.duckdb.types import filled
from dpsql.engines.duckdb.units import Bound, content_of, unused
from dpsql.engines.source import Source
from dpsql.engines.source_path import Above, reached

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
        """What tells the top rows apart: numbers that they are given for the time of a statement."""
        return _of(len(self.path), _NUMBER)

    def _one_each(self, step: Above) -> exp.Select:
        """The rows of a table above, of those with the same references one."""
        names = [column.name for column in step.source.columns if not column.generated]
        keys = [_key(step.source, name, None) for name in step.references]
        order = exp.Order(expressions=[exp.Ordered(this=content_of(step.source, self.secret))])
        number = exp.Window(this=exp.RowNumber(), partition_by=keys, order=order)
        given = exp.Window(this=exp.RowNumber())
        listed = (exp.column(name, quoted=True) for name in names)
        rows = exp.select(*listed, exp.alias_(given, _NUMBER)).from_(step.source.table())
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
