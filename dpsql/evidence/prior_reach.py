r"""How far the rows of a public prior reach: what no weights on them can answer, said aloud.

    unreached(S)   Σ of the noisy counts y_c over the cells c of S that no row of the support lies in, of all rows
    unmet(S)       Σ_c |n·q(c) − y_c| − √(2/π)·σ·cells, of all rows: what noise does not explain of the distance

Both are computed from noisy counts and public rows, so they cost no privacy. A marginal is named where its unreached
part is more than 5 standard deviations of its noise, or where more than a tenth is unmet: with a prior of one constant
row every cell but one is unreached, whatever the table holds.

Before a release only the support is known (`remarks`): values of the domain that no public row has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.prior import Prior, packed
from dpsql.fitting.target import Target

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_DEVIATIONS: Final = 5.0
_LEAST: Final = 0.01
_FAR: Final = 0.1
_NAMED: Final = 4
_SPREAD: Final = math.sqrt(1 - 2 / math.pi)


def reach_report(
    support: Domain,
    codes: Codes,
    answers: Callable[[Clique], npt.NDArray[Any]],
    measured: Iterable[Target],
    total: float,
    mend: str,
) -> dict[str, Any]:
    """What a release says of the prior's reach; a warning where it is too short, nothing where it is not.

    Args:
        support: the columns of the support's rows.
        codes: of the rows, shape (rows, columns).
        answers: of the estimate, in probabilities.
        measured: noisy marginals of these columns, or some of their cells (rows).
        total: of all rows.
        mend: what would reach farther.
    """
    worst, far = (0.0, ""), (0.0, "")
    for clique, several in _by_clique(measured).items():
        inside, prior_answers = np.zeros(support.size(clique), bool), answers(clique)
        inside[packed(codes, support.names, support, clique)] = True
        missing = gap = variance = noise = 0.0
        seen = np.zeros(len(inside), bool)  # a cell that was measured twice counts once
        for target in several:
            cells = np.arange(len(inside)) if target.cells is None else np.array(target.cells)
            fresh = ~seen[cells]
            cells, values = cells[fresh], target.values[fresh]
            seen[cells] = True
            reached, count = inside[cells], len(cells)
            missing += float(values[~reached].sum())
            variance += target.variance * float((~reached).sum())
            gap += float(np.abs(total * prior_answers[cells] - values).sum())
            noise += target.stddev * (math.sqrt(2 / math.pi) * count + _DEVIATIONS * _SPREAD * math.sqrt(count))
        named = ", ".join(clique)
        if missing > max(_DEVIATIONS * math.sqrt(variance), _LEAST * total):
            worst = max(worst, (min(1.0, missing / total), named))
        if gap - noise > _FAR * total:
            far = max(far, ((gap - noise) / total, named))
    return _words(worst, far, mend)


def _by_clique(measured: Iterable[Target]) -> dict[Clique, list[Target]]:
    by_clique: dict[Clique, list[Target]] = {}
    for target in measured:
        by_clique.setdefault(target.clique, []).append(target)
    return by_clique


def _words(worst: tuple[float, str], far: tuple[float, str], mend: str) -> dict[str, Any]:
    if worst[1]:
        return {
            "unreached": round(worst[0], 4),
            "warning": f"no row of the prior lies where about {worst[0]:.0%} of the rows are, by the noisy counts of "
            f"{worst[1]}: such rows are missing from the synthetic table; {mend}",
        }
    if far[1]:
        return {
            "unmet": round(far[0], 4),
            "warning": f"the weighted rows of the prior are farther from the noisy counts of {far[1]} than noise "
            f"explains, by an L1 error of {far[0]:.2f}: {mend}",
        }
    return {}


def missing_values(prior: Prior, domain: Domain) -> dict[str, list[str]]:
    """For each column that the prior has, the declared values or bins that none of its rows has.

    >>> from dpsql.core.domain import Attribute
    >>> domain = Domain((Attribute("a", "VARCHAR", "values", ("x", "y", "z")),))
    >>> missing_values(Prior(("a",), np.array([[1]]), np.array([3.0])), domain)
    {'a': ['x', 'z']}
    """
    lacking_by_column = {}
    for place, name in enumerate(prior.names):
        attribute = domain.by_name[name]
        lacking = sorted(set(range(attribute.regular)) - set(prior.codes[:, place].tolist()))
        if lacking:
            lacking_by_column[name] = [_label(attribute, code) for code in lacking]
    return lacking_by_column


def _label(attribute: Attribute, code: int) -> str:
    """A value or bin, for people."""
    if attribute.kind == "values":
        return attribute.values[code]
    if len(attribute.edges) == attribute.regular + 1:
        return f"[{attribute.edges[code]}, {attribute.edges[code + 1]})"
    return f"bin {code + 1} of {attribute.regular}"


def reach_words(prior: Prior, domain: Domain, cliques: Sequence[Clique], mend: str) -> list[str]:
    """What a plan says of the prior: how many rows, which cells of the workload they reach, which values they lack.

    Args:
        prior: the public rows.
        domain: of the table.
        cliques: the workload's.
        mend: what would reach farther.
    """
    covered = [clique for clique in cliques if prior.covers(clique)]
    cells = sum(domain.inner.size(clique) for clique in covered)
    reached = sum(len(np.unique(packed(prior.codes, prior.names, domain, clique))) for clique in covered)
    rows = len(prior.codes)
    sentences = [f"the prior has {rows} different row{'s' if rows > 1 else ''}"]
    if cells:
        sentences[0] += f", in {reached} of the {cells} cells of the workload"
    lacking = missing_values(prior, domain)
    if lacking:
        listed = [f"{name} = {_some(values)}" for name, values in list(lacking.items())[:_NAMED]]
        listed += [f"values of {len(lacking) - _NAMED} more columns"] if len(lacking) > _NAMED else []
        sentences.append(f"the prior has no row with {'; '.join(listed)}: {mend}")
    return sentences


def _some(words: Sequence[str]) -> str:
    more = len(words) - _NAMED
    return ", ".join(words[:_NAMED]) + (f" ({more} more)" if more > 0 else "")
