"""The cells in which a synthetic table is farther from what was measured than noise explains.

    listed   |s − y| > z·σ,   z = the reach of the noise at a chance of 0.05 / cells
    far      the same at a chance of 10⁻⁶ / cells

s are the synthetic counts, y the measured ones with deviation σ. All cells that are looked at share the chance of 1 in
20 (Bonferroni), so a table that fits is shown without a cell in 19 of 20 releases. The verdict speaks of far cells
only. Noise makes such a cell of a table that fits in one of a million releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.privacy.distributions import GAUSSIAN, LAPLACE
from dpsql.release.estimates import Floats

_MOST: Final = 12
_FALSE_ALARM: Final = 0.05
_FAR: Final = 1e-6
"""The chance of a far cell that is noise."""


@dataclass(frozen=True)
class WorstCell:
    """A cell of which the synthetic table has more or fewer rows than noise explains.

    Attributes:
        columns, labels: which cell.
        measured: rows, with noise.
        stddev: of the noise (rows).
        synthetic: rows, scaled to as many as were measured.
    """

    columns: Clique
    labels: tuple[str, ...]
    measured: float
    stddev: float
    synthetic: float


class WorstCells:
    """Marginals are added one by one; only their farthest cells are kept.

    Attributes:
        cells: how many were looked at.
    """

    def __init__(self, domain: Domain, *, is_normal: bool) -> None:
        self.cells = 0
        self._domain, self._noise = domain, GAUSSIAN if is_normal else LAPLACE
        self._far: list[Floats] = []
        self._worst: list[tuple[float, Clique, tuple[int, ...], float, float, float]] = []

    def add(self, clique: Clique, made: Floats, measured: Floats, stddev: Floats) -> None:
        """A marginal.

        Args:
            clique: its columns.
            made: synthetic rows in each cell.
            measured: rows with noise.
            stddev: of the noise; a cell without noise is left out.
        """
        self.cells += made.size
        far = np.divide(np.abs(made - measured), stddev, out=np.zeros(made.shape), where=stddev > 0)
        self._far.append(far[far > self._reach(_FAR)])
        for place in np.argsort(far, axis=None)[-_MOST:]:
            cell = tuple(int(index) for index in np.unravel_index(place, made.shape))
            figures = float(measured[cell]), float(stddev[cell]), float(made[cell])
            self._worst.append((float(far[cell]), clique, cell, *figures))
        self._worst.sort(key=lambda entry: -entry[0])
        del self._worst[_MOST:]

    @property
    def reach(self) -> float:
        """How many deviations noise may explain in any of the cells that were looked at."""
        return self._reach(_FALSE_ALARM)

    @property
    def far(self) -> int:
        """How many cells are so far off that noise makes none of them in all but one of a million releases."""
        least = self._reach(_FAR)
        return sum(int((far > least).sum()) for far in self._far)

    def _reach(self, chance: float) -> float:
        """How many deviations noise reaches with that chance in any of the cells that were looked at."""
        return self._noise.reach(chance / max(1, self.cells))

    def listed(self) -> tuple[WorstCell, ...]:
        """Those that noise does not explain, the most rows first."""
        least = self.reach
        shown_cells = sorted(
            (worst for worst in self._worst if worst[0] > least), key=lambda worst: -abs(worst[3] - worst[5])
        )
        return tuple(self._shown(clique, cell, *figures) for _, clique, cell, *figures in shown_cells)

    def _shown(self, clique: Clique, cell: tuple[int, ...], measured: float, stddev: float, made: float) -> WorstCell:
        labels = (labels_shown(self._domain.by_name[name])[code] for name, code in zip(clique, cell, strict=True))
        return WorstCell(clique, tuple(labels), measured, stddev, made)


def labels_shown(attribute: Attribute) -> list[str]:
    """The labels of the cells that synthetic rows tell apart: one for NULL and for values outside the domain."""
    labels = attribute.labels()
    if attribute.outside and attribute.nullable:
        return [*labels[:-2], f"{labels[-2]} or {labels[-1]}"]
    return labels


def cells_shown(domain: Domain, clique: Clique, table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A marginal in the cells that synthetic rows tell apart.

    A value outside the domain is NULL in a synthetic row. So where NULL has a cell, that of OUTSIDE is added to it.
    """
    for axis, name in enumerate(clique):
        attribute = domain.by_name[name]
        if attribute.outside and attribute.nullable:
            first = np.take(table, range(table.shape[axis] - 2), axis)
            last = np.take(table, (-2, -1), axis).sum(axis=axis, keepdims=True)
            table = np.concatenate([first, last], axis=axis)
    return table
