"""Tables of which each period has a budget of its own: how an owner says it, and which rows a request is about.

Tables D and D′ differ by one row, added or removed. Its value of the column lies in one period p, or in none. Rows are
counted of one period alone, so every other period has the same rows in D and in D′, and its answers have the same
distribution, whatever was answered before. What is asked of p is charged to the account of p. So all releases of all
periods together are (ε, δ)-DP with the ε and δ of one period: parallel composition. That is of rows whose value stays
as it is: one that is changed between requests is counted in several periods, and loses ε in each.

That holds where neighbours differ by a row more or less. Where one row is replaced (`replace_one`) it may leave one
period and enter another, and the numbers of rows of both, which are public there, would change: refused. Rows of one
privacy unit may lie in several periods, whose ε would add up: refused.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.books.ledger.periods import find_periods
from dpsql.books.ledger.store import Books
from dpsql.core.column_types import public_type
from dpsql.core.domain import Domain
from dpsql.core.names import as_text, quote
from dpsql.core.period import TYPES, Periods, check_every
from dpsql.core.period_domain import reaches
from dpsql.engines.source import Column, Source
from dpsql.errors import InvalidArgument


def stated_periods(
    source: Source, period: str | None, by: str | None, neighbours: str, privacy_unit: str | None
) -> Periods | None:
    """The periods that an owner says have a budget each, checked; None where the table has one budget.

    Args:
        source: the table.
        period: which ones, such as `month`.
        by: the column that says in which one a row lies.
        neighbours: of the promise.
        privacy_unit: of the promise.

    Raises:
        InvalidArgument: only one of both is given, or what they say is not covered; says what works.
        UnknownName: no such column.
    """
    if period is None and by is None:
        return None
    if period is None or by is None:
        missing, given = (
            ("period := 'month'", f"by is {by!r}") if period is None else ("by := '…'", f"period is {period!r}")
        )
        raise InvalidArgument(f"{given}: say {missing} too; by names the column that says in which period a row lies")
    check_every(period)
    if privacy_unit is not None:
        raise InvalidArgument(
            f"period is {period!r} and privacy_unit {privacy_unit!r}: rows of one unit may lie in several periods, "
            "whose epsilons add up, and that is not counted. Leave period and by out, and all periods share one budget"
        )
    if neighbours != "add_remove":
        raise InvalidArgument(
            f"period is {period!r} and neighbours {neighbours!r}: a row that is replaced may move from one period to "
            "another, and changes both their numbers of rows. Say neighbours := 'add_remove'"
        )
    if source.place is not None:
        raise InvalidArgument(
            f"period is {period!r}, but the rows of {source.name!r} are in engine {source.place.engine!r}: periods are "
            "of tables in DuckDB. Copy the rows into one, or leave period and by out"
        )
    column = source.column(by)
    _check_column(source, column)
    return Periods(period, column.name, public_type(column.type))


def in_period(books: Books, source: Source, label: str | None) -> Source:
    """The table whose rows a request is about: the whole, or that of one period.

    Args:
        books: of the table.
        source: the table as its name says.
        label: the period that was asked for; None for none.

    Raises:
        InvalidArgument: the table has a budget for each period and none is named, or it has one budget and one is; or
            the column is not what it was.
    """
    periods = find_periods(books, source.table_key)
    if periods is None:
        if label is not None:
            raise InvalidArgument(
                f"period is {label[:40]!r}, but {source.name!r} has one budget for all its rows: leave period out"
            )
        return source
    if label is None:
        raise InvalidArgument(
            f"{source.name!r} has a budget for {periods}: say which one, as in period := '{periods.example}'"
        )
    period = periods.period(label)
    if source.place is not None:
        raise InvalidArgument(
            f"{source.name!r} has a budget for {periods}, and its rows are in engine {source.place.engine!r} now: "
            "periods are of tables in DuckDB"
        )
    there = {column.name: column for column in source.columns}.get(period.column)
    if there is None or public_type(there.type) != period.type or there.generated:
        raise InvalidArgument(
            f"column {period.column!r} of {source.name!r}, which says in which period a row lies, is not what it was "
            "when the table was protected: change it back"
        )
    return replace(source, period=period)


def check_whole(books: Books, source: Source, what: str) -> None:
    """Refuse what is of a table with one budget only.

    Args:
        books: of the table.
        source: the table.
        what: reads, or changes, all rows together, in words.

    Raises:
        InvalidArgument: each period of the table has a budget.
    """
    periods = find_periods(books, source.table_key)
    if periods is not None:
        raise InvalidArgument(f"{what}, but {source.name!r} has a budget for {periods}")


def check_declared(source: Source, domain: Domain) -> None:
    """Refuse a synthetic table of a period in which no declared value lies: it would have no rows.

    Raises:
        InvalidArgument: says what mends it.
    """
    period = source.period
    attribute = None if period is None else domain.by_name.get(period.column)
    if period is None or attribute is None:
        return
    if not reaches(period, attribute):
        raise InvalidArgument(
            f"period is {period.label!r}, but no declared value of {period.column!r} lies in it: declare a domain that "
            f"reaches it, CALL dp_domain({source.argument}, {as_text(period.column)}, lower := …, upper := …)"
        )


def of_each(periods: Periods) -> str:
    """What is said of a table when it is protected: what has that budget, and of whom it adds up."""
    return (
        f"{periods} has that epsilon and delta; requests say which one, as in period := '{periods.example}'. Rows "
        "are protected one by one: for somebody with several the epsilons add up"
    )


def _check_column(source: Source, column: Column) -> None:
    """Refuse a column that does not say a period by itself.

    Raises:
        InvalidArgument: it is of another type, or generated.
    """
    if column.generated:
        raise InvalidArgument(f"by is {column.name!r}, a generated column: name one that is stored")
    kind = public_type(column.type)
    if kind in TYPES:
        return
    alter = f"ALTER TABLE {source.identifier} ALTER {quote(column.name)} TYPE"
    of_date = "" if kind == "VARCHAR" or kind.startswith("TIMESTAMP") else " USING …"  # other types have no cast
    instead = f"store it as one: {alter} DATE{of_date}"
    if kind == "TIMESTAMP WITH TIME ZONE":
        instead = (
            "of this one the time zone of the session would decide. Store it in UTC first: "
            f"{alter} TIMESTAMP USING {quote(column.name)} AT TIME ZONE 'UTC'"
        )
    raise InvalidArgument(
        f"by is {column.name!r}, a column of type {kind}: periods are of columns of type DATE or TIMESTAMP; {instead}"
    )
