"""Three simulated tables whose dependences are known, from fixed seeds. Imports numpy only, as the peers' environments have it.

`linked`, 20,000 rows × 24 columns:

    site ↔ site_code      12 values each, each determines the other
    area → region         40 values determine 8
    product ~ package     6 values each, equal but for 2 % of the rows
    stage_0 → … → stage_3 a chain: each of 5 values stays with probability 0.75, else any
    spend, income, debt, age, visits    ordered: income follows spend, debt falls with it, age is alone, visits follow stage_3
    left, right, parity   parity = left xor right but for 5 %: no pair of them shows it, only the triple
    kind_0, …, kind_3     independent within each of 6 hidden kinds
    rare                  true in 1 % of the rows, of one region only
    target                logistic in income, stage_3, product, parity and region

`long`, 300,000 rows × 12 columns: `age` (100 values, two humps), `band` = age div 10, `salary` (16, ordered, rises and falls
with age), `job` (20, its shares move with band), `sector` (a function of job), and columns of 2 to 8 values in a chain;
`target` is logistic in salary, sector and the chain's end.

`survey`, 7,634 rows × 24 columns, on which no rule of a fit was tuned: a person's type moves education, work and vote; code 0
of ten columns says that the question was skipped, because of the answer to another one (`occupation`, `hours` and `pay` of
those who do not work, `kid_age` without children, …). `target` is whether somebody takes medicine, but for 1.5 % of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
_KINDS = (3, 4, 7, 10)


@dataclass(frozen=True)
class Simulated:
    """A table of codes with what is known of it.

    Attributes:
        codes: shape (rows, columns).
        sizes: the size of each column's domain, by name in column order.
        ordered: columns whose codes have an order.
        impossible: pairs of columns, each with the cells that no row can have.
    """

    codes: Codes
    sizes: dict[str, int]
    ordered: tuple[str, ...]
    impossible: dict[tuple[str, str], npt.NDArray[np.bool_]]


def linked(rows: int = 20_000) -> Simulated:
    """The table of pairs that determine each other, a chain and ordered columns."""
    draw = np.random.default_rng(2026)
    other = draw.permutation(12)
    region_of = np.arange(40) % 8
    site = draw.choice(12, rows, p=_zipf(12))
    area = draw.choice(40, rows, p=_zipf(40))
    region = region_of[area]
    product = draw.choice(6, rows, p=draw.dirichlet(np.full(6, 3.0)))
    package = np.where(draw.random(rows) < 0.02, draw.integers(0, 6, rows), product)
    stages = _chain(draw, draw.integers(0, 5, rows), (5, 5, 5), 0.75)
    level = draw.normal(size=rows)
    spend = _binned(np.exp(0.8 * level), 32, 8.0)
    income = _binned(level + 0.5 * draw.normal(size=rows) + 3.5, 32, 7.0)
    debt = _binned(3.0 - level + 0.8 * draw.normal(size=rows), 20, 6.5)
    age = _binned(
        np.where(draw.random(rows) < 0.6, draw.normal(1.0, 0.35, rows), draw.normal(2.4, 0.25, rows)), 50, 3.4
    )
    visits = _binned(draw.gamma(1.0 + stages[-1], size=rows), 16, 12.0)
    left, right = draw.integers(0, 2, rows), draw.integers(0, 2, rows)
    parity = (left ^ right) ^ (draw.random(rows) < 0.05)
    kinds = _classes(draw, rows, 6, _KINDS)
    rare = ((region == 3) & (draw.random(rows) < 0.01 / np.mean(region == 3))).astype(np.int64)
    score = 1.6 * (income - income.mean()) / income.std() + 0.6 * (stages[-1] - 2) + 0.8 * (product % 2) + parity
    target = _coins(draw, score - 1.8 + 0.4 * (region == 1))
    columns = {
        "site": (site, 12),
        "site_code": (other[site], 12),
        "area": (area, 40),
        "region": (region, 8),
        "product": (product, 6),
        "package": (package, 6),
        **{f"stage_{place}": (stage, 5) for place, stage in enumerate(stages)},
        "spend": (spend, 32),
        "income": (income, 32),
        "debt": (debt, 20),
        "age": (age, 50),
        "visits": (visits, 16),
        "left": (left, 2),
        "right": (right, 2),
        "parity": (parity, 2),
        **{f"kind_{place}": (kind, size) for place, (kind, size) in enumerate(zip(kinds, _KINDS, strict=True))},
        "rare": (rare, 2),
        "target": (target, 2),
    }
    impossible = {
        ("site", "site_code"): other[:, None] != np.arange(12),
        ("area", "region"): region_of[:, None] != np.arange(8),
        ("region", "rare"): np.outer(np.arange(8) != 3, [False, True]),
    }
    return _table(columns, ("spend", "income", "debt", "age", "visits"), impossible)


def long(rows: int = 300_000) -> Simulated:
    """The long table with a column of 100 values."""
    draw = np.random.default_rng(2027)
    humps = np.where(draw.random(rows) < 0.55, draw.normal(32, 11, rows), draw.normal(67, 9, rows))
    age = np.clip(humps, 0, 99).astype(np.int64)
    band = age // 10
    salary = _binned(np.exp(-(((age - 48) / 22) ** 2)) * 9 + draw.normal(0, 1.4, rows) + 3, 16, 14.0)
    shares = draw.dirichlet(np.full(20, 0.6), size=10)
    job = _conditional(draw, shares, band)
    sector_of = np.arange(20) % 6
    sector = sector_of[job]
    sizes = (8, 5, 5, 4, 3)
    chain = _chain(draw, draw.integers(0, 8, rows), sizes[1:], 0.7)
    flag = _coins(draw, (band - 4) * 0.5)
    target = _coins(draw, 0.5 * (salary - 8) + 0.7 * (sector == 2) - 0.9 * (sector == 4) + 0.6 * (chain[-1] - 1))
    columns = {
        "age": (age, 100),
        "band": (band, 10),
        "salary": (salary, 16),
        "job": (job, 20),
        "sector": (sector, 6),
        **{f"step_{place}": (step, size) for place, (step, size) in enumerate(zip(chain, sizes, strict=True))},
        "flag": (flag, 2),
        "target": (target, 2),
    }
    impossible = {
        ("age", "band"): (np.arange(100) // 10)[:, None] != np.arange(10),
        ("job", "sector"): sector_of[:, None] != np.arange(6),
    }
    return _table(columns, ("age", "band", "salary"), impossible)


def survey(rows: int = 7634) -> Simulated:
    """The small table of skipped questions."""
    draw = np.random.default_rng(5)
    age = np.clip(draw.normal(45, 18, rows), 18, 89).astype(np.int64) - 18
    sex = draw.integers(0, 2, rows)
    kind = draw.choice(5, rows, p=draw.dirichlet(np.full(5, 5.0)))
    education = _conditional(draw, draw.dirichlet(np.full(9, 0.8), size=5), kind)
    work = _conditional(draw, draw.dirichlet(np.full(4, 0.6), size=5), kind)
    occupation = _asked(work < 2, _conditional(draw, draw.dirichlet(np.full(12, 0.5), size=9), education))
    hours = _asked(work < 2, np.clip(draw.normal(8 - 2 * work, 2, rows), 0, 14).astype(np.int64))
    pay = _asked(work < 2, _conditional(draw, draw.dirichlet(np.full(7, 0.4), size=13), occupation))
    decade = np.minimum(age // 10, 7)
    marital = _conditional(draw, draw.dirichlet(np.full(5, 0.7), size=8), decade)
    spouse_works = _asked(marital == 0, draw.integers(0, 3, rows))
    many, few = np.minimum(draw.poisson(1.5, rows), 7), np.minimum(draw.poisson(0.3, rows), 7)
    kids = np.where(marital < 3, many, few)
    kid_age = _asked(kids > 0, draw.integers(0, 5, rows))
    smokes = draw.choice(3, rows, p=[0.6, 0.25, 0.15])
    cigarettes = _asked(smokes == 2, np.minimum(draw.poisson(3, rows), 8))
    stopped = _asked(smokes == 1, draw.integers(0, 6, rows))
    health = _conditional(draw, draw.dirichlet(np.full(5, 1.0), size=8), decade)
    diagnosis = _asked(health > 2, draw.integers(0, 4, rows))
    medicine = _asked(diagnosis > 0, (draw.random(rows) < 0.8).astype(np.int64))
    vote = _conditional(draw, draw.dirichlet(np.full(4, 0.8), size=5), kind)
    party = _asked(vote > 0, _conditional(draw, draw.dirichlet(np.full(5, 0.5), size=5), kind))
    region = draw.choice(9, rows, p=_zipf(9))
    urban = _conditional(draw, draw.dirichlet(np.full(3, 1.0), size=9), region)
    mode = draw.integers(0, 2, rows)
    income = _binned(np.exp(0.5 * pay / 4 + 0.4 * draw.normal(size=rows)), 20, 6.0)
    takes = (medicine == 2) | (draw.random(rows) < 0.01)
    target = (takes ^ (draw.random(rows) < 0.005)).astype(np.int64)
    columns = {
        "age": (age, 72),
        "sex": (sex, 2),
        "education": (education, 9),
        "work": (work, 4),
        "occupation": (occupation, 13),
        "hours": (hours, 16),
        "pay": (pay, 8),
        "marital": (marital, 5),
        "spouse_works": (spouse_works, 4),
        "kids": (kids, 8),
        "kid_age": (kid_age, 6),
        "smokes": (smokes, 3),
        "cigarettes": (cigarettes, 10),
        "stopped": (stopped, 7),
        "health": (health, 5),
        "diagnosis": (diagnosis, 5),
        "medicine": (medicine, 3),
        "vote": (vote, 4),
        "party": (party, 6),
        "region": (region, 9),
        "urban": (urban, 3),
        "mode": (mode, 2),
        "income": (income, 20),
        "target": (target, 2),
    }
    skipped = np.zeros((3, 10), bool)
    skipped[:2, 1:], skipped[2, 0] = True, True
    return _table(columns, ("age", "hours", "kids", "cigarettes", "income"), {("smokes", "cigarettes"): skipped})


def _asked(those: npt.NDArray[np.bool_], codes: Codes) -> Codes:
    """Codes from 1 on for those who were asked, 0 for who was not."""
    return np.where(those, 1 + codes, 0)


def _table(
    columns: dict[str, tuple[Codes, int]],
    ordered: tuple[str, ...],
    impossible: dict[tuple[str, str], npt.NDArray[np.bool_]],
) -> Simulated:
    codes = np.column_stack([column.astype(np.int64) for column, _ in columns.values()])
    return Simulated(codes, {name: size for name, (_, size) in columns.items()}, ordered, impossible)


def _zipf(size: int) -> npt.NDArray[np.float64]:
    weights = 1 / np.arange(1, size + 1)
    return np.asarray(weights / weights.sum())


def _binned(values: npt.NDArray[np.float64], bins: int, upper: float) -> Codes:
    """The bins of equal width from 0 to upper, the ends taking what is beyond."""
    return np.clip(values / upper * bins, 0, bins - 1).astype(np.int64)


def _chain(draw: np.random.Generator, first: Codes, sizes: tuple[int, ...], stay: float) -> list[Codes]:
    """A Markov chain: each column keeps the last one's code, modulo its size, or is any code."""
    found = [first]
    for size in sizes:
        anew = draw.integers(0, size, len(first))
        found.append(np.where(draw.random(len(first)) < stay, found[-1] % size, anew))
    return found


def _classes(draw: np.random.Generator, rows: int, classes: int, sizes: tuple[int, ...]) -> list[Codes]:
    """Columns that are independent within each of some hidden classes."""
    hidden = draw.choice(classes, rows, p=draw.dirichlet(np.full(classes, 4.0)))
    return [_conditional(draw, draw.dirichlet(np.full(size, 0.5), size=classes), hidden) for size in sizes]


def _conditional(draw: np.random.Generator, shares: npt.NDArray[np.float64], given: Codes) -> Codes:
    """A code from the distribution of each row's given value; shares have shape (given values, codes)."""
    cumulative = np.cumsum(shares, axis=1)[given]
    return np.minimum((draw.random(len(given))[:, None] > cumulative).sum(axis=1), shares.shape[1] - 1)


def _coins(draw: np.random.Generator, score: npt.NDArray[np.float64]) -> Codes:
    return (draw.random(len(score)) < 1 / (1 + np.exp(-score))).astype(np.int64)
