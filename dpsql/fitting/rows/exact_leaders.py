"""Perturbed leaders by the integer program of FEM, one for each record: see `dpsql.mechanisms.query_games.fem`."""

from __future__ import annotations

import numpy as np

from dpsql.fitting.rows.best_records import Codes, Floats, Goal, climb, exact_record, perturbations, random_records
from dpsql.runtime.progress import Progress


def exact_leaders(
    goal: Goal,
    count: int,
    noise: float,
    seconds: float,
    generator: np.random.Generator,
    progress: Progress,
    shares: Floats | None = None,
) -> Codes:
    """Records that each maximise the goal plus noise for each value, shape (count, attributes).

    Where time ends before a record was found, one climbs from a random start.

    Args:
        goal: what they should satisfy.
        count: how many; each one has noise of its own.
        noise: see `dpsql.fitting.rows.best_records.perturbed_leaders`.
        seconds: the most that one program may take; its best record then.
        generator: of the noise.
        progress: is asked whether to stop, between programs.
        shares: see `noise`.
    """
    bias = perturbations(goal, count, noise, generator, shares)
    records = random_records(goal, count, generator)
    for place, own in enumerate(bias):
        record = exact_record(goal, seconds, generator, own)
        start = records[place : place + 1] if record is None else record[None, :]
        records[place] = climb(goal, start, generator, progress, own[None, :])[0]
        progress.check()
    return records
