"""Claims of the papers that can be checked in minutes, on simulated rows: what each says, what was measured.

    python tests/benchmarks/claims.py [--only mwem lp] [--quick] [--write]

Most go through `connect`, `protect`, `synthesize` and `evaluate`, as an owner does. Those of a single step of an algorithm
call the function that takes the step. docs/explanation/claims.md puts them beside the claims about Adult and Loans.
Figures of releases are of five runs each: the median, and from the least to the largest.
With `--quick` only those are checked that take no releases; a test compares them with what stands in CLAIMS.md.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.errors import InvalidArgument
from dpsql.fitting.rows.iterative_estimation import Partial, estimate, update
from dpsql.fitting.rows.multiplicative_weights import Factored
from dpsql.fitting.rows.two_stages import two_stages
from dpsql.fitting.target import Target
from dpsql.mechanisms.promises import mwem_bound, rap_bound
from dpsql.mechanisms.query_games.accuracy import Accuracy
from dpsql.mechanisms.query_games.game import Parameters, original_epsilon
from dpsql.privacy.accounting import simple_epsilon, simple_rho, zcdp_epsilon, zcdp_rho
from dpsql.runtime.progress import Quiet

DELTA = 1e-9
CLAIMS = Path(__file__).with_name("CLAIMS.md")
RUNS = 5  # of each release: the largest error of one varies by a factor of 3


@dataclass(frozen=True)
class Checked:
    """What one claim came to."""

    place: str
    claim: str
    setting: str
    measured: str
    holds: str

    def cells(self) -> list[str]:
        """A line of the table."""
        cells = (self.place, self.claim, self.setting, self.measured, self.holds)
        return [cell.replace("|", "\\|") for cell in cells]


Check = Callable[[], Iterator[Checked]]
CHECKS: dict[str, list[Check]] = {}
QUICK: list[Check] = []
"""Those that make no release, in a second each."""


def check(paper: str, *, quick: bool = False) -> Callable[[Check], Check]:
    """Put a function among those of a paper."""

    def kept(function: Check) -> Check:
        CHECKS.setdefault(paper, []).append(function)
        QUICK.extend([function] if quick else [])
        return function

    return kept


def protected(rows: np.ndarray, epsilon: float, *, delta: float = DELTA, sizes: tuple[int, ...] = ()):
    """A database with a table `t`, columns c0, c1, …; replace_one, as most of the papers have it.

    Without sizes the columns are Boolean. With them a column has so many codes, the last of which stands for all others.
    """
    db = dpsql.connect()
    frame = pd.DataFrame(rows, columns=[f"c{i}" for i in range(rows.shape[1])])
    db.connection.register("frame", frame if sizes else frame.astype(bool))
    db.sql("CREATE TABLE t AS FROM frame")
    for name in frame.columns:
        db.sql(f"ALTER TABLE t ALTER {name} SET NOT NULL")
    db.protect("t", epsilon=epsilon, delta=delta, neighbours="replace_one")
    for name, size in zip(frame.columns, sizes, strict=False):
        db.domain("t", name, values=range(size - 1), nulls=False)
    return db


def largest(db, workload: str, epsilon: float, mechanism: str, rows: int | None = None, **options):
    """The figures of one release."""
    release = db.synthesize("t", epsilon, workload=workload, mechanism=mechanism, rows=rows, **options)
    return release, db.evaluate("t", release, workload=workload).answers


def charged(db) -> float:
    """ε that the table has spent."""
    return float(db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()[0][0])


def yes(holds: bool) -> str:
    """In words."""
    return "yes" if holds else "no"


def spread(values: Sequence[float], form: str = ".3f", what: str = "runs") -> str:
    """The median, and from the least to the largest of so many runs; one alone by itself.

    >>> spread([0.3, 0.1, 0.2])
    '0.200 (0.100 to 0.300, 3 runs)'
    >>> spread([2.0], ".0f")
    '2 (1 run)'
    """
    middle = f"{float(np.median(values)):{form}}"
    if len(values) == 1:
        return f"{middle} (1 {what.removesuffix('s')})"
    return f"{middle} ({min(values):{form}} to {max(values):{form}}, {len(values)} {what})"


def dependent(rows: int, sizes: tuple[int, ...]) -> np.ndarray:
    """Columns that follow one hidden number of three values."""
    generator = np.random.default_rng(3)
    hidden = generator.integers(0, 3, rows)
    return np.stack(
        [
            np.where(generator.random(rows) < 0.6, hidden * (i + 1) % size, generator.integers(0, size, rows))
            for i, size in enumerate(sizes)
        ],
        axis=1,
    )


@check("rap")
def rap_theorem_4_1() -> Iterator[Checked]:
    """The error of one round against its bound, and how it falls with εn."""
    sizes = (2, 3, 2, 4, 2, 3)
    records, relaxed = sum(map(math.log, sizes)), 100
    cells = sum(math.prod(triple) for triple in itertools.combinations(sizes, 3))
    points: dict[str, list[tuple[list[float], float, float]]] = {"as published": [], "default start": []}
    for name, faithful in (("as published", True), ("default start", False)):
        for count, epsilon in ((4000, 0.4), (4000, 1.6), (16000, 0.4)):
            db = protected(dependent(count, sizes), 2 * RUNS * epsilon, delta=1e-6, sizes=sizes)
            options = {"rounds": 1, "relaxed_rows": relaxed, "faithful": faithful, "reuse": False}
            made = [
                largest(db, "all 3-way", epsilon, "rap", 200_000, conversion="simple", release=f"{run}", **options)[1]
                for run in range(RUNS)
            ]
            noise = math.sqrt(cells / (2 * float(simple_rho(epsilon, 1e-6)))) / count
            bound = rap_bound(records, cells, 20, noise, relaxed).error
            points[name].append(([one.rmse for one in made], bound, noise))
            db.close()
    for name, of in points.items():
        yield from _rap_errors(of, name)


def _rap_errors(points: Sequence[tuple[list[float], float, float]], name: str) -> Iterator[Checked]:
    """What the errors of one start say: each beside its bound and its noise."""
    start, *more = (float(np.median(made)) for made, _, _ in points)
    errors = "; ".join(f"{spread(made, '.4f')}, the bound is {bound:.3f}" for made, bound, _ in points)
    holds = all(max(made) <= bound for made, bound, _ in points)
    faster = all(start / other > 2 for other in more)
    yield Checked(
        "RAP, Theorem 4.1",
        f"the root mean square error is below the bound (constants: `promises.py`), falls like the root of εn; {name}",
        "T = 1, 6 columns, all 3-way cells, n′ = 100, δ = 1e-6; εn = 1,600, 6,400 (by ε), 6,400 (by n)",
        errors,
        f"{yes(holds)}, and it falls {'faster' if faster else 'no faster'}" if holds else "no",
    )
    better = sum(one < noise for made, _, noise in points for one in made)
    total = sum(len(made) for made, _, _ in points)
    yield Checked(
        "RAP, Section 1.1",
        f"the projection improves the noisy answers; {name}",
        "the same",
        "; ".join(f"noise {noise:.3f}, after it {min(made):.3f} to {max(made):.3f}" for made, _, noise in points),
        "yes" if better == total else f"in {better} of {total} runs: a random start may end in a poor optimum",
    )


@check("rap", quick=True)
def rap_conversion() -> Iterator[Checked]:
    """Theorem 4.2: what the paper's conversion gives away."""
    loose, tight = float(simple_rho(1.0, 4.19e-10)), float(zcdp_rho(1.0, 4.19e-10))
    yield Checked(
        "RAP, Theorem 4.2",
        "ε = ρ + 2√(ρ ln(1/δ)) is (ε, δ)-DP",
        "ε = 1, δ = 1/48,842²",
        f"ρ = {loose:.5f}; a tight conversion allows {tight:.5f}, {tight / loose - 1:.0%} more",
        yes(zcdp_epsilon(loose, 4.19e-10) <= 1.0),
    )


