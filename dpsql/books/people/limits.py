"""What users may cause of a table's loss, and what they caused: limits for each user, table and period.

A limit is to a user what an account is to a table. It has an ε at a δ, and the user's own charges of the period must
together be (ε, δ)-DP, by the same sum by which the table's account is held. So neither a large δ nor another kind of
noise gets past it. Pure releases count by the sum of their ε as long as they do in the account. It is bookkeeping among
users, and promises nothing about rows: users may work together. What protects rows is the table's account, which every
charge must fit too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from dpsql.books.ledger import ledger
from dpsql.books.ledger.accounts import find_account
from dpsql.books.ledger.periods import find_periods
from dpsql.books.ledger.store import Books
from dpsql.books.people.people import SINCE_ACCEPTED
from dpsql.core.digits import up
from dpsql.core.period import table_of
from dpsql.errors import BooksError, InsufficientBudget, InvalidArgument
from dpsql.privacy.account import Account, more_than_left
from dpsql.privacy.accounting import RHO_UNIT, Budget, account_budget, check_epsilon, units

PERIODS: Final = ("forever", "month", "day")
_NOW_IS: Final = {"forever": "", "month": " this month (UTC)", "day": " today (UTC)"}
_CAUSED: Final = """
    SELECT coalesce(sum(rho), 0), coalesce(sum(gdp), 0), CASE WHEN count(pure) = count(*) THEN coalesce(sum(pure), 0)
      END, count(*)
    FROM dpsql.payer WHERE person = $person AND source = $source AND number > $since AND charged_at >= $begin
"""
_LISTED: Final = "SELECT person, source, period, epsilon, delta FROM dpsql.allowance"
_OTHER_PAYERS: Final = f"""
    SELECT coalesce(p.number, e.number) FROM (SELECT * FROM dpsql.payer WHERE {SINCE_ACCEPTED}) AS p FULL JOIN (
      SELECT number, content->>'$.key' AS key, content->>'$.by' AS person, content->>'$.source' AS source,
        CAST(content->>'$.rho' AS HUGEINT) AS rho, CAST(content->>'$.gdp' AS HUGEINT) AS gdp,
        CAST(content->>'$.pure' AS HUGEINT) AS pure, CAST(content->>'$.at' AS TIMESTAMP) AS charged_at
      FROM dpsql.event WHERE (content->>'$.kind') = 'charge' AND (content->>'$.by') IS NOT NULL
        AND {SINCE_ACCEPTED}
    ) AS e ON p.number = e.number
    WHERE (p.key, p.person, p.source, p.rho, p.gdp, p.pure, p.charged_at)
      IS DISTINCT FROM (e.key, e.person, e.source, e.rho, e.gdp, e.pure, e.charged_at)
    LIMIT 1
"""  # noqa: S608
_STATED: Final = f"""
    SELECT content->>'$.user', content->>'$.table', content->>'$.period',
      arg_max(coalesce(content->>'$.epsilon', ''), number), arg_max(coalesce(content->>'$.delta', ''), number)
    FROM dpsql.event WHERE (content->>'$.kind') = 'user' AND (content->>'$.action') = 'limit' AND {SINCE_ACCEPTED}
    GROUP BY 1, 2, 3
