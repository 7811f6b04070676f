"""What the owner of a database says of its linked tables: whose rows they are, and by which keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dpsql.books.ledger.accounts import find_account, list_accounts
from dpsql.books.ledger.members import Member, find_member, list_members
from dpsql.books.ledger.store import Books
from dpsql.books.tables import links, write_table_ids
from dpsql.books.tables.facts import declared
from dpsql.books.tables.public import check_unclaimed
from dpsql.books.tables.table_keys import primary_key
from dpsql.core.tree import MOST_CHILDREN, Link, Role
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.declare import automatic
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument, NotProtected, UnknownName
from dpsql.evaluation.roles import columns_of_role
from dpsql.owner.protect import MOST_UNIT_ROWS, account_of

_FOREIGN_KEYS: Final = """
    SELECT constraint_column_names, referenced_table, referenced_column_names FROM duckdb_constraints()
    WHERE constraint_type = 'FOREIGN KEY' AND database_name = $catalog AND schema_name = $schema AND table_name = $name
"""


@dataclass(frozen=True)
class Linked:
    """A table of a tree.

    Attributes:
        source: the table.
        parent: the table that its rows lead to; None of the root.
        key, references: the columns that do, and those that they name.
        most: from how many rows of one parent row on, roles left out, numbers share the last bin.
        max_rows: how many of its rows count of one unit; None where the owner did not say.
        undeclared: its columns without a domain, keys left out.
        note: what the promise does not say; or that the table is not there, and what mends it.
        roles: that its rows have, in words.
        ordered_by: the column by which rows of one parent row follow each other; None without.
    """

    source: str
    parent: str | None
    key: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    most: int | None = None
    max_rows: int | None = None
    undeclared: tuple[str, ...] = ()
    note: str = ""
    roles: tuple[str, ...] = ()
    ordered_by: str | None = None


def link(
    cursor: Cursor,
    child: Source,
    parent: Source,
    key: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    most: int | None = None,
    max_rows: int | None = None,
    roles: Sequence[Role] | None = None,
    ordered_by: str | None = None,
) -> Linked:
    """Let the rows of a table belong to rows of another one, and so to the units of its account.

    Args:
        cursor: a connection of its own.
        child: the table, which has no budget of its own.
        parent: a table whose rows are units, or that is linked itself.
        key: columns of the child; by default those of its FOREIGN KEY to the parent.
        references: columns of the parent; by default those of the FOREIGN KEY, or of the names of `key`.
        most: from so many children of one row on, roles left out, numbers share the last bin.
        max_rows: how many rows of one unit count where rows are counted, over all its rows of the table above.
        roles: of which each row of the parent has one row, or one at most.
        ordered_by: the column of the child by which rows of one parent row follow each other.

    Raises:
        InvalidArgument: says what the tables, or the keys, are not.
        NotProtected: the parent has no account.
        BooksError: read-only database, or its ledger does not fit together.
    """
    if child.catalog != parent.catalog:
        raise InvalidArgument(
            f"{child.name!r} is in database {child.catalog!r} and {parent.name!r} in {parent.catalog!r}: tables of one "
            "budget are in one database; copy one of them there"
        )
    books = Books(cursor, child.catalog)
    for source in (child, parent):
        links.check_place(source)
    account = _account(books, parent)
    _check_root(books, account, parent)
    _check_child(books, child, parent)
    before = find_member(books, child.key)
    if before is None:
        links.check_free(books, child.key)
        check_unclaimed(cursor, child)
    record = None if before is None else before.link
    keys = (record.key, record.references) if record and key is None else _keys(cursor, child, parent, key, references)
    bins = most if most is not None else record.most if record else _most_children(books, child, keys[0])
    given = tuple(roles) if roles is not None else record.roles if record else ()
    order = _order(child, keys[0], ordered_by) if ordered_by is not None else record.ordered_by if record else ""
    stated = Link(child.key, parent.key, *keys, bins, given, order)
    _check_roles(books, child, stated)
    links.check_keys(child, keys[0], parent, keys[1])
    if max_rows is not None and not 1 <= max_rows <= MOST_UNIT_ROWS:
        raise InvalidArgument(f"max_rows is {max_rows}: give 1 to {MOST_UNIT_ROWS}")
    links.record_member(books, Member(child.key, account, stated, unit_rows=max_rows))
    return next(entry for entry in list_links(books) if entry.source == child.key)


def _order(child: Source, key: Sequence[str], ordered_by: str) -> str:
    """The column by which rows of one parent row follow each other; its domain is declared later.

    Raises:
        InvalidArgument: it is a key, in which these rows are alike.
        UnknownName: no such column.
    """
    name = child.column(ordered_by).name
    if name in key:
        raise InvalidArgument(
            f"ordered_by is {name!r}, the key, in which all rows of one row above are alike: name a column in which "
            "they follow each other, such as a day"
        )
    return name


def _check_roles(books: Books, child: Source, link: Link) -> None:
    """Refuse roles that are not said of the columns of one row; their domains are declared later.

    Raises:
        InvalidArgument: says why.
    """
    for role in link.roles:
        columns_of_role(child, role)
    if link.roles and _most_children(books, child, link.key) == 1:
        raise InvalidArgument(
            f"the PRIMARY KEY of {child.name!r} lets a row of {link.parent!r} have one row there, and roles tell "
            "several apart: leave one_of and at_most_one out"
        )


def _most_children(books: Books, child: Source, key: Sequence[str]) -> int:
    """One where a PRIMARY KEY says that no two rows lead to the same row."""
    primary = primary_key(books, child)
    return 1 if primary and {*primary} <= {*key} else MOST_CHILDREN


def _account(books: Books, parent: Source) -> str:
    """The account of the parent.

    Raises:
        NotProtected: it has none.
    """
    try:
        return account_of(books, parent).source
    except NotProtected as error:
        raise NotProtected(
            f"{error}, if its rows are the units; else link {parent.name!r} first: tables are linked from the top down"
        ) from None


def _check_root(books: Books, account: str, parent: Source) -> None:
    """Refuse a tree whose root's rows are not the units.

    Raises:
        InvalidArgument: says what they are.
    """
    root = find_account(books, account)
    assert root is not None
    if root.neighbours.total_is_public:
        raise InvalidArgument(
            f"{account!r} is protected with neighbours 'replace_one', where the number of units is public; a unit "
            "comes and goes with its linked rows: protect it with neighbours := 'add_remove'"
        )
    if root.unit_column is not None:
        raise InvalidArgument(
            f"{account!r} is protected with privacy_unit {root.unit_column!r}, so a unit is not a row of it. Protect a "
            f"table that has one row for each {root.unit_column}, and link {account!r} to that; or let a table of the "
            "same persons share the account: CALL dp_protect(table, account := …, privacy_unit := …, max_rows := …)"
        )
    member = find_member(books, parent.key)
    if member is not None and member.link is None:
        raise InvalidArgument(
            f"{parent.name!r} shares the account of {account!r} by its column {member.unit_column!r}, and no keys lead "
            f"from its rows to rows of {account!r}: link {parent.name!r} by keys, before it shares the account"
        )


def _check_child(books: Books, child: Source, parent: Source) -> None:
    """Refuse links that make no tree.

    Raises:
        InvalidArgument: says why.
    """
    if child.key == parent.key:
        raise InvalidArgument(
            f"{child.name!r} would be linked to itself: a row that refers to another row of its table is an edge "
            "between units, which is not supported; leave that column without a domain"
        )
    tree = links.tree_of(books, parent.key)
    above = [] if tree is None else [parent.key, *(step.parent for step in tree.path(parent.key))]
    if child.key in above or child.key == account_of(books, parent).source:
        raise InvalidArgument(
            f"rows of {parent.name!r} lead to rows of {child.name!r} already, and links make no circle: link the table "
            "with the keys to the one that they name"
        )
    before = find_member(books, child.key)
    if before is not None and (before.link is None or before.link.parent != parent.key):
        raise InvalidArgument(
            f"table {child.name!r} is {links.described(before)} already, and a row has one way to its unit: the other "
            "key is a column without a domain, and of whom it names nothing is promised. Where both must be protected, "
            "make what they have in common the unit, such as the household or the account"
        )


def _keys(
    cursor: Cursor, child: Source, parent: Source, key: Sequence[str] | None, references: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a link: as the owner says, or as a FOREIGN KEY does.

    Raises:
        InvalidArgument: neither says which, or a FOREIGN KEY does not name one.
        UnknownName: no such column.
    """
    constraints = _foreign_keys(cursor, child, parent)
    if key is None:
        if references is not None:
            raise InvalidArgument(f"references is {list(references)}, of which key? Say key := … too")
        if len(constraints) == 1:
            return constraints[0]
        if not constraints:
            raise InvalidArgument(
                f"{child.name!r} has no FOREIGN KEY to {parent.name!r}: say which columns lead to it, key := '…' and, "
                "where they are called otherwise there, \"references\" := '…'"
            )
        listed = ", ".join("(" + ", ".join(names) + ")" for names, _ in constraints)
        raise InvalidArgument(
            f"{child.name!r} has {len(constraints)} FOREIGN KEYs to {parent.name!r}: {listed}. Say key := '…' of the "
            "one whose unit is protected; of whom the others name nothing is promised"
        )
    names = tuple(child.column(name).name for name in key)
    if references is None:
        matches = [other for own, other in constraints if own == names]
        others = matches[0] if matches else tuple(parent.column(name).name for name in key)
    else:
        others = tuple(parent.column(name).name for name in references)
    for given, columns in (("key", names), ("references", others)):
        if len(set(columns)) < len(columns):
            raise InvalidArgument(f"{given} names a column twice: name each once")
    return names, others


