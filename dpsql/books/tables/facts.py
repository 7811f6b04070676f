"""What owners say of their tables: the domains of columns, and constraints that all rows meet.

They are said of a table, and hold of each of its periods: `source` may be the key of either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from dpsql.books.ledger import ledger
from dpsql.books.ledger.migration import migrate
from dpsql.books.ledger.periods import find_periods
from dpsql.books.ledger.store import Books
from dpsql.core.computed import check_computed
from dpsql.core.constraint import Constraint
from dpsql.core.domain import Attribute, Domain, attribute_from, fields_of
from dpsql.core.period import split_key, table_of
from dpsql.core.period_domain import fact_of
from dpsql.engines.source import Above
from dpsql.engines.source_path import reached
from dpsql.errors import InvalidArgument

ACROSS: Final = ""
"""What no column is called: listed first among those of a fact that speaks of other tables' rows, too."""


def declare(books: Books, source: str, attribute: Attribute) -> None:
    """Record a column's domain, in place of an earlier one."""
    declare_all(books, source, [attribute])


def declare_all(books: Books, source: str, attributes: Iterable[Attribute]) -> None:
    """Record the domains of some columns, all or none."""
    books.check_writable()
    listed = list(attributes)
    if any(attribute.looked or attribute.computed_as or attribute.reading for attribute in listed):
        migrate(books)  # an earlier dpsql cannot read such domains, and says so

    def record() -> None:
        check_computed(declared(books, source) | {attribute.name: attribute for attribute in listed})
        _check_constraints(books, source, listed)
        for attribute in listed:
            record_domain(books, source, attribute)

    books.transaction(record)


def record_domain(books: Books, source: str, attribute: Attribute) -> None:
    """Inside a transaction: see `declare`."""
    books.run(
        "INSERT INTO dpsql.domain VALUES ($source, $name, $spec) "
        "ON CONFLICT (source, name) DO UPDATE SET spec = excluded.spec",
        {"source": table_of(source), "name": attribute.name, "spec": json.dumps(fields_of(attribute))},
    )


def declared(books: Books, source: str) -> dict[str, Attribute]:
    """The recorded domains of a source's columns, by name."""
    rows = books.run("SELECT spec FROM dpsql.domain WHERE source = $source", {"source": table_of(source)})
    attributes = [attribute_from(json.loads(spec)) for (spec,) in rows]
    if any(attribute.origin == "discovered" for attribute in attributes):
        ledger.secure(books)
    return {attribute.name: attribute for attribute in attributes}


def computed(books: Books, source: str) -> list[Attribute]:
    """The columns of a source that are computed."""
    if not books.has("domain"):
        return []
    sql = "SELECT spec FROM dpsql.domain WHERE source = $source AND contains(spec, '\"computed_as\": ')"
    return [attribute_from(json.loads(spec)) for (spec,) in books.run(sql, {"source": table_of(source)})]


def _check_constraints(books: Books, source: str, attributes: Iterable[Attribute]) -> None:
    """Refuse to compute a column that a constraint names, which would be tried on values that are not measured.

    Raises:
        InvalidArgument: says what mends it.
    """
    names = {attribute.name for attribute in attributes if attribute.computed_as}
    for constraint in constraints(books, source) if names else ():
        if not names.isdisjoint(constraint.columns):
            raise InvalidArgument(
                f"the constraint {constraint.predicate!r} names a column that is to be computed: take it back with "
                "remove := true, and state it of the columns that the expression reads"
            )


def declared_beside(books: Books, source: str, path: Sequence[Above]) -> dict[str, Attribute]:
    """The same, and those of the columns of tables above, by what they are called beside the table's own."""
    attributes = declared(books, source)
    for above in path:
        for name, attribute in declared(books, above.source.key).items():
            called = reached(above.source, name)
            bases = tuple(reached(above.source, base) for base in attribute.computed_from)
            attributes[called] = replace(attribute, name=called, computed_from=bases)
    return attributes


