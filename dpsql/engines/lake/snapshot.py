"""A digest of a snapshot's files, by which the ledger and a pin tell one snapshot from another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from dpsql.engines.place import PinnedFile


def digest_of(files: Iterable[PinnedFile]) -> str:
    """SHA-256 of the sizes and footers of files, in order; names do not count, because a lake may move."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.size} {file.footer}\n".encode())
    return whole.hexdigest()
