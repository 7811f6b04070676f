r"""A density on a reduced space, by linear programming.

    h* = argmin over densities h on Ω* = {z_1 … z_m} of  max_f |Σ_i f(z_i)·h_i − ã_f|

as a linear program in h and the bound t: |A h − ã| ≤ t, Σh = 1, h ≥ 0, always feasible. f are the cells of the measured
marginals, ã_f their noisy fractions, A_fi = 1 where z_i lies in cell f. Two kinds of rows need not be written down:

    cells without a point of Ω*    the row says t ≥ |ã_f|, a constant c; what minimises the rest minimises max(c, rest)
    cells with the same points     of several rows only the smallest and the largest ã_f can bind

so a k-marginal program has at most 2·k·m rows however large the marginals are. f may be thresholds too: each has a row
of its own, written down when it is needed (`dpsql.fitting.rows.threshold_rows`); or linear queries, whose rows hold
weights. Of the many densities that are optimal
where c is larger than the rest, the one found is nearest on the cells that Ω* can answer.

Rows of cells are few, and the program has all of them at once. An interior-point method solves it: in 10 to 30 steps,
whatever the answers are. Rows that were added one by one and the simplex method took 3 to 36 seconds where this takes
0.1 to 0.6, and came to no end on Loans. Where the interior-point method fails the simplex method is asked.

Rows of thresholds are many, and dense. They are generated as they are needed: solve with the few worst, add those that
the solution violates, and so on. So are those of more than 5,000 points or 400,000 entries, and those of a program that
was not solved at once in half of the time. Every round's t is a lower bound of the whole program's, every round's h is
a density whose error is an upper bound; they meet at the optimum. So from the first round on there is an answer at any
time, with its distance from the optimum.

Source: Boedihardjo, Strohmer, Vershynin 2022, Algorithm 1 (arXiv:2109.12381); with Ω* the whole domain: Barak et al.
2007.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core import sparse
from dpsql.core.domain import Domain
from dpsql.core.prior import packed
from dpsql.core.threshold import Threshold
from dpsql.fitting.rows.threshold_rows import ThresholdRows
from dpsql.fitting.target import Target
from dpsql.runtime.background import in_background
from dpsql.runtime.progress import Progress

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
OBJECTIVES: Final = ("max", "l1")
_METHODS: Final = ("highs-ipm", "highs")
"""The second where the first fails."""
_NO_PLACES: Final = np.zeros(0, np.int64)
_RELATIVE_GAP: Final = 1e-6
_MOST_ROUNDS: Final = 200
_MOST_WHOLE: Final = 5_000  # points of a program with all rows at once
_MOST_ENTRIES: Final = 400_000  # of it: up to 20 seconds
_ROWS_PER_POINT: Final = 2.0  # rows added at once
_DENSE_PER_POINT: Final = 0.25  # of thresholds, whose rows are dense: more programs, each of which takes less time


@dataclass(frozen=True)
class Statistics:
    """The rows of the program: what the points can answer, and what was measured.

    Attributes:
        rows: A, one row for each set of points that fills a cell, shape (rows, m), entries 0 and 1; then one for each
            linear query, entries from −1 to 1.
        low: the smallest ã of the cells of that set; of the thresholds after them.
        high: the largest.
        cells: how many cells and thresholds have a point.
        empty: the largest |ã| of those without one; 0 if there are none.
        empty_cells: how many those are.
        thresholds: the rows after those of cells, which are not written down.
    """

    rows: sparse.csr_array
    low: Floats
    high: Floats
    cells: int
    empty: float
    empty_cells: int
    thresholds: tuple[ThresholdRows, ...] = ()

    @property
    def points(self) -> int:
        """How many points there are, m."""
        return int(self.rows.shape[1])

    def answers(self, density: Floats) -> Floats:
        """A h, shape (rows,)."""
        return np.concatenate([self.rows @ density, *(family.answers(density) for family in self.thresholds)])

    def chosen(self, places: npt.NDArray[np.int64]) -> sparse.csr_array:
        """Some rows of A in ascending order, shape (places, m)."""
        first = int(self.rows.shape[0])
        parts = [self.rows[places[places < first]]]
        for family in self.thresholds:
            here = places[(places >= first) & (places < first + len(family.counted))]
            parts.append(family.chosen(here - first))
            first += len(family.counted)
        return sparse.csr_array(sparse.vstack(parts, format="csr"))

    def error(self, density: Floats) -> float:
        """max_f |A h − ã| over the cells and thresholds that have a point."""
        answers = self.answers(density)
        return float(np.maximum(answers - self.low, self.high - answers).max(initial=0.0))

    def error_sum(self, density: Floats) -> float:
        """Σ_f |A h − ã| over cells, which are not merged, and thresholds."""
        return float(np.abs(self.answers(density) - self.low).sum())


@dataclass(frozen=True)
class Density:
    """A density on the points, and how near the best it is.

    Attributes:
        weights: h, shape (m,); they add up to 1.
        error: what was minimised, at h: the largest error (fraction) for `max`, the sum of errors for `l1`; of cells
            that have a point.
        bound: no density has less; equal to `error` where the program was solved.
        rounds: linear programs solved.
        prices: of a solved `l1`: the duals of its answers, from −1 to 1, and the reduced costs of the points.
    """

    weights: Floats
    error: float
    bound: float
    rounds: int
    prices: tuple[Floats, Floats] | None = None

    @property
    def optimal(self) -> bool:
        """Whether the error is the least there is, to the solver's accuracy."""
        return self.error - self.bound <= _RELATIVE_GAP * (1 + self.error)


