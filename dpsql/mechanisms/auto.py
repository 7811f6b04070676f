"""`mechanism := 'auto'`: the mechanism that a request gets which names none.

    projection   with whole marginals: where mechanisms were compared (Adult at ε 0.1, 1 and 10, Loans at ε 1, and the
                 split of Adult with a prior) its mean L1 is least, or within a tenth of the least, in seconds
                 (`tests/benchmarks/RESULTS.md`)

One answer for every request, for no other mechanism was found that is nearer by more where public facts could tell: so
it depends on no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dpsql.mechanisms.base import Mechanism, make

AUTO: Final = "auto"
_PREFERRED: Final = "projection"
_WHY: Final = "projection: the least mean L1 on the benchmarks, or within a tenth of it, in seconds"


def choose(name: str, given: Mapping[str, Any]) -> tuple[Mechanism, str]:
    """The mechanism of a request, and why, where the request leaves the choice to us.

    Raises:
        UnknownName: no such mechanism.
        InvalidArgument: an option that the mechanism has not, or a value out of range.
    """
    if name != AUTO:
        return make(name, given), ""
    return make(_PREFERRED, given), _WHY
