"""What a name in FROM means: a protected table, or the query of a view, in whatever database and schema it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.books.ledger.store import Books
from dpsql.books.people.visible_names import find_table
from dpsql.books.tables.computed import with_computed
from dpsql.books.tables.links import columns_of_unit, path_of, per_unit, tree_of
from dpsql.books.tables.public import is_protected
from dpsql.core.names import quote
from dpsql.core.of_unit import OfUnit
from dpsql.engines.duckdb.names import current_schema
from dpsql.engines.registry import find_parts
from dpsql.engines.source import Above, FoundView, Source
from dpsql.engines.source_path import reached, with_per_unit, with_reached
from dpsql.errors import DpsqlError, InvalidQuery
from dpsql.language.linked import reads_linked
from dpsql.language.place import DEEPEST, Place
from dpsql.language.scope import Catalog, Scope, Step, Units
from dpsql.language.written import parsed
from dpsql.runtime.process_settings import deep_recursion


@dataclass(frozen=True)
class Tables:
    """The tables and views that a caller sees.

    Attributes:
        cursor: a connection of its own.
        search_path: where bare names are looked up.
        known_source: a table that was found already, by the same call.
        by: the user who asks, who sees no view, and of tables those that they have a limit on; empty for the owner.
        is_stored: whether computed columns mean what is stored, as inside their expressions, which read other columns.
        depth: inside how many views it stands.
    """

    cursor: duckdb.DuckDBPyConnection
    search_path: str = ""
    known_source: Source | None = None
    by: str = ""
    is_stored: bool = False
    depth: int = 0

    def find(self, table: exp.Table) -> Scope | tuple[exp.Query, Catalog]:
        """See `dpsql.language.scope.Catalog.find`. A view's names are looked up where the view is."""
        try:
            source = self._source(table)
        except FoundView as view:
            catalog, schema, _ = view.parts
            inside = Tables(self.cursor, f"{quote(catalog)}.{quote(schema)}")
            return _query_of(view.parts[2], view.definition), inside
        computed = None if self.is_stored else with_computed(self.cursor, source)
        if computed is not None:
            return computed, replace(self, known_source=source, is_stored=True)
        columns = {c.name: exp.column(exp.to_identifier(c.name, quoted=True)) for c in source.columns}
        return Scope(with_reached(source, self._above(source)), columns)

    def _above(self, source: Source) -> tuple[Above, ...]:
        """The tables whose rows the rows of a table lead to."""
        return path_of(Books(self.cursor, source.catalog), source.key)

    def is_linked(self, table: exp.Table) -> bool:
        """See `dpsql.language.scope.Catalog.is_linked`."""
        try:
            source = self._source(table)
        except FoundView as view:
            return self._opens_linked(view)
        except DpsqlError:
            return False
        return tree_of(Books(self.cursor, source.catalog), source.key) is not None

    def _opens_linked(self, view: FoundView) -> bool:
        """Whether a view reads a table of a tree, itself or by others."""
        if self.depth > DEEPEST:
            return True  # which is refused where it is opened
        catalog, schema, name = view.parts
        inside = Tables(self.cursor, f"{quote(catalog)}.{quote(schema)}", depth=self.depth + 1)
        try:
            return reads_linked(_query_of(name, view.definition), Place(inside))
        except InvalidQuery:
            return True

    def units(self, origin: Source, questions: Sequence[OfUnit] = (OfUnit(),)) -> Units | None:
        """See `dpsql.language.scope.Catalog.units`."""
        books = Books(self.cursor, origin.catalog)
        path = path_of(books, origin.key)
        if not path or origin.per_unit:
            return None
        units = per_unit(books, origin, questions)
        names = {derived.question: derived.name for derived in units.per_unit}
        most = max(derived.most for derived in units.per_unit)
        return Units(units, columns_of_unit(path), frozenset(path[-1].references), names, most)

    def beside(self, origin: Source, units: Source) -> Source | None:
        """See `dpsql.language.scope.Catalog.beside`."""
        if (units.catalog, units.key) != (origin.catalog, origin.key):
            return None
        more = [derived for derived in units.per_unit if derived not in origin.per_unit]
        return with_per_unit(origin, [*origin.per_unit, *more])

    def path(self, origin: Source) -> Sequence[Step]:
        """See `dpsql.language.scope.Catalog.path`."""
        steps: list[Step] = []
        below: Mapping[str, str] | None = None
        for above in self._above(origin):
            columns = {column.name: reached(above.source, column.name) for column in above.source.columns}
            keys = [name if below is None else below[name] for name in above.key]
            pairs = zip(keys, (columns[name] for name in above.references), strict=True)
            steps.append(Step(above.source.key, columns, tuple(pairs)))
            below = columns
        return steps

    def _source(self, table: exp.Table) -> Source:
        names = [part.name for part in table.parts]
        if self.by:
            return find_table(self.cursor, names, self.search_path, self.by)
        return find_parts(self.cursor, names, current_schema(self.cursor, self.search_path), self.known_source)

    def public(self, table: exp.Table) -> tuple[Source, Sequence[tuple[str, str]]]:
        """See `dpsql.language.scope.Catalog.public`."""
        if self.by:
            raise InvalidQuery(f"query: {table.name!r} cannot be joined: users ask about one protected table at a time")
        try:
            source = self._source(table)
        except FoundView as view:
            name = view.parts[2]
            raise InvalidQuery(
                f"query: {name!r} is a view, and public tables are joined by their own names: name the table that it "
                f"reads, or make a table of it, CREATE TABLE … AS FROM {name}, and join that"
            ) from None
        if is_protected(self.cursor, source):
            raise InvalidQuery(
                f"query: {source.name!r} is protected, so it stands first in FROM and public tables are joined to it; "
                "a join of two protected tables is not supported: ask about each of them alone. A table with the "
                "columns of both would have a third budget, and the epsilons of tables about the same people add up. "
                "Tables whose keys lead to one another share a budget, and are joined, once their owner linked them "
                "with dp_link"
            )
        return source, [(column.name, column.type) for column in source.columns]

    def is_public(self, table: exp.Table) -> bool:
        """See `dpsql.language.scope.Catalog.is_public`."""
        try:
            return not self.by and not is_protected(self.cursor, self._source(table))
        except DpsqlError:  # a view, or unknown, which is said where it is looked up
            return False

    def aggregates(self) -> frozenset[str]:
        """See `dpsql.language.scope.Catalog.aggregates`."""
        sql = (
            "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type = 'aggregate' OR "
            r"(internal AND function_type = 'macro' AND regexp_matches(macro_definition, '\b(avg|sum|weighted_avg)\('))"
        )
        return frozenset(name for (name,) in self.cursor.execute(sql).fetchall())


def _query_of(name: str, definition: str) -> exp.Query:
    """The SELECT of a view, its columns renamed as the view says."""
    try:
        with deep_recursion():
            (tree,) = parsed(definition)
    except (SqlglotError, RecursionError, ValueError):
        tree = None
    if not isinstance(tree, exp.Create) or not isinstance(tree.expression, exp.Query):
        raise InvalidQuery(f"query: the view {name!r} cannot be followed to its table: ask about the table itself")
    query = tree.expression
    if isinstance(tree.this, exp.Schema):
        names = exp.TableAlias(this=exp.to_identifier(name), columns=[c.copy() for c in tree.this.expressions])
        query = exp.select("*").from_(exp.Subquery(this=query, alias=names))
    return query