@check("dualquery")
def dualquery_accuracy() -> Iterator[Checked]:
    """α by the paper's T, η and s, and with a sample of the rows."""
    generator = np.random.default_rng(1)
    rows = (generator.random((200_000, 3)) < 0.3).astype(int)
    rows[:, 1] = np.where(generator.random(len(rows)) < 0.8, rows[:, 0], rows[:, 1])
    db = protected(rows, 1000.0)
    setting = "α = 0.6, β = 0.05; 200,000 rows, all 2-way marginals of 3 columns"
    alpha = {"alpha": 0.6, "faithful": True}
    made, spent = [], list[float]()
    for run in range(RUNS):
        made.append(largest(db, "all 2-way", 8.0, "dualquery", release=f"{run}", **alpha)[1].largest)
        spent.append(charged(db))
    yield Checked(
        "DualQuery note, 2 (Gaboardi et al. 2014)",
        "T = 16 ln|Q|/α², η = α/4, s = 48 ln(2|X|T/β)/α²: within α",
        setting,
        f"largest error {spread(made)}; ε = {spent[0]:.3g} charged for one",
        yes(max(made) <= 0.6),
    )
    try:
        _, answers = largest(db, "all 2-way", 900.0, "dualquery", subsample=True, **alpha)
        said = f"largest error {answers.largest:.3f}"
    except InvalidArgument as refused:
        said = str(refused).split(",")[0] + " at ε = 900"
    yield Checked(
        "DualQuery note, Claim 2",
        "played on a sample of 2 ln(2|Q|/β)/α² rows: within α",
        setting,
        said,
        "not to be had at any ε that protects",
    )
    db.close()


