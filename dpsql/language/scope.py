"""What FROM shows: the rows of one protected table, the public tables beside it, and what names of tables mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from sqlglot import exp

from dpsql.core.names import fold
from dpsql.core.of_unit import OfUnit

OF_ORIGIN: Final = "dpsql_of_origin"  # of a column in a query: it is the origin's, whatever FROM shows
MATCHES: Final = "dpsql_matches"  # of a filter: it says which rows of two tables meet, not which groups there are


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
        lacks: whether `*` made fewer columns than in DuckDB, because two tables have one of the same name.
        preserved: a public table of which all rows are groups, also those without a row of the protected table.
        keeps: whether rows of a linked table above are there without rows below, by LEFT JOIN.
        places: database and schema of each table that FROM calls by its own name, by that name in lower case.
    """

    origin: Any
    columns: Mapping[str, exp.Expr]
    filters: tuple[exp.Expr, ...] = ()
    tables: Mapping[str, Mapping[str, exp.Expr]] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()
    dimensions: tuple[Dimension, ...] = ()
    lacks: bool = False
    preserved: Preserved | None = None
    keeps: bool = False
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def in_order(self, tables: Sequence[str]) -> Scope:
        """The same, its columns in the order of the tables; of two with one name the first's."""
        columns = {fold(name): (name, tree) for name, tree in self.columns.items()}
        pairs: dict[str, tuple[str, exp.Expr]] = {}
        for table in tables:
            for name, tree in self.tables[table].items():
                own = (name, tree) if fold(name) in self.ambiguous else columns[fold(name)]
                pairs.setdefault(fold(name), own)
        return replace(self, columns=dict(pairs.values()))

    def beside(self, dimension: Dimension) -> Scope:
        """The same, with a public table that conditions ask."""
        return replace(self, dimensions=(*self.dimensions, dimension))

    def named(self, name: str, place: tuple[str, ...] = ()) -> Scope:
        """The same, its columns qualified by a name, and by a database and a schema before it."""
        return replace(self, tables={name: self.columns}, ambiguous=frozenset(), places={fold(name): place})

    def is_at(self, column: exp.Column) -> bool:
        """Whether the database and the schema that a column is qualified by are those of its table."""
        written = [fold(part.name) for part in (column.args.get("catalog"), column.args.get("db")) if part is not None]
        place = [fold(part) for part in self.places.get(fold(column.table), ())]
        return not written or place[-len(written) :] == written

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
        keys: numbers of the columns that it is joined on; none of a table that is only asked for values.
    """

    name: str
    origin: Any
    columns: tuple[tuple[str, str], ...]
    keys: tuple[int, ...]


@dataclass(frozen=True)
class Preserved:
    """A public table that is LEFT JOINed to the protected one, so that each of its rows is in a group.

    Attributes:
        dimension: the table.
        public: what FROM calls it.
        protected: what FROM calls the protected table.
        key: what the rows that meet have in common, as the query says it of the protected table.
    """

    dimension: Dimension
    public: str
    protected: str
    key: str


@dataclass(frozen=True)
class Step:
    """How rows of a linked table lead to rows of the table above it.

    Attributes:
        table: the one above, as the books call it.
        columns: what its columns are called beside those of the table where the path begins.
        pairs: the columns that are equal, below and above, as they are called there.
    """

    table: str
    columns: Mapping[str, str]
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Units:
    """The units that rows of a linked table belong to, each with what those rows are asked for.

    Attributes:
        origin: the table whose rows are the units, with a column for each question.
        columns: columns beside those of the linked table that have the values of a column of the units, and which.
        keys: the columns of the units that tell them apart.
        names: the columns of the questions.
        most: so many rows or more are one number.
    """

    origin: Any
    columns: Mapping[str, str]
    keys: frozenset[str]
    names: Mapping[OfUnit, str]
    most: int

    def number(self, question: OfUnit) -> exp.Column:
        """The column of a question."""
        return exp.column(exp.to_identifier(self.names[question], quoted=True))


class Unlinked:
    """A catalogue that knows no linked tables."""

    def is_linked(self, table: exp.Table) -> bool:
        """See `Catalog.is_linked`."""
        return False

    def path(self, origin: Any) -> Sequence[Step]:
        """See `Catalog.path`."""
        return ()

    def units(self, origin: Any, questions: Sequence[OfUnit] = (OfUnit(),)) -> Units | None:
        """See `Catalog.units`."""
        return None

    def beside(self, origin: Any, units: Any) -> Any | None:
        """See `Catalog.beside`."""
        return None


class Catalog(Protocol):
    """What names in FROM mean."""

    def is_linked(self, table: exp.Table) -> bool:
        """Whether it is a table of a tree, or a view of one."""

    def units(self, origin: Any, questions: Sequence[OfUnit] = (OfUnit(),)) -> Units | None:
        """The units of a linked table, with what its rows are asked for; None of another table."""

    def beside(self, origin: Any, units: Any) -> Any | None:
        """A table with the columns of questions to its rows below; None where its rows are not those units."""

    def path(self, origin: Any) -> Sequence[Step]:
        """The steps from a table up to the one whose rows are the units; none where no keys lead to it."""

    def public(self, table: exp.Table) -> tuple[Any, Sequence[tuple[str, str]]]:
        """A table that is not protected: what it is, and names and types of its columns.

        Raises:
            DpsqlError: unknown, or protected.
        """

    def is_public(self, table: exp.Table) -> bool:
        """Whether it is a table that is not protected and may be joined."""

    def aggregates(self) -> frozenset[str]:
        """The names of the aggregates that DuckDB has, in lower case."""

    def find(self, table: exp.Table) -> Scope | tuple[exp.Query, Catalog]:
        """A protected table, or the query of a view and what names mean there.

        Raises:
            DpsqlError: unknown, or not protected.
        """
