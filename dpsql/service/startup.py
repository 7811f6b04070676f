"""Statements that the keeper runs before it serves anybody: the extension and the secret that rows in a bucket need.

Their text may hold keys. So an error says which statement failed and how, and quotes nothing of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from dpsql.errors import DpsqlError, InvalidArgument

from .directory import Directory

_TRY: Final = "run the file in DuckDB by hand, which says why"


def run(directory: Directory, path: str) -> None:
    """Run the statements of a file, in their order.

    Args:
        directory: what has the owner's database.
        path: of the file.

    Raises:
        InvalidArgument: the file cannot be read, or is no SQL.
        DpsqlError: a statement failed.
    """
    try:
        statements = duckdb.extract_statements(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"startup is {path!r}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"startup is {path!r}, which is no text in UTF-8: give a file of SQL") from None
    except duckdb.Error:
        raise InvalidArgument(f"startup is {path!r}, which is no SQL that DuckDB knows: {_TRY}") from None
    for number, statement in enumerate(statements, 1):
        try:
            directory.prepare(statement.query)
        except duckdb.Error as error:
            kind = type(error).__name__
            raise DpsqlError(f"statement {number} of {path!r} failed with {kind}: {_TRY}") from None