@check("dualquery", quick=True)
def dualquery_costs() -> Iterator[Checked]:
    """The factor of 6, the root that the note drops, and what a sample buys."""
    rows, said, ratios = 48842, [], []
    for rounds, eta in ((30, 1.0), (1000, 1.0), (100_000, 0.0122)):
        run = Parameters(rounds, 50, Fraction(eta) ** 2 / (2 * rows**2))
        old, note = original_epsilon(run, rows, DELTA), simple_epsilon(float(4 * run.cost), DELTA)
        ours = zcdp_epsilon(run.cost, DELTA)
        ratios.append(old / note)
        said.append(f"T = {rounds:,}: {old:.3g}, {note:.3g}, here {ours:.3g}")
    yield Checked(
        "DualQuery note, 3",
        "for large T, zCDP improves on advanced composition by a factor of 6",
        "s = 50, n = 48,842, δ = 1e-9; η = 1, 1 and 0.0122",
        f"ε {'; '.join(said)}",
        f"not at a usual ε: {ratios[0]:.1f} to {ratios[1]:.1f}; 6 is the limit of an ε in the thousands ({ratios[2]:.1f})",
    )
    rho = 0.01
    wrong, right = rho + 2 * math.sqrt(rho) * math.log(1 / DELTA), rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
    yield Checked(
        "DualQuery note, 3",
        "ε = ρ + 2√ρ·ln(1/δ)",
        "ρ = 0.01, δ = 1e-9",
        f"{wrong:.2f}; with the root over the logarithm, too, {right:.2f}",
        "a bound, but the root is misplaced",
    )
    epsilon, part = 0.01, 0.05
    sampled = math.log1p(part * math.expm1(epsilon / part))
    yield Checked(
        "DualQuery note, 4",
        "a sample of the rows gives a similar or better privacy guarantee",
        "the same T, s and η; ε = 0.01 without; m = n/20",
        f"ln(1 + (m/n)(e^(εn/m) − 1)) = {sampled:.5f}",
        "no: never better",
    )


@check("dualquery", quick=True)
def dualquery_claim_3() -> Iterator[Checked]:
    """Claim 3: what the note promises of α, with and without a sample, beside what T, η and s of this α cost."""
    alpha, beta, rows, delta = 0.6, 0.05, 200_000, 1e-9
    records, queries = 8, 24  # three Boolean columns, the cells of their pairs and the negations
    asked = Accuracy(math.log(records), queries, alpha, beta)
    run = asked.parameters(rows)
    width = math.log(2 * records * run.rounds / beta)
    told = 256 * math.log(queries) ** 1.5 * math.sqrt(6 * math.log(1 / delta) * width) / (alpha**3 * rows)
    proven, ours = original_epsilon(run, rows, delta), zcdp_epsilon(run.cost, delta)
    setting = "α = 0.6, β = 0.05, δ = 1e-9; 200,000 rows, all 2-way marginals of 3 Boolean columns"
    yield Checked(
        "DualQuery note, Claim 3",
        "(256 ln^{3/2}|Q|·√(6 ln(1/δ) ln(2|X|T/β))/(α³n), δ)-DP",
        setting,
        f"ε = {told:.3g}; by advanced composition {proven:.3g}, here {ours:.3g}",
        "yes, and twice what its own proof gives" if proven <= told else "no",
    )
    drawn = math.ceil(2 * math.log(2 * queries / beta) / alpha**2)
    wide = math.log(8 * records * run.rounds / beta)
    inner = 8 * 256 * math.log(queries) ** 1.5 * math.sqrt(6 * math.log(1 / delta) * wide) / (alpha**3 * rows)
    claimed = 2 * drawn / rows * inner
    halved = Accuracy(math.log(records), queries, alpha / 2, beta).parameters(drawn)
    played = zcdp_epsilon(halved.cost, delta * rows / drawn)
    whole = played + math.log(drawn / rows)  # ln(1 + (m/n)(e^ε − 1)) for a large ε
    yield Checked(
        "DualQuery note, Claim 3",
        "a sample of m rows has (4 ln(2|Q|/β)/(α²n))·8·256 ln^{3/2}|Q|·√(…)/(α³n)",
        f"{setting}; m = {drawn}",
        f"ε = {claimed:.3g}; the run on m rows has {played:.3g}, the whole {whole:.3g}",
        yes(whole <= claimed) if whole <= claimed else "no: n stands where m belongs",
    )


