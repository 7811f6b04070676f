"""Public facts about rows beside others of their tree, which hold in linked synthetic tables: an owner states them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dpsql.books.ledger.migration import migrate
from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts
from dpsql.books.tables.links import table_of, tree_of
from dpsql.core.constraint import Constraint
from dpsql.core.domain import Domain
from dpsql.core.link_rule import LinkRule
from dpsql.core.tree import Tree
from dpsql.core.unit_row import UnitRow
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.declare import automatic
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument, NotDeclared, UnknownName
from dpsql.evaluation.constraints import find_allowed, parse_predicate
from dpsql.evaluation.contradictions import refuse_contradictions
from dpsql.evaluation.link_rules import names_other_rows, parse_rule, parse_rules, tried
from dpsql.evaluation.presence import check_presence, constraints_of, with_presence
from dpsql.owner.constraints import constrain, tried_on
from dpsql.owner.protect import account_of, domain_of


def check_fact(books: Books, source: Source, predicate: str) -> Constraint:
    """Check a fact about a table's rows, each by itself or beside others.

    Raises:
        NotProtected: the table has no account yet.
        NotDeclared: a column that it names has no domain yet.
        InvalidArgument: it is not a predicate, see `parse_predicate` and `parse_rule`.
    """
    account_of(books, source)
    if not names_other_rows(source, predicate):
        try:
            stated = parse_predicate(source, predicate)
        except UnknownName:
            if tree_of(books, source.key) is not None:  # a role, or a table, in place of a column?
                rule = _rule(books, source, predicate)[0]
                return Constraint(rule.predicate, (facts.ACROSS, *rule.named))
            raise
        tried_on(books, source, stated)
        return stated
    rule = _rule(books, source, predicate)[0]
    return Constraint(rule.predicate, (facts.ACROSS, *rule.named))


def state_fact(cursor: Cursor, source: Source, predicate: str, *, looked: bool = False) -> tuple[Constraint, int, int]:
    """State a public fact that every synthetic row must satisfy, by itself or beside others of its tree.

    Args:
        cursor: of the owner.
        source: whose rows it is about.
        predicate: SQL over the columns of a row, and of rows above it or with a role.
        looked: whether the owner read it off the rows, so that it is the owner's disclosure.

    Returns:
        The fact, how many tuples of its columns' codes there are, and how many it allows.

    Raises:
        DpsqlError: see `check_fact` and `constrain`.
    """
    books = Books(cursor, source.catalog)
    stated = check_fact(books, source, predicate)
    if facts.ACROSS not in stated.columns:
        _refuse_contradictions(books, source, stated, None)
        return (stated, *constrain(cursor, source, stated, looked=looked))
    rule, sources, domains = _rule(books, source, predicate)
    if rule.present:
        tuples, allowed = _tried_with_numbers(books, source, rule, sources)
    else:
        tuples, allowed = tried(rule, sources, domains)
        _refuse_contradictions(books, source, None, rule)
    migrate(books)  # an earlier dpsql would not obey it
    facts.constrain(books, source.key, stated, looked=looked)
    return Constraint(rule.predicate, rule.named), tuples, allowed


def _tried_with_numbers(books: Books, source: Source, rule: LinkRule, sources: dict[str, Source]) -> tuple[int, int]:
    """How many tuples a rule has that asks whether a row is there, and how many it allows beside other such facts."""
    tree = _tree(books, source)
    unit_row = UnitRow(tree, {table: _declared(books, origin) for table, origin in sources.items()})
    counts = check_presence(unit_row, sources, rule)
    before = [parse_rule(tree, sources, source.key, record.predicate) for record in facts.rules(books, source.key)]
    beside, domain = with_presence(unit_row, source.key, source)
    stated = [*facts.constraints(books, source.key), *constraints_of(unit_row, [*before, rule])]
    find_allowed(beside, domain.inner, stated)
    return counts


def _refuse_contradictions(books: Books, source: Source, fact: Constraint | None, rule: LinkRule | None) -> None:
    """Refuse a fact, or a rule, that no rows obey together with what was stated before, as far as domains are declared.

    Raises:
        InvalidArgument: see `refuse_contradictions`.
    """
    tree = tree_of(books, source.key)
    if tree is None:
        return
    sources = {table: table_of(books, table) for table in tree.tables}
    before = {table: list(facts.constraints(books, table)) for table in tree.tables}
    alone = {**before, source.key: [*before[source.key], *([fact] if fact else [])]}
    try:
        predicates = {(table, record.predicate) for table in tree.tables for record in facts.rules(books, table)}
        old_rules = _between(tree, sources, predicates)
        predicates |= {(rule.table, rule.predicate)} if rule else set()
        rules = _between(tree, sources, predicates)
        domains = {table: _declared(books, origin) for table, origin in sources.items()}
    except (InvalidArgument, UnknownName, NotDeclared):  # of another rule or column, which a release says
        return
    if rules:
        refuse_contradictions(tree, sources, domains, rules, alone, (old_rules, before))


def _between(tree: Tree, sources: Mapping[str, Source], predicates: Iterable[tuple[str, str]]) -> list[LinkRule]:
    """The rules that are given rows, of some tables and predicates."""
    rules = [rule for stated in sorted(predicates) for rule in parse_rules(tree, sources, *stated)]
    return [rule for rule in rules if not rule.present]


def _declared(books: Books, source: Source) -> Domain:
    """The domain of those columns of a table that have one so far."""
    attributes = facts.declared(books, source.key)
    there = {name for name, attribute in attributes.items() if attribute.kind != "excluded"}
    names = [column.name for column in source.columns if column.name in there or automatic(column) is not None]
    return domain_of(books, source, names) if names else Domain(())


def _rule(books: Books, source: Source, predicate: str) -> tuple[LinkRule, dict[str, Source], dict[str, Domain]]:
    """A rule that is stated of a table, the tables of its tree, and the domains of the columns that it names."""
    tree = _tree(books, source)
    sources = {table: table_of(books, table) for table in tree.tables}
    rule, domains = parse_rule(tree, sources, source.key, predicate), dict[str, Domain]()
    for part in rule.parts:
        named = {name for other in rule.parts if other.table == part.table for name in other.columns}
        if named:
            domains[part.table] = domain_of(books, sources[part.table], sorted(named))
        domains.setdefault(part.table, Domain(()))
    return rule, sources, domains


def _tree(books: Books, source: Source) -> Tree:
    tree = tree_of(books, source.key)
    if tree is None:
        raise InvalidArgument(
            f"predicate: it names a column of another table, but no link leads from or to {source.name!r}: say "
            f"CALL dp_link({source.argument}, 'parent') first, or name columns of {source.name!r} alone"
        )
    return tree
