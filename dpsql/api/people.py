"""What a database's owner does from Python about users of the service: who may ask, how much, and what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from dpsql.api.analyst import Analyst
from dpsql.api.owner import Owner
from dpsql.books.accounts import verification
from dpsql.books.ledger import ledger
from dpsql.books.ledger.origin import identity
from dpsql.books.ledger.store import Books
from dpsql.books.people import limits, people, published_tables
from dpsql.books.people.credentials import ITERATIONS, Credential, credential_of_nobody
from dpsql.books.people.limits import Limit, set_limit
from dpsql.books.people.published_tables import Shown
from dpsql.engines.duckdb.names import current_schema
from dpsql.engines.registry import find_source
from dpsql.errors import BooksError, InvalidArgument, UnknownName
from dpsql.owner.protect import account_of
from dpsql.udfs.dp_publish import publish_release

if TYPE_CHECKING:
    import pandas as pd

Result = TypeVar("Result")


class People(Owner):
    """The methods of owners that are about users; they are refused on a connection opened with `owner=False`."""

    @property
    def users(self) -> Users:
        """Who may ask, and for how much.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     token = db.users.add("alice", limits={"t": 0.5}, per="day")
        ...     db.users.check("alice", token), db.users.check("alice", "a guess")
        (True, False)
        """
        return Users(self)

    def for_analyst(self, name: str) -> Analyst:
        """What one user of the service may do; every call looks anew whether they still may.

        Raises:
            NotAllowed: there is no such user, or they were revoked.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     _ = db.users.add("alice", limits={"t": 0.5})
        ...     asked = {"sql": "SELECT count(*) AS n FROM t", "epsilon": 0.1}
        ...     db.for_analyst("alice").bind("dp_query", asked).columns[0]
        ('n', 'BIGINT')
        """
        analyst = Analyst(self.instance, name)
        analyst.check()
        return analyst

    def credential(self, name: str) -> Credential | None:
        """What tells the token of an active user; None if there is none of that name.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     token = db.users.add("alice")
        ...     db.credential("alice").accepts(token), db.credential("bob")
        (True, None)
        """
        person = self.users.find(name)
        return None if person is None else person.credential

    def credential_of_nobody(self, name: str) -> Credential:
        """What a token is tested with where there is no such user, so that nobody can tell; no token fits.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     db.credential_of_nobody("bob").salt == db.credential_of_nobody("bob").salt
        True
        """
        with self.users.books() as books:
            return credential_of_nobody(name, identity(books) or "")

    def user_role(self, name: str) -> str | None:
        """The role of an active user, `reader` or `analyst`; None if there is none of that name.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     _ = db.users.add("rita", role="reader")
        ...     db.user_role("rita"), db.user_role("bob")
        ('reader', None)
        """
        person = self.users.find(name)
        return None if person is None else person.role

    def share_releases(self, shared: bool) -> None:  # noqa: FBT001 - a switch
        """Whether users get again, free, what any of them asked, which tells that it was asked; off by default.

        While it is on, new releases of users belong to all of them. Those that were made before stay their makers'.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     db.share_releases(True)
        ...     db.ledger().kind.tolist()
        ['protect', 'decide']
        """
        self.users.change("share_releases", lambda books: people.share_releases(books, shared=bool(shared)))

    def publish(
        self, release: str | int, name: str, audience: str | Sequence[str] = "analysts", comment: str = ""
    ) -> Shown:
        """Show the rows of a release to users, under a name. See `dp_publish`.

        Args:
            release: its number, name or key.
            name: under which users read it; of a linked release the schema of its tables.
            audience: `analysts`, `everyone` (readers too), or a list of users' names.
            comment: what users are told of it.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     _ = db.synthesize("t", epsilon=1.0, rows=5, release="first")
        ...     _ = db.users.add("rita", role="reader")
        ...     _ = db.publish("first", "t_synth", audience="everyone")
        ...     db.for_analyst("rita").read("t_synth").read_all().num_rows
        5
        """
        return publish_release(self.instance, release, name, audience, comment)

    def unpublish(self, name: str) -> None:
        """Show a table, or all tables of a schema, no longer; who read it keeps what they read.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     _ = db.synthesize("t", epsilon=1.0, rows=5, release="first")
        ...     _ = db.users.add("alice")
        ...     _ = db.publish("first", "t_synth")
        ...     db.unpublish("t_synth")
        ...     db.for_analyst("alice").published()
        []
        """
        self.users.change("unpublish", lambda books: published_tables.hide(books, name))


class Users:
    """The users of a database: `db.users`."""

    def __init__(self, database: Owner) -> None:
        self._database = database

    def __repr__(self) -> str:
        return "Users"

    @contextmanager
    def books(self) -> Iterator[Books]:
        """The books that the users are in."""
        instance = self._database.instance
        with instance.lookup() as cursor:
            yield Books(cursor, current_schema(cursor, instance.home)[0])

    def change(self, name: str, work: Callable[[Books], Result]) -> Result:
        """Do something that is the owner's, in a transaction that records it.

        Raises:
            NotOwner: the owner's functions are switched off.
            BooksError: there are no books, they do not fit together, or the database is read-only.
        """
        self._database.instance.check_owner(name)
        with self.books() as books:
            books.check_writable()
            if not ledger.events(books):
                raise BooksError(f"database {books.catalog!r} has no books yet: protect a table first, with dp_protect")
            verification.check(books)

            def looked() -> Result:
                ledger.look(books)
                return work(books)

            return ledger.commit(books, looked)

    def add(
        self,
        name: str,
        role: str = "analyst",
        limits: Mapping[str, float] | None = None,
        per: str = "forever",
        delta: float | None = None,
    ) -> str:
        """A new user, or one who was revoked; what they caused before still counts.

        Args:
            name: a letter, then letters, digits or any of `_ . @ -`.
            role: `reader` reads what is published; `analyst` also asks, within limits.
            limits: of each table that they may ask about, the ε of all that they cause.
            per: the period of the limits: `forever`, `month` or `day`, in UTC.
            delta: of the limits; by default each table's.

        Returns:
            Their token. It is shown this once, because only what recognises it is kept.
        """
        limited = [(self._source(table), epsilon) for table, epsilon in (limits or {}).items()]

        def work(books: Books) -> str:
            token = people.add_person(books, name, role)
            for source, epsilon in limited:
                set_limit(books, Limit(name, source, per, epsilon, delta))
            return token

        return self.change("users.add", work)

    def limit(
        self, name: str, table: str, epsilon: float | None, *, per: str | None = None, delta: float | None = None
    ) -> None:
        """What a user may cause of a table's loss in a period, by default forever; None takes the limit back.

        None without a period takes back all limits of that user and table.

        A user may have one limit for each table and period, and all of them hold. Without any they may not ask about
        the table.
        """
        source = self._source(table)

        def work(books: Books) -> None:
            people.active(books, name)
            if epsilon is None:
                if not limits.remove_limits(books, name, source, per and _period(per)):
                    raise UnknownName(
                        f"{name!r} has no such limit on {source}: db.users.list() shows those that there are"
                    )
            else:
                set_limit(books, Limit(name, source, per or "forever", epsilon, delta))

        self.change("users.limit", work)

    def rotate(self, name: str) -> str:
        """A new token for a user, which is returned and not kept; the old one ends at once."""
        return self.change("users.rotate", lambda books: people.rotate_token(books, name))

    def revoke(self, name: str) -> None:
        """A user may do nothing any more, at once; what they caused stays theirs.

        Their limits end, and their name in audiences, because another person may get the name later.
        """

        def work(books: Books) -> None:
            people.revoke_person(books, name)
            limits.remove_limits(books, name)
            published_tables.forget(books, name)

        self.change("users.revoke", work)

    def find(self, name: str) -> people.Person | None:
        """The active user of that name, None if there is none."""
        with self.books() as books:
            person = people.find_person(books, name)
        return person if person is not None and person.is_active else None

    def check(self, name: str, token: str) -> bool:
        """Whether it is the token of an active user; takes as long where there is no such user."""
        person = self.find(name)
        right = (_NOBODY if person is None else person.credential).accepts(token)
        return right and person is not None

    def list(self) -> pd.DataFrame:
        """One row for each user and limit, with what they caused and may still ask for."""
        import pandas as pd

        rows = []
        with self.books() as books:
            all_limits = limits.list_limits(books)
            for person in people.list_people(books):
                own: Sequence[Limit | None] = [limit for limit in all_limits if limit.person == person.name] or [None]
                listed = (row for limit in own for row in limits.rows_of(books, limit))
                rows += [(person.name, person.role, person.state, *row) for row in listed]
        return pd.DataFrame(rows, columns=["name", "role", "state", *limits.ROW])

    def _source(self, table: str) -> str:
        """The key of a protected table of this database."""
        with self.books() as books:
            source = find_source(books.cursor, table, self._database.instance.home)
            if source.catalog != books.catalog:
                raise InvalidArgument(f"table {table!r} is in another database: users ask about those of this one")
            return account_of(books, source).source


_NOBODY = Credential(bytes(16), ITERATIONS, bytes(32), bytes(32))


def _period(per: str) -> str:
    if per not in limits.PERIODS:
        raise InvalidArgument(f"per is {per!r}: give 'forever', 'month' or 'day'")
    return per