def _foreign_keys(cursor: Cursor, child: Source, parent: Source) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The FOREIGN KEYs of a table to another one; DuckDB has none across schemas."""
    if child.schema != parent.schema:
        return []
    names = {"catalog": child.catalog, "schema": child.schema, "name": child.name}
    rows = cursor.execute(_FOREIGN_KEYS, names).fetchall()
    return [(tuple(own), tuple(other)) for own, table, other in rows if table == parent.name]


def list_links(books: Books) -> list[Linked]:
    """The tables of all trees of a database, each root before the tables below it."""
    members = list_members(books)
    roots = {member.account for member in members if member.link is not None}
    entries: list[Linked] = []
    for account in list_accounts(books):
        if account.source in roots:
            below = [member for member in members if member.account == account.source and member.link is not None]
            entries += [_root(books, account.source, members)]
            entries += [_entry(books, member, members) for member in below]
    return entries


def _root(books: Books, source: str, members: Sequence[Member]) -> Linked:
    try:
        return Linked(source, None, undeclared=_undeclared(books, source, members))
    except UnknownName as gone:
        return Linked(source, None, note=str(gone))


def _entry(books: Books, member: Member, members: Sequence[Member]) -> Linked:
    assert member.link is not None
    parent, key, references, most = member.link.parent, member.link.key, member.link.references, member.link.most
    try:
        undeclared, note = _undeclared(books, member.source, members), _not_promised(books, member)
    except UnknownName as gone:  # it was dropped, and the others are there
        undeclared, note = (), str(gone)
    roles = tuple(map(str, member.link.roles))
    order = member.link.ordered_by or None
    return Linked(member.source, parent, key, references, most, member.unit_rows, undeclared, note, roles, order)


def _undeclared(books: Books, source: str, members: Sequence[Member]) -> tuple[str, ...]:
    """The columns of a table without a domain, those of its keys left out."""
    linked = [member.link for member in members if member.link is not None]
    keys = {name for link in linked if link.child == source for name in link.key}
    keys |= {name for link in linked if link.parent == source for name in link.references}
    attributes = declared(books, source)
    columns = links.table_of(books, source).columns
    return tuple(c.name for c in columns if c.name not in attributes and c.name not in keys and automatic(c) is None)


def _not_promised(books: Books, member: Member) -> str:
    """Of whom the promise says nothing, though a key of the table names a row of a protected table; in words."""
    assert member.link is not None
    source = links.table_of(books, member.source)
    names = {"catalog": source.catalog, "schema": source.schema, "name": source.name}
    rows = books.cursor.execute(_FOREIGN_KEYS, names).fetchall()
    others = []
    for own, table, _ in rows:
        target = Source(source.catalog, source.schema, table, ())
        if tuple(own) != member.link.key and write_table_ids.protects(books, target.key):
            others.append(f"{', '.join(own)} ({table})")
    if not others:
        return ""
    return (
        f"the promise is about the rows that {', '.join(member.link.key)} leads to; about those that "
        f"{' and '.join(others)} names nothing is promised here"
    )
