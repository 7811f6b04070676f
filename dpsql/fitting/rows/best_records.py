r"""One record that satisfies weighted conjunctions as well as can be: the data player of DualQuery, the leader of FEM.

    maximise over records x:  Σ_j w_j·[x_i = y_ji for all i in S_j] + Σ_i b_i(x_i)

A conjunction is one cell y_j of a clique S_j; a negation counts as weight −1 and a constant. A threshold holds where at
least t_j of its parts do, a conjunction where all of them do. For small sets of conjunctions an integer program: binary
z_iv for "x_i = v" (one of them for each attribute i), and for each conjunction an indicator f_j with

    f_j ≤ z_iv  for each of its parts, where w_j > 0        f_j ≥ Σ z_iv − (|S_j| − 1), f_j ≥ 0, where w_j < 0

and for a threshold a binary f_j with t_j·f_j ≤ Σ z_iv ≤ t_j − 1 + (|S_j| − t_j + 1)·f_j.

For large ones a local search from many starts at once: each attribute in turn takes the value that is best given all
others (block coordinate ascent), and a record that is stuck is made to satisfy a conjunction that it does not, and
climbs again. Nothing here sees a private count: whatever is found, privacy does not depend on it.

Source: Gaboardi et al. 2014 (DualQuery, arXiv:1402.1526), section 4.2, for the integer program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core import sparse
from dpsql.core.domain import Domain
from dpsql.core.threshold import Family, Threshold, clique_of
from dpsql.errors import InvalidArgument
from dpsql.runtime.progress import Progress

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SEARCHES: Final = ("auto", "milp", "local")
_MOST_EXACT: Final = 40  # conjunctions that the integer program takes under `auto`
_STARTS: Final = 48
_KICKS: Final = 6
_SWEEPS: Final = 30
_POOL: Final = 500


@dataclass(frozen=True)
class Goal:
    """Weighted conjunctions over records.

    Attributes:
        sizes: of the attributes' domains.
        reads: whether a conjunction asks for a value of an attribute, shape (conjunctions, attributes).
        wanted: which value it asks for where it asks for one; the same shape.
        weights: what a record that satisfies it gains, shape (conjunctions,).
        slack: how many parts a record may miss and still satisfies it, |S_j| − t_j, shape (conjunctions,).
    """

    sizes: tuple[int, ...]
    reads: npt.NDArray[np.bool_]
    wanted: Codes
    weights: Floats
    slack: npt.NDArray[np.int16]

    @staticmethod
    def of(domain: Domain, cells: Sequence[tuple[Family, int]], weights: Sequence[float]) -> Goal:
        """The goal of some cells or thresholds; one that is given more than once has its weights added up."""
        merged: dict[tuple[Family, int], float] = {}
        for cell, weight in zip(cells, weights, strict=True):
            merged[cell] = merged.get(cell, 0.0) + weight
        cells_used = [cell for cell, weight in merged.items() if weight]
        reads = np.zeros((len(cells_used), len(domain)), bool)
        wanted = np.zeros(reads.shape, np.int64)
        slack = np.zeros(len(cells_used), np.int16)
        place = {name: column for column, name in enumerate(domain.names)}
        for row, (family, number) in enumerate(cells_used):
            clique = clique_of(family)
            slack[row] = len(clique) - (family.least if isinstance(family, Threshold) else len(clique))
            columns = [place[name] for name in clique]
            reads[row, columns] = True
            wanted[row, columns] = np.unravel_index(number, domain.shape(clique))
        gains = np.array([merged[cell] for cell in cells_used], np.float64)
        return Goal(domain.shape(domain.names), reads, wanted, gains, slack)

    @cached_property
    def parts(self) -> list[tuple[Codes, sparse.csr_matrix]]:
        """For each attribute the conjunctions that ask for a value of it, and their weights, shape (values, those)."""
        by_attribute = []
        for attribute, size in enumerate(self.sizes):
            rows = np.flatnonzero(self.reads[:, attribute])
            entries = (self.weights[rows], (self.wanted[rows, attribute], np.arange(len(rows))))
            by_attribute.append((rows, sparse.csr_matrix(entries, shape=(size, len(rows)))))
        return by_attribute

    @cached_property
    def offsets(self) -> list[int]:
        """Where each attribute's values begin in the one-hot width; the width itself last."""
        return [0, *(int(end) for end in np.cumsum(self.sizes))]

    def missing(self, records: Codes) -> npt.NDArray[np.int16]:
        """How many parts of each conjunction each record does not have, shape (conjunctions, records)."""
        lacking = np.zeros((len(self.wanted), len(records)), np.int16)
        for attribute, (rows, _) in enumerate(self.parts):
            lacking[rows] += self.wanted[rows, attribute, None] != records[:, attribute]
        return lacking

    def values(self, records: Codes, bias: Floats | None = None) -> Floats:
        """What each record gains, shape (records,); `bias` as in `climb`."""
        gains = np.asarray(self.weights @ (self.missing(records) <= self.slack[:, None]), np.float64)
        if bias is not None:
            for attribute, offset in enumerate(self.offsets[:-1]):
                gains += bias[np.arange(len(records)), offset + records[:, attribute]]
        return gains