def released_types(books: Books, source: str) -> set[str]:
    """The types of which a source's releases were charged for every member, so that those are known."""
    rows = books.run("SELECT domain FROM dpsql.release WHERE source = $source", {"source": source})
    return {a.type for (text,) in rows for a in Domain.from_json(text) if a.origin == "type"}


def constrain(books: Books, source: str, constraint: Constraint, *, remove: bool = False, looked: bool = False) -> None:
    """Record a fact about a source's rows, or take it back; doing it twice is harmless.

    Args:
        books: of the source.
        source: the account's key.
        constraint: the fact.
        remove: whether it is taken back.
        looked: whether its owner read it off the rows.
    """
    books.check_writable()
    row = {"source": table_of(source), "predicate": constraint.predicate}
    if remove:
        tables = ["constraint", *(["looked_fact"] if books.has("looked_fact") else [])]

        def forget() -> None:
            for table in tables:
                books.run(f"DELETE FROM dpsql.{table} WHERE source = $source AND predicate = $predicate", row)  # noqa: S608

        books.transaction(forget)
        return
    if looked:
        migrate(books)
    sql = "INSERT INTO dpsql.constraint VALUES ($source, $predicate, $columns) ON CONFLICT DO NOTHING"

    def record() -> None:
        books.run(sql, {**row, "columns": list(constraint.columns)})
        if looked:
            books.run("INSERT INTO dpsql.looked_fact VALUES ($source, $predicate) ON CONFLICT DO NOTHING", row)

    books.transaction(record)


def constraints(books: Books, source: str) -> list[Constraint]:
    """The facts about a source's rows, each by itself: those recorded, and in which period they lie."""
    return [
        *(constraint for constraint in _stated(books, source) if ACROSS not in constraint.columns),
        *_of_period(books, source),
    ]


def _of_period(books: Books, source: str) -> list[Constraint]:
    """In which period the rows lie that are counted of it: by which they are chosen, so it is public."""
    table, label = split_key(source)
    periods = None if label is None else find_periods(books, table)
    if label is None or periods is None:
        return []
    fact = fact_of(periods.period(label), declared(books, table).get(periods.column))
    return [] if fact is None else [fact]


def rules(books: Books, source: str) -> list[Constraint]:
    """The facts recorded about a source's rows beside others, see `dpsql.core.link_rule`: they hold in linked tables.

    Their columns are as the predicates name them.
    """
    stated = (constraint for constraint in _stated(books, source) if ACROSS in constraint.columns)
    return [
        Constraint(constraint.predicate, tuple(name for name in constraint.columns if name != ACROSS))
        for constraint in stated
    ]


def _stated(books: Books, source: str) -> list[Constraint]:
    sql = "SELECT predicate, columns FROM dpsql.constraint WHERE source = $source ORDER BY predicate"
    return [
        Constraint(predicate, tuple(columns)) for predicate, columns in books.run(sql, {"source": table_of(source)})
    ]


def looked_columns(books: Books, source: str) -> dict[str, Attribute]:
    """The recorded domains that their owner read off the rows, by name; excluded columns have none."""
    sql = "SELECT spec FROM dpsql.domain WHERE source = $source AND contains(spec, '\"looked\": true')"
    attributes = [attribute_from(json.loads(spec)) for (spec,) in books.run(sql, {"source": table_of(source)})]
    return {attribute.name: attribute for attribute in attributes if attribute.known_from == "looked"}


def looked_facts(books: Books, source: str) -> tuple[str, ...]:
    """The recorded facts that their owner read off the rows."""
    if not books.has("looked_fact"):
        return ()
    sql = "SELECT predicate FROM dpsql.looked_fact WHERE source = $source ORDER BY predicate"
    return tuple(predicate for (predicate,) in books.run(sql, {"source": table_of(source)}))
