"""What is said where Postgres fails: constant texts by the class of the failure, because its own may quote a row."""

from __future__ import annotations

from typing import Final

from dpsql.engines.protocol import CountingFailed, CountingRefused
from dpsql.engines.sql.failures import TableChanged

CANCELLED: Final = "57014"
_STOPPED: Final = (CANCELLED, "25P04")  # the latter by transaction_timeout of Postgres 17
_LOST: Final = ("08", "57P")
_LOCKED: Final = ("55P03", "40P01")
_CONFLICT: Final = "40001"  # a transaction that only reads is undone for nothing else
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
            "Postgres stopped the count, by its statement_timeout or transaction_timeout, or because somebody "
            "cancelled it; what was charged is kept: ALTER ROLE … SET statement_timeout = 0, and the same call goes on",
        )


class Locked(CountingRefused):
    """Somebody else had the table for themselves, for longer than the server lets a session wait."""

    def __init__(self) -> None:
        super().__init__(
            "the table in Postgres was locked by somebody else for longer than lock_timeout allows; what was charged "
            "is kept: when ALTER TABLE, VACUUM FULL or the like has ended, the same call goes on; or ALTER ROLE … SET "
            "lock_timeout = 0, and it waits",
        )


class Conflict(CountingRefused):
    """A standby had to replay what its primary did, such as VACUUM, and the snapshot was in the way."""

    def __init__(self) -> None:
        super().__init__(
            "this Postgres is a standby, and it ended the count: it does where its primary removes rows that the count "
            "still sees, and where it is shut down; what was charged is kept: the same call goes on. If it happens "
            "again, set hot_standby_feedback = on or a longer max_standby_streaming_delay there, or count on its "
            "primary",
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


def failure_of(sqlstate: str | None, *, alive: bool, standby: bool = False) -> CountingFailed:
    """What is said of an error.

    Args:
        sqlstate: of the error, if Postgres sent one.
        alive: whether the connection still answers.
        standby: whether the server replays what another one does; it cuts connections that are in the way of that.
    """
    state = sqlstate or ""
    if state == _CONFLICT:
        return Conflict()
    if not alive or state.startswith(_LOST):
        return Conflict() if standby else ConnectionLost()
    if state in _STOPPED:
        return Cancelled()
    if state in _LOCKED:
        return Locked()
    return TableChanged("Postgres") if state.startswith(_REFUSED) else CountingFailed()
