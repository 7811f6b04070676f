r"""Exact integer noise from the operating system's entropy.

Discrete Gaussian  P(x) ∝ exp(−x²/2σ²)  and discrete Laplace  P(x) ∝ exp(−|x|/b)  on the integers, and the exponential
mechanism  P(i) ∝ exp(λ·score_i). Parameters are rationals, and the distributions are exact: no float decides.

A draw inverts the distribution function with random bits. The weights exp(−t·k²) or exp(−t·k) are computed as integers
of p bits with a proven error bound E, so that each value F_k of the distribution function is known to lie in an
interval far narrower than 2⁻⁶⁴. A 64-bit uniform number u is compared with the leading 64 bits of all F_k at once
(numpy's searchsorted). It decides unless u touches the leading word of some F_k; such a draw (probability about
table size · 2⁻⁶³) gets further random bits, and if need be a table of twice the precision, until it is decided.

Wide noise is drawn in two parts x = m·A + B with m a power of two: A from the table of exp(−t·(mA)²), B uniform below
m, and the pair is accepted with probability exp(−((mA + B)² − (mA)²)/2σ²), again exactly. So tables stay small.

Source: Canonne, Kamath, Steinke 2020 (arXiv:2004.00010) for the distributions; inversion with refinement as above.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from dpsql.errors import InvalidArgument

Entropy = Callable[[int], bytes]
"""A source of random bytes: given a number, returns that many."""
Integers = npt.NDArray[np.int64]

system_entropy: Final[Entropy] = os.urandom
"""The only source that a release uses."""

WORD: Final = 64
_PRECISION: Final = 192
_TABLE_SCALE: Final = 1024  # σ or b, in units of m, up to which one table serves
_WIDEST: Final = 2.0**50  # of σ or b, so that noise and counts are added in 64 bits
_BATCH: Final = 1 << 18


def exp_fixed(t: Fraction, bits: int) -> int:
    """A lower bound of exp(−t)·2^bits, less than 2 below it; t ≥ 0.

    >>> round(exp_fixed(Fraction(1), 64) / 2**64, 12)
    0.367879441171
    """
    if t > bits:  # exp(−t) < 2^−bits
        return 0
    halvings = max(0, (2 * t.numerator // t.denominator).bit_length())
    work = bits + 2 * halvings + 64
    x = (t.numerator << work) // (t.denominator << halvings)  # t/2^halvings < 1/2, floor
    # exp(x) by Taylor, rounded up at each term, then 1/exp(x) by one division and squarings, rounded down
    total, term, k = 1 << work, 1 << work, 1
    x += 1
    while term > 1:
        term = (term * x >> work) // k + 1
        total += term
        k += 1
    value = (1 << 2 * work) // (total + 2)
    for _ in range(halvings):
        value = value * value >> work
    return value >> (work - bits)


class Weights(Protocol):
    """A distribution on 0, 1, 2, … by its weights, to any precision."""

    def cumulative(self, bits: int) -> tuple[list[int], int]:
        """Lower bounds L_k of the cumulative weights in units of 2^−bits, and a bound E of their errors.

        The true cumulative weight of every k, and the total of all weights (also those beyond the list), lie within
        [L_k, L_k + E].
        """


class PowerWeights:
    """w_k = exp(−t·k^power) for k = 0, 1, 2, …; power 1 (Laplace) or 2 (Gaussian)."""

    def __init__(self, t: Fraction, power: int) -> None:
        self.t, self.power = t, power

    def cumulative(self, bits: int) -> tuple[list[int], int]:
        """See `Weights.cumulative`."""
        reach = -(-bits * self.t.denominator // self.t.numerator)  # t·reach ≥ bits, so exp(−t·reach) < 2^−bits
        last = reach if self.power == 1 else isqrt(reach) + 1
        ratio = exp_fixed(self.t, bits)  # w_{k+1} / w_k
        shrink = exp_fixed(2 * self.t, bits) if self.power == 2 else None  # ratio_{k+1} / ratio_k
        weight, total, sums = 1 << bits, 0, []
        for _ in range(last + 1):
            total += weight
            sums.append(total)
            weight = weight * ratio >> bits
            if shrink is not None:
                ratio = ratio * shrink >> bits
        # ratio_k errs by at most 3k + 2 units, w_k by (k + 1)(3k + 3), their sum by (last + 2)³·3; the weights beyond
        # the list sum to less than w_last / (1 − exp(−t)) ≤ 1 + 1/t units.
        beyond = 2 + self.t.denominator // self.t.numerator
        return sums, 3 * (last + 2) ** 3 + beyond


class ScoreWeights:
    """Weights counts[k]·exp(−λ·gaps[k]) for increasing gaps ≥ 0: candidates grouped by their score."""

    def __init__(self, gaps: list[int], counts: list[int], rate: Fraction) -> None:
        self.gaps, self.counts, self.rate = gaps, counts, rate

    def cumulative(self, bits: int) -> tuple[list[int], int]:
        """See `Weights.cumulative`."""
        steps: dict[int, int] = {}
        weight, total, before, sums = 1 << bits, 0, 0, []
        for gap, count in zip(self.gaps, self.counts, strict=True):
            step = gap - before
            if step not in steps:
                steps[step] = exp_fixed(self.rate * step, bits)
            weight = weight * steps[step] >> bits if step else weight
            if weight == 0:
                break
            total, before = total + count * weight, gap
            sums.append(total)
        # w_k errs by at most 3k units; those beyond the list are below 3·(k + 1) units each
        return sums, 3 * (len(sums) + 1) * sum(self.counts)


class Table:
    """Exact draws from `Weights` by inversion.

    Attributes:
        word: leading bits that are compared at once; tests shorten it so that the refinement happens often.
    """

    def __init__(self, weights: Weights, word: int = WORD, bits: int = _PRECISION) -> None:
        self._weights, self.word, self._bits = weights, word, bits
        sums, error = weights.cumulative(bits)
        total = sums[-1]
        # F_k = C_k / C_∞ lies within [low_k, high_k], in units of 2^−bits
        self._low = [(s << bits) // (total + error) for s in sums]
        self._high = [((s + error) << bits) // total + 1 for s in sums]
        self._leading = np.array([low >> (bits - word) for low in self._low], dtype=np.uint64)

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """`count` independent draws."""
        u = np.frombuffer(entropy(8 * count), dtype=np.uint64) >> np.uint64(64 - self.word)
        index = np.searchsorted(self._leading, u, side="right")
        below = self._leading[np.maximum(index, 1) - 1]
        undecided = (index > 0) & (u - below <= 1) | (index == len(self._leading))
        for place in np.flatnonzero(undecided):
            index[place] = self.refine(int(u[place]), self.word, entropy)
        return index.astype(np.int64, copy=False)

    def refine(self, u: int, bits: int, entropy: Entropy) -> int:
        """The k with F_{k−1} ≤ U < F_k for the uniform U whose first `bits` bits are `u`; draws the rest."""
        table = self
        while True:
            if bits > table._bits - 64:
                table = Table(table._weights, self.word, 2 * table._bits)
            shift = table._bits - bits
            surely = bisect_right(table._high, u << shift)  # F_k ≤ U for these
            perhaps = bisect_left(table._low, (u + 1) << shift)  # F_k < U is possible for these
            if surely == perhaps and surely < len(table._low):
                return surely
            u, bits = u << 64 | int.from_bytes(entropy(8), "big"), bits + 64


@lru_cache(maxsize=64)
def _table(t: Fraction, power: int) -> Table:
    return Table(PowerWeights(t, power))


def check_scale(scale: float) -> None:
    """Refuse noise that is too wide to be drawn.

    Raises:
        InvalidArgument: it is.
    """
    if scale >= _WIDEST:
        raise InvalidArgument(f"noise of scale {scale:.3g} is too wide: ask for a larger epsilon")


class _Symmetric:
    """Draws from P(x) ∝ exp(−r·|x|^power) on the integers, by a one-sided table and a sign."""

    def __init__(self, rate: Fraction, power: int, scale: float) -> None:
        self._power = power
        self._shift = max(0, (max(1, int(scale)) // _TABLE_SCALE).bit_length())
        check_scale(scale)
        self._m = 1 << self._shift
        self._t = rate * self._m**power  # exponent of the table, in units of m
        self._table = _table(self._t, power)

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """`count` independent draws."""
        parts: list[Integers] = []
        missing = count
        while missing:
            part = self._some(min(missing + missing // 8 + 16, _BATCH), entropy)[:missing]
            parts.append(part)
            missing -= len(part)
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _some(self, count: int, entropy: Entropy) -> Integers:
        coarse = self._table.draw(count, entropy)
        if self._shift:
            fine = (np.frombuffer(entropy(8 * count), dtype=np.uint64) & np.uint64(self._m - 1)).astype(np.int64)
            accepted = self._accept(coarse, fine, entropy)
            magnitude = (coarse[accepted] << self._shift) + fine[accepted]
        else:
            magnitude = coarse
        negative = np.frombuffer(entropy(len(magnitude)), dtype=np.uint8) & 1 == 1
        single_zero = ~(negative & (magnitude == 0))  # zero must not come twice
        return np.asarray(np.where(negative, -magnitude, magnitude)[single_zero], np.int64)

    def _accept(self, coarse: Integers, fine: Integers, entropy: Entropy) -> npt.NDArray[np.bool_]:
        """Accept with probability exp(−t·((A + B/m)^power − A^power)), decided in floats where they are surely right.

        The exponent is below 0.1, so float64 knows the probability to 2⁻⁴⁸; nearer ones are decided exactly.
        """
        part = fine / self._m
        extra = part if self._power == 1 else part * (2.0 * coarse + part)
        u = np.frombuffer(entropy(8 * len(fine)), dtype=np.uint64)
        distance = np.exp(-float(self._t) * extra) - u * 2.0**-64
        accepted: npt.NDArray[np.bool_] = distance > 0
        for place in np.flatnonzero(np.abs(distance) < 2.0**-40):
            a, b = int(coarse[place]), Fraction(int(fine[place]), self._m)
            exponent = self._t * ((a + b) ** self._power - a**self._power)
            accepted[place] = _decide(int(u[place]), exponent, entropy)
        return accepted


def _decide(u: int, t: Fraction, entropy: Entropy) -> bool:
    """Whether the uniform number whose first 64 bits are `u` lies below exp(−t)."""
    bits = 64
    while True:
        low = exp_fixed(t, bits)
        if u + 1 <= low:
            return True
        if u >= low + 2:
            return False
        u, bits = u << 64 | int.from_bytes(entropy(8), "big"), bits + 64


def discrete_gaussian(variance: Fraction, count: int, entropy: Entropy = system_entropy) -> Integers:
    """Draw from the discrete Gaussian N_Z(0, σ²), P(x) ∝ exp(−x²/2σ²).

    Added to integers of L2 sensitivity Δ it is ρ-zCDP with ρ = Δ²/2σ² (Canonne, Kamath, Steinke, Theorem 4).

    Args:
        variance: the parameter σ², positive (the true variance is at most that, and as good as equal from σ = 1 on).
        count: how many.
        entropy: source of random bytes; tests inject one, releases never do.

    >>> len(discrete_gaussian(Fraction(25), 1000))
    1000
    """
    return _Symmetric(1 / (2 * variance), 2, float(variance) ** 0.5).draw(count, entropy)


def discrete_laplace(scale: Fraction, count: int, entropy: Entropy = system_entropy) -> Integers:
    """Draw from the discrete Laplace distribution, P(x) ∝ exp(−|x|/b).

    Added to integers of L1 sensitivity Δ it is ε-DP with ε = Δ/b.

    Args:
        scale: b, positive.
        count: how many.
        entropy: source of random bytes; tests inject one, releases never do.
    """
    return _Symmetric(1 / scale, 1, float(scale)).draw(count, entropy)


def uniform_below(bound: int, entropy: Entropy = system_entropy) -> int:
    """A uniform integer of 0 … bound − 1."""
    size = (bound.bit_length() + 7) // 8
    mask = (1 << bound.bit_length()) - 1
    while True:
        value = int.from_bytes(entropy(size), "big") & mask
        if value < bound:
            return value


def uniform_subset(size: int, count: int, entropy: Entropy = system_entropy) -> Integers:
    """`count` of the numbers 0 … size − 1 without replacement, every subset as likely as any other; sorted.

    Numbers are drawn until enough different ones are there; of more than half of them the complement is drawn.

    >>> uniform_subset(5, 5).tolist()
    [0, 1, 2, 3, 4]
    """
    if 2 * count > size:
        left_out = uniform_subset(size, size - count, entropy) if count < size else np.empty(0, np.int64)
        return np.delete(np.arange(size), left_out)
    largest = (1 << WORD) // size * size  # so that every remainder is as likely
    drawn = np.empty(0, np.int64)
    while len(drawn) < count:
        words = np.frombuffer(entropy(8 * 2 * (count - len(drawn))), np.uint64)
        fresh = (words[words < largest] if largest < 1 << WORD else words) % np.uint64(size)
        drawn = np.concatenate([drawn, fresh.astype(np.int64)])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]  # the first of each, in the order of the draws
    return np.sort(drawn[:count])


def exponential_mechanism(
    scores: Integers,
    rate: Fraction,
    count: int = 1,
    entropy: Entropy = system_entropy,
    check: Callable[[], None] = lambda: None,
) -> list[int]:
    """Indices of `count` candidates, drawn one after the other without replacement with P(i) ∝ exp(λ·score_i).

    The same distribution as the `count` largest of score + Gumbel(1/λ) noise. With scores of sensitivity Δ each draw
    has range ε₀ = 2λΔ and is ε₀²/8-zCDP (Cesar and Rogers 2021, Lemma 3.2).

    Args:
        scores: integers, shape (candidates,).
        rate: λ, positive.
        count: how many to draw, at most the number of candidates.
        entropy: source of random bytes; tests inject one, releases never do.
        check: called before each draw; may raise `Interrupted`.
    """
    remaining = np.ones(len(scores), dtype=bool)
    values, counts = np.unique(scores, return_counts=True)
    chosen: list[int] = []
    for _ in range(count):
        check()
        present = np.flatnonzero(counts)[::-1]
        gaps = [int(values[present[0]]) - int(values[k]) for k in present]
        table = Table(ScoreWeights(gaps, [int(counts[k]) for k in present], rate))
        group = present[table.refine(0, 0, entropy)]
        candidates = np.flatnonzero(remaining & (scores == values[group]))
        winner = int(candidates[uniform_below(len(candidates), entropy)])
        remaining[winner] = False
        counts[group] -= 1
        chosen.append(winner)
    return chosen


def exponential_sample(scores: Integers, rate: Fraction, count: int, entropy: Entropy = system_entropy) -> list[int]:
    """Indices of `count` independent draws with P(i) ∝ exp(λ·score_i): with replacement.

    With scores of sensitivity Δ each draw has range ε₀ = 2λΔ and is ε₀²/8-zCDP.

    Args:
        scores: integers, shape (candidates,).
        rate: λ, positive.
        count: how many to draw.
        entropy: source of random bytes; tests inject one, releases never do.
    """
    order = _descending(scores)
    values, starts, counts = _runs(scores[order])
    gaps = [int(values[0]) - int(value) for value in values]
    groups = Table(ScoreWeights(gaps, counts.tolist(), rate)).draw(count, entropy)
    return [int(order[starts[group] + uniform_below(int(counts[group]), entropy)]) for group in groups]


def _descending(scores: Integers) -> Integers:
    """The reverse of a stable sort. Of a large workload nearly all scores are 0, and those are not compared."""
    others = np.flatnonzero(scores)
    ordered = others[np.argsort(scores[others], kind="stable")[::-1]]
    positive = int((scores > 0).sum())
    return np.concatenate([ordered[:positive], np.flatnonzero(scores == 0)[::-1], ordered[positive:]])


def _runs(ordered: Integers) -> tuple[Integers, Integers, Integers]:
    """The values of a sorted array, where each one begins, and how often it is there."""
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[starts], starts, np.diff(np.append(starts, len(ordered)))
