r"""Which columns a relaxed table joins: pairs that depend on each other strongly, and those tied by a constraint.

Of the strong pairs (`dpsql.fitting.relaxed.strong_pairs`), the most informative first, both columns are joined, each
with what it is joined to already, if

    I(a, b) ≥ 0.2 nats,   the joint has at most 700 tuples,   and all such joints together at most max(2000, 2·width)

I is that of the pair as far as it is believed (`dpsql.fitting.relaxed.believed_pairs`), and the width of a table is the
number of all values of its columns. The third bound is there because time and memory grow with the tuples: twenty pairs
of 26 × 26 values took twelve times as long joined as apart.

Of a unit's rows (`dpsql.core.unit_row`) pairs inside one row go first: every row of its table shows them, and two rows
of a unit show only how these are alike. All columns of a child are absent together. That alone has up to 0.7 nats, and
says nothing of the columns. So inside a child's row I is that of rows that are there, and less where fewer than
a fifth of the units have one. There 0.1 nats are enough, because later children are copies of such rows:

    simulated chain, ε = 10     siblings' association off by .067 → .044, own triples .142 → .079, joins .075 → .063
    17,500 patients and their 400,000 lab values, ε = 1: test × value off by L1 .32 → .22

Between a unit's own row and its rows with a role I is likewise that of rows that are there: most households have no
spouse, and how the sexes of couples depend on each other was hidden in that.

A pair of ordered columns with I ≥ 0.4, most of whose cells are empty (`dpsql.fitting.relaxed.empty_cells`), is a
ridge. It is joined without those cells, and may have 1,500 tuples: products of columns blur a ridge of 40 × 40 cells,
however many rows and steps there are. At very little noise (`dpsql.strategy.effort.EXACT`) ordered pairs alone are
joined.

A weaker pair stays apart: joined at 0.1 nats, the income of Adult was one with its relationship, and models trained on
the rows predicted it worse (ε = 0.1, four seeds: AUC .848, apart .864). The likely reason is that all rows then hold
the pair alike, so no row leans to one income, and other columns have no such row to go with.

Columns of a constraint are joined before, with the tuples that it allows, if those are at most 2,000: what is
impossible then has probability 0 in the fit. Columns of a larger constraint are not joined. Neither are those of a
constraint that allows at least half of all tuples, such as "both are NULL or none", and has one of two columns of a
ridge: the ridge goes first. Rounding sees to those.

The prior of a joint, from which its rows start and towards which they are pulled, has the believed counts of its strong
pairs and the 1-way marginals of its columns, and no further dependence (iterative proportional fitting). Beside
`smoothness` it has κ along its longest ordered column.

It looks at noisy counts and public facts only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique, Domain
from dpsql.core.flat_names import child_of
from dpsql.fitting.relaxed.empty_cells import may_hold_rows
from dpsql.fitting.relaxed.settings import joint_tuples, one_way_prior
from dpsql.fitting.relaxed.smoothness import FEWEST, VALUES
from dpsql.fitting.relaxed.strong_pairs import information
from dpsql.fitting.relaxed.table import Blocks, Codes, Joint
from dpsql.fitting.target import Target

Floats = npt.NDArray[np.float64]
_LEAST: Final = 0.2  # nats
_LEAST_OF_A_CHILD: Final = 0.1  # nats
_FEW: Final = 0.2  # of the units
_OF_A_RIDGE: Final = 0.4  # nats
_MOST: Final = 700  # tuples
_MOST_ORDERED: Final = 1500  # tuples, without the empty ones
_MOST_TRIED: Final = 250_000  # tuples, with them
_MOST_ALLOWED: Final = 2000  # tuples
_STEPS: Final = 30
_FLOOR: Final = 0.1  # rows


def joints_of(
    domain: Domain,
    believed: Sequence[Target],
    measured: Sequence[Target],
    total: float,
    allowed: Sequence[Allowed] = (),
    noisy: Sequence[Target] = (),
) -> tuple[Joint, ...]:
    """The joints of a table.

    Args:
        domain: the columns.
        believed: strong pairs, as far as they are believed (`dpsql.fitting.relaxed.believed_pairs`).
        measured: noisy marginals; 1-way ones may be denoised.
        total: N, rows.
        allowed: constraints.
        noisy: the strong pairs as they were measured.
    """
    prior, blocks = one_way_prior(domain, measured, total), Blocks.of(domain)
    columns = {name: prior[blocks.block(name)] for name in domain.names}
    ridges = {strong.clique for strong in believed if information(strong) >= _OF_A_RIDGE}
    possible = _possible(domain, [pair for pair in noisy if pair.clique in ridges], measured, total)
    joined = _joined(domain, believed, allowed, possible)
    return tuple(_joint(domain, names, tuples, columns, believed, total) for names, tuples in joined.items())


def _possible(
    domain: Domain, noisy: Sequence[Target], measured: Sequence[Target], total: float
) -> dict[Clique, npt.NDArray[np.bool_]]:
    """Which cells of each pair of ordered columns may hold rows, where some may not."""
    alone = {target.clique[0]: target for target in measured if len(target.clique) == 1}
    ordered = [pair for pair in noisy if domain.all_ordered(pair.clique)]
    columns = {pair.clique: [domain.by_name[name] for name in pair.clique] for pair in ordered}
    possible = {pair.clique: may_hold_rows(pair, columns[pair.clique], alone, total) for pair in ordered}
    return {clique: cells for clique, cells in possible.items() if not cells.all()}


def _joined(
    domain: Domain,
    believed: Sequence[Target],
    allowed: Sequence[Allowed],
    possible: Mapping[Clique, npt.NDArray[np.bool_]],
) -> dict[Clique, Codes]:
    """The tuples of each joint, by the rule at the top of this file."""
    parts: dict[str, tuple[Clique, Codes]] = {n: ((n,), np.arange(domain.size((n,)))[:, None]) for n in domain.names}
    for part in allowed:
        if any(_gives_way(part, ridge, domain) for ridge in possible):
            continue
        if len(part.codes) <= _MOST_ALLOWED:
            parts |= dict.fromkeys(part.clique, (part.clique, part.codes))
        else:
            parts = {name: columns_left for name, columns_left in parts.items() if name not in part.clique}
    of_constraints = sum(map(len, _joints(parts).values()))
    for _, _, (a, b) in sorted((rank for pair in believed if (rank := _rank(domain, pair))), reverse=True):
        if a not in parts or b not in parts or a in parts[b][0]:
            continue
        (first, tuples), (second, others) = parts[a], parts[b]
        if len(tuples) * len(others) > (_MOST_TRIED if (a, b) in possible else _MOST):
            continue
        names = domain.clique((*first, *second))
        both = np.hstack([np.repeat(tuples, len(others), axis=0), np.tile(others, (len(tuples), 1))])
        both = both[:, [(*first, *second).index(name) for name in names]]
        if (a, b) in possible:
            both = both[possible[a, b][both[:, names.index(a)], both[:, names.index(b)]]]
        if len(both) > _MOST_ORDERED:
            continue
        joined = parts | dict.fromkeys(names, (names, both))
        if sum(map(len, _joints(joined).values())) - of_constraints <= joint_tuples(domain):
            parts = joined
    return _joints(parts)


def _rank(domain: Domain, pair: Target) -> tuple[bool, float, Clique] | None:
    """Whether a pair is of one row, its nats and its columns, by which the first is joined; None of one that is not."""
    a, b = pair.clique
    child = child_of(a)
    if child != child_of(b):
        nats = information(pair)
        return (False, nats, pair.clique) if nats >= _LEAST else None
    counts = np.maximum(pair.values, 0.0).reshape(pair.shape)
    there = counts
    for axis, name in enumerate(pair.clique):
        absent = domain.by_name[name].absent_code
        there = there if absent is None else np.delete(there, absent, axis)
    share = float(there.sum() / max(counts.sum(), 1e-300))
    nats = information(replace(pair, values=there.ravel(), shape=there.shape)) * min(1.0, share / _FEW)
    return (True, nats, pair.clique) if nats >= (_LEAST_OF_A_CHILD if child else _LEAST) else None


def _gives_way(part: Allowed, ridge: Clique, domain: Domain) -> bool:
    """Whether a constraint allows most tuples, and ties one column of two that nearly decide each other."""
    loose = 2 * len(part.codes) >= domain.size(part.clique)
    return loose and len(set(part.clique) & set(ridge)) == 1


def _joints(parts: Mapping[str, tuple[Clique, Codes]]) -> dict[Clique, Codes]:
    """Those of more than one column."""
    return {names: tuples for names, tuples in parts.values() if len(names) > 1}


def _joint(
    domain: Domain,
    names: Clique,
    tuples: Codes,
    columns: Mapping[str, Floats],
    believed: Sequence[Target],
    total: float,
) -> Joint:
    """A joint with its prior."""
    tuples, kappa = _along(domain, names, tuples)
    wanted: list[tuple[Codes, Floats]] = []
    for pair in believed:
        if set(pair.clique) <= set(names):
            cells = np.ravel_multi_index([tuples[:, names.index(name)] for name in pair.clique], pair.shape)
            shares = pair.values + _FLOOR / len(pair.values)
            wanted.append((cells, shares / shares.sum()))
    wanted += [(tuples[:, place], columns[name]) for place, name in enumerate(names)]
    prior = np.full(len(tuples), 1 / len(tuples))
    for _ in range(_STEPS):
        for cells, shares in wanted:
            sums = np.bincount(cells, prior, len(shares))
            prior = prior * (shares / np.maximum(sums, 1e-300))[cells]
        prior /= prior.sum()
    prior = prior + _FLOOR / max(total, 10.0) / len(tuples)
    return Joint(names, tuples, prior / prior.sum(), kappa)


def _along(domain: Domain, names: Clique, tuples: Codes) -> tuple[Codes, Floats]:
    """Tuples in an order in which neighbours in the longest ordered column follow each other, and their κ."""
    attributes = [domain.by_name[name] for name in names]
    longest = [max(map(len, attribute.runs), default=0) if attribute.is_ordered else 0 for attribute in attributes]
    place, kappa = int(np.argmax(longest)), np.zeros(len(tuples))
    if longest[place] < FEWEST:
        return tuples, kappa
    lengths, runs = np.zeros((2, attributes[place].size), np.int64)  # of the run that a value is in; 0 for none
    for number, run in enumerate(attributes[place].runs):
        lengths[run.start : run.stop], runs[run.start : run.stop] = len(run) if len(run) >= FEWEST else 0, number
    others = [k for k in range(len(names)) if k != place]
    tuples = tuples[np.lexsort([tuples[:, k] for k in (place, *reversed(others))])]
    step, (before, after) = np.diff(tuples, axis=0), (tuples[:-1, place], tuples[1:, place])
    near = (step[:, others] == 0).all(axis=1) & (step[:, place] == 1) & (runs[before] == runs[after])
    kappa[:-1][near] = np.minimum(lengths[before], lengths[after])[near] / VALUES
    return tuples, kappa