@check("dualquery", quick=True)
def dualquery_sample() -> Iterator[Checked]:
    """Claim 1: how often a sample of the note's size is off by more than α/2."""
    alpha, beta, queries, times = 0.1, 0.2, 100, 20_000
    drawn = math.ceil(2 * math.log(2 * queries / beta) / alpha**2)
    generator = np.random.default_rng(0)
    off = np.abs(generator.binomial(drawn, 0.5, (times, queries)) / drawn - 0.5).max(axis=1) > alpha / 2
    yield Checked(
        "DualQuery note, Claim 1",
        "2 ln(2|Q|/β)/α² rows answer all of Q within α/2 but for a probability of β/2",
        "α = 0.1, β = 0.2, 100 independent queries of answer ½, 20,000 samples",
        f"missed in {off.mean():.3f} of the samples",
        "yes, though Hoeffding's inequality proves β, not β/2" if off.mean() <= beta / 2 else "no: β, not β/2",
    )


def cube(columns: int) -> Domain:
    """Columns of two values."""
    return Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", ("0", "1")) for i in range(columns)))


def chain(rows: int, columns: int, *, alike: float = 0.0) -> np.ndarray:
    """Each column mostly repeats the one before; a part of the rows has 1 everywhere."""
    generator = np.random.default_rng(0)
    made = np.empty((rows, columns), np.int64)
    made[:, 0] = generator.random(rows) < 0.2
    for column in range(1, columns):
        same = generator.random(rows) < 0.9
        made[:, column] = np.where(same, made[:, column - 1], generator.integers(0, 2, rows))
    made[: int(alike * rows)] = 1
    return made


@check("mwem", quick=True)
def mwem_without_privacy() -> Iterator[Checked]:
    """Claims 1 and 2, with true answers of the worst query."""
    domain, rows, rounds = cube(7), chain(400, 7), 320
    table = np.bincount(rows @ (1 << np.arange(7)[::-1]), minlength=2**7).reshape((2,) * 7) / len(rows)
    cliques = list(itertools.combinations(range(7), 3))
    truth = {c: table.sum(axis=tuple(set(range(7)) - set(c))).ravel() for c in cliques}
    now, total, short = Factored.uniform(domain), {c: np.zeros(8) for c in cliques}, 0

    def potential(model: Factored) -> float:
        inside = table.ravel() > 0
        return float(
            np.sum(table.ravel()[inside] * np.log(table.ravel()[inside] / model.project(domain.names)[inside]))
        )

    begun = potential(now)
    for _ in range(rounds):
        gaps = {c: truth[c] - now.project(tuple(domain.names[i] for i in c)) for c in cliques}
        for clique in cliques:
            total[clique] += truth[clique] - gaps[clique]
        worst = max(gaps, key=lambda c: abs(gaps[c]).max())
        step = np.where(np.arange(8) == abs(gaps[worst]).argmax(), gaps[worst] / 2, 0.0)
        now = now.tilted(tuple(domain.names[i] for i in worst), step)
        ended = potential(now)
        short += begun - ended < (abs(step).max()) ** 2 - 1e-12
        begun = ended
    error = max(abs(total[c] / rounds - truth[c]).max() for c in cliques)
    bound = 2 * math.sqrt(math.log(2**7) / rounds)
    setting = "7 Boolean columns, 400 rows, all 3-way cells, T = 320, no privacy"
    yield Checked(
        "MWEM lecture, Claim 1",
        "the largest error is at most 2n√(ln|D|/T)",
        setting,
        f"{error:.3f} n; the bound is {bound:.3f} n",
        yes(error <= bound),
    )
    yield Checked(
        "MWEM lecture, Claim 2",
        "each round lowers Φ by at least ((q(A) − q(D))/2n)²",
        setting,
        f"less in {short} of {rounds} rounds",
        yes(short == 0),
    )