"""  # noqa: S608


@dataclass(frozen=True)
class Limit:
    """What a user may cause of a table's loss in a period.

    Attributes:
        person: the user.
        source: the table's key.
        period: of `PERIODS`.
        epsilon: of all that they cause, at `delta`.
        delta: None for the table's.
    """

    person: str
    source: str
    period: str
    epsilon: float
    delta: float | None

    def __str__(self) -> str:
        """As an error names it."""
        per = "" if self.period == "forever" else f" per {self.period}"
        return f"{up(self.epsilon)}{per}"


# --- set --------------------------------------------------------------------------------------------------------------


def set_limit(books: Books, limit: Limit) -> None:
    """Inside a transaction: set a limit; one of the same user, table and period is replaced.

    Raises:
        InvalidArgument: the period, ε or δ is none that the table's account can be held to.
    """
    if limit.period not in PERIODS:
        raise InvalidArgument(f"per is {limit.period!r}: give 'forever', 'month' or 'day'")
    if isinstance(limit.epsilon, bool) or not isinstance(limit.epsilon, (int, float)):
        raise InvalidArgument(f"epsilon of the limit is {limit.epsilon!r}: give a number, such as 0.5")
    check_epsilon(limit.epsilon)
    account = find_account(books, limit.source)
    assert account is not None
    if limit.delta is not None and (account.pure or not 0 < limit.delta < 1):
        instead = "leave it out" if account.pure else "give a probability such as 1e-9, or leave it out"
        raise InvalidArgument(
            f"delta of the limit is {limit.delta:g}, but {limit.source} has {account.delta:g}: {instead}"
        )
    _remove(books, limit.person, limit.source, limit.period)
    row = {"person": limit.person, "source": limit.source, "period": limit.period}
    amounts = {"epsilon": float(limit.epsilon), "delta": limit.delta}
    books.run("INSERT INTO dpsql.allowance VALUES ($person, $source, $period, $epsilon, $delta)", row | amounts)
    _record(books, limit.person, limit.source, limit.period, limit.epsilon, limit.delta)


def remove_limits(books: Books, person: str, source: str | None = None, period: str | None = None) -> int:
    """Inside a transaction: take limits back, and say how many; without any, a user may not ask about a table.

    Args:
        books: of the user.
        person: the user.
        source: of this table alone.
        period: of this period alone.
    """
    limits = [limit for limit in list_limits(books, person) if source in (None, limit.source)]
    limits = [limit for limit in limits if period in (None, limit.period)]
    for limit in limits:
        _remove(books, person, limit.source, limit.period)
        _record(books, person, limit.source, limit.period, None, None)
    return len(limits)


def _remove(books: Books, person: str, source: str, period: str) -> None:
    row = {"person": person, "source": source, "period": period}
    sql = "DELETE FROM dpsql.allowance WHERE person = $person AND source = $source AND period = $period"
    books.run(sql, row)


def _record(books: Books, person: str, source: str, period: str, epsilon: float | None, delta: float | None) -> None:
    about: dict[str, Any] = {"user": person, "table": source, "period": period, "epsilon": epsilon, "delta": delta}
    ledger.event(books, "user", action="limit", **about)


# --- find -------------------------------------------------------------------------------------------------------------


def list_limits(books: Books, person: str | None = None) -> list[Limit]:
    """The limits of a user, or all."""
    if not books.has("allowance"):
        return []
    limits = [Limit(*row) for row in books.run(f"{_LISTED} ORDER BY person, source, period")]
    return [limit for limit in limits if person is None or limit.person == person]


def standing(books: Books, limit: Limit, account: Account) -> Account:
    """A limit as an account of its own: what it allows in the period that is now, and what the user caused in it."""
    delta = account.delta_of_sums if limit.delta is None else limit.delta
    budget = account_budget(limit.epsilon, delta)
    row = {"person": limit.person, "source": account.source, "since": account.since, "begin": begin_of(limit.period)}
    rho, gdp, pure, releases = books.run(_CAUSED, row)[0]
    return replace(
        account,
        epsilon=limit.epsilon,
        delta=delta,
        delta_reserved=0.0,
        delta_spent=0.0,
        rho_budget=_floor(budget.rho),
        gdp_budget=_floor(budget.gdp),
        rho_spent=int(rho) * RHO_UNIT,
        gdp_spent=int(gdp) * RHO_UNIT,
        pure_spent=None if pure is None or account.pure_spent is None else int(pure) * RHO_UNIT,
        releases=int(releases),
    )


def _floor(amount: Fraction) -> Fraction:
    return int(amount / RHO_UNIT) * RHO_UNIT


def begin_of(period: str, now: datetime | None = None) -> datetime:
    """When the period that is now began, in UTC; the books keep times without a zone.

    >>> begin_of("month", datetime(2026, 5, 17, 13, 0))
    datetime.datetime(2026, 5, 1, 0, 0)
    """
    now = datetime.now(UTC).replace(tzinfo=None) if now is None else now
    if period == "forever":
        return datetime(1, 1, 1)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight.replace(day=1) if period == "month" else midnight


ROW: Final = ("source", "period", "epsilon", "delta", "epsilon_spent", "epsilon_left", "releases")


def rows_of(books: Books, limit: Limit | None) -> list[tuple[Any, ...]]:
    """A limit as `row_of` shows it; and of each period of its table in which the user caused something.

    Of other periods nothing is said, because which ones others asked about is theirs.
    """
    rows = [row_of(books, limit)]
    if limit is not None and find_periods(books, limit.source) is not None:
        paid = books.run("SELECT DISTINCT source FROM dpsql.payer WHERE person = $person", {"person": limit.person})
        sources = sorted(source for (source,) in paid if table_of(source) == limit.source)
        rows += [row_of(books, limit, source) for source in sources]
    return rows


def row_of(books: Books, limit: Limit | None, source: str | None = None) -> tuple[Any, ...]:
    """A limit with what was caused of it and may still be asked for, as `ROW` names it; all None without one.

    Args:
        books: of the user.
        limit: the limit.
        source: the key of a period of its table, where each has a budget; None for the table's own.
    """
    account = None if limit is None else find_account(books, source or limit.source)
    if limit is None or account is None:
        return (None,) * len(ROW)
    own, fitting = standing(books, limit, account), left(books, limit.person, account)
    return (account.source, limit.period, own.epsilon, own.delta, own.epsilon_spent, fitting, own.releases)


# --- test -------------------------------------------------------------------------------------------------------------


def require_allowed(books: Books, person: str, account: Account, budget: Budget, conversion: str | None = None) -> None:
    """Refuse what a user may not cause, before anything is charged or read.

    Raises:
        InsufficientBudget: says which limit, what is left of it, and what the owner can do. Of the table's account it
            says no more than what still fits, for the rest tells what others asked.
    """
    limits = [limit for limit in list_limits(books, person) if limit.source == table_of(account.source)]
    if not limits:
        raise InsufficientBudget(no_limit(person, table_of(account.source)))
    account.check_kind(budget)
    standings = {limit: standing(books, limit, account) for limit in limits}

    def fitting() -> float:
        return min(limited.fitting_like(budget, conversion) for limited in (account, *standings.values()))

    for limit, own in standings.items():
        if not _fits(own, budget, conversion):
            lacks = more_than_left(person, fitting(), budget, f" on {account.source}")
            spent = f"{own.spent_words} is spent{_NOW_IS[limit.period]}{own.why(budget)}"
            raise InsufficientBudget(
                f"{lacks}. Of the limit of {limit}, {spent}. The owner sets another limit with "
                f"dpsql user limit <file> {person} {limit.source}=…, in Python "
                f"db.users.limit({person!r}, {limit.source!r}, …)"
            )
    if not _fits(account, budget, conversion):
        lacks = more_than_left(account.source, fitting(), budget, " for all users together")
        raise InsufficientBudget(f"{lacks}. The owner can raise it with dpsql ledger raise")


def no_limit(person: str, source: str) -> str:
    """What is said of a table that a user may not ask about."""
    return (
        f"{person!r} may not ask about {source}: the owner says dpsql user limit <file> {person} {source}=…, in Python "
        f"db.users.limit({person!r}, {source!r}, …)"
    )


def _fits(account: Account, budget: Budget, conversion: str | None) -> bool:
    try:
        account.require(budget, conversion)
    except InsufficientBudget:
        return False
    return True


def left(books: Books, person: str, account: Account, budget: Budget | None = None) -> float:
    """The largest ε that one more release of a user may ask for: by each of their limits, and by the account.

    Args:
        books: of the table's database.
        person: the user.
        account: of the table.
        budget: of another release before that one.
    """
    limits = [limit for limit in list_limits(books, person) if limit.source == table_of(account.source)]
    if not limits:
        return 0.0
    accounts = [account, *(standing(books, limit, account) for limit in limits)]
    if budget is not None:
        accounts = [account_left.after(budget) for account_left in accounts]
    gaussian = min(account_left.fitting("gdp", account.delta) for account_left in accounts)
    return max(gaussian, min(account_left.fitting_by_pure for account_left in accounts))


def record_payer(books: Books, person: str, key: str, number: int, source: str, budget: Budget) -> None:
    """Inside a transaction, after the charge's event: who caused it."""
    books.run(
        "INSERT INTO dpsql.payer SELECT number, $key, $person, $source, CAST(content->>'$.at' AS TIMESTAMP), "
        "$rho, $gdp, $pure FROM dpsql.event WHERE number = $number",
        {
            "key": key,
            "number": number,
            "person": person,
            "source": source,
            "rho": units(budget.rho),
            "gdp": units(budget.gdp),
            "pure": units(budget.exact_epsilon) if budget.pure else None,
        },
    )


