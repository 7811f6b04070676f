"""The members of a linked release, looked up in the catalogue and the books, and what needs them: no private row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dpsql.books.ledger.accounts import account_key
from dpsql.books.ledger.store import Books
from dpsql.books.tables.facts import constraints, declared, rules
from dpsql.books.tables.links import table_of, tree_of
from dpsql.books.tables.table_keys import primary_key
from dpsql.core.constraint import Allowed, Constraint
from dpsql.core.domain import Attribute, Domain
from dpsql.core.link_rule import LinkRule
from dpsql.core.names import as_text
from dpsql.core.tree import MOST_OF_UNIT, UNITS, Link, Role, Tree
from dpsql.engines.protocol import Engine, TableCounter
from dpsql.engines.source import Column, Source
from dpsql.errors import InvalidArgument, UnknownName
from dpsql.evaluation.computed import check_bound
from dpsql.evaluation.constraints import find_allowed, refuse_impossible, taken_back
from dpsql.evaluation.contradictions import refuse_contradictions
from dpsql.evaluation.key_values import check_key, check_numbers, most_numbers
from dpsql.evaluation.link_rules import parse_rules, tried
from dpsql.evaluation.presence import check_presence, constraints_of, with_presence
from dpsql.evaluation.roles import allowed_of_role, refuse_impossible_roles, roles_of
from dpsql.evidence.ascent import with_orders
from dpsql.owner.protect import as_released, domain_of
from dpsql.owner.stand_ins import check_installed
from dpsql.privacy.account import Account
from dpsql.release.keys import own_keys
from dpsql.release.linked import Member, Members
from dpsql.release.request import Request
from dpsql.release.ruled_units import together, with_rules


def unit_counter(members: Members, engine: Engine, books: Books, before: Callable[[], object] | None) -> TableCounter:
    """Counts units' rows."""
    row, sources = members.unit_row, members.sources
    roles = roles_of(row, sources)
    return engine.unit_counter(sources, row, (books.catalog, members.account), roles=roles, before=before)


def allowed_rows(members: Members, books: Books, table: str) -> list[Allowed]:
    """What the constraints on one table allow of its rows."""
    member = members.of[table]
    return find_allowed(member.source, member.domain, constraints(books, table))


def allowed_by_role(members: Members, books: Books, table: str) -> list[tuple[Role | None, list[Allowed]]]:
    """What is allowed of the rows of one table, by the role that they have; of those without one at last."""
    link = members.tree.link_of.get(table)
    if link is None or not link.roles:
        return [(None, allowed_rows(members, books, table))]
    member, facts = members.of[table], constraints(books, table)
    return [(role, allowed_of_role(member.source, member.domain, link, role, facts)) for role in (*link.roles, None)]


def allowed_with_numbers(members: Members, books: Books, table: str) -> list[tuple[Role | None, list[Allowed]]]:
    """The same of its columns and of those that say whether rows with a role are below it, called as those are.

    Raises:
        InvalidArgument: nothing is allowed; see `find_allowed`.
    """
    presence = presence_rules(members, books, table)
    if not presence:
        return allowed_by_role(members, books, table)
    source, domain = with_presence(members.unit_row, table, members.of[table].source)
    facts = [*constraints(books, table), *constraints_of(members.unit_row, presence)]
    link = members.tree.link_of.get(table)
    if link is None or not link.roles:
        return [(None, find_allowed(source, domain, facts))]
    return [(role, allowed_of_role(source, domain, link, role, facts)) for role in (*link.roles, None)]


def allowed_units(members: Members, books: Books) -> list[Allowed]:
    """What the constraints on all tables, and rules between their rows, allow of units' rows."""
    allowed_parts = with_rules(
        members.unit_row, _allowed_together(members, books), link_rules(members, books), members.sources
    )
    return with_orders(members.unit_row, allowed_parts)


def _allowed_together(members: Members, books: Books) -> list[Allowed]:
    """What the constraints on all tables allow, in parts that share no column.

    Raises:
        InvalidArgument: a part spans too many tuples of values.
    """
    allowed_parts: list[Allowed] = []
    for table in members.tree.tables:
        for role, parts in allowed_with_numbers(members, books, table):
            allowed_parts += members.unit_row.allowed(table, role, parts)
    return together(members.unit_row.domain, allowed_parts)


def link_rules(members: Members, books: Books) -> list[LinkRule]:
    """The rules between rows of the tables, but those of `presence_rules`.

    Raises:
        InvalidArgument: see `presence_rules`.
    """
    parsed = [rule for table in members.tree.tables for rule in _parsed(members, books, table)]
    return [rule for rule in parsed if not rule.present]


def presence_rules(members: Members, books: Books, table: str) -> list[LinkRule]:
    """The rules of a table that ask whether rows with a role are below its rows.

    Raises:
        InvalidArgument: one names what is not there any longer; says how to take it back.
    """
    return [rule for rule in _parsed(members, books, table) if rule.present]


