"""The largest numbers of children that noisy counts show: what lies above is noise alone.

    N_c = rows with number c of children,   of weight W = Σ_S w_S (`rows_by_code`)
    N_kl = Σ_{k ≤ c < l} N_c,   of standard deviation √((l − k)/W)

Numbers up to the last k with some N_kl ≥ 4·√(…) are likely, for l − k a power of two; and 0 is. A few units that noise
puts into the bin of 50 to 100 children would have more children than all others together. Noise makes a number likely
in about one of a thousand cases.

It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement
from dpsql.evidence.rows_by_code import RowsByCode

_DEVIATIONS: Final = 4.0


def likely_numbers(
    domain: Domain, names: Iterable[str], measured: Sequence[Measurement], always: int = 0
) -> list[Allowed]:
    """What rows may have in columns of numbers of children.

    Args:
        domain: that was measured.
        names: of the columns.
        measured: noisy answers to marginals.
        always: numbers up to this one are likely, whatever was measured.
    """
    whole = [m for m in measured if m.least is None and m.linear is None and m.variance > 0]
    found = []
    for name in names:
        attribute = domain.by_name[name]
        last = max(_last(attribute, whole), sum(int(tick) <= always for tick in attribute.ticks[:-1]) - 1)
        special = [attribute.absent_code] if attribute.absent_code is not None else []
        codes = np.array([*range(last + 1), *special], np.int64)
        if last + 1 < attribute.regular:
            found.append(Allowed((name,), (name,), (), codes[:, None], np.zeros((len(codes), 1))))
    return found


def _last(attribute: Attribute, measured: Sequence[Measurement]) -> int:
    """The last likely code; the last of all where nothing was measured."""
    by_code = RowsByCode.of(attribute.name, measured)
    if by_code is None:
        return attribute.regular - 1
    whole, last = np.concatenate([[0.0], np.cumsum(by_code.rows[: attribute.regular])]), 0
    for width in (2**power for power in range(attribute.regular.bit_length())):
        windows = whole[width:] - whole[:-width]
        last = max([last, *np.flatnonzero(windows >= _DEVIATIONS * math.sqrt(width / by_code.weight)).tolist()])
    return last
