"""What people call the columns of a release: those of a unit's row have names that only dpsql gives."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.books.releases.releases import Entry
from dpsql.core.unit_words import words_of

Words = Callable[[str], str]


def words_of_columns(entry: Entry) -> Words:
    """What each column of a release is called; of one table as it is."""
    if entry.unit_row is None:
        return str
    words = words_of(entry.unit_row)
    return lambda name: words.get(name, name)
