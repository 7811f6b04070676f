r"""Which lines of a measured marginal are fitted: those of an empty cell of the other columns tell of noise alone.

    the line of cell u of the columns S∖{c}:   y_uv for all values v of c,   of deviation σ
    it is fitted if   y_u > t·max(σ_u, σ)      y_u of deviation σ_u is what was measured of S∖{c} itself

The line adds up to y_u, so where y_u is not above noise each of its cells is less, and the marginal of S∖{c} is fitted
to hold the sum. Where S∖{c} was not measured all lines are fitted. c is the column of S that leaves least to compute,

    lines · (values of c, in whole eights, + 48)

because a step takes as long for the product of the other columns as for so many values. Of Adult at ε = 10 three tenths
of the cells are left by t = 2, and errors stay as they are.

It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.fitting.target import Target

_OF_A_LINE: Final = 48  # values
_EIGHT: Final = 8


@dataclass(frozen=True)
class Lines:
    """What of a marginal is fitted.

    Attributes:
        last: the place of c among its columns.
        fitted: the numbers of the lines, by the codes of the other columns, row-major; shape (lines,).
        cells: how many cells they have.
    """

    last: int
    fitted: npt.NDArray[np.int64]
    cells: int


def all_lines(shape: Sequence[int]) -> Lines:
    """All of a marginal, along its largest column."""
    last = max(range(len(shape)), key=shape.__getitem__)
    lines = int(np.prod([size for place, size in enumerate(shape) if place != last]))
    return Lines(last, np.arange(lines), lines * shape[last])


def telling_lines(measured: Sequence[Target], telling: float) -> dict[Clique, Lines]:
    """The lines of each marginal by the rule at the top of this file.

    Args:
        measured: whole marginals.
        telling: t; 0 for all lines.
    """
    most_precise: dict[Clique, Target] = {}
    for target in measured:
        if target.clique not in most_precise or target.variance < most_precise[target.clique].variance:
            most_precise[target.clique] = target
    return {clique: _best(target, most_precise, telling) for clique, target in most_precise.items()}


def _best(target: Target, most_precise: dict[Clique, Target], telling: float) -> Lines:
    best = all_lines(target.shape)
    if not telling:
        return best
    least = _work(best, target)
    for last in range(len(target.shape)):
        others = most_precise.get(tuple(name for place, name in enumerate(target.clique) if place != last))
        if others is None:
            continue
        fitted = np.flatnonzero(others.values > telling * max(others.stddev, target.stddev))
        lines = Lines(last, fitted, len(fitted) * target.shape[last])
        if (work := _work(lines, target)) < least:
            best, least = lines, work
    return best


def _work(lines: Lines, target: Target) -> int:
    return len(lines.fitted) * (-(-target.shape[lines.last] // _EIGHT) * _EIGHT + _OF_A_LINE)
