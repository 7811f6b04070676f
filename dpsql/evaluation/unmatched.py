"""Groups without a cell: those of public rows that no row of the declared domain meets, by a LEFT JOIN from them.

They are measured as all groups are, so their answers are 0 and noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.linear_query import Integers
from dpsql.evaluation.workers import Empty
from dpsql.language.expressions import sql_of
from dpsql.language.preserved import over_public
from dpsql.language.query import Query
from dpsql.language.scope import MATCHES

Texts = list[npt.NDArray[Any]]


def with_unmatched(
    empty: Empty, query: Query, numbers: Sequence[int], texts: Texts, cells: Integers
) -> tuple[Texts, Integers]:
    """The texts of a part's keys and one place in them for each group, with the groups that no cell is in.

    Args:
        empty: the database with the public tables.
        query: that keeps all rows of one of them.
        numbers: of the part's keys in one grouping set.
        texts: of each of those keys, in each cell.
        cells: one of each group.
    """
    there = set(zip(*(column[cells].tolist() for column in texts), strict=True))
    more = [row for row in _public_groups(empty, query, numbers) if row not in there]
    if not more:
        return texts, cells
    start = len(texts[0])
    added = [np.array(column, object) for column in zip(*more, strict=True)]
    longer = [np.concatenate([column, new]) for column, new in zip(texts, added, strict=True)]
    return longer, np.concatenate([cells, start + np.arange(len(more))])


def _public_groups(empty: Empty, query: Query, numbers: Sequence[int]) -> list[tuple[str | None, ...]]:
    """The keys of all public rows that WHERE leaves, as texts."""
    preserved = query.scope.preserved
    assert preserved is not None
    keys = [over_public(query.keys[number], preserved) for number in numbers]
    filters = [over_public(tree, preserved) for tree in query.filters if not tree.meta.get(MATCHES)]
    listed = [exp.cast(exp.Paren(this=key), "VARCHAR", dialect="duckdb") for key in keys if key is not None]
    conditions = [exp.Paren(this=tree) for tree in filters if tree is not None]
    select = exp.select(*listed).from_(preserved.dimension.name).where(*conditions).distinct()
    return sorted(empty.execute(sql_of(select)).fetchall(), key=repr)
