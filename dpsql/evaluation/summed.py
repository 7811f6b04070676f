"""A sum of rows' own values: formulas of columns, of which every cell takes one, and what is counted for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.core.domain import Attribute
from dpsql.core.formula import Formula
from dpsql.core.linear_query import Choice, Integers, Moment
from dpsql.evaluation.moments import Branch, moments_of


@dataclass(frozen=True)
class Summed:
    """The argument of a sum of columns' own values: formulas of one column each, of which every cell takes one."""

    branches: tuple[tuple[str, Formula], ...]
    kind: str

    def counted(self, picks: Integers, attributes: Sequence[Attribute]) -> tuple[Integers, Fraction, Moment | Choice]:
        """What is counted for it. Its bounds are those of the values that filters and conditions leave of the columns.

        Args:
            picks: for each cell the branch that it takes, from 1 on; 0 where it does not count.
            attributes: of the part's columns.

        Returns:
            For each cell whether it counts, the step of the sum, and the moments of which it is made.
        """
        names, shape = tuple(a.name for a in attributes), [attribute.size for attribute in attributes]
        every = dict(zip(names, np.unravel_index(np.arange(math.prod(shape)), shape), strict=True))
        columns = dict(zip(names, attributes, strict=True))
        branches = []
        for branch, (name, formula) in enumerate(self.branches, start=1):
            possible = np.zeros(columns[name].size, bool)
            possible[every[name][picks == branch]] = True
            branches.append(Branch(columns[name], formula, possible))
        moments, unit, there = moments_of(branches, self.kind)
        for branch, (of_codes, (name, _)) in enumerate(zip(there, self.branches, strict=True), start=1):
            picks = np.where((picks == branch) & ~of_codes[every[name]], 0, picks)
        taken = np.unique(picks[picks > 0])
        counts = (picks > 0).astype(np.int64)
        if len(taken) > 1:
            return counts, unit, Choice(moments, names, picks.astype(np.uint8).tobytes())
        return counts, unit, moments[int(taken[0]) - 1 if len(taken) else 0]
