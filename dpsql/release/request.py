"""What people ask for: a synthetic table, the answers of a query, the domain of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dpsql.errors import InvalidArgument
from dpsql.mechanisms.auto import AUTO
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import check_delta, check_epsilon
from dpsql.privacy.distributions import GAUSSIAN, Distribution, find_noise

DEFAULT_MECHANISM: Final = AUTO
LONGEST_NAME: Final = 1000
"""Characters of a release's name."""
MOST_ROWS: Final = 200_000_000
"""Of a synthetic table."""


@dataclass(frozen=True)
class Request:
    """What an analyst asks for. Two equal requests are the same release.

    Attributes:
        table: the source's name, as written.
        epsilon: what the release may cost.
        delta: None for the table's.
        workload: SQL or shorthand; None for the default.
        mechanism: its name.
        rows: of the synthetic table; None for the measured total.
        columns: only these; None for all.
        prior: a public table, view or earlier release that the fit starts from or leans on.
        reuse: whether the fit uses measurements that earlier releases of the table paid for.
        release: a name that tells equal requests apart.
        options: of the mechanism.
        search_path: the caller's, for a bare table name.
        by: the user who asks; empty for the owner.
        linked: whether the release is of all tables that links lead to, or of whole privacy units.
        period: whose rows it is about, of a table of which each period has a budget.
        ordered_by: of whole privacy units, the column by which rows of one follow each other.
    """

    table: str
    epsilon: float
    delta: float | None = None
    workload: str | None = None
    mechanism: str = DEFAULT_MECHANISM
    rows: int | None = None
    columns: tuple[str, ...] | None = None
    prior: str | None = None
    reuse: bool = True
    release: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    search_path: str = ""
    by: str = ""
    linked: bool = False
    period: str | None = None
    ordered_by: str | None = None


@dataclass(frozen=True)
class QueryRequest:
    """What an analyst asks. Equal measured parts at equal budgets are the same release.

    Attributes:
        sql: the query.
        epsilon: what the answers may cost; 0 for what earlier releases tell already.
        delta: None for the table's; not used with Laplace noise.
        mechanism: the name of the noise.
        non_negative: whether counts below 0 are shown as 0.
        release: a name that tells equal requests apart.
        search_path: the caller's, for bare names.
        by: the user who asks; empty for the owner.
        period: whose rows it is about, of a table of which each period has a budget.
    """

    sql: str
    epsilon: float
    delta: float | None = None
    mechanism: str = GAUSSIAN.name
    non_negative: bool = False
    release: str = ""
    search_path: str = ""
    by: str = ""
    period: str | None = None

    @property
    def noise(self) -> Distribution:
        """The noise, of a request whose mechanism is one."""
        return find_noise(self.mechanism)


@dataclass(frozen=True)
class DiscoveryRequest:
    """What an owner asks.

    Attributes:
        table, column: the column to discover.
        epsilon: what it may cost.
        delta: None for the table's for bins, a tenth of it for values.
        lower, upper: public bounds, for bins; both None for values.
        bins: how many, at most.
        nulls: whether NULL has a cell; None unless the column is NOT NULL.
        other: the value that stands for all others.
        nulls_as: values that stand for NULL.
        read_as: the type as which texts are read, for bins.
        heavy: the part of the rows from which on a value is a point; None for no points.
        search_path: the caller's, for bare names.
        period: whose rows are looked at, of a table of which each period has a budget.
    """

    table: str
    column: str
    epsilon: float
    delta: float | None = None
    lower: Any = None
    upper: Any = None
    bins: int | None = None
    nulls: bool | None = None
    other: Any = None
    nulls_as: Sequence[Any] | None = None
    read_as: str | None = None
    heavy: float | None = None
    search_path: str = ""
    period: str | None = None


def check_name(release: str) -> None:
    """Refuse a name of a release that is as long as a text.

    Raises:
        InvalidArgument: it is.
    """
    if len(release) > LONGEST_NAME:
        raise InvalidArgument(f"release has {len(release)} characters, more than {LONGEST_NAME}: give a shorter name")


def asked_delta(account: Account, epsilon: float, delta: float | None) -> float:
    """The δ of a request, by default its account's; 0 where it promises pure ε, or is asked to.

    Raises:
        InvalidArgument: ε or δ is out of its range.
    """
    check_epsilon(epsilon)
    own_delta = account.delta if delta is None else delta
    return own_delta if own_delta == 0 else check_delta(own_delta)


def check_rows(rows: int | None) -> None:
    """Refuse a number of synthetic rows that no table has.

    Raises:
        InvalidArgument: it is out of its range.
    """
    if rows is not None and not 0 <= rows <= MOST_ROWS:
        raise InvalidArgument(f"rows is {rows}: give 0 to {MOST_ROWS}, or leave it out for the measured total")
