"""`mechanism := 'auto'`: the mechanism that a request gets which names none.

    projection   with whole marginals: where mechanisms were compared (Adult and Loans at ε 0.1, 1 and 10 without a
                 prior, Adult with one) its mean L1 is least, or within a tenth of the least, in seconds
                 (`tests/benchmarks/RESULTS.md`); but for
    ide          with a prior, an ε below 0.15 and marginals of at most two columns, with Gaussian noise: there the
                 prior is nearly all that can be known, and its own rows are nearer to it than a fit. Nothing between
                 0.1 and 0.2 was measured: 0.15 lies in the middle. It was one table of some 44,000 rows; of a larger
                 one the same ε leaves less noise
    ide          with a prior and a region or groups, which no other has

    Of a table that promises pure ε (δ = 0), where Gaussian noise is no choice:

    ide          with a prior: of the mechanisms that are pure it is the one that was measured with one, see above
    lp           for families of thresholds, which `direct` does not answer
    direct       with Laplace noise, else

Where ide has not an option that is given projection is chosen instead. The choice depends on no row, of the table or of
the prior.

At ε 0.1 and 0.2 ide with Laplace noise is the nearest of all, but its pure ε takes about five times as much of an
account that adds up Gaussian DP, often more than a table of that very ε has: who can afford it names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dpsql.errors import InvalidArgument
from dpsql.mechanisms.base import Mechanism, make, options_of
from dpsql.mechanisms.defaults import Meaning, having_papers, is_faithful, make_for, own_options
from dpsql.privacy.distributions import GAUSSIAN, LAPLACE

AUTO: Final = "auto"
SMALL_EPSILON: Final = 0.15
SMALL_ORDER: Final = 2
_WHY: Final = "projection: the least mean L1 on the benchmarks, or within a tenth of it, in seconds"
_WHY_SMALL: Final = (
    f"ide: with a prior, epsilon below {SMALL_EPSILON:g} and marginals of at most {SMALL_ORDER} columns its mean L1 on "
    "the benchmark is that of projection or less"
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
        order: the most columns of one of the workload's marginals.
        linear: whether its workload has linear queries, which ide does not answer.
    """

    pure: bool = False
    epsilon: float = 1.0
    prior: bool = False
    thresholds: bool = False
    order: int = SMALL_ORDER
    linear: bool = False


def choose(
    name: str, given: Mapping[str, Any], facts: Facts, *, meaning: Meaning = Meaning.NOW
) -> tuple[Mechanism, str]:
    """The mechanism of a request, and why, where the request leaves the choice to us.

    Args:
        name: of a mechanism, or `auto`.
        given: its options.
        facts: of the request.
        meaning: whose defaults are taken; see `dpsql.mechanisms.defaults`.

    Raises:
        UnknownName: no such mechanism.
        InvalidArgument: an option that the mechanism has not, or a value out of range.
    """
    if name != AUTO:
        return make_for(name, given, pure=facts.pure, meaning=meaning), ""
    if is_faithful(given):
        raise InvalidArgument(
            "faithful is true, but no mechanism is named whose paper would be followed: say mechanism := one of "
            f"{', '.join(having_papers())}, or leave faithful out"
        )
    given = own_options(given)
    if facts.pure:
        chosen, why = _of_pure(facts)
        return make(chosen, {"noise": LAPLACE.name, **given}), why
    why = _why_ide(facts, given)
    if why and set(given) <= options_of("ide"):
        return make("ide", {"noise": GAUSSIAN.name, **given}), why
    return make("projection", given), _WHY


def _why_ide(facts: Facts, given: Mapping[str, Any]) -> str:
    """Why ide may be better than projection; empty where it may not."""
    if not facts.prior or facts.thresholds or facts.linear:
        return ""
    if {"region", "group_by"} & set(given):
        return _WHY_GROUPS
    return _WHY_SMALL if facts.epsilon < SMALL_EPSILON and facts.order <= SMALL_ORDER else ""


def _of_pure(facts: Facts) -> tuple[str, str]:
    """Which mechanism of those with Laplace noise, and why."""
    if facts.prior and not facts.linear:
        return "ide", _WHY_PURE_PRIOR
    if facts.thresholds:
        return "lp", _WHY_PURE_THRESHOLDS
    return "direct", _WHY_PURE
