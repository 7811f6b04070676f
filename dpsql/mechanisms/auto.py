"""`mechanism := 'auto'`: the mechanism that fits the request, from public facts only.

    projection   with whole marginals is nearest to the table on every benchmark, with a prior and without
                 (`tests/benchmarks/RESULTS.md`);
                 so it is the choice

The choice depends on the workload, the domain, whether a prior is given: never on a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dpsql.domain import Domain
from dpsql.mechanisms.base import Mechanism, make
from dpsql.workload import Workload

AUTO: Final = "auto"
_PREFERRED: Final = "projection"


def choose(
    name: str, given: Mapping[str, Any], domain: Domain, workload: Workload, *, prior: bool
) -> tuple[Mechanism, str]:
    """The mechanism of a request, and why, where the request leaves the choice to us.

    Raises:
        UnknownName: no such mechanism.
        InvalidArgument: an option that the mechanism has not, or a value out of range.
    """
    if name != AUTO:
        return make(name, given), ""
    return make(_PREFERRED, given), f"{_PREFERRED}: nearest to the table on every benchmark"
