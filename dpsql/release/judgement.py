r"""How near a synthetic table is to what was measured, and how near that is to the truth: from released values only.

    column   error = max(σ_c, √(mean over its cells of (s − y)²)) / N
    pair     missed   the synthetic strength is more than 0.05 outside of its interval, which is not wider than 0.1; or
                      a cell is surely off by more than 2 % of the rows: |s − y| − z·σ > N/50, z of all cells together
             likely   the interval is wider, but the fit predicts an L1 error of at most 0.1 of the pair, so that its
                      shares are nearly right; the synthetic strength is near the interval; and of two ordered columns,
                      whose correlation people ask for, the interval is at most 0.3 wide
             hidden   the interval is wider, and that does not hold: noise hides how the two depend
             kept     none of these
    cells    error of single cells that were measured, as of a column

y and σ_c are the estimate of a marginal and its noise (`dpsql.release.estimates`), s the synthetic counts, scaled to
the N rows that were measured. The error of a column is a standard deviation, as a fraction of all rows. The larger of
both is taken, because a fit to noisy counts may hold their noise, and a fit far from them is wrong. The strength of
two ordered columns is their rank correlation (`dpsql.release.correlation`), of others their association
(`dpsql.release.association`). "Truth" is the rows that count: with privacy units at most `max_rows` of each.

Of linked tables y and s count rows that a digest chooses among those of a unit (`dpsql.core.unit_row`). Another choice
of the same rows gives other counts. In u of N units, each chosen with a chance of its own, their variance is at most
u·(1 − u/N): so much comes to σ² twice, for y and for s.

What was not measured as a whole is not judged: see `Judgement.unmeasured_columns` and `unmeasured_pairs`. Of
linked tables some pairs are left out because they follow from others (`UnitRow.implied`), which is no fault.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from dpsql.core.counter import CountsMarginals
from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.privacy.distributions import find_noise
from dpsql.release.association import Association, association, association_of_counts
from dpsql.release.correlation import are_ordered, correlation, correlation_of_counts
from dpsql.release.estimates import Estimate, Estimates, Floats
from dpsql.release.numbers import NumberFigures
from dpsql.release.worst_cells import WorstCell, WorstCells, cells_shown, labels_shown

WIDE: Final = 0.1
"""Of an interval of an association: wider ones hide it."""
APART: Final = 0.05
"""How far a synthetic association may be outside of what was measured."""
OFF: Final = 0.02
"""Of the rows: a pair whose cell is farther off is wrong, however strongly its columns depend."""
WIDEST: Final = 0.3
"""Of an interval of a correlation: with a wider one nothing is likely."""
MOST_PAIRS: Final = 1_500
_OF_NOISE: Final = 3.0
_FEW: Final = 0.05
"""Of the rows: a column with fewer values than that may have none."""
_MOST_CLIQUES: Final = 200
"""Of measured single cells: as many marginals of the synthetic table are counted for them."""


@dataclass(frozen=True)
class JudgedColumn:
    """A column whose cells were measured.

    Attributes:
        name: of it.
        labels: of its cells, as synthetic rows tell them apart.
        measured: rows in each, with noise.
        stddev: of the noise of each (rows).
        reach: half of the 95 % interval of each (rows).
        synthetic: rows in each, scaled to as many rows as were measured.
        error: see the top of this file; a fraction of the rows.
    """

    name: str
    labels: tuple[str, ...]
    measured: Floats
    stddev: Floats
    reach: Floats
    synthetic: Floats
    error: float


@dataclass(frozen=True)
class JudgedPair:
    """A pair of columns that were measured together.

    Attributes:
        clique: the two.
        measured: their strength, with its interval.
        synthetic: that of the synthetic rows.
        is_predicted: whether the fit predicts a small error of it.
        is_ordered: whether the strength is a correlation.
        off: by how much its farthest cell is surely off, as a fraction of the rows.
        state: see the top of this file.
    """

    clique: Clique
    measured: Association
    synthetic: float
    is_predicted: bool = False
    is_ordered: bool = False
    off: float = 0.0

    @property
    def surely(self) -> float:
        """The least strength in the interval, whatever its sign."""
        return max(0.0, self.measured.low, -self.measured.high)

    @property
    def state(self) -> Literal["kept", "likely", "hidden", "missed"]:
        """See the top of this file."""
        if self.off > OFF:
            return "missed"
        near = self.measured.low - APART <= self.synthetic <= self.measured.high + APART
        if self.measured.width > WIDE:
            is_seen = not self.is_ordered or self.measured.width <= WIDEST
            return "likely" if near and self.is_predicted and is_seen else "hidden"
        return "kept" if near else "missed"


@dataclass(frozen=True)
class Judgement:
    """What released values say of a synthetic table.

    Attributes:
        total: about how many rows were counted, by the noisy counts; None where nothing tells it.
        total_reach: half of its 95 % interval.
        columns, pairs: that were judged.
        unmeasured_columns: that no measured marginal holds.
        unmeasured_pairs: those that no measured marginal holds, though they were to be answered.
        implied_pairs: how many no measured marginal holds, because they follow from others.
        undefined_pairs: how many pairs have a column of a single value, as far as the noise tells, which depends on
            nothing.
        skipped_pairs: how many were not looked at, because there are too many.
        cells: how many single cells were measured.
        cells_error: of these.
        worst: cells that noise does not explain, the farthest first.
        looked_at: cells of columns and pairs that could be among them.
        far: how many of them are surely off, by a chance of one in a million for all together.
        numbers: what analysts ask of the columns of numbers.
    """

    total: float | None
    total_reach: float
    columns: tuple[JudgedColumn, ...]
    pairs: tuple[JudgedPair, ...]
    unmeasured_columns: tuple[str, ...]
    unmeasured_pairs: tuple[Clique, ...]
    undefined_pairs: int
    skipped_pairs: int
    cells: int
    cells_error: float | None
    worst: tuple[WorstCell, ...]
    looked_at: int
    far: int
    numbers: tuple[NumberFigures, ...] = ()
    implied_pairs: int = 0

    @property
    def error(self) -> float | None:
        """The mean error of the judged columns, a fraction of the rows."""
        return float(np.mean([column.error for column in self.columns])) if self.columns else None

    @property
    def is_of_unknown_rows(self) -> bool:
        """Whether noise hides even the number of rows, so that there are no shares of it."""
        return self.total is not None and self.total < self.total_reach

    @property
    def has_unjudged_pairs(self) -> bool:
        """Whether some pairs are not judged, whatever the reason."""
        apart = len(self.unmeasured_pairs) + self.implied_pairs
        return apart + self.undefined_pairs + self.skipped_pairs > 0

    def of(self, state: str) -> list[JudgedPair]:
        """The pairs of a state."""
        return [pair for pair in self.pairs if pair.state == state]

    @property
    def reliable(self) -> int:
        """How many pairs are reliable, or likely are."""
        return len(self.of("kept")) + len(self.of("likely"))


def judge(
    domain: Domain,
    measured: Sequence[Measurement],
    counter: CountsMarginals,
    rows: int,
    check: Callable[[], None] | None = None,
    predicted: Collection[str] = (),
    chosen: Collection[str] = (),
) -> Judgement:
    """Compare a synthetic table with what was measured.

    Args:
        domain: of the release.
        measured: its noisy counts.
        counter: counts the synthetic rows.
        rows: how many of these there are.
        check: called between marginals; may raise to end the work.
        predicted: pairs of which the fit predicts a small error, their names joined by ", ".
        chosen: columns of rows that are chosen among those of a unit, on both sides.
    """
    estimates = Estimates(domain, measured)
    total, sure = estimates.total, estimates.of(())
    scale = (total or 0.0) / rows if rows else 0.0
    columns, unmeasured = [], []
    for attribute in domain:
        estimate = estimates.of((attribute.name,))
        if estimate is None or total is None:
            unmeasured.append(attribute.name)
        else:
            columns.append(_column(attribute, estimate, counts_of(counter, domain, (attribute.name,)) * scale, total))
    worst = WorstCells(domain, is_normal=all(find_noise(m.noise).is_normal for m in measured if m.variance))
    for column in columns:
        noise = _with_choice((column.name,), chosen, column.synthetic, column.stddev)
        worst.add((column.name,), column.synthetic, column.measured, noise)
    judged = _judge_pairs(estimates, counter, scale, worst, check, predicted, chosen)
    number, error = _single_cells(domain, measured, counter, scale, total)
    return Judgement(
        total=total,
        total_reach=0.0 if sure is None else sure.stddev * _reach("gaussian" if sure.is_normal else "laplace"),
        columns=tuple(columns),
        unmeasured_columns=tuple(unmeasured),
        cells=number,
        cells_error=error,
        worst=worst.listed(),
        looked_at=worst.cells,
        far=worst.far,
        **judged,
    )


def _judge_pairs(
    estimates: Estimates,
    counter: CountsMarginals,
    scale: float,
    worst: WorstCells,
    check: Callable[[], None] | None,
    predicted: Collection[str],
    chosen: Collection[str],
) -> dict[str, Any]:
    """What a `Judgement` says of pairs."""
    domain = estimates.domain
    listed, skipped = _listed(domain.names)
    pairs, undefined = list[tuple[JudgedPair, Sequence[tuple[float, float]]]](), 0
    unmeasured: list[Clique] = []
    constant = {attribute.name for attribute in domain if _is_constant(attribute, estimates)}
    for clique in listed:
        if check is not None:
            check()
        estimate = estimates.of(clique)
        if estimate is None:
            unmeasured.append(clique)
            continue
        columns = [domain.by_name[name] for name in clique]
        ordered = are_ordered(columns)
        measured = correlation(estimates, estimate, columns) if ordered else association(estimates, estimate)
        if measured is None or not constant.isdisjoint(clique):
            undefined += 1
            continue
        made = counts_of(counter, domain, clique) * scale
        shown, values, stddev = _merged(domain, estimate, made)
        stddev = _with_choice(clique, chosen, shown, stddev)
        strength = correlation_of_counts(shown, columns) if ordered else association_of_counts(shown)
        pair = JudgedPair(clique, measured, strength, ", ".join(clique) in predicted, ordered)
        pairs.append((pair, _largest_gaps(shown - values, stddev)))
        worst.add(clique, shown, values, stddev)
    reach, total = worst.reach, estimates.total or 1.0  # of all cells, so only now
    return {
        "pairs": tuple(
            replace(pair, off=max(0.0, *(gap - reach * noise for gap, noise in gaps)) / total) for pair, gaps in pairs
        ),
        "unmeasured_pairs": tuple(unmeasured),
        "undefined_pairs": undefined,
        "skipped_pairs": skipped,
    }


def _with_choice(clique: Clique, chosen: Collection[str], made: Floats, stddev: Floats) -> Floats:
    """σ of each cell with the choice of rows, see the top of this file; rounded up to one of few, eight an octave."""
    units = float(made.sum())
    if units <= 0 or not any(name in chosen for name in clique):
        return stddev
    whole = np.sqrt(stddev**2 + 2 * made * (1 - made / units))
    steps = np.ceil(8 * np.log2(whole, out=np.zeros(whole.shape), where=whole > 0))
    return np.where(whole > 0, np.exp2(steps / 8), 0.0)


def _largest_gaps(gaps: Floats, stddev: Floats) -> list[tuple[float, float]]:
    """The largest |s − y| of the cells of each σ, and the σ, of which a marginal has few."""
    return [(float(np.abs(gaps[stddev == noise]).max()), float(noise)) for noise in np.unique(stddev)]


def _is_constant(attribute: Attribute, estimates: Estimates) -> bool:
    """Whether a column has one value in all rows, or none in any, as far as the noise tells."""
    estimate = estimates.of((attribute.name,))
    if estimate is None:
        return False
    codes = attribute.regular + (attribute.other is not None)
    values, rest = estimate.values[:codes], estimate.values[codes:]
    noise = _OF_NOISE * estimate.stddev
    if codes == 1 and float(rest.sum()) <= noise * math.sqrt(rest.size):
        return True
    empty = noise * math.sqrt(codes)  # that many rows with a value would not be noticed
    return float(values.sum()) <= empty <= _FEW * float(rest.sum())


def counts_of(counter: CountsMarginals, domain: Domain, clique: Clique) -> Floats:
    """Synthetic rows in each cell of a marginal, in its shape."""
    return counter.marginal(clique).dense().reshape(domain.shape(clique)).astype(np.float64)


def _listed(names: Sequence[str]) -> tuple[Iterator[Clique], int]:
    """The pairs that are looked at, evenly chosen where there are too many, and how many are not."""
    number = math.comb(len(names), 2)
    step = -(-number // MOST_PAIRS) if number else 1
    looked_at = -(-number // step)
    return itertools.islice(itertools.combinations(names, 2), 0, None, step), number - looked_at


def _column(attribute: Attribute, estimate: Estimate, made: Floats, total: float) -> JudgedColumn:
    domain = Domain((attribute,))
    shown, values, stddev = _merged(domain, estimate, made)
    gap = math.sqrt(float(((shown - values) ** 2).mean()))
    reach = _reach("gaussian" if estimate.is_normal else "laplace")
    return JudgedColumn(
        name=attribute.name,
        labels=tuple(labels_shown(attribute)),
        measured=values,
        stddev=stddev,
        reach=reach * stddev,
        synthetic=shown,
        error=max(float(np.sqrt((stddev**2).mean())), gap) / total,
    )


@cache
def _reach(noise: str) -> float:
    """Standard deviations that an error stays below with a probability of 95 %."""
    return find_noise(noise).reach(0.05)


def _merged(domain: Domain, estimate: Estimate, made: Floats) -> tuple[Floats, Floats, Floats]:
    """Synthetic counts, measured ones and their standard deviations, in the cells that synthetic rows tell apart."""
    tables = (made, estimate.values, np.full(estimate.values.shape, estimate.variance))
    shown, values, variance = (cells_shown(domain, estimate.clique, table) for table in tables)
    return shown, values, np.sqrt(variance)


def _single_cells(
    domain: Domain, measured: Sequence[Measurement], counter: CountsMarginals, scale: float, total: float | None
) -> tuple[int, float | None]:
    """How many single cells were measured, and how far off they are; thresholds are left out."""
    square = noise = 0.0
    number, cliques = 0, set[Clique]()
    for measurement in measured:
        if (
            measurement.cells is None
            or measurement.least is not None
            or (measurement.clique not in cliques and len(cliques) >= _MOST_CLIQUES)
        ):
            continue
        cliques.add(measurement.clique)
        apart = _told_apart(domain, measurement)
        if total is None or not apart.any():
            continue
        marginal = counter.marginal(measurement.clique)
        wanted = np.asarray(measurement.cells)[apart]
        counts = dict(zip(marginal.cells.tolist(), marginal.counts.tolist(), strict=True))
        made = np.array([counts.get(cell, 0) for cell in wanted.tolist()]) * scale
        square += float(((made - measurement.values[apart]) ** 2).sum())
        noise += float(measurement.variance) * int(apart.sum())
        number += int(apart.sum())
    if total is None or not number:
        return number, None
    return number, math.sqrt(max(square, noise) / number) / total


def _told_apart(domain: Domain, measured: Measurement) -> npt.NDArray[np.bool_]:
    """Which measured cells synthetic rows tell apart: none with NULL or OUTSIDE of a column that has both."""
    codes = np.unravel_index(np.asarray(measured.cells), measured.shape)
    apart = np.ones(len(measured.values), bool)
    for place, name in enumerate(measured.clique):
        attribute = domain.by_name[name]
        if attribute.outside and attribute.nullable:
            apart &= codes[place] < attribute.size - 2
    return apart
