"""Errors as PostgreSQL's clients know them: a code, and a text without what is private."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import Final

import duckdb

from dpsql.errors import DpsqlError, Interrupted, InvalidArgument

from .allowlist import NotAllowed
from .analyst import TimedOut, TooWide, is_out_of_memory
from .audit import NotAudited
from .calls import KeeperLost, Refused
from .hints import hinted
from .parse_tree import TooDeep
from .protected_names import RowsNotServed, without_suggestion

_OF_KEEPER: Final = {
    "Forbidden": "42501",
    "NotAllowed": "42501",
    "NotOwner": "42501",
    "NotProtected": "42501",
    "InsufficientBudget": "53400",
    "InvalidArgument": "22023",
    "InvalidQuery": "42601",
    "TooLong": "42601",
    "InvalidWorkload": "22023",
    "UnknownName": "42704",
    "DomainTooLarge": "54000",
    "NotDeclared": "55000",
    "TooMany": "53300",
    "Late": "57014",
    "Interrupted": "57014",
    "NotAudited": "58000",
    "InternalError": "XX000",
}
_OF_DUCKDB: Final = (
    (duckdb.ParserException, "42601"),
    (duckdb.CatalogException, "42P01"),
    (duckdb.BinderException, "42703"),
    (duckdb.ConversionException, "22P02"),
    (duckdb.OutOfRangeException, "22003"),
    (duckdb.OutOfMemoryException, "53200"),
    (duckdb.PermissionException, "42501"),
    (duckdb.InterruptException, "57014"),
    (duckdb.InvalidInputException, "22023"),
)
_DIVISION: Final = "Division by zero"
_SETTING: Final = "unrecognized configuration parameter"


def sqlstate(error: BaseException) -> str:
    """The code of an error."""
    if isinstance(error, NotAudited):
        return "58000"
    if isinstance(error, Refused):
        return _OF_KEEPER.get(error.kind, "P0001")
    if isinstance(error, KeeperLost):
        return "08006"
    if isinstance(error, NotAllowed | RowsNotServed):
        return "42501"
    if isinstance(error, Interrupted | TimedOut):
        return "57014"
    if isinstance(error, InvalidArgument):
        return "22023"
    if is_out_of_memory(error):
        return "53200"
    if isinstance(error, duckdb.InvalidInputException) and _DIVISION in str(error):
        return "22012"
    if isinstance(error, duckdb.InvalidInputException) and _SETTING in str(error):
        return "42704"
    if isinstance(error, TooWide):
        return "54011"
    if isinstance(error, TooDeep | RecursionError):
        return "54001"
    if not isinstance(error, DpsqlError | duckdb.Error):
        return "XX000"
    return next((code for kind, code in _OF_DUCKDB if isinstance(error, kind)), "P0001")


def message(error: BaseException) -> str:
    """The text of an error: dpsql's and DuckDB's own; of anything else its class alone."""
    if is_out_of_memory(error):
        return "out of memory: the statement needs more than your process may have"
    if isinstance(error, duckdb.Error):
        return hinted(without_suggestion(str(error).partition("\n\nLINE")[0]).strip()) or type(error).__name__
    if isinstance(error, Interrupted):
        return "canceling statement due to user request; what was charged is kept, the same call goes on from it"
    if isinstance(error, DpsqlError):
        return str(error)
    if isinstance(error, RecursionError):
        return "the statement has too many parts inside one another: give names to some by WITH"
    return f"internal error ({type(error).__name__}): the statement is refused, and the session goes on; ask otherwise"


def is_unexpected(error: BaseException) -> bool:
    """Whether an error is none that dpsql or DuckDB refuses something with, and so a fault of this package."""
    return not isinstance(error, DpsqlError | duckdb.Error | MemoryError)


def place_of(error: BaseException) -> str:
    """The class of an error and the line of this package that it comes from: its text may quote what a user sent."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if PurePath(__file__).parents[1] in PurePath(frame.filename).parents]
    shown = f"{PurePath(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "elsewhere"
    return f"{type(error).__name__} in {shown}"
