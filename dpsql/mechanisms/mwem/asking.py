"""A round of MWEM's question: select the worst answered query or family of queries, and measure it.

See `dpsql.mechanisms.mwem.mwem`. Whole marginals and families are selected by the L1 error of their answers, from which
the noise of measuring them may be taken off; scores are weighted so that one row moves all of them alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpsql.core.linear_family import LinearFamily, QueryFamily, answers_of, columns_of
from dpsql.core.marginal import Measurement
from dpsql.core.threshold import Threshold
from dpsql.core.workload import Workload
from dpsql.fitting.rows.multiplicative_weights import Distribution
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.threshold_queries import candidates, expected_noise, weights
from dpsql.mechanisms.walk import Walk
from dpsql.privacy.linear_families import family_stddevs


def ask(
    walk: Walk, now: Distribution, families: Sequence[QueryFamily], total: float, *, whole: bool, penalised: bool
) -> list[Measurement]:
    """Select what the distribution answers worst, and measure it.

    Args:
        walk: of the release.
        now: A_{i−1}.
        families: the candidates, or the families whose single queries are.
        total: n, rows.
        whole: select and measure whole marginals and families, and no single queries.
        penalised: take expected noise off the scores of whole ones.
    """
    domain, curator, noise = walk.domain, walk.curator, walk.course.noise

    def answers(family: QueryFamily) -> Any:
        return answers_of(domain, total * now.project(columns_of(family)), family)

    if not whole:
        return curator.measure_selected_cells(families, answers, 1, walk.course.step, noise)[1]
    penalties = [_expected(walk.course, family) for family in families] if penalised else None
    factors = weights(domain, families, curator.neighbours)
    return [curator.measure_selected_marginal(families, answers, walk.course.step, noise, penalties, factors)]


def _expected(course: Course, family: QueryFamily) -> float:
    """About Σ |noise| of the answers, if the family is measured: rows, or steps of linear queries."""
    (_, measure), facts, noise = course.step, course.facts, course.noise
    if isinstance(family, LinearFamily):
        (spread,) = family_stddevs(facts.domain, [family], measure, facts.neighbours, noise)
        return math.sqrt(2 / math.pi) * spread * family.count
    return expected_noise(facts.domain, family, noise.stddev(measure, facts.neighbours.marginal(noise.norm)))


def asked_of(workload: Workload, *, larger: bool) -> Sequence[QueryFamily]:
    """What rounds select from, or whose queries.

    Args:
        workload: of the request.
        larger: after the 1-way marginals: all larger parts of marginals and thresholds.
    """
    if not larger:
        return workload.query_families
    families: list[QueryFamily] = [*candidates(workload), *workload.linear]
    return families or workload.families


def named(measured: Measurement) -> str:
    """What was asked, in a report."""
    if measured.linear is not None:
        return measured.linear.text or f"a sum over {'/'.join(measured.clique)}"
    columns, family = "/".join(measured.clique), measured.family
    return f"at least {family.least} of {columns}" if isinstance(family, Threshold) else columns