@check("mwem")
def mwem_with_privacy() -> Iterator[Checked]:
    """Claim 3, through a release of the lecture's algorithm; and that its steps add up."""
    rows, rounds, epsilon = chain(50_000, 8, alike=0.9), 100, 2.0
    queries = sum(math.comb(8, size) * 2**size for size in (5, 6, 7))
    proven = mwem_bound(math.log(2**8), queries, rounds, epsilon, len(rows))
    db = protected(rows, 2 * RUNS * epsilon, delta=0.0)
    workload = "all 5-way; all 6-way; all 7-way"
    found = [
        largest(db, workload, epsilon, "mwem", faithful=True, rounds=rounds, release=f"{run}")[1].largest
        for run in range(RUNS)
    ]
    yield Checked(
        "MWEM lecture, Claim 3",
        "within 2n√(ln|D|/T) + 10T ln|Q|/ε but for a probability of 2T/|Q|",
        f"50,000 rows of 8 Boolean columns, nine tenths alike; T = 100, ε = 2, |Q| = {queries:,}",
        f"{spread(found)} n; the bound is {proven.error:.3f} n",
        yes(max(found) <= proven.error),
    )
    left = charged(db)
    yield Checked(
        "MWEM lecture, 3",
        "T steps of ε/T are ε-DP, and no less is charged",
        "the same, δ = 0",
        f"ε = {left:g} for {RUNS} releases",
        yes(math.isclose(left, RUNS * epsilon)),
    )
    db.close()


@check("lp")
def lp_theorems() -> Iterator[Checked]:
    """Theorems 2.2 and 2.3, where κ is known; and κ of the density that was found."""
    delta, gamma, functions, columns = 0.04, 0.05, 7, 18
    chances = np.full(columns, 0.5)
    chances[[0, 2]] = 0.6
    kappa = float(np.prod(2 * (chances**2 + (1 - chances) ** 2)))
    points = math.ceil(kappa * functions / gamma / delta**2)
    count = math.ceil(math.log(functions / gamma) / delta**2)
    epsilon = 4 * math.log(functions / gamma) / (count * delta)
    found = []
    for seed in range(RUNS):
        rows = (np.random.default_rng(seed).random((count, columns)) < chances).astype(int)
        db = protected(rows, 2 * epsilon, delta=0.0)
        workload = "SELECT count(*) FROM t GROUP BY c0, c1; SELECT count(*) FROM t GROUP BY c2"
        options = {"points": points, "space": "uniform", "gamma": gamma, "bootstrap": True, "noise": "laplace"}
        release, answers = largest(db, workload, epsilon, "lp", **options)
        found.append((answers.largest, release.entry.report["kappa"]))
        db.close()
    setting = f"18 Boolean columns, κ = {kappa:.2f}, |F| = 7, δ = 0.04, γ = 0.05, m = {points:,}, n = k = {count:,}"
    yield Checked(
        "LP, Theorem 2.3",
        "8δ-accurate but for a probability of 4γ",
        setting,
        f"{spread([error for error, _ in found])}; 8δ = {8 * delta:g}",
        yes(max(error for error, _ in found) <= 8 * delta),
    )
    theirs = 2 * functions * math.log(functions / gamma) / (count * delta)
    yield Checked(
        "LP, Theorem 2.2",
        "ε-DP if n ≥ 2|F| ln(|F|/γ)/(εδ)",
        setting,
        f"ε = {theirs:.2f} by the theorem, {epsilon:.2f} charged for the same noise: marginals are measured whole",
        yes(epsilon <= theirs),
    )
    shares = np.array([0.02, 0.0, 0.48, 0.5])
    number = np.arange(20_000)
    db = protected(np.stack([number % 50 == 0, number % 2 == 0], axis=1).astype(int), 2 * RUNS * 100.0)
    small = [largest(db, "all 2-way", 100.0, "lp", release=f"{run}")[0].entry.report["kappa"] for run in range(RUNS)]
    db.close()
    yield Checked(
        "LP, (2.3)",
        "for uniform μ, κ = |Ω|·Σφ²",
        "20,000 rows of 2 dependent Boolean columns, ε = 100: κ of the release beside that of the rows",
        f"{spread(small)} and {4 * float((shares**2).sum()):.3f}; {spread([kappa for _, kappa in found], ',.0f')} above",
        "yes; a small part of the points makes κ of a density large",
    )


