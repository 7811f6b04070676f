"""`Place`: where the rows of a table are that `dp_source` registered. Values only: nothing here reads anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """Where the rows of a table are that `dp_source` registered; holds no credential and no value of a row.

    Attributes:
        engine: a key of `dpsql.engines.registry.ENGINES`.
        words: JSON of the arguments of `dp_source` that say what the relation is.
        pin: JSON of which rows of it count: a snapshot, a digest of the files.
        identity: the columns that tell rows apart, where the engine wants some.
        sample: JSON of the sample that was drawn of it: the table that has it, the share of rows, by what it was
            drawn; empty without one.
    """

    engine: str
    words: str
    pin: str = "{}"
    identity: tuple[str, ...] = ()
    sample: str = ""

    @property
    def relation(self) -> Mapping[str, Any]:
        """What the owner said of the relation, by the names of `dp_source`'s arguments."""
        words: Mapping[str, Any] = json.loads(self.words)
        return words

    @property
    def pinned(self) -> Mapping[str, Any]:
        """Which rows of it count, as the engine wrote it down."""
        pin_words: Mapping[str, Any] = json.loads(self.pin)
        return pin_words

    @property
    def drawn(self) -> Mapping[str, Any]:
        """The sample that was drawn of it; empty without one."""
        sample_words: Mapping[str, Any] = json.loads(self.sample or "{}")
        return sample_words


@dataclass(frozen=True)
class PinnedFile:
    """A file of a pinned snapshot.

    Attributes:
        path: where it is.
        size: in bytes.
        footer: SHA-256 of its footer.
        constants: JSON of the columns that are the same in all its rows, as texts by name; they are not in the file.
    """

    path: str
    size: int
    footer: str
    constants: str = "{}"