def check_search(search: str) -> None:
    """Refuse a way to search that is none.

    Raises:
        InvalidArgument: it is not one of `SEARCHES`.
    """
    if search not in SEARCHES:
        raise InvalidArgument(f"search is {search!r}: say one of {', '.join(map(repr, SEARCHES))}")


def best_record(goal: Goal, search: str, seconds: float, generator: np.random.Generator, progress: Progress) -> Codes:
    """A record that gains as much as could be found, shape (attributes,); ties are broken at random.

    Args:
        goal: what it should satisfy.
        search: `milp` for the integer program, `local` for the local search, `auto` by the number of conjunctions.
        seconds: the most that the integer program may take; its best record then, or the local search's.
        generator: of starts and ties.
        progress: is asked whether to stop.
    """
    if search == "milp" or (search == "auto" and len(goal.weights) <= _MOST_EXACT):
        record = exact_record(goal, seconds, generator)
        if record is not None:
            record = climb(goal, record[None, :], generator, progress)[0]  # loses nothing, ties become random
            return np.asarray(record, np.int64)
    return local_record(goal, generator, progress)


def local_record(goal: Goal, generator: np.random.Generator, progress: Progress, starts: int = _STARTS) -> Codes:
    """The best record of a local search from `starts` starts, shape (attributes,)."""
    records = satisfying(goal, random_records(goal, starts, generator), generator)
    records = _kicked(goal, climb(goal, records, generator, progress), generator, progress)
    values = goal.values(records)
    best = np.flatnonzero(values >= values.max() - _tie(goal))
    return np.asarray(records[generator.choice(best)])


def perturbed_leaders(
    goal: Goal,
    count: int,
    noise: float,
    generator: np.random.Generator,
    progress: Progress,
    shares: Floats | None = None,
) -> Codes:
    """Records that each maximise the goal plus noise for each value, shape (count, attributes); by local search.

    The noise is exponential; or with `shares` p the logarithm of p plus a Gumbel variable, because the value of largest
    log p + Gumbel is drawn with probabilities p: without a goal the records are drawn from the product of the shares.

    Args:
        goal: what they should satisfy.
        count: how many; each one has noise of its own.
        noise: the mean of the exponential noise, or the factor of the other; 0 for the leader itself, ties broken at
            random.
        generator: of the noise, of starts and of ties.
        progress: is asked whether to stop.
        shares: positive probabilities of each attribute's values, shape (one-hot width,).
    """
    bias = perturbations(goal, count, noise, generator, shares)
    if shares is None:
        starts = satisfying(goal, random_records(goal, count, generator), generator)
    else:
        parts = np.split(bias, goal.offsets[1:-1], axis=1)
        starts = np.stack([part.argmax(axis=1) for part in parts], axis=1)
    records = _kicked(goal, climb(goal, starts, generator, progress, bias), generator, progress, bias)
    return climb(goal, _shared(goal, records, bias), generator, progress, bias)


def perturbations(
    goal: Goal, count: int, noise: float, generator: np.random.Generator, shares: Floats | None
) -> Floats:
    """What each record gains by each value, shape (count, one-hot width); see `perturbed_leaders`."""
    size = (count, goal.offsets[-1])
    lots = generator.standard_exponential(size) if shares is None else np.log(shares) + generator.gumbel(size=size)
    return np.asarray(noise * lots)


def _shared(goal: Goal, records: Codes, bias: Floats) -> Codes:
    """For each one's noise the best of the records that were found for all of them."""
    pool = np.unique(records, axis=0)
    pool = pool[np.argsort(-goal.values(pool), kind="stable")[:_POOL]]
    several = goal.values(pool) + sum(
        bias[:, offset + pool[:, attribute]] for attribute, offset in enumerate(goal.offsets[:-1])
    )
    chosen = several.argmax(axis=1)
    better = several[np.arange(len(records)), chosen] > goal.values(records, bias) + _tie(goal)
    return np.where(better[:, None], pool[chosen], records)


