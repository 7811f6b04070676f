"""`mechanism := 'auto'`: the mechanism that a request gets which names none.

    projection   with whole marginals: where mechanisms were compared (Adult at ε 0.1, 1 and 10, Loans at ε 1, and the
                 split of Adult with a prior) its mean L1 is least, or within a tenth of the least, in seconds
                 (`tests/benchmarks/RESULTS.md`)

    direct       with Laplace noise, of a table that promises pure ε (δ = 0), which Gaussian noise cannot

It depends on no row: no other mechanism was found that is nearer by more where public facts could tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dpsql.mechanisms.base import Mechanism, make

AUTO: Final = "auto"
_PREFERRED: Final = "projection"
_WHY: Final = "projection: the least mean L1 on the benchmarks, or within a tenth of it, in seconds"


_PREFERRED_PURE: Final = "direct"
_WHY_PURE: Final = "direct with Laplace noise: the table promises pure epsilon (delta 0), which Gaussian noise cannot"


def choose(name: str, given: Mapping[str, Any], *, pure: bool = False) -> tuple[Mechanism, str]:
    """The mechanism of a request, and why, where the request leaves the choice to us.

    Args:
        name: of a mechanism, or `auto`.
        given: its options.
        pure: whether the table promises pure ε.

    Raises:
        UnknownName: no such mechanism.
        InvalidArgument: an option that the mechanism has not, or a value out of range.
    """
    if name != AUTO:
        return make(name, given), ""
    if pure:
        return make(_PREFERRED_PURE, {"noise": "laplace", **given}), _WHY_PURE
    return make(_PREFERRED, given), _WHY