def _parsed(members: Members, books: Books, table: str) -> list[LinkRule]:
    """All rules that are stated of a table."""
    sources, parsed = members.sources, list[LinkRule]()
    for stated in rules(books, table):
        try:
            parsed += parse_rules(members.tree, sources, table, stated.predicate)
        except (InvalidArgument, UnknownName) as error:
            raise InvalidArgument(
                f"the rule {stated.predicate!r} of {table!r} is not about the tables as they are now. {error}; "
                f"{taken_back(sources[table], [stated.predicate])[3:]}"
            ) from None
    return parsed


def _check_rules(members: Members, books: Books) -> None:
    """Refuse rules that no declared values satisfy, by themselves or together, or that name what is not drawn."""
    stated = link_rules(members, books)
    for rule in stated:
        tried(rule, members.sources, members.domains)
    for table in members.tree.tables:
        for rule in presence_rules(members, books, table):
            check_presence(members.unit_row, members.sources, rule)
    _allowed_together(members, books)
    if stated:
        facts = {table: constraints(books, table) for table in members.tree.tables}
        refuse_contradictions(members.tree, members.sources, members.domains, stated, facts)


def check_members(members: Members, books: Books, *, is_paid: bool = False) -> None:
    """Refuse, before a charge, what no row can meet and columns that cannot be filled."""
    for table, member in members.of.items():
        check_installed(member.domain, is_paid=is_paid)
        _refuse_of_order(members, books, table)
        if not is_paid:
            _refuse_of_keys(member, constraints(books, table))
            refuse_impossible(member.source, member.domain, constraints(books, table))
            if (link := members.tree.link_of.get(table)) is not None:
                refuse_impossible_roles(member.source, member.domain, link, constraints(books, table))
            if member.domain.attributes:  # else nothing can be computed from them
                check_bound(member.source, member.domain)
    if not is_paid:
        _check_rules(members, books)


def _refuse_of_order(members: Members, books: Books, table: str) -> None:
    """Refuse facts about an order column, which rows are moved along.

    Raises:
        InvalidArgument: there is one; says what mends it.
    """
    link = members.tree.link_of.get(table)
    if link is None or not link.ordered_by:
        return
    stated = [
        (table, constraint.predicate)
        for constraint in constraints(books, table)
        if link.ordered_by in constraint.columns
    ]
    for rule in link_rules(members, books):
        if any(part.table == table and link.ordered_by in part.columns for part in rule.parts):
            stated.append((rule.table, rule.predicate))
    for whose, predicate in stated[:1]:
        raise InvalidArgument(
            f"ordered_by is {link.ordered_by!r}, which the constraint {predicate} names, and rows in order are moved "
            f"along that column: leave ordered_by out, {taken_back(members.of[whose].source, [predicate])}"
        )


def _refuse_of_keys(member: Member, facts: Sequence[Constraint]) -> None:
    """Refuse constraints that name a key or the column of units: synthetic rows have other values there.

    Raises:
        InvalidArgument: one does; says what mends it.
    """
    for fact in facts:
        if named := [name for name in fact.columns if name in member.keys]:
            raise InvalidArgument(
                f"the constraint {fact.predicate} on {member.source.name!r} names {named[0]!r}, which is numbered anew "
                "in linked synthetic tables, so their rows would not satisfy it: leave linked out, "
                f"{taken_back(member.source, [fact.predicate])}"
            )


def check_request(request: Request) -> None:
    """Refuse what a linked release cannot do yet.

    Raises:
        InvalidArgument: the request asks for it.
    """
    for name in ("columns", "prior", "workload"):
        if getattr(request, name) is not None:
            raise InvalidArgument(
                f"linked := true is of all columns of its tables, and its workload is given by their links: leave "
                f"{name} out"
            )


def check_alone(request: Request) -> None:
    """Refuse an order of rows that have no unit in the release.

    Raises:
        InvalidArgument: the request asks for it.
    """
    if request.ordered_by is not None:
        raise InvalidArgument(
            f"ordered_by is {request.ordered_by!r}, the order of the rows of one unit, and without linked a synthetic "
            "table has no units: say linked := true too"
        )