def payer_of(books: Books, number: int) -> str | None:
    """The user who caused a charge; None for the owner's."""
    rows = books.run("SELECT person FROM dpsql.payer WHERE number = $number", {"number": number})
    return str(rows[0][0]) if rows else None


# --- verify -----------------------------------------------------------------------------------------------------------


def check_limits(books: Books) -> None:
    """Refuse limits, or rows of who caused a charge, that are not what the ledger says.

    Raises:
        BooksError: says which.
    """
    if not books.has("allowance"):
        return
    stated: set[tuple[Any, ...]] = set()
    for person, source, period, epsilon, delta in books.run(_STATED):
        if epsilon:
            stated.add((person, source, period, float(epsilon), float(delta) if delta else None))
    rows = {(o.person, o.source, o.period, o.epsilon, o.delta) for o in list_limits(books)}
    other = sorted(stated ^ rows, key=repr)
    if other:
        raise BooksError(f"the limit of user {other[0][0]} on {other[0][1]} is not what the ledger says")
    wrong: Sequence[Any] = books.run(_OTHER_PAYERS)
    if wrong:
        raise BooksError(f"who caused charge {wrong[0][0]} is not what the ledger says")


def restate(books: Books) -> None:
    """Inside a transaction, after the chain began anew: record limits as they are."""
    for limit in list_limits(books):
        _record(books, limit.person, limit.source, limit.period, limit.epsilon, limit.delta)
