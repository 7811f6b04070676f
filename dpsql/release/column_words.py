"""What people call the columns of a release: those of a unit's row have names that only dpsql gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpsql.books.releases.releases import Entry
from dpsql.core.names import pick
from dpsql.core.unit_words import words_of
from dpsql.errors import UnknownName

Words = Callable[[str], str]


def words_of_columns(entry: Entry) -> Words:
    """What each column of a release is called; of one table as it is."""
    if entry.unit_row is None:
        return str
    words = words_of(entry.unit_row)
    return lambda name: words.get(name, name)


def names_of_words(entry: Entry, given: Sequence[str]) -> list[str]:
    """The columns that people mean, by words or by name.

    Raises:
        UnknownName: a linked release has no such column; lists them by words. Of one table the domain says so.
    """
    if entry.unit_row is None:
        return [*given]
    called = words_of_columns(entry)
    names = {called(name): name for name in entry.domain.names}
    spellings = []
    for name in given:
        meant = pick(name, names)
        own = pick(name, entry.domain.names) if meant is None else names[meant]
        if own is None:
            raise UnknownName(f"there is no column {name!r}; the columns are {', '.join(names)}")
        spellings.append(own)
    return spellings
