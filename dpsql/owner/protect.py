"""What a table's owner does: protect it, and declare its columns' public domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from dpsql.books.ledger.accounts import find_account, list_accounts
from dpsql.books.ledger.store import Books, LookUp, catalogs_with_books
from dpsql.books.tables import facts, protection, write_table_ids
from dpsql.books.tables.links import declared_beside, link_of, path_of
from dpsql.books.tables.public import check_unclaimed, elsewhere
from dpsql.core.column_types import lists_members, public_type
from dpsql.core.domain import Attribute, Domain
from dpsql.core.names import as_text, fold
from dpsql.core.neighbours import Neighbours
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.declare import automatic, check_range, declare_members
from dpsql.engines.registry import check_domain, check_readable, check_unit
from dpsql.engines.source import Column, Source, written_alike
from dpsql.errors import InvalidArgument, NotDeclared, NotProtected
from dpsql.evaluation.computed import check_expression
from dpsql.owner.declaration import Declaration
from dpsql.owner.periods import in_period, of_each, stated_periods
from dpsql.owner.undeclared import what_is_missing
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import account_budget

MOST_UNIT_ROWS: Final = 100_000


@dataclass(frozen=True)
class Protected(Account):
    """An account that was opened, or was there before.

    Attributes:
        note: which other accounts seem to be about the same people, whose ε adds up; or of which periods each has
            that budget. Empty where there is nothing to say.
    """

    note: str = ""


def protect(
    cursor: Cursor,
    source: Source,
    epsilon: float,
    delta: float,
    neighbours: str = "add_remove",
    privacy_unit: str | None = None,
    max_rows: int | None = None,
    *,
    enums: bool = False,
    period: str | None = None,
    by: str | None = None,
) -> Protected:
    """Give a table a privacy budget, once: all its releases together will be (ε, δ)-DP.

    Args:
        cursor: a connection of its own.
        source: the table.
        epsilon: of the promise.
        delta: of the promise; below one over the number of rows, or 0 for pure ε.
        neighbours: `add_remove` (n is private) or `replace_one` (n is public).
        privacy_unit: the column that tells whose row it is, where one person, client or firm has several.
        max_rows: how many rows of one unit count; of more, so many are chosen at random, once for all releases.
        enums: the owner's word that the members of all its ENUM types are public, whatever rows there are.
        period: each `day`, `week`, `month`, `quarter` or `year` has an (ε, δ) of its own; see `dpsql.owner.periods`.
        by: the column that says in which one a row lies.

    Raises:
        InvalidArgument: ε, δ, neighbours, privacy_unit, max_rows, period or by.
        UnknownName: no such column.
        BooksError: read-only database, or protected already with another budget.
    """
    check_unclaimed(cursor, source)
    unit = unit_column_of(source, privacy_unit, max_rows)
    if unit is not None:
        check_unit(cursor, source, unit.name)
    relation = Neighbours(neighbours, max_rows)
    check_sample(source, relation)
    budget = account_budget(epsilon, delta)
    periods = stated_periods(source, period, by, neighbours, privacy_unit)
    books = Books(cursor, source.catalog)
    excluded = None if unit is None else Attribute(unit.name, public_type(unit.type), "excluded")
    account = protection.open_account(books, source.key, budget, relation, excluded, periods)
    if enums:
        declared = facts.declared(books, source.key)
        for column in enum_columns(source):
            if column.name not in declared:
                facts.declare(books, source.key, declare_members(column, nullable=column.nullable))
    details = {field.name: getattr(account, field.name) for field in fields(account)}
    note = _same_people(cursor, source, account) if periods is None else of_each(periods)
    return Protected(**details, note=note)


def _same_people(cursor: Cursor, source: Source, account: Account) -> str:
    """Which accounts of all databases have a unit column of the same name, in words; empty where none has."""
    if account.unit_column is None:
        return ""
    others = []
    for catalog in catalogs_with_books(cursor):
        for other in list_accounts(Books(cursor, catalog)):
            same = (catalog, other.source) == (source.catalog, account.source)
            if not same and other.unit_column is not None and fold(other.unit_column) == fold(account.unit_column):
                name = other.source if catalog == source.catalog else f"{catalog}.{other.source}"
                others.append(f"{name} (epsilon {other.epsilon:g})")
    if not others:
        return ""
    return (
        f"privacy_unit {account.unit_column!r} also stands for the people of {', '.join(others)}: each table has a "
        "budget of its own, so for people who are in several the epsilons add up, and the deltas too. A table that is "
        "not protected yet shares the budget of another one with account := '…'"
    )


def enum_columns(source: Source) -> list[Column]:
    """The columns whose members an owner can say are public."""
    return [column for column in source.columns if lists_members(column.type) and not column.generated]


def unit_column_of(source: Source, privacy_unit: str | None, max_rows: int | None) -> Column | None:
    """The column of the privacy unit, checked."""
    if privacy_unit is None:
        if max_rows is not None:
            raise InvalidArgument(f"max_rows is {max_rows}, of which unit? Say privacy_unit := 'column' too")
        return None
    if max_rows is None:
        raise InvalidArgument(
            f"privacy_unit is {privacy_unit!r}: say max_rows too, how many rows of one unit may count, such as "
            "max_rows := 8; noise grows with it"
        )
    if not 1 <= max_rows <= MOST_UNIT_ROWS:
        raise InvalidArgument(f"max_rows is {max_rows}: give 1 to {MOST_UNIT_ROWS}")
    column = source.column(privacy_unit)
    if column.generated:
        raise InvalidArgument(f"privacy_unit is {column.name!r}, a generated column: name one that is stored")
    _check_collation(source, column)
    return column


def _check_collation(source: Source, unit: Column) -> None:
    """Refuse a unit's column with a collation, by which one unit is written in several ways: bytes tell units apart."""
    if unit.collated:
        raise InvalidArgument(
            f"privacy_unit is {unit.name!r}, a column with a collation, but units are told apart by their bytes: write "
            f"each unit in one way first, as in {written_alike(source, unit.name)}"
        )