def statistics(
    domain: Domain, points: Codes, measured: Sequence[Target], total: float, *, merge: bool = True
) -> Statistics:
    """The program's rows for measured marginals, as fractions of `total`.

    Args:
        domain: of the table.
        points: Ω*, shape (m, attributes).
        measured: whole marginals, and the answers of whole families of thresholds (rows) or linear queries (steps).
        total: the number of rows.
        merge: cells of the same points share a row, which `max` allows and `l1` does not.
    """
    # a set of points is known by the sum of its members' random 64-bit numbers: two sets agree with chance 2^-64
    marks = np.random.default_rng(0).integers(0, 2**63, len(points), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    answers, sums, members, owners = [], [], [], []
    filled_cells, empty, empty_cells = 0, 0.0, 0
    families = [target for target in measured if target.least is not None]
    linear = [target for target in measured if target.linear is not None]
    measured = [target for target in measured if target.least is None and target.linear is None]
    for measurement in measured:
        cells, place = np.unique(packed(points, domain.names, domain, measurement.clique), return_inverse=True)
        fractions = measurement.values / total
        answers.append(fractions[cells])
        fractions[cells] = 0.0
        empty = max(empty, float(np.abs(fractions).max(initial=0.0)))
        empty_cells += len(fractions) - len(cells)
        sums.append(np.zeros(len(cells), np.uint64))
        np.add.at(sums[-1], place, marks)
        members.append(np.arange(len(points)))
        owners.append(filled_cells + place)
        filled_cells += len(cells)
    wanted, keys = np.concatenate([np.zeros(0), *answers]), np.concatenate([np.zeros(0, np.uint64), *sums])
    if merge:
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    else:
        first = group = np.arange(filled_cells)
    low, high = np.full(len(first), math.inf), np.full(len(first), -math.inf)
    np.minimum.at(low, group, wanted)
    np.maximum.at(high, group, wanted)
    shape = (filled_cells, len(points))
    places = np.concatenate([_NO_PLACES, *owners]), np.concatenate([_NO_PLACES, *members])
    everything = sparse.csr_array((np.ones(len(points) * len(measured)), places), shape)
    facts = Statistics(everything[first], low, high, filled_cells, empty, empty_cells)
    facts = facts if not linear else _with_linear(facts, domain, points, linear, total)
    return facts if not families else _with_thresholds(facts, domain, points, families, total)


def _with_linear(
    facts: Statistics, domain: Domain, points: Codes, families: Sequence[Target], total: float
) -> Statistics:
    """The rows of linear queries after those of cells, each divided by its family's largest weight."""
    rows, wanted, empty, empty_cells = [facts.rows], [], facts.empty, facts.empty_cells
    for target in families:
        family = target.linear
        assert family is not None
        cells = packed(points, domain.names, domain, family.clique)
        entries = family.weights[cells] / family.largest, (family.groups[cells], np.arange(len(points)))
        written = sparse.csr_array(entries, (family.count, len(points)))
        written.eliminate_zeros()
        fractions = target.values / (total * family.largest)
        has_point = np.diff(written.indptr) > 0
        rows.append(written[np.flatnonzero(has_point)])
        wanted.append(fractions[has_point])
        empty = max(empty, float(np.abs(fractions[~has_point]).max(initial=0.0)))
        empty_cells += int((~has_point).sum())
    low, high = (np.concatenate([ends, *wanted]) for ends in (facts.low, facts.high))
    together = sparse.csr_array(sparse.vstack(rows, format="csr"))
    return Statistics(together, low, high, facts.cells + sum(map(len, wanted)), empty, empty_cells)


def _with_thresholds(
    facts: Statistics, domain: Domain, points: Codes, families: Sequence[Target], total: float
) -> Statistics:
    """The rows of families of thresholds after those of cells."""
    rows, wanted, empty, empty_cells = [], [], facts.empty, facts.empty_cells
    for family in families:
        assert family.least is not None
        rows.append(ThresholdRows.of(domain, points, Threshold(family.clique, family.least)))
        fractions = family.values / total
        wanted.append(fractions[rows[-1].counted])
        fractions[rows[-1].counted] = 0.0
        empty = max(empty, float(np.abs(fractions).max(initial=0.0)))
        empty_cells += len(fractions) - len(wanted[-1])
    low, high = (np.concatenate([ends, *wanted]) for ends in (facts.low, facts.high))
    cells = facts.cells + sum(map(len, wanted))
    return Statistics(facts.rows, low, high, cells, empty, empty_cells, tuple(rows))


def nearest_density(facts: Statistics, objective: str, seconds: float, progress: Progress) -> Density:
    """The density on the points whose answers are nearest to the measured ones.

    The solver cannot be stopped from outside. It runs in a thread of its own, and `progress` is asked five times a
    second; an interrupt leaves the thread behind, which ends by itself when its time is up.

    Args:
        facts: the program's rows.
        objective: `max` or `l1`.
        seconds: after which the best density found so far is taken.
        progress: notified of each round; may raise `Interrupted`.
    """
    deadline = time.monotonic() + seconds
    return _least_sum(facts, deadline, progress) if objective == "l1" else _least_maximum(facts, deadline, progress)


def nearest_of_nearest(
    facts: Statistics, solution: Density, objective: str, others: Statistics, seconds: float, progress: Progress
) -> Density:
    """Of the densities as near as one that was found, the nearest by the largest error of other answers.

    A few queries are met by densities on a few points, which are far off from all else that is known.

    Args:
        facts: the program's rows, without thresholds.
        solution: a solution; with objective `l1` none of its errors may grow, with `max` none beyond the largest.
        objective: of that solution.
        others: the rows of further answers for the same points.
        seconds: after which the best density found so far is taken; at first the one given.
        progress: notified of each round; may raise `Interrupted`.

    Returns:
        The density, with the largest error of the others.
    """
    answers, points = facts.rows @ solution.weights, facts.points
    gap = np.maximum(answers - facts.low, facts.high - answers)
    reach = gap if objective == "l1" else np.full(len(gap), gap.max(initial=0.0))
    bounded = sparse.csr_array(sparse.vstack([facts.rows, -facts.rows], format="csr"))
    limits = np.concatenate([facts.low + reach, reach - facts.high]) * points
    return _least_maximum(others, time.monotonic() + seconds, progress, solution.weights, (bounded, limits))


def _least_maximum(
    facts: Statistics,
    deadline: float,
    progress: Progress,
    start: Floats | None = None,
    further: tuple[sparse.csr_array, Floats] | None = None,
) -> Density:
    """With all rows or by row generation; see the module. The program is scaled so that the mean of h is 1.

    Args:
        facts: the program's rows.
        deadline: of `time.monotonic`.
        progress: notified of each round.
        start: a density that meets `further`; the even one where there is nothing to meet.
        further: B and b of B h ≤ b/m.
    """
    points = facts.points
    best = np.full(points, 1 / points) if start is None else start
    matrix, most = (sparse.csr_array((0, points)), np.zeros(0)) if further is None else further
    fixed = sparse.csr_array(sparse.hstack([matrix, sparse.csr_array((len(most), 1))], format="csr"))
    error, bound, rounds = facts.error(best), 0.0, 0
    active = np.zeros(2 * len(facts.low), bool)
    whole = _is_whole(facts)
    active[slice(None) if whole else _worst(facts, best, 0.0, _most_rows(facts))] = True
    limits = np.concatenate([facts.low, -facts.high]) * points
    cost = np.append(np.zeros(points), 1.0)
    sum_to_one = sparse.csr_array(np.append(np.ones(points), 0.0)[None])
    while rounds < _MOST_ROUNDS and error - bound > _RELATIVE_GAP * error:
        chosen = np.flatnonzero(active)
        largest = sparse.csr_array(np.full((len(chosen), 1), -1.0))
        bounded = sparse.hstack([_signed(facts, chosen), largest], format="csr")
        upper = {"A_ub": sparse.vstack([bounded, fixed], format="csr"), "b_ub": np.append(limits[chosen], most)}
        until = (time.monotonic() + deadline) / 2 if whole else deadline
        solved = _solve({"c": cost, **upper, "A_eq": sum_to_one, "b_eq": [float(points)]}, until, progress)
        if solved is None and not whole:
            break
        if solved is None:
            active[:], whole = False, False
            active[_worst(facts, best, 0.0, _most_rows(facts))] = True
            continue
        rounds += 1
        density = _density(solved[:points])
        bound = max(bound, float(solved[points]) / points)
        reached = facts.error(density)
        if reached < error:
            best, error = density, reached
        progress.advance(1, f"error {error:.2g}, at least {bound:.2g}")
        fresh = _worst(facts, density, bound, _most_rows(facts))
        if active[fresh].all():  # what is violated is within the solver's tolerance
            break
        active[fresh] = True
    return Density(best, error, min(bound, error), rounds)


def _signed(facts: Statistics, chosen: npt.NDArray[np.int64]) -> sparse.csr_array:
    """Rows of A and then of −A, by their places in both together, ascending."""
    rows = len(facts.low)
    sides = facts.chosen(chosen[chosen < rows]), -facts.chosen(chosen[chosen >= rows] - rows)
    return sparse.csr_array(sparse.vstack(sides, format="csr"))


def _is_whole(facts: Statistics) -> bool:
    return not facts.thresholds and facts.points <= _MOST_WHOLE and facts.rows.nnz <= _MOST_ENTRIES


def _most_rows(facts: Statistics) -> int:
    each = _DENSE_PER_POINT if facts.thresholds else _ROWS_PER_POINT
    return max(1, round(each * facts.points))


def _worst(facts: Statistics, density: Floats, bound: float, most: int) -> npt.NDArray[np.int64]:
    """The rows that a density violates most, first those from above, then those from below."""
    answers = facts.answers(density)
    excess = np.concatenate([answers - facts.low, facts.high - answers]) - bound
    if len(excess) > most:
        excess[np.argpartition(excess, -most)[:-most]] = -math.inf
    return np.flatnonzero(excess > 0)


def _least_sum(facts: Statistics, deadline: float, progress: Progress) -> Density:
    """The whole program at once, with the two sides of each error as variables: A h − u + v = ã."""
    rows, points = len(facts.low), facts.points
    written = facts.chosen(np.arange(rows))
    sides = sparse.csr_array((np.ones(rows), (np.arange(rows), np.arange(rows))), (rows, rows))
    sum_to_one = sparse.csr_array(np.append(np.ones(points), np.zeros(2 * rows))[None])
    equal = sparse.vstack([sparse.hstack([written, -sides, sides]), sum_to_one], format="csr")
    cost = np.append(np.zeros(points), np.ones(2 * rows))
    wanted = np.append(facts.low, 1.0) * points
    solution = _solution({"c": cost, "A_eq": equal, "b_eq": wanted}, deadline, progress)
    density = np.full(points, 1 / points) if solution is None else _density(np.asarray(solution.x[:points], np.float64))
    error = facts.error_sum(density)
    if solution is None:
        return Density(density, error, 0.0, 0)
    prices = np.asarray(solution.eqlin.marginals[:rows], np.float64), np.asarray(solution.lower.marginals[:points])
    return Density(density, error, min(error, float(cost @ solution.x) / points), 1, prices)


def _density(solution: Floats) -> Floats:
    """A solution that adds up to 1 exactly and has no negative weight."""
    positive = np.maximum(solution, 0.0)
    return np.asarray(positive / positive.sum(), np.float64)


def _solve(program: dict[str, Any], deadline: float, progress: Progress) -> Floats | None:
    """The solution of a linear program; None if the time is up before it is found."""
    solution = _solution(program, deadline, progress)
    return None if solution is None else np.asarray(solution.x, np.float64)


def _solution(program: dict[str, Any], deadline: float, progress: Progress) -> Any:
    """SciPy's answer; None if the time is up before the program is solved."""
    for method in _METHODS:
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        solution = in_background(progress, _solver({**program, "method": method, "options": {"time_limit": left}}))
        if solution.x is not None and solution.status == 0:
            return solution
    return None


def _solver(program: dict[str, Any]) -> Callable[[Progress], Any]:
    return lambda _: linprog(**program)


def linprog(**program: Any) -> Any:
    """SciPy's, which takes half a second to import."""
    from scipy.optimize import linprog as solve

    return solve(**program)
