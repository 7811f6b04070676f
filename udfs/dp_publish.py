"""`CALL dp_publish(release, 'name')`: show the rows of a release to users of the service, under a name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dpsql.books.accounts import verification
from dpsql.books.ledger import ledger
from dpsql.books.ledger.store import Books
from dpsql.books.people import published_tables
from dpsql.books.people.published_tables import Shown
from dpsql.engines.duckdb.names import current_schema
from dpsql.errors import InvalidArgument

from .bridge.declare import Call, Parameter, Relation
from .dp_measurements import find_release
from .extension import Instance, SqlFunction
from .relations import Computed

COLUMNS = {"name": "VARCHAR", "release": "BIGINT", "audience": "VARCHAR", "people": "VARCHAR[]", "comment": "VARCHAR"}


class DpPublish(SqlFunction):
    """Show the rows of a release to users of the service, under a name; a name that is shown gets the new release.

    Of a linked release, `name` is a schema. Users see all its tables there, with PRIMARY and FOREIGN KEYs. The database
    gets a schema with them, too.

    Costs nothing, because what was released is private already. Who it is for is `audience`, and not `to`, which is a
    reserved word that DuckDB cannot parse before `:=`.
    """

    name = "dp_publish"
    parameters = (
        Parameter("release", "ANY", positional=True, help="number, name or key of a release (dp_releases())"),
        Parameter(
            "name",
            "VARCHAR",
            positional=True,
            help="under which users read it; of a linked release the schema of its tables",
        ),
        Parameter("audience", "ANY", default="analysts", help="analysts, everyone, or a list of users' names"),
        Parameter("comment", "VARCHAR", default="", help="what users are told of it"),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        self._instance.check_owner(self.name)
        audience = call["audience"]
        given = audience if isinstance(audience, str) else [str(name) for name in audience]
        find_release(self._instance, str(call["release"]))  # what is wrong with it is said before anything runs
        work = partial(self._show, str(call["release"]), call["name"], given, call["comment"])
        return Computed(COLUMNS, self._instance.for_owner(self.name, work))

    def _show(self, release: str, name: str, audience: str | Sequence[str], comment: str) -> list[tuple[object, ...]]:
        published = publish_release(self._instance, release, name, audience, comment)
        _, entry = find_release(self._instance, str(published.release))
        about = (published.release, published.audience, list(published.people), published.comment)
        return [(table, *about) for table in published_tables.tables_of(published, entry)]


def publish_release(
    instance: Instance, release: str | int, name: str, audience: str | Sequence[str], comment: str
) -> Shown:
    """Show a release; see `DpPublish`.

    Raises:
        NotOwner: the owner's functions are switched off.
        UnknownName: there is no such release, or no active user of a name in the audience.
        InvalidArgument: see `dpsql.books.people.published_tables.show`.
    """
    instance.check_owner(DpPublish.name)
    catalog, entry = find_release(instance, str(release))
    with instance.cursor() as cursor:
        if catalog != current_schema(cursor, instance.home)[0]:
            raise InvalidArgument(f"release {entry.number} is of database {catalog!r}: users see those of this one")
        books = Books(cursor, catalog)
        verification.check(books)

        def work() -> Shown:
            ledger.look(books)
            return published_tables.show(books, entry, name, audience, comment)

        return ledger.commit(books, work)
