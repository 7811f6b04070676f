"""Drawn units some of whose rows no values were found for: they take all rows of other drawn units, so rules hold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dpsql.core.tree import Tree
from dpsql.evaluation.ruled_rows import Codes, DrawnTable


def roots_of(tree: Tree, tables: Mapping[str, DrawnTable], table: str, at: Codes) -> Codes:
    """The rows at the top that rows of a table lead to.

    Args:
        tree: of the tables.
        tables: drawn so far.
        table: whose rows they are.
        at: their numbers.
    """
    while table != tree.root:
        up = tables[table].up
        assert up is not None
        table, at = tree.link_of[table].parent, up[at]
    return at


def replaced(
    tree: Tree, tables: Mapping[str, DrawnTable], stuck: npt.NDArray[np.bool_], generator: np.random.Generator
) -> dict[str, DrawnTable]:
    """The same tables, where each stuck unit has the rows of another one, drawn at random.

    Args:
        tree: of the tables.
        tables: with rows of one parent beside each other, in the order of the parents.
        stuck: which rows at the top; not all.
        generator: of the draw.
    """
    rows, whole = np.arange(len(stuck)), np.flatnonzero(~stuck)
    rows[stuck] = whole[generator.integers(0, len(whole), len(rows) - len(whole))]
    taken, drawn_tables = {tree.root: rows}, dict[str, DrawnTable]()
    for table, ups in ((tree.root, None), *((link.child, link.parent) for link in tree.links)):
        drawn, up = tables[table], None
        if ups is not None:
            assert drawn.up is not None
            numbers = np.bincount(drawn.up, minlength=len(tables[ups].codes))
            starts, mine = np.cumsum(numbers) - numbers, numbers[taken[ups]]
            up = np.repeat(np.arange(len(mine)), mine)
            inside = np.arange(len(up)) - np.repeat(np.cumsum(mine) - mine, mine)
            taken[table] = starts[taken[ups]][up] + inside
        at = taken[table]
        frame = {name: values[at] for name, values in drawn.frame.items()}
        drawn_tables[table] = DrawnTable(drawn.codes[at], frame, up, drawn.role[at])
    return drawn_tables
