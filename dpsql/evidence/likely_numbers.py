"""The largest numbers of children that noisy counts show: what lies above is noise alone.

    N_c = Σ_S w_S·Σ_{cells of S with code c} y_S / Σ_S w_S,   w_S = 1/(σ_S²·cells of a code)   the units with number c
    N_kl = Σ_{k ≤ c < l} N_c,   of standard deviation √((l − k) / Σ_S w_S)

over the whole marginals S that hold the number. Numbers up to the last k with some N_kl ≥ 4·√(…) are likely, for l − k
a power of two; and 0 is. A few units that noise puts into the bin of 50 to 100 children would have more children than
all others together. Noise makes a number likely in about one of a thousand cases.

It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement

_DEVIATIONS: Final = 4.0


def likely_numbers(domain: Domain, names: Iterable[str], measured: Sequence[Measurement]) -> list[Allowed]:
    """What rows may have in columns of numbers of children.

    Args:
        domain: that was measured.
        names: of the columns.
        measured: noisy answers to marginals.
    """
    whole = [m for m in measured if m.cells is None and m.least is None and m.linear is None and m.variance > 0]
    found = []
    for name in names:
        attribute = domain.by_name[name]
        last = _last(attribute, [m for m in whole if name in m.clique])
        special = [attribute.absent_code] if attribute.absent_code is not None else []
        codes = np.array([*range(last + 1), *special], np.int64)
        if last + 1 < attribute.regular:
            found.append(Allowed((name,), (name,), (), codes[:, None], np.zeros((len(codes), 1))))
    return found


def _last(attribute: Attribute, measured: Sequence[Measurement]) -> int:
    """The last likely code; the last of all where nothing was measured."""
    if not measured:
        return attribute.regular - 1
    sums, weight = np.zeros(attribute.regular), 0.0
    for one in measured:
        by_code, cells = _by_code(one, attribute)
        share = 1 / (float(one.variance) * cells)
        sums += share * by_code
        weight += share
    whole, last = np.concatenate([[0.0], np.cumsum(sums)]) / weight, 0
    for width in (2**power for power in range(attribute.regular.bit_length())):
        windows = whole[width:] - whole[:-width]
        last = max([last, *np.flatnonzero(windows >= _DEVIATIONS * math.sqrt(width / weight)).tolist()])
    return last


def _by_code(measured: Measurement, attribute: Attribute) -> tuple[npt.NDArray[np.float64], int]:
    """The sum of a marginal's cells with each regular code, and how many cells that is."""
    place = measured.clique.index(attribute.name)
    values = np.moveaxis(measured.values.reshape(measured.shape), place, 0)[: attribute.regular]
    return values.reshape(attribute.regular, -1).sum(axis=1).astype(np.float64), math.prod(values.shape[1:])
