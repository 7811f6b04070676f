r"""The key of a ledger: with it each hash is an HMAC-SHA-256, which nobody makes who does not have the key.

Without a key, who can write both the database and its head can make a ledger anew that is right in itself: with a reset
that nobody ordered, say. With one that is noticed, as long as the key is where they cannot read it.

The key is the text in the environment variable `DPSQL_LEDGER_KEY`, or in a file beside the head whose name ends with
`.dpsql-key` instead of `.dpsql-head`. A ledger that begins while there is a key is made with it, and an older one from
`dpsql ledger key` on. From then on the key must be there for whoever charges; and where there is one, a ledger without
is refused, for it may be a forged one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dpsql.books.ledger import heads
from dpsql.errors import BooksError

VARIABLE: Final = "DPSQL_LEDGER_KEY"
SUFFIX: Final = ".dpsql-key"
_SHORTEST: Final = 32
_MAKE: Final = "python -c 'import secrets; print(secrets.token_hex(32))' makes one"


class KeyMissing(BooksError):
    """The key of a ledger is missing, another one, or there where the ledger was made without."""


@dataclass(frozen=True)
class LedgerKey:
    """A key.

    Attributes:
        secret: its bytes.
        where: it was found, in words.
    """

    secret: bytes = field(repr=False)
    where: str

    @property
    def fingerprint(self) -> str:
        """By which the ledger tells it from others; says nothing of the key."""
        return self.sign("the key of a dpsql ledger")[:16]

    def sign(self, text: str) -> str:
        """HMAC-SHA-256 of a text."""
        return hmac.digest(self.secret, text.encode(), "sha256").hex()


def file_of(head: Path) -> Path:
    """Where the key lies that goes with a head."""
    return head.with_name(head.name.removesuffix(heads.SUFFIX) + SUFFIX)


def find_key(head: Path | None) -> LedgerKey | None:
    """The key for the ledger whose head that is, None of a database in memory; None if there is no key.

    Raises:
        KeyMissing: it cannot be read, or is too short to be one.
    """
    text, where = os.environ.get(VARIABLE), f"the environment variable {VARIABLE}"
    if text is None and head is not None:
        path = file_of(head)
        where = f"the file {str(path)!r}"
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise KeyMissing(f"the key in {where} cannot be read ({type(error).__name__}): give the right to") from None
    if text is None:
        return None
    if len(text.strip()) < _SHORTEST:
        raise KeyMissing(f"the key in {where} has {len(text.strip())} characters, fewer than {_SHORTEST}: {_MAKE}")
    return LedgerKey(text.strip().encode(), where)


def check_key(key: LedgerKey | None, wanted: str | None, head: Path | None) -> None:
    """Refuse to go on with a ledger that is not made with the key that is there.

    Args:
        key: that is there.
        wanted: the fingerprint of the one that the ledger is made with; None if it is made without.
        head: of the ledger.

    Raises:
        KeyMissing: says what to do.
    """
    there = None if key is None else key.fingerprint
    if there == wanted:
        return
    if key is None:
        beside = "" if head is None else f", or write it to the file {str(file_of(head))!r}"
        raise KeyMissing(
            f"the ledger is made with a key (fingerprint {wanted}), which is not there: set the environment variable "
            f"{VARIABLE} to it{beside}"
        )
    if wanted is None:
        raise KeyMissing(
            f"there is a key in {key.where}, but the ledger is made without one. If it is older than the key, its "
            "owner says dpsql ledger key <file> --reason '…', once; else somebody who does not have the key wrote it"
        )
    raise KeyMissing(
        f"the ledger is made with another key (fingerprint {wanted}) than the one in {key.where} (fingerprint "
        f"{there}): give the right one"
    )


def link_hash(before: str | None, content: str, key: LedgerKey | None) -> str:
    """The hash of an event: of the one before, and its content."""
    text = content if before is None else f"{before}\n{content}"
    return hashlib.sha256(text.encode()).hexdigest() if key is None else key.sign(text)


def seal_of(content: Mapping[str, Any], key: LedgerKey | None) -> str | None:
    """What shows that a head was written by who has the key; None without one."""
    return None if key is None else key.sign(json.dumps(content, ensure_ascii=False, sort_keys=True))
