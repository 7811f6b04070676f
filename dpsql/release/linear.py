"""The linear queries of a release: what was measured of them, and how near its model is. Of released values only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.marginal import Measurement
from dpsql.core.workload import Workload
from dpsql.models.model import Model
from dpsql.privacy.journal import Answer
from dpsql.privacy.questions import LinearQuestion

Floats = npt.NDArray[np.float64]
_MOST_LISTED: Final = 100
_MOST_ANSWERS: Final = 20


def measured_linear(workload: Workload, answers: Sequence[Answer]) -> list[Measurement]:
    """The answers to linear queries, with what they are of, which the books know by its digest."""
    by_digest = {family.digest: family for family in workload.linear}
    measurements = []
    for answer in answers:
        if answer.measurement is None or not isinstance(answer.question, LinearQuestion):
            continue
        family, groups = by_digest.get(answer.question.family), answer.question.groups
        if family is not None:
            measurements.append(replace(answer.measurement, shape=(family.count,), cells=groups, linear=family))
    return measurements


def linear_report(model: Model, measured: Sequence[Measurement]) -> Mapping[str, Any]:
    """What a release says of linear queries: how many, their errors, those of each family by itself, and what they are.

    Errors are distances of the model's answers from the noisy ones, as a fraction of the rows times the largest weight.

    Args:
        model: of the release.
        measured: its answers to linear queries.
    """
    gaps, noise, listed = [], [], []
    for measurement in measured:
        family = measurement.linear
        assert family is not None
        answers = model.total * family.answers(np.asarray(model.project(family.clique), np.float64))
        measured_cells = answers if measurement.cells is None else answers[list(measurement.cells)]
        scale = max(1.0, model.total) * family.largest
        gaps.append(np.abs(measured_cells - measurement.values) / scale)
        noise.append(np.full(len(measured_cells), measurement.stddev / scale))
        listed.append(_of_family(measurement, measured_cells, gaps[-1], measurement.stddev / scale))
    if not gaps:
        return {}
    every = np.concatenate(gaps)
    return {
        "linear_queries": len(every),
        "linear_error": round(float(every.mean()), 6),
        "linear_largest_error": round(float(every.max()), 6),
        "linear_noise": round(float(np.concatenate(noise).mean()), 6),
        "linear": listed[:_MOST_LISTED],
        "sums": {
            measurement.linear.digest: measurement.linear.named()
            for measurement in measured
            if measurement.linear is not None
        },
    }


def _of_family(measurement: Measurement, model: Floats, gaps: Floats, noise: float) -> dict[str, Any]:
    """The answers of a family in the sum's unit: noisy ones, and the model's."""
    family = measurement.linear
    assert family is not None
    step = float(family.step)
    groups = range(family.count) if measurement.cells is None else measurement.cells
    words: dict[str, Any] = {
        "query": family.text,
        "columns": list(family.clique),
        "cells": len(gaps),
        "stddev": measurement.stddev * step,
        "distance_l1": round(float(gaps.sum()), 6),
        "noise_l1": round(math.sqrt(2 / math.pi) * noise * len(gaps), 6),
    }
    if len(gaps) <= _MOST_ANSWERS:
        words["measured"] = [float(value) * step for value in measurement.values]
        words["model"] = [round(float(value) * step, 3) for value in model]
        words["groups"] = [family.labels[group] for group in groups] if family.labels else list(groups)
    return words