def check_collation(source: Source, column: Column, *, names_texts: bool) -> None:
    """Refuse to name texts of a column with a collation: rows that DuckDB calls equal to one would not be counted.

    Args:
        source: the table.
        column: of it.
        names_texts: whether the domain has texts that rows are compared with: values, or some that stand for NULL.

    Raises:
        InvalidArgument: it has a collation, and texts are named.
    """
    if names_texts and column.collated:
        raise InvalidArgument(
            f"column {column.name!r} has a collation, by which texts of other bytes are equal, but dpsql tells texts "
            "apart by their bytes. Say exclude := true, or write each text in one way first, as in "
            f"{written_alike(source, column.name)}"
        )


def _names_texts(attribute: Attribute) -> bool:
    return attribute.kind == "values" or bool(attribute.nulls_as)


_GENERATED = (
    "column {1!r} of {0!r} is generated: its expression would run on private rows and may fail on some; say "
    "dp_domain('{0}', '{1}', exclude := true)"
)


def account_of(books: Books, source: Source) -> Account:
    """The account of a protected table.

    Raises:
        NotProtected: it has none, or belongs to that of another name.
        InvalidArgument: its privacy unit's column is not what it was.
    """
    holder = write_table_ids.holder(books, source)
    if holder is not None and holder != source.table_key:
        raise NotProtected(elsewhere(source, holder))
    account = find_account(books, source.key)
    if account is None:
        raise NotProtected(
            f"table {source.name!r} is not protected: its owner says CALL dp_protect({source.argument}, epsilon := "
            "3.0, delta := 1e-9)"
        )
    if account.unit_column is not None and link_of(books, source.key) is None:
        matches = [column for column in source.columns if column.name == account.unit_column]
        if not matches or public_type(matches[0].type) != public_type(str(account.unit_type)) or matches[0].generated:
            raise InvalidArgument(
                f"column {account.unit_column!r} of {source.name!r}, which tells whose row it is, is not what it was "
                "when the table was protected: change it back"
            )
        _check_collation(source, matches[0])
    return account


def chargeable(books: Books, source: Source) -> Account:
    """The account of a protected table whose rows can be counted for a release.

    Raises:
        DpsqlError: see `account_of` and `check_sample`.
    """
    if source.period is None:
        in_period(books, source, None)  # refuses a table of which each period has a budget
    account = account_of(books, source)
    link = link_of(books, source.key)
    if link is not None:
        if account.neighbours.unit_rows is None:
            raise InvalidArgument(
                f"rows of {source.name!r} are counted once its owner says how many rows of one unit count, such as "
                f"CALL dp_link({source.argument}, {as_text(link.parent)}, max_rows := 20); noise grows with it"
            )
        path_of(books, source.key)
    check_sample(source, account.neighbours)
    return account


def check_sample(source: Source, neighbours: Neighbours) -> None:
    """Refuse a sample where the number of rows is public: a row that is replaced may leave or join the sample.

    Then how many rows the sample has tells of that row, and texts of refusals would say it exactly and free.

    Raises:
        InvalidArgument: says what works.
    """
    if neighbours.total_is_public and source.place is not None and source.place.sample:
        raise InvalidArgument(
            f"neighbours is 'replace_one', where the number of rows is public, but {source.name!r} is a sample, whose "
            "number of rows is private. Of a table that is not protected yet, say neighbours := 'add_remove'; of one "
            f"that is, CALL dp_source({source.argument}), which ends the sample: then all rows count"
        )


def declare(cursor: Cursor, source: Source, name: str, **how: Any) -> Attribute:
    """Declare the public domain of a column; see `declaration`, and docs/how-to/domains.md."""
    attribute = declaration(cursor, source, name, **how)
    record(cursor, source, attribute)
    return attribute


def record(cursor: Cursor, source: Source, attribute: Attribute) -> None:
    """Write a declaration down.

    Raises:
        NotProtected: the table has no account.
    """
    books = Books(cursor, source.catalog)
    account_of(books, source)
    facts.declare(books, source.key, attribute)


