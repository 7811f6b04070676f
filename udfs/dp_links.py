"""`dp_links()`: the trees of linked tables."""

from __future__ import annotations

from dpsql.books.ledger.store import Books, catalogs_with_books
from dpsql.books.tables.links import tree_of
from dpsql.engines.registry import find_source
from dpsql.engines.source import Source
from dpsql.owner.links import list_links

from .bridge.declare import Call, Parameter, Relation
from .dp_link import COLUMNS, row_of
from .extension import SqlFunction
from .relations import Computed, prefix


class DpLinks(SqlFunction):
    """The tables of each tree, a parent before its children: keys, bounds, and columns without a domain."""

    name = "dp_links"
    parameters = (
        Parameter("table", "VARCHAR", default=None, help="of the tree that this table is in; by default of all"),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        self._instance.check_owner(self.name)
        source: Source | None = None
        if call["table"] is not None:
            with self._instance.lookup() as cursor:
                source = find_source(cursor, call["table"], call.search_path)

        def rows() -> list[tuple[object, ...]]:
            with self._instance.cursor() as cursor:
                linked: list[tuple[object, ...]] = []
                for catalog in catalogs_with_books(cursor) if source is None else [source.catalog]:
                    books = Books(cursor, catalog)
                    tree = None if source is None else tree_of(books, source.key)
                    for entry in list_links(books):
                        if source is None or (tree is not None and entry.source in tree.tables):
                            row = row_of(entry)
                            linked.append((prefix(cursor, catalog) + entry.source, *row[1:]))
                return linked

        return Computed(COLUMNS, self._instance.for_owner(self.name, rows))