@check("lp")
def lp_time() -> Iterator[Checked]:
    """Section 2.7: Barak's program grows with 2^p, the reduced space does not."""
    said: dict[str, list[list[float]]] = {"barak": [], "lp": []}
    for columns in (8, 10, 12):
        for mechanism, options in (("barak", {}), ("lp", {"points": 200})):
            db = protected(chain(5000, columns), 2.0 * RUNS)
            said[mechanism].append(seconds := [])
            for run in range(RUNS):
                begun = time.process_time()
                largest(db, "all 2-way", 1.0, mechanism, release=f"{run}", reuse=False, **options)
                seconds.append(time.process_time() - begun)
            db.close()
    yield Checked(
        "LP, Section 2.7",
        "Barak et al. take time exponential in p, the reduced space polynomial",
        "p = 8, 10, 12 Boolean columns, all 2-way marginals, ε = 1, m = 200",
        "; ".join(f"{name}, CPU s: {', '.join(spread(one, '.1f') for one in times)}" for name, times in said.items()),
        "yes; `barak` refuses more than 5,000 records" if _steeper(said["barak"], said["lp"]) else "no",
    )


def _steeper(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> bool:
    """Whether the first of two lists of runs grows by a larger factor from its first to its last entry, by medians."""
    growth = [float(np.median(of[-1]) / np.median(of[0])) for of in (one, other)]
    return growth[0] > growth[1]


@check("ide", quick=True)
def ide_steps() -> Iterator[Checked]:
    """Theorem 3.1 and the four cases of Definition 3.1, of one step."""
    generator, worse = np.random.default_rng(0), 0
    for _ in range(200):
        cells = np.concatenate([np.arange(4), generator.integers(-1, 4, 8)])
        p, y = generator.dirichlet(np.ones(12)), generator.dirichlet(np.ones(5))[:4]
        y = y if (cells < 0).any() else y / y.sum()
        q = update(p[None], Partial.of(cells, cells >= 0), y[None])[0]
        matrix = np.vstack([cells == cell for cell in range(-1, 4)]).astype(float)
        moved = generator.normal(size=(20, 12))
        moved -= moved @ np.linalg.pinv(matrix) @ matrix  # the answers stay
        others = q + 0.5 * moved * np.min(q / np.maximum(1e-12, abs(moved)), axis=1, keepdims=True)
        worse += int((np.sum(others * np.log(others / p), axis=1) < np.sum(q * np.log(q / p)) - 1e-12).any())
    yield Checked(
        "IDE, Theorem 3.1",
        "the update is the nearest to the prior (relative entropy) of all with these answers",
        "200 random priors of 12 rows, 20 other distributions with the same answers each",
        f"a nearer one in {worse} of 200",
        yes(worse == 0),
    )
    cells, p = np.array([0, 0, 1, 1, -1, -1]), np.array([0.75, 0.25, 0, 0, 0, 0])
    q = update(p[None], Partial.of(cells, cells >= 0), np.array([[0.4, 0.2]]))[0]
    yield Checked(
        "IDE, Definition 3.1",
        "cases 1 to 4: in proportion, evenly, the rest in proportion, the rest evenly",
        "6 records, p = (.75, .25, 0, 0, 0, 0), answers .4 and .2 of the first two pairs",
        f"q = ({', '.join(f'{part:.2g}' for part in q)})",
        yes(np.allclose(q, [0.3, 0.1, 0.1, 0.1, 0.2, 0.2])),
    )


@check("ide")
def ide_against_exact() -> Iterator[Checked]:
    """Section 3.3: how near the iterations come to the two exact problems, on the same noisy answers."""
    domain, generator = cube(8), np.random.default_rng(0)
    places = 1 << np.arange(8)[::-1]
    truth = np.bincount(chain(20_000, 8) @ places, minlength=256)
    known, counts = np.unique(chain(600, 8, alike=0.2), axis=0, return_counts=True)
    prior = counts / counts.sum()
    rows = np.stack(np.unravel_index(np.arange(256), (2,) * 8), axis=1)
    pairs = list(itertools.combinations(range(8), 2))

    def cells(codes: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        return 2 * codes[:, pair[0]] + codes[:, pair[1]]

    found: dict[str, list[tuple[float, float]]] = {"56": [], "280": [], "2,800": [], "exact": []}
    for _ in range(10):
        noise = generator.laplace(scale=2 * 28 / 0.5, size=(28, 4))
        noisy = [np.bincount(cells(rows, pair), truth, 4) + one for pair, one in zip(pairs, noise, strict=True)]
        partials = [Partial.of(cells(known, pair)) for pair in pairs]
        targets = [
            Target(tuple(domain.names[c] for c in pair), (2, 2), one, 1.0)
            for pair, one in zip(pairs, noisy, strict=True)
        ]
        answers = [one[None] / 20_000 for one in noisy]
        for name, made in found.items():
            if name == "exact":
                q = two_stages(domain, known, prior, targets, 20_000.0, 30.0, Quiet()).weights
            else:
                steps = int(name.replace(",", ""))
                q = estimate(prior[None], partials, answers, steps, np.random.default_rng(0), Quiet())[0]
            gaps = [np.bincount(cells(known, p), q, 4) - y[0] for p, y in zip(pairs, answers, strict=True)]
            inside = q > 0
            made.append((np.abs(gaps).sum(), np.sum(q[inside] * np.log(q[inside] / prior[inside]))))
    losses = {name: [loss for loss, _ in made] for name, made in found.items()}
    yield Checked(
        "IDE, Section 3.3",
        "after enough iterations the loss is near the least, and the distance to the prior is low",
        "all 28 pairs of 8 Boolean columns, 20,000 rows, 600 public ones, ε = 0.5",
        "T = "
        + "; ".join(
            f"{name}: loss {spread(losses[name], what='draws')}, KL {np.median([kl for _, kl in made]):.3f}"
            for name, made in found.items()
        ),
        yes(np.median(losses["2,800"]) <= 1.05 * np.median(losses["exact"])),
    )


def quick_rows() -> list[list[str]]:
    """The lines of the claims that take no release."""
    return [one.cells() for function in QUICK for one in function()]


def main() -> None:
    """Print a line for each claim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CHECKS), default=list(CHECKS))
    parser.add_argument("--quick", action="store_true", help="those that take no release")
    parser.add_argument("--write", action="store_true", help="into CLAIMS.md")
    options = parser.parse_args()
    header, lines = ["place", "claim", "setting", "measured", "holds"], []
    print("| " + " | ".join(header) + " |\n| --- | --- | --- | --- | --- |")
    for paper in options.only:
        asked = [function for function in CHECKS[paper] if not options.quick or function in QUICK]
        for one in itertools.chain.from_iterable(function() for function in asked):
            lines.append(one.cells())
            print("| " + " | ".join(lines[-1]) + " |", flush=True)
    if options.write and (options.quick or options.only != list(CHECKS)):
        text = CLAIMS.read_text(encoding="utf-8")
        CLAIMS.write_text(replaced(text, lines), encoding="utf-8")
    elif options.write:
        import results

        results.write("Claims", results.table(header, lines), file=results.CLAIMS)


def replaced(text: str, lines: Sequence[Sequence[str]]) -> str:
    """A page whose lines of the same claims in the same setting are these; a new one comes after those of its place."""
    page = text.splitlines()
    for cells in lines:
        line, begun = f"| {' | '.join(cells)} |", f"| {cells[0]} | {cells[1]} |"
        places = [at for at, old in enumerate(page) if old.startswith(begun)]
        same = [at for at in places if page[at].split(" | ")[2] == cells[2]]
        paper = [at for at, old in enumerate(page) if old.startswith(f"| {cells[0].split(',')[0]}")]
        if same or len(places) == 1:
            page[(same or places)[0]] = line
        else:
            page.insert(max(paper) + 1, line)
    return "\n".join(page) + "\n"


if __name__ == "__main__":
    main()
