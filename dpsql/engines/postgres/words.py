"""What libpq connects with, from where the owner keeps it: an environment variable, or DuckDB's secrets.

Neither the words nor a password is stored, logged or shown: the books hold the name of the variable or of the secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from dpsql.engines.duckdb.cursors import Cursor, EngineError
from dpsql.engines.external import words_in
from dpsql.errors import InvalidArgument

_SECRET: Final = "SELECT secret_string FROM duckdb_secrets(redact := false) WHERE type = 'postgres' AND name = ?"
_PARTS: Final = re.compile(
    r"(?:^|.*?;)(?:dbname=(?P<dbname>[^;]*))?(?:;?host=(?P<host>[^;]*))?(?:;?hostaddr=(?P<hostaddr>[^;]*))?"
    r"(?:;?passfile=(?P<passfile>[^;]*))?(?:;?password=(?P<password>.*?))?(?:;?port=(?P<port>\d+))?"
    r"(?:;?user=(?P<user>[^;]*))?$",
    re.DOTALL,
)
_KEPT: Final = ";scope"


def named_in(given: Mapping[str, Any]) -> str:
    """Where the words are, as errors say it.

    >>> named_in({"environment": "BANK_PG"})
    "environment := 'BANK_PG'"
    """
    (words,) = [f"{key} := {given[key]!r}" for key in ("environment", "secret") if given.get(key)] or [
        "PGHOST, PGUSER …"
    ]
    return words


def words_of(cursor: Cursor, given: Mapping[str, Any]) -> str:
    """What libpq connects with; without a word of the owner's it reads PGHOST, PGUSER and so on itself.

    Raises:
        InvalidArgument: both ways are named, or there is no such variable or secret.
    """
    environment, secret = given.get("environment"), given.get("secret")
    if environment and secret:
        raise InvalidArgument("environment and secret both say how to connect to Postgres: give one of them")
    if secret:
        return _of_secret(cursor, secret)
    what = "psql would connect with, such as postgresql://user@host/database"
    return words_in(environment, what) if environment else ""


def without_quotes(words: str) -> str:
    """The words, with the option that names are not all in quotes, which the driver cannot read.

    >>> without_quotes("postgresql://user@host/bank?sslmode=require")
    'postgresql://user@host/bank?sslmode=require&options=-c%20quote_all_identifiers%3Doff'
    >>> without_quotes("dbname=bank")
    "dbname=bank options='-c quote_all_identifiers=off'"

    Raises:
        InvalidArgument: there are options already, which these would replace.
    """
    if "options" in words or os.environ.get("PGOPTIONS"):
        raise InvalidArgument(
            "quote_all_identifiers is on in Postgres, and its driver cannot read types whose names are in quotes: "
            "ALTER ROLE … SET quote_all_identifiers = off for dpsql's user, or say -c quote_all_identifiers=off in the "
            "options that you connect with"
        )
    if words.startswith(("postgresql://", "postgres://")):
        return f"{words}{'&' if '?' in words else '?'}options=-c%20quote_all_identifiers%3Doff"
    return f"{words} options='-c quote_all_identifiers=off'".strip()


def _of_secret(cursor: Cursor, name: str) -> str:
    """The words of one of DuckDB's secrets, which it shows to a process that was started so."""
    try:
        secrets = cursor.execute(_SECRET, [name.lower()]).fetchall()
    except EngineError:
        raise InvalidArgument(
            f"secret is {name!r}: DuckDB shows no secret to dpsql unless it was opened with the option "
            "allow_unredacted_secrets = true; or give environment := '…', the name of a variable that holds "
            "postgresql://…"
        ) from None
    parts = _PARTS.match(secrets[0][0].partition(_KEPT)[2]) if secrets else None
    if parts is None:
        raise InvalidArgument(
            f"secret is {name!r}: there is no such secret of type postgres. CREATE SECRET {name} (TYPE postgres, HOST "
            "…, DATABASE …, USER …, PASSWORD …)"
        )
    return " ".join(f"{key}={_quoted(value)}" for key, value in parts.groupdict().items() if value is not None)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
