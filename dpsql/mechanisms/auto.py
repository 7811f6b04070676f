"""`mechanism := 'auto'`: the mechanism that a request gets which names none.

    projection   with whole marginals: where mechanisms were compared without a prior (Adult and Loans at ε 0.1, 1
                 and 10) its mean L1 is least, or within a tenth of the least, in seconds; so it is with a prior at ε 1
                 (`tests/benchmarks/RESULTS.md`)

    pmwpub       with a prior and an ε from 0.15 to 0.5, and
    ide          with a prior and an ε below 0.15, with Gaussian noise: on the split of Adult the mean L1 of ide is
                 .082 and .075 at ε 0.1 and 0.2, that of pmwpub .087 and .073, of projection with the prior .082 and
                 .078; at ε 1 projection has .053 and they .061 and .065. Nothing between 0.1, 0.2 and 1 was measured:
                 0.15 and 0.5 lie in the middle. It was one table of some 44,000 rows; of a larger one the same ε
                 leaves less noise
    ide          with a prior and a region or groups, which no other has

    Of a table that promises pure ε (δ = 0), where Gaussian noise is no choice:

    ide          with a prior: of the mechanisms that are pure it is the one that was measured with one, see above
    lp           for families of thresholds, which `direct` does not answer
    direct       with Laplace noise, else

Where the one for a small ε has not an option that is given, such as noise, or there are more cells than pmwpub scores
in seconds, ide is chosen instead, and projection where that has not the option either. The choice depends on no row, of
the table or of the prior.

At ε 0.1 and 0.2 ide with Laplace noise is nearer by 8 % (.076 and .067), but its pure ε takes about five times as much
of an account that adds up Gaussian DP, often more than a table of that very ε has: who can afford it names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dpsql.mechanisms.base import Mechanism, make, options_of

AUTO: Final = "auto"
SMALL_EPSILON: Final = 0.5
SMALLEST_EPSILON: Final = 0.15
_MOST_SCORED: Final = 10_000_000
_WHY: Final = "projection: the least mean L1 on the benchmarks, or within a tenth of it, in seconds"
_WHY_SMALL: Final = (
    f"pmwpub: with a prior and epsilon from {SMALLEST_EPSILON:g} to {SMALL_EPSILON:g} its mean L1 on the benchmark is "
    "less than that of projection"
)
_WHY_SMALLEST: Final = (
    f"ide: with a prior and epsilon of at most {SMALL_EPSILON:g} its mean L1 on the benchmark is that of projection or "
    "less"
)
_WHY_GROUPS: Final = "ide: it has regions and groups"
_PURE: Final = "the table promises pure epsilon (delta 0), which Gaussian noise cannot"
_WHY_PURE: Final = f"direct with Laplace noise: {_PURE}"
_WHY_PURE_PRIOR: Final = f"ide with Laplace noise, which leans on the prior: {_PURE}"
_WHY_PURE_THRESHOLDS: Final = f"lp with Laplace noise, which answers at_least(…): {_PURE}"


@dataclass(frozen=True)
class Facts:
    """The public facts of a request that a choice may depend on.

    Attributes:
        pure: whether the table promises pure ε.
        epsilon: of the request.
        prior: whether it names one.
        thresholds: whether its workload has families of thresholds.
        cells: of the workload's marginals.
    """

    pure: bool = False
    epsilon: float = 1.0
    prior: bool = False
    thresholds: bool = False
    cells: int = 0


def choose(
    name: str, given: Mapping[str, Any], facts: Facts | None = None, *, pure: bool = False
) -> tuple[Mechanism, str]:
    """The mechanism of a request, and why, where the request leaves the choice to us.

    Args:
        name: of a mechanism, or `auto`.
        given: its options.
        facts: of the request.
        pure: whether the table promises pure ε, where nothing else is known.

    Raises:
        UnknownName: no such mechanism.
        InvalidArgument: an option that the mechanism has not, or a value out of range.
    """
    if name != AUTO:
        return make(name, given), ""
    facts = facts or Facts(pure=pure)
    if facts.pure:
        chosen, why = _of_pure(facts)
        return make(chosen, {"noise": "laplace", **given}), why
    if facts.prior and not facts.thresholds:
        for chosen, noise, why in _with_prior(facts, given):
            if set(given) <= options_of(chosen):
                return make(chosen, {**noise, **given}), why
    return make("projection", given), _WHY


def _with_prior(facts: Facts, given: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    """Which mechanism may be better than projection, with which noise, and why."""
    gaussian = {"noise": "gaussian"}
    if {"region", "group_by"} & set(given):
        return [("ide", gaussian, _WHY_GROUPS)]
    found = [("ide", gaussian, _WHY_SMALLEST)] if facts.epsilon <= SMALL_EPSILON else []
    if SMALLEST_EPSILON <= facts.epsilon <= SMALL_EPSILON and facts.cells <= _MOST_SCORED:
        found.insert(0, ("pmwpub", {}, _WHY_SMALL))
    return found


def _of_pure(facts: Facts) -> tuple[str, str]:
    """Which mechanism of those with Laplace noise, and why."""
    if facts.prior:
        return "ide", _WHY_PURE_PRIOR
    if facts.thresholds:
        return "lp", _WHY_PURE_THRESHOLDS
    return "direct", _WHY_PURE
