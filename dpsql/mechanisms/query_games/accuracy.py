r"""What an accuracy takes of DualQuery's game: T, s and η, by the paper's formulas or those of the least ρ.

The error of the game is at most η + ln|Q|/(η·T) + 2√(3M/s), M = ln(2|X|T/β) (`dpsql.mechanisms.promises`), and its cost
is ρ = s·η²·T(T − 1)(2T − 1)/12n². The paper makes the first two parts α/4 each, and the third α/2. Cheapest for a T is

    η = 2 ln|Q|/(α·T)    and    s = 12M/(α/2 − η)²

for ρ grows with η²/(α − η − ln|Q|/(η·T))², whose least is where the second part is α/2. The best T is about
12 ln|Q|/α², where η is α/6. What is given of T, η and s stays as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from dpsql.core.arguments import check_word
from dpsql.errors import InvalidArgument
from dpsql.mechanisms.base import Remark
from dpsql.mechanisms.promises import dualquery_bound
from dpsql.mechanisms.query_games.game import MOST_ROUNDS, Parameters

THEOREM: Final = "theorem"
_MOST_DRAWS: Final = 100_000_000
_QUICK_DRAWS: Final = 10_000_000  # of a run that names no accuracy
_SAME: Final = 0.99


def check_alpha(alpha: float | None, constants: str, *, published: bool) -> None:
    """Refuse an accuracy of rounds that are not the paper's, of which its theorem is, and constants of none.

    Raises:
        InvalidArgument: one is asked for.
    """
    check_word("constants", constants, ("paper", "least"))
    if alpha is not None and not published:
        raise InvalidArgument(
            f"alpha is {alpha:g}, which the theorem promises of the paper's algorithm: say faithful := true, or leave "
            "alpha out"
        )
    if alpha is None and constants != "paper":
        raise InvalidArgument(f"constants is {constants!r}, of which alpha? Give alpha too")


def affordable(accuracy: Accuracy, rho: Fraction, rows: float) -> tuple[int, int]:
    """T and s by the paper's formulas at the least α whose T, η and s cost no more than ρ; it may be above 1.

    Args:
        accuracy: any accuracy of the game.
        rho: of the game.
        rows: n.

    >>> affordable(Accuracy(math.log(1e6), 2000, 0.3, 0.05), Fraction(1, 100), 48_842)
    (129, 1139)
    """
    low, high = -7.0, 7.0  # of ln α

    def fits(alpha: float) -> bool:
        trial = replace(accuracy, alpha=alpha).parameters(rows)
        quick = trial.rounds <= MOST_ROUNDS and trial.rounds * trial.samples <= _QUICK_DRAWS
        return quick and trial.cost <= rho

    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(math.exp(middle)) else (middle, high)
    game = replace(accuracy, alpha=math.exp(high)).parameters(rows)
    return game.rounds, game.samples


@dataclass(frozen=True)
class Accuracy:
    """An accuracy that is asked of a game, and what is given of its parameters.

    Attributes:
        log_records: ln|X|.
        queries: |Q|, negations counted.
        alpha: α, the largest error, a fraction of the rows.
        beta: how likely a larger one may be.
        rounds: T; None where it follows.
        samples: s; None where it follows.
        eta: η; None where it follows.
        constants: the 'paper' ones, or those of the 'least' ρ.

    >>> asked = Accuracy(math.log(1e6), 2000, 0.3, 0.05)
    >>> asked.parameters(1e6).rounds, asked.parameters(1e6).samples
    (1352, 13181)
    >>> asked.saved()[0].note
    "constants := 'least' promises this alpha for 0.42 of this rho"
    """

    log_records: float
    queries: int
    alpha: float
    beta: float
    rounds: int | None = None
    samples: int | None = None
    eta: float | None = None
    constants: str = "paper"

    def parameters(self, rows: float) -> Parameters:
        """T, s and η for a table of n rows, as `constants` says; the paper's where no others promise α."""
        rounds, samples, eta = self.solved() or self._of_the_paper()
        return Parameters(rounds, samples, Fraction(eta) ** 2 / (2 * Fraction(rows) ** 2))

    def check_promised(self) -> None:
        """Refuse an accuracy that the theorem does not promise of what is given of T, η and s.

        Raises:
            InvalidArgument: it does not; says what it promises.
        """
        given = {"rounds": self.rounds, "samples": self.samples, "eta": self.eta}
        named = ", ".join(f"{name} := {value:g}" for name, value in given.items() if value is not None)
        solved = self.solved()
        if solved is None and named:
            raise InvalidArgument(f"no run with {named} is promised the accuracy alpha: leave them out, or alpha")
        if solved is None:
            raise InvalidArgument(
                f"no run of at most {MOST_ROUNDS} rounds is promised such an alpha: give a larger one"
            )
        bound = dualquery_bound(self.log_records, self.queries, *solved, self.beta).error
        if bound > self.alpha * (1 + 1e-6):
            raise InvalidArgument(
                f"alpha asks for errors within {self.alpha:g}, but with {named} the theorem's bound is {bound:.3g}: "
                "leave them out, or alpha"
            )

    def check_ends(self, alpha: float) -> None:
        """Refuse more draws than end in a day; `alpha` is the request's.

        Raises:
            InvalidArgument: there would be more.
        """
        game = self.parameters(1.0)
        if game.rounds * game.samples > _MOST_DRAWS:
            raise InvalidArgument(
                f"alpha {alpha:g} asks for {game.rounds} rounds of {game.samples} draws, which would take days: give "
                "a larger alpha"
            )

    def saved(self) -> list[Remark]:
        """That the least constants promise the same for less, where they do."""
        least = replace(self, constants="least")
        if self.constants == "least" or least.solved() is None:
            return []
        part = float(least.parameters(1.0).cost / self.parameters(1.0).cost)
        if part > _SAME:
            return []
        return [Remark("accuracy", f"constants := 'least' promises this alpha for {part:.2f} of this rho")]

    def solved(self) -> tuple[int, int, float] | None:
        """T, s and η; None where what is given promises no α."""
        return self._cheapest() if self.constants == "least" else self._of_the_paper()

    def _of_the_paper(self) -> tuple[int, int, float]:
        """T, s and η by the paper's formulas."""
        rounds = self.rounds or max(2, math.ceil(16 * math.log(self.queries) / self.alpha**2))
        records = self.log_records + math.log(2 * rounds / self.beta)
        samples = self.samples or math.ceil(48 * records / self.alpha**2)
        return rounds, samples, self.alpha / 4 if self.eta is None else self.eta

    def _cheapest(self) -> tuple[int, int, float] | None:
        """T, s and η of the least ρ; None where what is given promises no α."""
        rounds = np.arange(2, MOST_ROUNDS + 1.0) if self.rounds is None else np.array([float(self.rounds)])
        records, queries = self.log_records + np.log(2 * rounds / self.beta), math.log(self.queries)
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.eta is not None:
                eta = np.full(len(rounds), self.eta)
            elif self.samples is None:
                eta = 2 * queries / (self.alpha * rounds)
            else:  # the smaller η of which the first two parts are what the third leaves
                room = self.alpha - 2 * np.sqrt(3 * records / self.samples)
                eta = (room - np.sqrt(room**2 - 4 * queries / rounds)) / 2
            left = self.alpha - eta - queries / (eta * rounds)
            samples = np.full(len(rounds), self.samples or 0.0) if self.samples else np.ceil(12 * records / left**2)
            holds = (left > 0) & (eta > 0) & (2 * np.sqrt(3 * records / samples) <= left * (1 + 1e-9))
            cost = np.where(holds, samples * eta**2 * rounds * (rounds - 1) * (2 * rounds - 1), np.inf)
        best = int(np.argmin(cost))
        return (int(rounds[best]), int(samples[best]), float(eta[best])) if holds[best] else None