def _kicked(
    goal: Goal, records: Codes, generator: np.random.Generator, progress: Progress, bias: Floats | None = None
) -> Codes:
    """Records that climb again after each was made to satisfy another conjunction; kept where nothing is lost."""
    values = goal.values(records, bias)
    for _ in range(_KICKS if (goal.weights > 0).any() else 0):
        other = climb(goal, satisfying(goal, records, generator, 1), generator, progress, bias)
        other_values = goal.values(other, bias)
        better = other_values >= values
        records, values = np.where(better[:, None], other, records), np.where(better, other_values, values)
    return records


def random_records(goal: Goal, count: int, generator: np.random.Generator) -> Codes:
    """Uniform records, shape (count, attributes)."""
    return generator.integers(0, goal.sizes, (count, len(goal.sizes)))


def satisfying(goal: Goal, records: Codes, generator: np.random.Generator, most: int | None = None) -> Codes:
    """The records changed so that each satisfies some conjunctions of positive weight, drawn by weight.

    Args:
        goal: the conjunctions.
        records: shape (records, attributes).
        generator: of the draws.
        most: how many conjunctions are tried; those that contradict an earlier one are left out. By default as many
            as there are attributes.
    """
    positive = np.maximum(goal.weights, 0.0)
    if not positive.any():
        return records
    records, fixed = records.copy(), np.zeros(records.shape, bool)
    cumulative = np.cumsum(positive) / positive.sum()
    for _ in range(len(goal.sizes) if most is None else most):
        drawn = np.searchsorted(cumulative, generator.random(len(records)), side="right")
        chosen = np.minimum(drawn, len(positive) - 1)
        read_parts, wanted = _enough(goal, chosen, generator), goal.wanted[chosen]
        agrees = ~(read_parts & fixed & (wanted != records)).any(axis=1)
        changed = read_parts & agrees[:, None]
        records = np.where(changed, wanted, records)
        fixed |= changed
    return records


