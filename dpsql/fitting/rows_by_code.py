"""About how many rows have each code of a column, by all noisy marginals that hold it together.

    N_c = Σ_S w_S·Σ_{cells of S with code c} y_S / Σ_S w_S,   w_S = 1/(σ_S²·cells of S with one code)

over the whole marginals S that hold the column. N_c has the variance 1/Σ_S w_S, which is the least of all such means.
It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.marginal import Measurement
from dpsql.fitting.target import Target


@dataclass(frozen=True)
class RowsByCode:
    """See the module.

    Attributes:
        rows: N_c of each code c.
        weight: Σ_S w_S.
    """

    rows: npt.NDArray[np.float64]
    weight: float

    @staticmethod
    def of(name: str, measured: Iterable[Measurement | Target]) -> RowsByCode | None:
        """That of a column; None where no whole marginal holds it.

        Args:
            name: of the column.
            measured: noisy answers to marginals; those of single cells are left out.
        """
        sums, weight = np.zeros(1), 0.0
        for measurement in measured:
            if measurement.cells is not None or name not in measurement.clique:
                continue
            by_code = np.moveaxis(measurement.values.reshape(measurement.shape), measurement.clique.index(name), 0)
            by_code = by_code.reshape(len(by_code), -1)
            share = 1 / (float(measurement.variance) * by_code.shape[1])
            sums = sums + share * by_code.sum(axis=1)
            weight += share
        return RowsByCode(sums / weight, weight) if weight else None
