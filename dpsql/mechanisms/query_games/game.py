"""The parameters of DualQuery's game, and what a run with them costs by several analyses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dpsql.core.digits import up
from dpsql.core.domain import Domain
from dpsql.core.workload import Workload
from dpsql.mechanisms.asks import Marginals
from dpsql.mechanisms.cell_queries import SPAN, cells_of, workload_words
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.promises import Bound, dualquery_bound, log_records
from dpsql.privacy.accounting import simple_epsilon, zcdp_epsilon

MOST_ROUNDS: Final = 10_000
USUAL_ROUNDS: Final = 300
MOST_SAMPLED: Final = 10_000_000
RANGES: Final = (
    ("records", 1, 10_000),
    ("rounds", 2, MOST_ROUNDS),
    ("eta", 1e-9, 1e9),
    ("samples", 1, 1_000_000),
    ("sample_rows", 1, MOST_SAMPLED),
)
"""Of DualQuery's options, where they are given."""
_FEWEST_ROUNDS: Final = 20
_USUAL_SAMPLES: Final = 1000


@dataclass(frozen=True)
class Parameters:
    """How a run plays.

    Attributes:
        rounds: T.
        samples: s, queries drawn in each round.
        unit: η²/2n², exact; a draw of round t costs (t − 1)² of it.
    """

    rounds: int
    samples: int
    unit: Fraction

    def draw_cost(self, played: int) -> Fraction:
        """ρ of one draw after `played` = t − 1 rounds: ε_t²/8 with ε_t = 2η(t − 1)/n."""
        return self.unit * played**2

    @property
    def cost(self) -> Fraction:
        """ρ of the whole run.

        >>> Parameters(rounds=3, samples=10, unit=Fraction(1, 100)).cost
        Fraction(1, 2)
        """
        return self.unit * self.samples * squares(self.rounds)

    def eta(self, rows: float) -> float:
        """η for a table of n rows."""
        return rows * math.sqrt(2 * self.unit)


def squares(rounds: int) -> int:
    """Σ (t − 1)² over the rounds: T(T − 1)(2T − 1)/6."""
    return rounds * (rounds - 1) * (2 * rounds - 1) // 6


def by_rule(rho: Fraction, rows: float, queries: int, rounds: int | None, samples: int | None) -> tuple[int, int]:
    """T and s, where they are not given, by the rule of `dpsql.mechanisms.query_games.dualquery.DualQuery`.

    Args:
        rho: of the game.
        rows: n.
        queries: |Q|, negations counted.
        rounds: T; None where it follows.
        samples: s; None where it follows.
    """
    draws = 3 * rows * math.sqrt(6 * rho) / math.log(queries)
    usual = 3 * math.sqrt(draws) if samples is None else draws / samples
    rounds = rounds or round(min(max(usual, _FEWEST_ROUNDS), USUAL_ROUNDS))
    return rounds, samples or round(min(max(draws / rounds, 1.0), _USUAL_SAMPLES))


def most_rounds(budget: Fraction) -> int:
    """The largest T with T(T − 1)(2T − 1)/6 ≤ `budget`, at most 10,000.

    >>> [most_rounds(Fraction(squares)) for squares in (0, 1, 4, 5)]
    [1, 2, 2, 3]
    """
    low, high = 1, MOST_ROUNDS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if squares(middle) <= budget else (low, middle - 1)
    return low


def compared(game: Parameters, rows: float) -> str:
    """The ε of a run by the four analyses, at δ = 1/n², in words."""
    delta, eta = 1 / max(2.0, rows) ** 2, game.eta(rows)
    by_note = simple_epsilon(4 * game.cost, delta)  # ε_t²/2 for each draw, where ε_t²/8 is enough
    return (
        f"epsilon at delta 1/n² for n = {rows:g} by this analysis {up(zcdp_epsilon(game.cost, delta), 4)}, by the "
        f"note's {up(by_note, 4)}, by the original paper's {up(original_epsilon(game, rows, delta), 4)}; pure "
        f"(delta 0) {up(eta * game.rounds * (game.rounds - 1) * game.samples / rows, 4)}"
    )


