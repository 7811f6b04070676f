r"""DualQuery: a game between a query player, who is private, and a data player, who is not.

The queries are all cells of the workload's marginals, its thresholds (`dpsql.core.threshold`), and their negations;
q(x) is 0 or 1, q(D) a fraction of n rows. Linear queries (`dpsql.core.linear_family`) are divided by the span of their
weights, R = max(w, 0) − min(w, 0), so that their payoffs q(D) − q(x) lie in [−1, 1], too, and all below holds of them.

    round 1      draw s queries uniformly
    round t ≥ 2  draw s queries with P(q) ∝ exp(η·Σ_{i<t} (q(D) − q(x_i)))
    each round   x_t = a record for which as many of the s queries as possible hold
    output       the records x_1 … x_T

Each draw of round t is an exponential mechanism of range ε_t = 2η(t − 1)/n, so it costs ε_t²/8 of zCDP, and all of it

    ρ = s·η²·T(T − 1)(2T − 1) / 12n²

The note's ε_t²/2 is valid and four times looser; pure, the draws add up to ε = η·T(T − 1)·s/n. For accuracy α with
probability 1 − β: T = 16 ln|Q|/α², η = α/4, s = 48 ln(2|X|T/β)/α², X the set of all records. With `constants :=
'least'` they are those of the least ρ for that accuracy (`dpsql.mechanisms.query_games.accuracy`), 0.4 of the paper's.

With `subsample` a uniform sample of m = 2 ln(2|Q|/β)/α² rows, drawn without replacement, plays in place of all n, with
α/2 in T, η and s and m in place of n in every ε_t. The run on m rows being (ε_m, δ_m)-DP, the whole is

    ε = ln(1 + (m/n)·(e^{ε_m} − 1)),   δ = (m/n)·δ_m

for one row replaced, and beside it what the 1-way marginals cost, which are measured on all rows. At a fixed η this
buys no privacy, for ε is never below what n rows would have given, only less work. An account adds ρ, which sampling
does not lower, so what is charged is the ρ of the run on m rows.

With `start := 'marginals'` all 1-way marginals p are measured first, and each round finds `records` records, each of
which maximises the mean of all queries drawn so far plus λ·(log p_v + Gumbel) for each of its values v, as in
`dpsql.mechanisms.query_games.fem`. The payoff of a round is that of its records on average, so ρ is the same.

Source: Gong 2021, Dual Query; Gaboardi et al. 2014 (arXiv:1402.1526).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.arguments import check_range, check_word
from dpsql.core.domain import Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument
from dpsql.fitting.relaxed.settings import best_total, one_way_prior
from dpsql.fitting.rows.best_records import Floats, Goal, best_record, check_search, perturbed_leaders
from dpsql.fitting.target import targets_of
from dpsql.mechanisms.asks import Draws
from dpsql.mechanisms.base import LATER, Mechanism, Outcome, Remark, register
from dpsql.mechanisms.cell_queries import (
    SPAN,
    RecordCounts,
    cells_of,
    check_cells,
    conjunctions_each,
    conjunctions_of,
    game_seconds,
    uniform_queries,
    unsatisfied,
    workload_words,
)
from dpsql.mechanisms.costs import BASE_BYTES, SCORED_BYTES, base_seconds
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.one_way_start import STARTS, after_singles, left_after
from dpsql.mechanisms.promises import check_affords, check_part, log_records
from dpsql.mechanisms.query_games.accuracy import THEOREM, Accuracy, affordable, check_alpha
from dpsql.mechanisms.query_games.game import (
    MOST_SAMPLED,
    RANGES,
    USUAL_ROUNDS,
    Parameters,
    by_rule,
    compared,
    most_rounds,
    promised,
    sampled,
    shown,
    squares,
)
from dpsql.mechanisms.walk import Walk
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.journal import SignedQuery
from dpsql.runtime.progress import Progress

_SAMPLING_ERROR: Final = 0.05
_USUAL_RECORDS: Final = 200
_SEARCH_SECONDS: Final = 0.015  # of a local search for one record
_SEARCHED_SECONDS: Final = 1e-4  # of a conjunction in it, of 30 to 4,000
_LEAD: Final = 0.25  # the factor of the noise of leaders, of 0.05 to 16 the best on Adult at ε = 1


@register("dualquery", when="comparison with the paper; few cells, many rows")
@dataclass(frozen=True)
class DualQuery(Mechanism):
    """Records that answer drawn queries best; badly answered queries are drawn more often (Gaboardi et al. 2014).

    Of T, η and s, those that are not given follow from ρ and public facts: η so that all of ρ is spent; T as large as
    ρ allows where η is given (what is left, less than one round, is lost); else by a rule. With |Q| queries, n rows
    and ln|Q| the weight that a query must win by, s·T = 3n√(6ρ)/ln|Q| balances what η can tell apart against the
    chance in the draws, and T = 3√(s·T), at least 20 and at most 300 (which did best on Adult).

    Privacy: ρ-zCDP for the table's neighbours, ρ the charge. In round t ≥ 2, `sample_cells` draws s times with factor t
    − 1 at ρ_t = (2η(t − 1)/n)²/8 each, together s·η²·T(T − 1)(2T − 1)/12n² ≤ ρ; round 1 and the records touch no
    private count. Sensitivity of the score (t − 1)·count − n·(records in the cell), of linear queries divided by R: t −
    1, for both neighbours. Under add_remove the number of rows is private: `total` takes ρ/100 first (start :=
    'marginals': then one `measure` of the 1-way marginals a third), and n is the noisy total in the score as in the
    rate η/n, which is a public number by then. With privacy units of at most c rows the sensitivity is c times that,
    and n/c stands for n wherever η, T and s follow from it. With `subsample` the same with m in place of n; standing
    alone such a game is (ln(1 + (m/n)(e^{ε_m} − 1)), (m/n)·δ_m)-DP for replace_one, and what is measured on all rows
    before it adds to that.

    Attributes:
        rounds: T, and as many different records at most; none to take it from alpha, eta or the rule.
        eta: η, how fast a badly answered query becomes likelier; none to spend all of ρ.
        samples: s, queries drawn in each round; none to take it from alpha or the rule.
        alpha: the largest error wanted (a fraction), by the theorem of the paper, with faithful := true: T, η and s
            follow where they are not given, and where the number of rows is public no more is charged than it takes.
        beta: how likely a larger error than alpha may be.
        subsample: play on a sample of the rows.
        sample_rows: m, of the sample; none to take it from alpha, or 0.05 where that is not given.
        search: of a record: 'milp' for the integer program, 'local' for the local search, 'auto' by the size.
        start: 'uniform', as in the note, or 'marginals': all 1-way marginals are measured first.
        records: found in each round; 1 in the note.
        seconds: the most that one integer program may take, which cannot be interrupted; its best record is used then.
        constants: of T, η and s by alpha: the 'paper' ones, or those that take the 'least' ρ for it.
        rule: of T and s that are not given: by 'trials', or of the 'theorem' at the α, often above 1, that costs ρ.

    Raises:
        InvalidArgument: an option is out of its range; or alpha or eta cost more than the charge, which depends on n:
            where that is private the run lowers η to what is paid for, with a warning in the report; `dp_plan` says it
            before.
        DomainTooLarge: the workload has more than 20 million cells.
    """

    takes_linear = True
    rounds: int | None = None
    eta: float | None = None
    samples: int | None = None
    alpha: float | None = None
    beta: float = 0.05
    subsample: bool = False
    sample_rows: int | None = None
    search: str = "auto"
    seconds: float = 5.0
    start: str = field(default="uniform", metadata=LATER)
    records: int = field(default=1, metadata=LATER)
    constants: str = field(default="paper", metadata=LATER)
    rule: str = field(default="trials", metadata=LATER)

    @classmethod
    def recommended(cls, *, pure: bool) -> Mapping[str, Any]:
        """See `Mechanism.recommended`."""
        return {"start": "marginals", "records": _USUAL_RECORDS}

    @classmethod
    def published(cls) -> Mapping[str, Any]:
        """See `Mechanism.published`: the fields' defaults are the note's algorithm; T and s by its theorem."""
        return {"rule": THEOREM}

    @classmethod
    def published_before(cls) -> Mapping[str, Any]:
        """See `Mechanism.published_before`: T and s by trials."""
        return {}

    def __post_init__(self) -> None:
        """Check the options."""
        check_word("start", self.start, STARTS)
        for name, least, most in RANGES:
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), least, most)
        check_part("alpha", self.alpha, 0.2)
        check_part("beta", self.beta, 0.05)
        if self.sample_rows is not None and not self.subsample:
            raise InvalidArgument(f"sample_rows is {self.sample_rows}, of what sample? Say subsample := true too")
        check_search(self.search)
        check_range("seconds", self.seconds, 0.01, 3600)
        check_word("rule", self.rule, ("trials", THEOREM))
        check_alpha(self.alpha, self.constants, published=self._is_published)

    @property
    def failure(self) -> float:
        """See `NamesAccuracy.failure`: a sample may err, too."""
        return 1.5 * self.beta if self.subsample else self.beta

    @property
    def _is_published(self) -> bool:
        """Whether rounds are the paper's, of which its theorem is."""
        return self.start == "uniform" and self.records == 1

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: the draws, after the number of rows and the 1-way marginals; later ones cost more."""
        words, cells = workload_words(facts.workload, SPAN), cells_of(facts.domain, facts.workload)
        spent, note = self._drawn(facts)
        return after_singles(facts, self.start, Draws(Fraction(1), 1, cells, f"drawn {words}", spent=spent, note=note))

    @property
    def draws_rows(self) -> bool:
        """See `Mechanism.draws_rows`."""
        return self.subsample

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        check_cells(self.name, domain, workload)
        if self.subsample and neighbours.unit_rows is not None:
            raise InvalidArgument(
                "subsample is true, but it draws rows, and the table protects privacy units of several rows: leave it "
                "out"
            )
        if self.alpha is not None:
            accuracy = self._wanted(domain, workload, self.alpha)
            accuracy.check_promised()
            accuracy.check_ends(self.alpha)

    def check_public_rows(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: int
    ) -> None:
        """See `Mechanism.check_public_rows`: an alpha or eta that costs more than ρ."""
        left = left_after(Facts(domain, workload, neighbours, rho), self.start)
        self.parameters(domain, workload, left, int(self.played_rows(domain, workload, max(1, rows))) / neighbours.cell)

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: scores of all queries, their order, and the records' counts."""
        rounds = self.rounds or USUAL_ROUNDS
        records = 8 * rounds * self.records * len(domain) + 32 * self.records * domain.width
        return BASE_BYTES + (SCORED_BYTES + 4) * cells_of(domain, workload) + records

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: rounds and draws follow from the charge."""
        rounds, samples = self._rule(domain, workload, rho, max(1.0, rows))
        each, most = conjunctions_each(domain, workload), 2.0 * cells_of(domain, workload)
        if self.start == "marginals":
            queries = min(rounds * samples / 2, most) * each
            return base_seconds(rows) + game_seconds(domain, workload, rounds, self.records, queries)
        searched = _SEARCH_SECONDS + _SEARCHED_SECONDS * min(samples, most) * each
        return base_seconds(rows) + game_seconds(domain, workload, rounds, 0, 0.0) + rounds * self.records * searched

    def played_rows(self, domain: Domain, workload: Workload, rows: float) -> float:
        """How many of n = `rows` rows play: all, or m."""
        if not self.subsample:
            return rows
        sample_size = 2 * math.log(4 * cells_of(domain, workload) / self.beta) / (self.alpha or _SAMPLING_ERROR) ** 2
        return min(rows, self.sample_rows or min(math.ceil(sample_size), MOST_SAMPLED))

    def parameters(self, domain: Domain, workload: Workload, rho: Fraction, rows: float) -> Parameters:
        """What a run with ρ (after the total) would play, `rows` of the table being played on.

        Raises:
            InvalidArgument: the options cost more than ρ; says what fits.
        """
        if self.alpha is not None:
            game = self._wanted(domain, workload, self.alpha).parameters(rows)
            check_affords(
                self.alpha, lambda a: float(self._wanted(domain, workload, a).parameters(rows).cost), "rho", float(rho)
            )
            return game
        rounds, samples = self._rule(domain, workload, rho, rows)
        if self.eta is None:
            return Parameters(rounds, samples, rho / (samples * squares(rounds)))
        unit = Fraction(self.eta) ** 2 / (2 * Fraction(rows) ** 2)
        game = Parameters(self.rounds or most_rounds(rho / (unit * samples)), samples, unit)
        if game.rounds < 2 or game.cost > rho:
            least = replace(game, rounds=max(2, game.rounds), unit=Fraction(1)).cost
            fits = Parameters(game.rounds, samples, rho / least).eta(rows)
            raise InvalidArgument(
                f"eta {self.eta:g} with {samples} samples costs more than rho = {float(rho):.4g} in "
                f"{max(2, game.rounds)} rounds: give eta := {shown(fits)} at most, or leave it out"
            )
        return game

    def _affordable(
        self, domain: Domain, workload: Workload, rho: Fraction, rows: float
    ) -> tuple[Parameters, str | None]:
        """The parameters; where they cost more than ρ, with the η that ρ pays for, and what to say of it."""
        try:
            return self.parameters(domain, workload, rho, rows), None
        except InvalidArgument as dear:
            rounds, samples = self._rule(domain, workload, rho, rows)
            game = Parameters(rounds, samples, rho / (samples * squares(rounds)))
            return game, f"{dear}; played with eta {game.eta(rows):.4g}, which costs all of it"

    def _rule(self, domain: Domain, workload: Workload, rho: Fraction, rows: float) -> tuple[int, int]:
        """T and s: by alpha, or as the class says."""
        if self.alpha is not None:
            game = self._wanted(domain, workload, self.alpha).parameters(1.0)
            return game.rounds, game.samples
        queries = 2 * cells_of(domain, workload)
        if self.rule == THEOREM and (self.rounds, self.samples, self.eta) == (None, None, None):
            return affordable(Accuracy(log_records(domain), queries, 1.0, self.beta), rho, rows)
        return by_rule(rho, rows, queries, self.rounds, self.samples)

    def _wanted(self, domain: Domain, workload: Workload, alpha: float) -> Accuracy:
        """What accuracy α asks of the game: half of α where it is played on a sample, for the sample errs too."""
        of_game, given = alpha / 2 if self.subsample else alpha, (self.rounds, self.samples, self.eta, self.constants)
        return Accuracy(log_records(domain), 2 * cells_of(domain, workload), of_game, self.beta, *given)

    def enough(self, domain: Domain, workload: Workload, neighbours: Neighbours, rows: float) -> Fraction | None:
        """See `NamesAccuracy.enough`: of the draws, and of the total before them."""
        if self.alpha is None:
            return None
        units = self.played_rows(domain, workload, rows) / neighbours.cell
        left = after_singles(Facts(domain, workload, neighbours), "uniform").left
        return self._wanted(domain, workload, self.alpha).parameters(units).cost / left

    def _game(self, facts: Facts) -> tuple[Parameters, float]:
        """The game of about so many rows, and the units that play; one of them changes all frequencies by 1/units."""
        played = self.played_rows(facts.domain, facts.workload, facts.whole_rows)
        units = played / facts.neighbours.cell
        try:
            return self.parameters(facts.domain, facts.workload, left_after(facts, self.start), units), units
        except InvalidArgument as refused:
            raise InvalidArgument(f"would cost more than there is for {played:g} rows: {refused}") from None

    def _drawn(self, facts: Facts) -> tuple[Fraction, str]:
        """The part of the game's ρ that is spent, and what a plan says of the draws; before they are known nothing."""
        if facts.rho is None or facts.rows is None:
            return Fraction(1), ""
        try:
            game, units = self._game(facts)
        except InvalidArgument as dear:
            return Fraction(0), str(dear)
        note = f"{game.rounds} rounds of {game.samples} draws, eta {game.eta(units):.4g}; {compared(game, units)}"
        if self.subsample:
            note += sampled(game, after_singles(facts, self.start), units * facts.neighbours.cell)
        return game.cost / left_after(facts, self.start), note

    def remarks(self, course: Course) -> Sequence[Remark]:
        """See `Mechanism.remarks`: what is proven, and what the least constants would save, of a game that is paid."""
        if not course.of(Draws)[0].spent:
            return []
        domain, workload, (game, units) = course.facts.domain, course.facts.workload, self._game(course.facts)
        published, of_sample = self._is_published, self.subsample
        proven = promised(domain, workload, game, units, self.beta, published=published, of_sample=of_sample)
        saved = [] if self.alpha is None else self._wanted(domain, workload, self.alpha).saved()
        return [Remark("promise", proven), *saved]

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        domain, workload, rho = walk.domain, walk.workload, left_after(walk.facts, self.start)
        counted, singles = walk.total(), walk.marginals()
        rows = max(1, int(best_total(targets_of([counted, *singles]))))
        shares = one_way_prior(domain, targets_of(singles), rows) if singles else None
        played = int(self.played_rows(domain, workload, rows))
        units = played / walk.facts.neighbours.cell
        game, warning = self._affordable(domain, workload, rho, units)
        records, drawn = self._play(walk, game, played, shares, seed, progress)
        report: dict[str, Any] = {
            "rounds": game.rounds,
            "samples": game.samples,
            "eta": game.eta(units),
            "records": len(np.unique(records, axis=0)),
            "total": rows,
            "loss": round(unsatisfied(domain, records, drawn.elements()), 4),
            **({"sample": played} if self.subsample else {}),
        }
        if game.cost < rho:
            report["unspent"] = round(1 - float(game.cost / rho), 4)
        if warning:
            report["warning"] = warning
        weights = np.full(len(records), 1 / len(records))
        return Outcome(WeightedRows(domain, records, weights, float(rows)), report)

    def _play(
        self, walk: Walk, game: Parameters, rows: int, shares: Floats | None, seed: int, progress: Progress
    ) -> tuple[npt.NDArray[np.int64], Counter[SignedQuery]]:
        """The records of all rounds, shape (rounds · records, attributes), and what was drawn after the first one."""
        domain, families, generator = walk.domain, walk.workload.query_families, np.random.default_rng(seed)
        counts = RecordCounts(domain, families)
        sample = rows if self.subsample else None
        records, draws, each = [], Counter[SignedQuery](), rows / self.records
        progress.rounds("rounds", game.rounds)
        for played in range(game.rounds):
            if played:
                cost = game.draw_cost(played)
                drawn = walk.curator.sample_cells(
                    families, lambda family: each * counts.of(family), played, game.samples, cost, sample
                )
            else:
                drawn = uniform_queries(domain, families, game.samples, generator)
            draws.update(drawn if played else ())  # those of the first round tell nothing
            if shares is None:
                goal = Goal.of(domain, *conjunctions_of(drawn))
                best = [best_record(goal, self.search, self.seconds, generator, progress) for _ in range(self.records)]
                made = np.array(best, np.int64)
            else:
                weighted = [(query, sign * count / game.samples) for (query, sign), count in draws.items()]
                goal = Goal.of(domain, *conjunctions_of(weighted))
                made = perturbed_leaders(goal, self.records, _LEAD, generator, progress, shares)
            records.append(made)
            counts.add(made)
            progress.round_done()
        return np.concatenate(records), draws