def _enough(goal: Goal, chosen: Codes, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Parts that suffice for each of these conjunctions, shape (chosen, attributes): of a threshold t at random."""
    read_parts = goal.reads[chosen]
    if not goal.slack.any():
        return read_parts
    lots = np.where(read_parts, generator.random(read_parts.shape), 2.0)
    enough = read_parts.sum(axis=1) - goal.slack[chosen]
    return np.asarray(read_parts & (lots.argsort(axis=1).argsort(axis=1) < enough[:, None]), np.bool_)


def _tie(goal: Goal) -> float:
    """Gains that differ by less are equal: far above the rounding of their sums, far below one weight."""
    return 1e-9 * (1.0 + float(np.abs(goal.weights).sum()))


def climb(
    goal: Goal,
    records: Codes,
    generator: np.random.Generator,
    progress: Progress,
    bias: Floats | None = None,
) -> Codes:
    """Block coordinate ascent of many records at once, until a sweep over all attributes gains nothing.

    Args:
        goal: what they should satisfy.
        records: where each one starts, shape (records, attributes).
        generator: of the order of attributes, and of ties.
        progress: is asked whether to stop.
        bias: what each record gains by each value besides, shape (records, one-hot width).

    Returns:
        Records of at least the same value, shape (records, attributes).
    """
    records = records.copy()
    missing = goal.missing(records)
    before, tie = goal.values(records, bias), _tie(goal)
    for _ in range(_SWEEPS):
        for attribute in generator.permutation(len(goal.sizes)):
            _move(goal, int(attribute), records, missing, generator, bias, tie)
            progress.check()
        after = goal.values(records, bias)
        if (after <= before + tie).all():
            break
        before = after
    return records


def _move(
    goal: Goal,
    attribute: int,
    records: Codes,
    missing: npt.NDArray[np.int16],
    generator: np.random.Generator,
    bias: Floats | None,
    tie: float,
) -> None:
    """Give each record the best value of one attribute; changes `records` and `missing`."""
    rows, weights = goal.parts[attribute]
    goal_values = goal.wanted[rows, attribute, None]
    others = missing[rows] - (goal_values != records[:, attribute])
    gains = np.asarray(weights @ (others == goal.slack[rows, None]).astype(np.float64)).T
    if bias is not None:
        gains = gains + bias[:, goal.offsets[attribute] : goal.offsets[attribute + 1]]
    records[:, attribute] = np.argmax(gains + tie * generator.random(gains.shape), axis=1)
    missing[rows] = others + (goal_values != records[:, attribute])


def exact_record(
    goal: Goal, seconds: float, generator: np.random.Generator, bias: Floats | None = None
) -> Codes | None:
    """The record of the integer program, or the best that was found in time; None if none was.

    Values that no conjunction asks for are all alike: where the program takes none of the others, one is drawn. Not
    with a `bias` of the record (see `perturbations`), shape (one-hot width,).
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # half a second to import

    record: Codes = random_records(goal, 1, generator)[0]
    listed_values = [np.unique(goal.wanted[rows, attribute]) for attribute, (rows, _) in enumerate(goal.parts)]
    listed_values = listed_values if bias is None else [np.arange(size) for size in goal.sizes]
    starts = np.concatenate([[0], np.cumsum([len(values) for values in listed_values])])
    count = len(goal.weights)
    if count == 0 and bias is None:
        return record
    limits = [LinearConstraint(*each) for each in _limits(goal, listed_values, starts)]
    whole = np.concatenate([np.ones(starts[-1]), goal.slack > 0])  # of a conjunction f_j is 0 or 1 by itself
    objective = np.concatenate([np.zeros(starts[-1]) if bias is None else -bias, -goal.weights])
    box = Bounds(0, 1)
    solution = milp(objective, integrality=whole, bounds=box, constraints=limits, options={"time_limit": seconds})
    if solution.x is None:
        return None
    for attribute, values in enumerate(listed_values):
        chosen = solution.x[starts[attribute] : starts[attribute + 1]]
        free = np.setdiff1d(np.arange(goal.sizes[attribute]), values)
        if len(values) and chosen.max() > 0.5:
            record[attribute] = values[int(chosen.argmax())]
        elif len(free):
            record[attribute] = generator.choice(free)
    return record


def _one_value_each(listed_values: Sequence[Codes], sizes: Sequence[int], starts: Codes, count: int) -> tuple[Any, ...]:
    """Σ_v z_iv ≤ 1 for each attribute, = 1 where every value is asked for."""
    rows = np.repeat(np.arange(len(listed_values)), [len(values) for values in listed_values])
    shape = (len(listed_values), int(starts[-1]) + count)
    matrix = sparse.csr_matrix((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=shape)
    least = np.array([float(len(values) == size) for values, size in zip(listed_values, sizes, strict=True)])
    return matrix, least, np.ones(len(listed_values))


def _limits(goal: Goal, listed_values: Sequence[Codes], starts: Codes) -> list[tuple[Any, ...]]:
    """One value each; f_j − z_iv ≤ 0 for positive weights, Σ z_iv − f_j ≤ |S_j| − 1 for negative ones."""
    conjunction, attribute = np.nonzero(goal.reads)
    variable = np.empty(len(conjunction), np.int64)
    for place, values in enumerate(listed_values):
        here = attribute == place
        variable[here] = starts[place] + np.searchsorted(values, goal.wanted[conjunction[here], place])
    width, count = int(starts[-1]), len(goal.weights)
    exact = goal.slack[conjunction] == 0
    positive, negated = exact & (goal.weights[conjunction] > 0), exact & (goal.weights[conjunction] < 0)
    limits = [_one_value_each(listed_values, goal.sizes, starts, count)]
    if positive.any():
        rows = np.arange(positive.sum())
        entries = np.concatenate([np.ones(len(rows)), -np.ones(len(rows))])
        places = np.concatenate([width + conjunction[positive], variable[positive]])
        matrix = sparse.csr_matrix((entries, (np.tile(rows, 2), places)), shape=(len(rows), width + count))
        limits.append((matrix, -np.inf, 0.0))
    if negated.any():
        negative, rows = np.unique(conjunction[negated], return_inverse=True)
        entries = np.concatenate([np.ones(len(rows)), -np.ones(len(negative))])
        places = np.concatenate([variable[negated], width + negative])
        lines = np.concatenate([rows, np.arange(len(negative))])
        matrix = sparse.csr_matrix((entries, (lines, places)), shape=(len(negative), width + count))
        lengths = goal.reads[negative].sum(axis=1)
        limits.append((matrix, -np.inf, lengths - 1.0))
    if not exact.all():
        limits.append(_threshold_indicators(goal, conjunction[~exact], variable[~exact], width))
    return limits


def _threshold_indicators(goal: Goal, conjunction: Codes, variable: Codes, width: int) -> tuple[Any, ...]:
    """t·f_j ≤ Σ z_iv and Σ z_iv − (|S_j| − t + 1)·f_j ≤ t − 1: f_j is 1 just where t parts hold."""
    thresholds, rows = np.unique(conjunction, return_inverse=True)
    parts, count = goal.reads[thresholds].sum(axis=1), len(thresholds)
    least = parts - goal.slack[thresholds]
    lines = np.concatenate([rows, np.arange(count), count + rows, count + np.arange(count)])
    places = np.concatenate([variable, width + thresholds, variable, width + thresholds])
    entries = np.concatenate([-np.ones(len(rows)), least, np.ones(len(rows)), least - parts - 1.0])
    matrix = sparse.csr_matrix((entries, (lines, places)), shape=(2 * count, width + len(goal.weights)))
    return matrix, -np.inf, np.concatenate([np.zeros(count), least - 1.0])