def declaration(cursor: Cursor, source: Source, name: str, *, search_path: str = "", **how: Any) -> Attribute:
    """The public domain of a column as an owner declares it, checked; only a reference's rows are read.

    Args:
        cursor: a connection of its own.
        source: the table.
        name: of the column.
        search_path: where a reference's table is looked up.
        how: the fields of `Declaration`.

    Raises:
        NotProtected: the table has no account yet.
        UnknownName: no such column or reference.
        InvalidArgument: not exactly one way to declare, or values that do not fit the column.
    """
    books = LookUp(cursor, source.catalog)
    account = account_of(books, source)
    column = source.column(name)
    statement = Declaration(**how)
    if not statement.is_excluded:
        check_stored(source, column)
    attribute = statement.attribute(cursor, column, search_path)
    if statement.computed_as is not None:
        if account.unit_column == column.name:
            raise InvalidArgument(f"computed_as: {column.name!r} is the privacy unit, which tells whose row it is")
        domains = facts.declared(books, source.key)
        return replace(
            statement.reconciled(attribute, domains.get(column.name)),
            computed_from=check_expression(source, domains, column, statement.computed_as),
        )
    check_collation(source, column, names_texts=_names_texts(attribute))
    check_domain(cursor, source, attribute)
    return statement.reconciled(attribute, facts.declared(books, source.key).get(column.name))


def check_stored(source: Source, column: Column) -> None:
    """Refuse a generated column.

    Raises:
        InvalidArgument: it is one.
    """
    if column.generated:
        raise InvalidArgument(_GENERATED.format(source.name, column.name))


def domain_of(books: Books, source: Source, columns: Sequence[str] | None = None) -> Domain:
    """The domain of a source, or of some of its columns: declared, or BOOLEAN.

    Raises:
        NotDeclared: a column has no domain, or its type changed since; names the call that mends it.
        UnknownName: `columns` names one that is not there.
    """
    declared = declared_beside(books, source)
    wanted = source.columns if columns is None else _columns_named(source, columns)
    attributes: list[Attribute] = []
    excluded: list[Attribute] = []
    missing: list[Column] = []
    for column in wanted:
        attribute = declared.get(column.name) or automatic(column) or _known_members(books, source, column)
        if column.generated and (attribute is None or attribute.kind != "excluded"):
            raise NotDeclared(_GENERATED.format(source.name, column.name))
        if attribute is None or not fits(attribute, column):
            missing.append(column)
        else:
            check_readable(source, attribute)
            check_collation(source, column, names_texts=_names_texts(attribute))  # an earlier version took it
            check_range(attribute.name, attribute.type, attribute.ticks)  # an earlier version declared wider ones
            attribute = replace(attribute.of_release, type=attribute.released_type)
            attribute = attribute.closed(never_null=not column.nullable)
            (excluded if attribute.kind == "excluded" else attributes).append(attribute)
    if missing:
        raise NotDeclared(what_is_missing(books, source, missing))
    _check_bases(source, attributes, excluded)
    if not attributes:
        what = "every column" if columns is None else ", ".join(attribute.name for attribute in excluded)
        raise NotDeclared(
            f"{what} of {source.name!r} is excluded: declare the domain of at least one with dp_domain(…); "
            "dpsql init proposes domains"
        )
    return Domain(tuple(attributes), tuple(excluded))


def _check_bases(source: Source, attributes: Sequence[Attribute], excluded: Sequence[Attribute]) -> None:
    """Refuse a computed column without a column that it is computed from."""
    names = {
        attribute.name
        for attribute in (*attributes, *excluded)
        if attribute.kind != "excluded" or attribute.computed_as
    }
    for column in excluded:
        left_out = [name for name in column.computed_from if name not in names]
        if left_out:
            raise NotDeclared(
                f"column {column.name!r} of {source.name!r} is computed from {', '.join(left_out)}, which "
                "have no domain here: name them too, or leave it out"
            )


def _known_members(books: Books, source: Source, column: Column) -> Attribute | None:
    """The domain of an ENUM whose members are in a release of books from before owners were asked; else None."""
    if not lists_members(column.type) or column.type not in facts.released_types(books, source.key):
        return None
    return declare_members(column, nullable=column.nullable)


def fits(attribute: Attribute, column: Column) -> bool:
    """Whether a column is still of the type of which its domain was declared."""
    if attribute.stored_type == column.type:
        return True
    hidden = attribute.kind == "excluded" or lists_members(column.type)
    return hidden and attribute.stored_type == public_type(column.type)


def as_released(source: Source, domain: Domain) -> Source:
    """A source whose columns have the types in which they come out."""
    types = {attribute.name: attribute.stored_type for attribute in (*domain, *domain.excluded)}
    columns = (replace(column, type=types.get(column.name, column.type)) for column in source.columns)
    return replace(source, columns=tuple(columns))


def _columns_named(source: Source, columns: Sequence[str]) -> list[Column]:
    if not columns:
        raise InvalidArgument("columns is empty: name at least one, or leave it out for all")
    wanted = {source.column(name).name for name in columns}
    return [column for column in source.columns if column.name in wanted]
