"""What is said where Postgres fails: constant texts by the class of the failure, because its own may quote a row."""

from __future__ import annotations

from typing import Final

from dpsql.engines.protocol import CountingFailed, CountingRefused
from dpsql.engines.sql.failures import TableChanged

CANCELLED: Final = "57014"
_LOST: Final = ("08", "57P")
_REFUSED: Final = "42"  # of a name, a right or a type: found out while a statement is planned, before any row


class ConnectionLost(CountingRefused):
    """The connection broke, or the server was shut down."""

    def __init__(self) -> None:
        super().__init__(
            "the connection to Postgres broke while it counted; what was charged is kept: when Postgres answers again, "
            "the same call goes on",
        )


class Cancelled(CountingRefused):
    """Somebody else stopped the statement, or a limit of the server did."""

    def __init__(self) -> None:
        super().__init__(
            "Postgres stopped the count, by its statement_timeout or by somebody's word; what was charged is "
            "kept: ALTER ROLE … SET statement_timeout = 0, and the same call goes on",
        )


class OtherTable(CountingRefused):
    """The name leads to another table, or to more rows than those of one. Nothing was read."""

    def __init__(self) -> None:
        super().__init__(
            "the table in Postgres is not the one that dp_source looked at: another one has its name, as after the "
            "swap of a load, or it has new partitions, or an earlier dpsql registered it. See that it is the one you "
            "mean, and say CALL dp_source('…') with the name of the source alone, then make the same call; what was "
            "charged before is kept"
        )


def failure_of(sqlstate: str | None, *, alive: bool) -> CountingFailed:
    """What is said of an error.

    Args:
        sqlstate: of the error, if Postgres sent one.
        alive: whether the connection still answers.
    """
    if not alive or (sqlstate or "").startswith(_LOST):
        return ConnectionLost()
    if sqlstate == CANCELLED:
        return Cancelled()
    return TableChanged("Postgres") if (sqlstate or "").startswith(_REFUSED) else CountingFailed()
