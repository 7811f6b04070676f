"""What owners say of their tables: the domains of columns, and constraints that all rows meet."""

from __future__ import annotations

import json

from dpsql.books import ledger
from dpsql.books.store import Books
from dpsql.core.constraint import Constraint
from dpsql.core.domain import Attribute, Domain, attribute_from, fields_of


def declare(books: Books, source: str, attribute: Attribute) -> None:
    """Record a column's domain, in place of an earlier one."""
    books.check_writable()
    books.transaction(lambda: record_domain(books, source, attribute))


def record_domain(books: Books, source: str, attribute: Attribute) -> None:
    """Inside a transaction: see `declare`."""
    books.run(
        "INSERT INTO dpsql.domain VALUES ($source, $name, $spec) "
        "ON CONFLICT (source, name) DO UPDATE SET spec = excluded.spec",
        {"source": source, "name": attribute.name, "spec": json.dumps(fields_of(attribute))},
    )


def declared(books: Books, source: str) -> dict[str, Attribute]:
    """The recorded domains of a source's columns, by name."""
    rows = books.run("SELECT spec FROM dpsql.domain WHERE source = $source", {"source": source})
    attributes = [attribute_from(json.loads(spec)) for (spec,) in rows]
    if any(attribute.origin == "discovered" for attribute in attributes):
        ledger.secure(books)
    return {attribute.name: attribute for attribute in attributes}


def released_types(books: Books, source: str) -> set[str]:
    """The types of which a source's releases were charged for every member, so that those are known."""
    rows = books.run("SELECT domain FROM dpsql.release WHERE source = $source", {"source": source})
    return {a.type for (text,) in rows for a in Domain.from_json(text) if a.origin == "type"}


def constrain(books: Books, source: str, constraint: Constraint, *, remove: bool = False) -> None:
    """Record a fact about a source's rows, or take it back; doing it twice is harmless."""
    books.check_writable()
    row = {"source": source, "predicate": constraint.predicate}
    if remove:
        sql = "DELETE FROM dpsql.constraint WHERE source = $source AND predicate = $predicate"
        books.transaction(lambda: books.run(sql, row))
        return
    sql = "INSERT INTO dpsql.constraint VALUES ($source, $predicate, $columns) ON CONFLICT DO NOTHING"
    books.transaction(lambda: books.run(sql, {**row, "columns": list(constraint.columns)}))


def constraints(books: Books, source: str) -> list[Constraint]:
    """The facts recorded about a source's rows."""
    sql = "SELECT predicate, columns FROM dpsql.constraint WHERE source = $source ORDER BY predicate"
    return [Constraint(predicate, tuple(columns)) for predicate, columns in books.run(sql, {"source": source})]