def original_epsilon(game: Parameters, rows: float, delta: float) -> float:
    """ε by Gaboardi et al. 2014: advanced composition of s(T − 1) draws, each as if it were of the last round."""
    each = 2 * game.eta(rows) * (game.rounds - 1) / rows
    draws = game.samples * (game.rounds - 1)
    linear = draws * math.expm1(each) if each < 700 else math.inf
    return each * (math.sqrt(-2 * draws * math.log(delta)) + linear)


def promised(
    domain: Domain, workload: Workload, game: Parameters, rows: float, beta: float, *, published: bool, of_sample: bool
) -> str:
    """What is proven of the largest error, in words; |Q| counts negations.

    Args:
        domain: the columns.
        workload: of the request.
        game: T, s and η.
        rows: n.
        beta: how likely a larger error may be.
        published: whether each round finds one record, as in the paper; nothing is proven of other rounds.
        of_sample: whether `rows` is m, of a sample.
    """
    queries, eta = 2 * cells_of(domain, workload), game.eta(rows)
    proven = dualquery_bound(log_records(domain), queries, game.rounds, game.samples, eta, beta)
    if of_sample:  # Hoeffding's inequality for all queries at once
        chance = math.sqrt(math.log(2 * queries / beta) / (2 * rows))
        proven = Bound(proven.error + chance, proven.probability - beta / 2)
    if published:
        what = f"all {workload_words(workload, SPAN)} (if each record found is the best of all records)"
        return proven.words(what, "Gaboardi et al. 2014")
    what = f"all {workload_words(workload, SPAN)}, by the paper's own rounds of one record each"
    bound_words = proven.words(what, "Gaboardi et al. 2014")
    return f"{bound_words}; nothing is proven of this run, whose rounds are not the paper's"


def sampled(game: Parameters, before: Course, played: float) -> str:
    """What a sample of the rows means, in words; where their number is public, by the ε of a release that is alone.

    Args:
        game: the game, which is played on the sample.
        before: what is measured on all rows.
        played: m.
    """
    rows = before.facts.whole_rows
    words = f"; a sample of {played:g} rows of {rows:g}"
    if not before.facts.neighbours.total_is_public:
        return words
    singles = before.cost(before.share(Marginals))
    epsilon = alone_epsilon(game.cost, singles, played / rows, 1 / max(2.0, rows) ** 2)
    return f"{words}, by which this release, standing alone, has epsilon {up(epsilon, 4)}"


def alone_epsilon(game: Fraction, singles: Fraction, share: float, delta: float) -> float:
    """ε at δ of a game on a sample and of what is measured on all rows before it, for one row replaced.

    The ε of the two parts add up, at δ/2 each; or the two ρ do, as if all rows had played. The smaller sum holds.

    Args:
        game: ρ of the game.
        singles: ρ of what is measured on all rows.
        share: m/n.
        delta: δ of the whole.

    >>> half = Fraction(1, 2)
    >>> alone, beside = (alone_epsilon(half, rho, 0.01, 1e-9) for rho in (Fraction(0), half))
    >>> round(alone, 2), round(beside, 2), round(zcdp_epsilon(half, 1e-9), 2)
    (1.36, 8.04, 6.47)
    """
    if not singles:
        return amplified(lambda inner: zcdp_epsilon(game, inner), share, delta)
    parts = zcdp_epsilon(singles, delta / 2) + amplified(lambda inner: zcdp_epsilon(game, inner), share, delta / 2)
    return min(parts, zcdp_epsilon(game + singles, delta))


def amplified(epsilon: Callable[[float], float], share: float, delta: float) -> float:
    """ε at δ of a mechanism on a uniform sample without replacement, for one row replaced.

    Args:
        epsilon: ε_m of the mechanism on the sample, for a δ_m.
        share: m/n.
        delta: δ of the whole, (m/n)·δ_m.

    >>> round(amplified(lambda delta: 1.0, 0.1, 1e-9), 4)
    0.1586
    """
    inner = epsilon(min(delta / share, 0.5))
    return inner + math.log(share + (1 - share) * math.exp(-inner))  # ln(1 + share·(e^inner − 1)), without overflow


def shown(value: float) -> str:
    """A number to four digits, rounded down.

    >>> shown(0.123456)
    '0.1234'
    """
    digits = 3 - math.floor(math.log10(value))
    return f"{math.floor(value * 10.0**digits) / 10.0**digits:.10g}"
