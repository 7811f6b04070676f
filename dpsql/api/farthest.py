"""Where a synthetic table is farthest from the truth: pairs, means, and ten GROUP BYs. Private, for the owner's eyes.

    pairs   |strength of the real rows − that of the synthetic rows|
    means   |mean of the real values − that of the synthetic ones| / deviation of the real ones
    groups  avg(x) GROUP BY g, in groups of at least 1 % of the rows and 30 rows: the same of the farthest group

A GROUP BY is of a column of few values and one of numbers. Ten are asked: of all that there are those are taken whose
two columns depend on each other the most, because an analyst asks for those.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlglot import exp

from dpsql.api.errors import own_errors
from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.engines.duckdb.numbers import finite_number
from dpsql.engines.duckdb.reading import missing, value
from dpsql.engines.duckdb.types import text_of
from dpsql.release.numbers import is_of_numbers
from dpsql.report.page import Farthest
from dpsql.udfs.extension import Instance

_PAIRS: Final = 8
_MEANS: Final = 8
_GROUP_BYS: Final = 10
_MOST_GROUPS: Final = 24
_FEW_ROWS: Final = 30
_SMALL: Final = 0.01


def farthest(
    instance: Instance,
    domain: Domain,
    tables: tuple[exp.Expr, exp.Expr],
    strengths: Mapping[Clique, float],
    made: Mapping[Clique, float],
) -> Farthest:
    """Where a table is farthest from the truth.

    Args:
        instance: of the database of both tables.
        domain: of the release.
        tables: the real one and the synthetic one.
        strengths: of pairs in the real rows.
        made: in the synthetic rows, of pairs that were judged.
    """
    pairs = [(abs(strengths[pair] - made[pair]), pair) for pair in made if pair in strengths]
    listed = sorted(pairs, key=lambda gap: -gap[0])[:_PAIRS]
    return Farthest(
        tuple((*pair, f"{strengths[pair]:.2f}", f"{made[pair]:.2f}") for _, pair in listed),
        tuple(_means(instance, domain, tables)),
        tuple(_groups(instance, domain, tables, strengths)),
    )


def _means(instance: Instance, domain: Domain, tables: Sequence[exp.Expr]) -> Iterator[tuple[str, str, str]]:
    numbers = [attribute for attribute in domain if is_of_numbers(attribute)]
    if not numbers:
        return
    statistics = [exp.func(name, finite_number(attribute)) for attribute in numbers for name in ("avg", "stddev_pop")]
    real, made = (
        _rows(instance, exp.select(*(statistic.copy() for statistic in statistics)).from_(table))[0] for table in tables
    )
    means = []
    for place, attribute in enumerate(numbers):
        truth, spread, synthetic = real[2 * place], real[2 * place + 1], made[2 * place]
        if truth is not None and synthetic is not None:
            means.append((_far(truth, synthetic, spread), attribute.name, truth, synthetic))
    for _, name, truth, synthetic in sorted(means, key=lambda gap: -gap[0])[:_MEANS]:
        yield name, f"{truth:,.4g}", f"{synthetic:,.4g}"


def _groups(
    instance: Instance, domain: Domain, tables: Sequence[exp.Expr], strengths: Mapping[Clique, float]
) -> list[tuple[str, str, str, str, str]]:
    """Of each GROUP BY its text, its farthest group, the rows of that, and both averages; the farthest first."""
    candidates = []
    for group, number in itertools.permutations(domain, 2):
        if group.regular <= _MOST_GROUPS and group.kind == "values" and number.kind == "bins" and is_of_numbers(number):
            pair = (group.name, number.name) if (group.name, number.name) in strengths else (number.name, group.name)
            candidates.append((strengths.get(pair, 0.0), group, number))
    candidates.sort(key=lambda candidate: -abs(candidate[0]))
    answers = [_group_by(instance, group, number, tables) for _, group, number in candidates[:_GROUP_BYS]]
    gaps = sorted((gap for gap in answers if gap is not None), key=lambda gap: -gap[0])
    return [words for _, words in gaps]


def _group_by(
    instance: Instance, group: Attribute, number: Attribute, tables: Sequence[exp.Expr]
) -> tuple[float, tuple[str, str, str, str, str]] | None:
    """The farthest group of one GROUP BY: how far, and what is said of it; None where no group is large enough."""
    key = exp.Case(ifs=[exp.If(this=missing(group), true=exp.null())], default=text_of(value(group)))
    columns = [
        key,
        exp.Count(this=exp.Star()),
        exp.func("avg", finite_number(number)),
        exp.func("stddev_pop", finite_number(number)),
    ]
    query = exp.select(*columns).group_by(exp.Literal.number(1))
    real, made = ({row[0]: row[1:] for row in _rows(instance, query.copy().from_(table))} for table in tables)
    rows = sum(count for count, _, _ in real.values())
    spread = math.sqrt(sum(count * (deviation or 0.0) ** 2 for count, _, deviation in real.values()) / max(1, rows))
    far = []
    for name, (count, truth, _) in real.items():
        synthetic = made.get(name, (0, None, None))[1]
        if count >= max(_FEW_ROWS, _SMALL * rows) and truth is not None and name is not None:
            gap = math.inf if synthetic is None else _far(truth, synthetic, spread)
            shown = "none" if synthetic is None else f"{synthetic:,.4g}"
            far.append((gap, (str(name), f"{count:,}", f"{truth:,.4g}", shown)))
    if not far:
        return None
    gap, words = max(far, key=lambda farther: farther[0])
    return gap, (f"avg({number.name}) GROUP BY {group.name}", *words)


def _far(truth: float, synthetic: float, spread: float | None) -> float:
    return abs(truth - synthetic) / spread if spread else abs(truth - synthetic)


def _rows(instance: Instance, query: exp.Select) -> list[tuple[Any, ...]]:
    with instance.cursor() as cursor, own_errors:
        return cursor.execute(query.sql(dialect="duckdb")).fetchall()
