"""A table of rows as its engine's catalogue spells it, its columns, and how its rows lead to privacy units.

Values only: nothing here reads a catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.core.names import as_text, pick, quote
from dpsql.core.of_unit import OfUnit
from dpsql.core.period import Period, period_key
from dpsql.engines.place import Place
from dpsql.errors import InvalidArgument, UnknownName

HOST: Final = "duckdb"
"""The engine of tables whose rows are in a database of the DuckDB instance itself."""
IS_A_VIEW: Final = "is a view: name the table that it reads, for the budget is the table's"


@dataclass(frozen=True)
class Column:
    """A column of a source.

    Attributes:
        name: as the catalogue spells it.
        type: its DuckDB type, as text.
        nullable: whether it may hold NULL.
        generated: computed by an expression of other columns, which would run on private rows and may fail on some.
        collated: texts of other bytes may be equal.
    """

    name: str
    type: str
    nullable: bool
    generated: bool = False
    collated: bool = False


def key_of(schema: str, name: str) -> str:
    """What the books call a table: its name, after its schema's unless that is main."""
    parts = [name] if schema == "main" else [schema, name]
    return ".".join(quote(part) if set(part) & {".", '"'} else part for part in parts)


@dataclass(frozen=True)
class Source:
    """A table as the catalogue spells it.

    Attributes:
        catalog, schema, name: where it is.
        columns: of it.
        identity: object ids of its database and of itself, the same under whatever name until the database is closed.
        comment: what COMMENT ON TABLE said.
        place: where its rows are, if `dp_source` registered it; then the table itself is an empty stub.
        per_unit: of a table whose rows are units, numbers of rows below each, as further columns.
        period: whose rows alone are read; None where all rows are.
    """

    catalog: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    identity: tuple[int, int] = field(default=(0, 0), compare=False)
    comment: str = field(default="", compare=False)
    place: Place | None = None
    per_unit: tuple[PerUnit, ...] = ()
    period: Period | None = None

    def ways(self, own: str) -> dict[str, str]:
        """How rows lead to units, of the table itself and of each whose rows its units are asked about."""
        return {self.key: own, **{derived.table.key: derived.way for derived in self.per_unit}}

    @property
    def engine(self) -> str:
        """Which engine has its rows, see `dpsql.engines.registry`."""
        return HOST if self.place is None or self.place.sample else self.place.engine

    @property
    def table_key(self) -> str:
        """What the books of its database call the table: its name, after its schema's unless that is main."""
        return key_of(self.schema, self.name)

    @property
    def argument(self) -> str:
        """The table as SQL functions take it, in a call that an error advises: `'s.t'`."""
        return as_text(self.table_key)

    @property
    def identifier(self) -> str:
        """The table in a statement that an error advises: `"s"."t"`."""
        return ".".join(map(quote, [self.name] if self.schema == "main" else [self.schema, self.name]))

    @property
    def key(self) -> str:
        """What the books call what is charged: the table, or one of its periods."""
        return self.table_key if self.period is None else period_key(self.table_key, self.period.label)

    @property
    def parts(self) -> tuple[str, str, str]:
        """Database, schema and table."""
        return (self.catalog, self.schema, self.name)

    def table(self) -> exp.Table | exp.Subquery:
        """The rows as an expression, fully qualified: all of the table, or those of its period.

        Nothing else turns a source to SQL that reads its rows, so no row of another period is counted.
        """
        table = exp.table_(self.name, db=self.schema, catalog=self.catalog, quoted=True)
        return table if self.period is None else _rows_of(table, self.period)

    def column(self, name: str) -> Column:
        """The column of that name, whatever its case.

        Raises:
            UnknownName: there is none.
        """
        spelling = pick(name, (column.name for column in self.columns))
        for column in self.columns:
            if column.name == spelling:
                return column
        names = ", ".join(column.name for column in self.columns)
        raise UnknownName(f"table {self.name!r} has no column {name!r}; it has {names}")


@dataclass(frozen=True)
class Above:
    """A table whose rows the rows of the table below it lead to.

    Attributes:
        source: the table, with its own columns.
        key: columns of the table below.
        references: columns of its own that they name, in the same order.
    """

    source: Source
    key: tuple[str, ...]
    references: tuple[str, ...]


@dataclass(frozen=True)
class PerUnit:
    """What a unit's rows of a linked table are asked for, as a column of the units.

    One unit is one row, and what stands in the column is a matter of that unit's rows alone. So a count of units by it
    changes by 1 at most when a unit comes or goes, however many rows it has.

    Attributes:
        table: the linked table.
        path: the tables above it, the next one first, the units last.
        most: so many rows or more are one number.
        question: of the rows.
        way: how the ledger states that the rows lead to the units.
        domain: of the columns that its conditions read, once it was looked up.
        cells: some columns of that domain, and the cells of them in which conditions hold; all of these must.
    """

    table: Source
    path: tuple[Above, ...]
    most: int
    question: OfUnit
    way: str = ""
    domain: Domain | None = None
    cells: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...] = ()

    @property
    def name(self) -> str:
        """What the column is called beside those of the units."""
        return self.question.called(self.table.key)


def _rows_of(table: exp.Table, period: Period) -> exp.Subquery:
    """The rows of a period; one whose column is NULL is in none."""
    return exp.select("*").from_(table).where(period.predicate, dialect="duckdb").subquery("rows_of_period")


def written_alike(source: Source, column: str) -> str:
    """A statement that writes texts in one way, after which the column has no collation."""
    return f"ALTER TABLE {source.identifier} ALTER {quote(column)} TYPE VARCHAR USING lower({quote(column)})"


class FoundView(InvalidArgument):
    """The name is a view's.

    Attributes:
        parts: its database, schema and name.
        definition: its SQL.
    """

    def __init__(self, parts: tuple[str, str, str], definition: str) -> None:
        super().__init__(f"{parts[2]!r} {IS_A_VIEW}")
        self.parts, self.definition = parts, definition