def look_up_members(books: Books, source: Source, account: Account, ordered_by: str | None = None) -> Members:
    """The tree that a table is in; where no links lead to it, the one of its privacy unit.

    Args:
        books: of its database.
        source: the table.
        account: of the tree.
        ordered_by: the column by which rows of one privacy unit follow each other.

    Raises:
        InvalidArgument: it is in none, or its units are not the rows of the root; says what helps.
        NotDeclared: a column has no domain.
    """
    linked = tree_of(books, source.key)
    if linked is not None and ordered_by is not None:
        raise InvalidArgument(
            f"ordered_by is {ordered_by!r}, but {source.name!r} is a linked table, whose order its owner says with the "
            "link: leave it out. While nothing is charged, db.unprotect('child', reason) takes a link back, and "
            "CALL dp_link('child', 'parent', ordered_by := …) links the table in order"
        )
    tree = linked or _tree_of_units(source, account, ordered_by)
    if tree is None:
        raise InvalidArgument(
            f"linked := true, but no table is linked to {source.name!r}, and its rows are no rows of a privacy unit: "
            f"say CALL dp_link('child', {source.argument}) first, or leave linked out"
        )
    if account.neighbours.total_is_public:
        raise InvalidArgument(
            f"{tree.root!r} is protected with neighbours := 'replace_one', and in a linked release a unit is a row of "
            "the root that may be there or not: protect a table that has one row for each person, without it"
        )
    members = {table: _member(books, tree, table) for table in tree.tables}
    for link in tree.links:
        _check_numbers(tree, link, members)
        if link.ordered_by:
            _check_order(members[link.child], link.ordered_by)
    return Members(tree, members, source.key, account.source)


def _tree_of_units(source: Source, account: Account, ordered_by: str | None) -> Tree | None:
    """The tree of a table with a privacy unit: its units, and below them its rows."""
    if account.unit_column is None:
        return None
    most = max(MOST_OF_UNIT, account.neighbours.unit_rows or 0)
    key = (account.unit_column,)
    order = "" if ordered_by is None else source.column(ordered_by).name
    return Tree(UNITS, (Link(source.key, UNITS, key, key, most, (), order),))


def _check_order(member: Member, name: str) -> None:
    """Refuse an order column whose codes do not rise with its values.

    Raises:
        InvalidArgument: says what mends it.
    """
    attribute = member.domain.by_name.get(name)
    if name in member.keys or attribute is None:
        why = "numbered anew" if name in member.keys else "excluded"
        raise InvalidArgument(f"ordered_by is {name!r}, which is {why} in linked tables: order by another column")
    if attribute.kind != "bins" or attribute.is_read or attribute.other is not None:
        raise InvalidArgument(
            f"ordered_by is {name!r}, whose values are not in bins. Of numbers or times "
            f"CALL dp_domain({member.source.argument}, {as_text(name)}, lower := …, upper := …) makes them; else "
            "order by another column"
        )


def _check_numbers(tree: Tree, link: Link, members: Mapping[str, Member]) -> None:
    """Refuse keys of a child whose types hold fewer numbers than its parent's, or than a parent has children.

    Raises:
        InvalidArgument: one does; says what mends it.
    """
    child = members[link.child]
    parent = child if link.parent == UNITS else members[link.parent]
    for mine, theirs in zip(link.key, link.references, strict=True):
        kind = parent.source.column(theirs).type
        why = f"it leads to {theirs!r} of {parent.source.name!r}, so give it that one's type, {kind}"
        check_numbers(child.source, mine, most_numbers(parent.source, [theirs]), why)
    for name in {*child.keys} - {*link.key} - {*own_keys(tree, link.child, child.keys, child.primary)}:
        whose = "unit" if link.parent == UNITS else "row"
        why = f"a {whose} of {parent.source.name!r} has up to {link.most_rows:,} rows there, so give it a larger type"
        check_numbers(child.source, name, link.most_rows, why)


def find_root(books: Books, source: Source) -> Source:
    """The table whose rows are the units of a tree, or whose column is the privacy unit."""
    return source if tree_of(books, source.key) is None else table_of(books, account_key(books, source.key))


def _member(books: Books, tree: Tree, table: str) -> Member:
    source = table_of(books, table)
    link, below = tree.link_of.get(table), list(tree.children(table))
    linked = {*(link.key if link else ()), *(name for link_below in below for name in link_below.references)}
    primary = primary_key(books, source)
    declared_here = declared(books, table)
    numbered = primary if len(primary) == 1 else [name for name in primary if name not in declared_here]
    keys = tuple(column.name for column in source.columns if column.name in {*linked, *numbered})
    for name in keys:
        check_key(source, name)
    rest = [column.name for column in source.columns if column.name not in keys and _is_there(declared_here, column)]
    domain = (
        domain_of(books, source, rest)
        if _has_columns(rest, declared_here)
        else Domain((), _excluded(rest, declared_here))
    )
    return Member(as_released(source, domain), domain, keys, primary)


def _is_there(domains: Mapping[str, Attribute], column: Column) -> bool:
    """Whether a column can be in a synthetic table: one that is generated only where its owner excludes it."""
    return not column.generated or column.name in domains


def _has_columns(names: Sequence[str], domains: Mapping[str, Attribute]) -> bool:
    """Whether some column is not excluded, so that there is a domain."""
    return any(name not in domains or domains[name].kind != "excluded" for name in names)


def _excluded(names: Sequence[str], domains: Mapping[str, Attribute]) -> tuple[Attribute, ...]:
    return tuple(domains[name].of_release for name in names)
