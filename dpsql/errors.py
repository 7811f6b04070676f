"""What dpsql raises. Every message names the argument, its value and the call that mends it, never a private value."""

from __future__ import annotations


class DpsqlError(Exception):
    """The root of all errors of dpsql; in SQL its text is DuckDB's error."""


class InvalidArgument(DpsqlError, ValueError):
    """An argument is missing, of the wrong kind or out of its range. Nothing was charged."""


class UnknownName(DpsqlError, LookupError):
    """A table, column, mechanism, option or release of that name does not exist. Nothing was charged."""


class NotProtected(DpsqlError):
    """The table has no privacy budget: its owner calls `dp_protect` first."""


class NotOwner(DpsqlError):
    """A function of the owner's, where those are switched off: see `dpsql.install`. Nothing was changed."""


class NotAllowed(DpsqlError):
    """A user of the service may not do that, or is not known, or was revoked. Nothing was read, changed or charged."""


class NotDeclared(DpsqlError):
    """A column has no public domain: its owner calls `dp_domain` first."""


class DomainTooLarge(DpsqlError):
    """A marginal has more cells than can be counted or held. Nothing was charged."""


class InvalidWorkload(DpsqlError, ValueError):
    """A workload is not a set of marginals of the protected table. Nothing was charged."""


class InvalidQuery(DpsqlError, ValueError):
    """A query cannot be answered with noise, or not as it is written. Nothing was charged."""


class InsufficientBudget(DpsqlError):
    """Less privacy budget is left than was asked for. Nothing was read or charged."""


class BooksError(DpsqlError):
    """The books of a database cannot be read or written."""


class Interrupted(DpsqlError):
    """The work was stopped on request. What was charged is kept: the same call goes on from it, free."""

    def __init__(self, text: str = "interrupted; what was charged is kept, the same call goes on from it") -> None:
        super().__init__(text)


class InternalError(DpsqlError):
    """A defect of dpsql: please report it."""
