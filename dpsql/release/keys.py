"""Keys of synthetic tables: numbered while rows are drawn, so each is unique and each foreign key leads to a row.

    own key      row i has number i, or where a PRIMARY KEY is that of its parent and one more column, its place there
    foreign key  the number of the parent's row

Privacy: nothing is read but how many rows there are and whose they are, which was drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpsql.core.tree import Link, Tree
from dpsql.engines.source import Source
from dpsql.evaluation.key_values import Key, Numbers


def own_key(kind: str, rows: int, generator: np.random.Generator) -> Key:
    """Numbers from 1 on, or UUIDs at random."""
    if kind == "UUID":
        high, low = generator.integers(0, 2**64, (2, rows), np.uint64)
        return Key(kind, (high & ~np.uint64(0xF000) | np.uint64(0x4000), low >> np.uint64(2) | np.uint64(1 << 63)))
    return Key(kind, (np.arange(1, rows + 1),))


def place_in_parent(kind: str, up: Numbers) -> Key:
    """For each row which child of its parent it is, from 1 on; rows of one parent are beside each other."""
    starts = np.searchsorted(up, up, side="left")
    return Key(kind, (np.arange(len(up)) - starts + 1,))


def number_keys(
    tree: Tree,
    table: str,
    source: Source,
    keys: Sequence[str],
    primary: Sequence[str],
    up: Numbers | None,
    rows: int,
    above: Mapping[str, Key],
    generator: np.random.Generator,
) -> dict[str, Key]:
    """The keys of a table's rows.

    Args:
        tree: of the tables.
        table: which one.
        source: its columns.
        keys: those that are numbered.
        primary: those of its PRIMARY KEY.
        up: the number of each row's parent; None of the root's.
        rows: how many.
        above: the keys of the table above.
        generator: of UUIDs.
    """
    link, own = tree.link_of.get(table), own_keys(tree, table, keys, primary)
    key_by_column: dict[str, Key] = {}
    if link is not None and up is not None:
        for mine, theirs in zip(link.key, link.references, strict=True):
            key_by_column[mine] = above[theirs].through(up)
    for name in keys:
        if name in key_by_column:
            continue
        kind = source.column(name).type
        if up is None or name in own or kind == "UUID":
            key_by_column[name] = own_key(kind, rows, generator)
        else:
            key_by_column[name] = place_in_parent(kind, up)
    return key_by_column


def own_keys(tree: Tree, table: str, keys: Sequence[str], primary: Sequence[str]) -> tuple[str, ...]:
    """Those keys of a table whose values are other ones in each row: no foreign keys, and none within a parent."""
    link = tree.link_of.get(table)
    if link is None:
        return tuple(keys)
    return tuple(n for n in keys if n not in link.key and not _is_within(tree, table, link, n, primary))


def _is_within(tree: Tree, table: str, link: Link, name: str, primary: Sequence[str]) -> bool:
    """Whether a column tells rows of one parent apart and no more, because the parent's key is beside it everywhere."""
    whole = {*link.key, name}
    return {*primary} == whole and len(primary) > 1 and all({*b.references} >= whole for b in tree.children(table))
