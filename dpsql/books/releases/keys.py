"""The PRIMARY, UNIQUE and FOREIGN KEYs of the tables of a linked release.

A FOREIGN KEY needs columns that no two rows share, so where a link's are not so it has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.books.releases.releases import Entry
from dpsql.engines.duckdb.names import split_name
from dpsql.errors import InvalidArgument


@dataclass(frozen=True)
class Key:
    """A key of a table.

    Attributes:
        kind: `primary`, `unique` or `foreign`.
        columns: of the table.
        table: to which a foreign key leads.
        references: the columns there, each beside its own.
    """

    kind: str
    columns: tuple[str, ...]
    table: str = ""
    references: tuple[str, ...] = ()


def own_names(entry: Entry) -> tuple[str, ...]:
    """The names of the tables of a linked release within one schema, the root's first.

    Raises:
        InvalidArgument: two have one name.
    """
    names = tuple((split_name(released.table) or (released.table,))[-1] for released in entry.tables)
    if len({name.lower() for name in names}) < len(names):
        raise InvalidArgument(f"two tables of {entry.called} have one name in different schemas: copy them one by one")
    return names


def keys_of(entry: Entry, place: int) -> tuple[Key, ...]:
    """The keys of the table of a linked release at a place, the primary one first and foreign ones last."""
    released = entry.tables[place]
    keys = [Key("primary", released.primary)] if released.primary else []
    keys += [Key("unique", other) for other in released.unique if {*other} != {*released.primary}]
    for name, above in zip(own_names(entry), entry.tables, strict=True):
        named = any({*released.references} == {*key} for key in (above.primary, *above.unique))
        if above.table == released.parent and named:
            keys.append(Key("foreign", released.key, name, released.references))
    return tuple(keys)
