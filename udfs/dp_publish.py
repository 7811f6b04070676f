"""`CALL dp_publish(release, 'name')`: show the rows of a release to users of the service, under a name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dpsql.books.accounts import verification
from dpsql.books.ledger import ledger
from dpsql.books.ledger.store import Books
from dpsql.books.people import published_tables
from dpsql.books.people.published_tables import Shown
from dpsql.books.releases.schema import write_schema
from dpsql.engines.duckdb.names import current_schema
from dpsql.errors import InvalidArgument

from .bridge.declare import Call, Parameter, Relation
from .dp_measurements import find_release
from .extension import Instance, SqlFunction
from .relations import Computed

COLUMNS = {"name": "VARCHAR", "release": "BIGINT", "audience": "VARCHAR", "people": "VARCHAR[]", "comment": "VARCHAR"}


class DpPublish(SqlFunction):
    """Show the rows of a release to users of the service, under a name; a name that is shown gets the new release.

    Of a linked release, `name` is a schema, which gets all its tables with PRIMARY and FOREIGN KEYs: nobody is shown
    them yet.

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
            help="under which users read it; of a linked release a schema that gets its tables",
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
        catalog, entry = find_release(self._instance, release)
        if entry.linked is not None:
            if audience != "analysts" or comment:
                raise InvalidArgument(
                    f"audience and comment are of one published table, and {entry.called} is linked: its tables are "
                    "copied to a schema, which whoever opens the database reads; leave both out"
                )
            with self._instance.cursor() as cursor:
                tables = write_schema(Books(cursor, catalog), entry, name)
            return [(f"{name}.{table}", entry.number, "", [], f"{rows} rows") for table, rows in tables]
        found = publish_release(self._instance, release, name, audience, comment)
        return [(found.name, found.release, found.audience, list(found.people), found.comment)]


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
    if entry.linked is not None:
        raise InvalidArgument(
            f"{entry.called} is of several tables: copy them into a schema, CALL dp_publish({entry.number}, 'made') or "
            "to_schema('made')"
        )
    with instance.cursor() as cursor:
        if catalog != current_schema(cursor, instance.home)[0]:
            raise InvalidArgument(f"release {entry.number} is of database {catalog!r}: users see those of this one")
        books = Books(cursor, catalog)
        verification.check(books)

        def work() -> Shown:
            ledger.look(books)
            return published_tables.show(books, entry, name, audience, comment)

        return ledger.commit(books, work)
