"""What would make the next release better, a sentence each: nothing is advised that was not tried.

pairs     where a tenth of the judged pairs or more are not reliable: what a plan of the same request with one thing
          changed predicts to help (`dpsql.release.remedies`)
ε·w/0.1   where the mechanism predicts nothing: half of the hidden pairs would show, w the median width of their
          intervals, because noise and so the width shrink as 1/ε. Nothing is made of the interval [-1, 1] of a
          correlation: a pair of which no row has both values keeps it at any ε
shares    where noise alone puts the shares of single columns off by more than a percentage point

No call is advised that would be refused: an ε that the budget has not left is a number and no argument, and of linked
tables, whose release has all columns and all pairs, neither fewer columns nor a workload are advised.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np

from dpsql.books.releases.releases import Entry
from dpsql.core.digits import down
from dpsql.core.workload import Workload
from dpsql.errors import DpsqlError
from dpsql.language.workloads import parse_workload
from dpsql.mechanisms.base import make, options_of
from dpsql.release.column_words import words_of_columns
from dpsql.release.judgement import WIDE, JudgedPair, Judgement
from dpsql.release.plan import workload_digest
from dpsql.release.remedies import Scenario, remedies

_NAMED: Final = 2
"""Columns that advice names, at most."""
_FINE: Final = 20
"""Cells of a column above which coarser ones are worth the loss."""
_COARSE_ERROR: Final = 0.01
_FEW_BAD: Final = 0.1
_MOST_REMEDIES: Final = 3
_LONGER: Final = ("steps", "relaxed_rows", "rounds")
"""Options that make a fit longer or larger."""


def advice_on(entry: Entry, judgement: Judgement, left: float) -> list[str]:
    """What would make the next release better.

    Args:
        entry: what the books say of the release.
        judgement: of it.
        left: what one more release may ask for (ε).
    """
    request = json.loads(entry.request)
    epsilon = float(request["epsilon"])
    advice = list(_of_shares(judgement, epsilon, left))
    bad = len(judgement.of("hidden")) + len(judgement.of("missed"))
    if bad and bad >= _FEW_BAD * len(judgement.pairs):
        scenario = _scenario(entry, judgement, request, left)
        if scenario is not None and scenario.reliable is not None:
            advice += remedies(scenario)[:_MOST_REMEDIES]
        else:
            hidden = [pair for pair in judgement.of("hidden") if not pair.measured.is_vacuous]
            advice += _of_hidden(entry, judgement, hidden, left) if hidden else []
    if judgement.of("missed"):
        advice.append(_of_missed(entry, judgement, str(request["mechanism"])))
    if judgement.error is None:
        advice.append(
            "To have columns and pairs judged, ask for a mechanism that measures them whole: mechanism := 'auto'."
        )
    return advice


def _enough(epsilon: float, left: float, begin: str = "About") -> str:
    """An ε that would be enough, as an argument if the budget has so much left."""
    if float(f"{epsilon:.2g}") <= left:
        return f"{begin} epsilon := {epsilon:.2g}"
    return f"{begin} ε = {epsilon:.2g}, which is more than the {down(left, 4)} that is left,"


def _of_shares(judgement: Judgement, epsilon: float, left: float) -> list[str]:
    """Of single columns, as far as their error is noise, which shrinks as ε grows."""
    if judgement.total is None or not judgement.columns:
        return []
    unknown = judgement.is_of_unknown_rows
    rows = judgement.total + judgement.total_reach if unknown else judgement.total
    noise = [math.sqrt(float((column.stddev**2).mean())) / rows for column in judgement.columns]
    error = float(np.mean(noise))
    if error <= _COARSE_ERROR:
        return []
    enough = _enough(epsilon * error / _COARSE_ERROR, left, "At least" if unknown else "About")
    return [
        f"{enough} would bring the shares of single columns within 1 percentage point, because noise shrinks as "
        "epsilon grows."
    ]


def _of_missed(entry: Entry, judgement: Judgement, mechanism: str) -> str:
    """Of pairs that the fit has otherwise than was measured: only options are named that the mechanism has."""
    words = words_of_columns(entry)
    listed = "; ".join(" and ".join(map(words, pair.clique)) for pair in judgement.of("missed")[:_NAMED])
    option_names = options_of(mechanism)
    longer = [name for name in _LONGER if name in option_names]
    ways = [f"raise the options that make it longer or larger, such as {' or '.join(longer)}"] if longer else []
    ways.append("ask for fewer columns" if entry.linked is None else "declare coarser bins")
    return f"The fit missed pairs such as {listed}: {', or '.join(ways)}."


def _scenario(entry: Entry, judgement: Judgement, request: dict[str, Any], left: float) -> Scenario | None:
    """The request of a release as a plan sees it; None where what it asked for cannot be told from its key."""
    workload = _workload(entry, str(request["workload"]))
    if workload is None or judgement.total is None:
        return None
    options = {name: value for name, value in request["options"].items() if value is not None}
    try:
        mechanism = make(str(request["mechanism"]), options)
    except DpsqlError:  # an option of an earlier version
        return None
    return Scenario(
        mechanism,
        entry.domain,
        workload,
        entry.neighbours,
        entry.epsilon,
        float(request["delta"]),
        judgement.total,
        entry.unit_row,
        left,
    )


def _workload(entry: Entry, digest: str) -> Workload | None:
    """The workload of a digest, where it is one of those that most people ask for."""
    for text in (None, "all 2-way", "all 3-way"):
        try:
            workload = parse_workload(text, (entry.source,), entry.domain)
        except DpsqlError:  # too many marginals, or too few columns
            continue
        if workload_digest(workload) == digest:
            return workload
    return None


def _of_hidden(entry: Entry, judgement: Judgement, hidden: Sequence[JudgedPair], left: float) -> list[str]:
    advice, words = [], words_of_columns(entry)
    sizes = {column.name: len(column.labels) for column in judgement.columns}
    can = entry.stated_names  # numbers of rows are declared by links
    times = Counter(name for pair in hidden for name in pair.clique if sizes.get(name, 0) > _FINE and name in can)
    fine = [name for name, _ in sorted(times.items(), key=lambda timed: (-timed[1], timed[0]))[:_NAMED]]
    if fine:
        inside = sum(any(name in fine for name in pair.clique) for pair in hidden)
        named = " and ".join(f"{words(name)} ({sizes[name]} cells)" for name in fine)
        advice.append(
            f"Declare coarser bins or fewer values of {named}: {inside} of the {len(hidden)} pairs that noise hides "
            "have such a column."
        )
    width = float(np.median([pair.measured.width for pair in hidden]))
    fewer = "with fewer columns" if _is_of_pairs(entry) else "with fewer columns, or workload := 'all 2-way',"
    more = f"; {fewer} each pair gets a larger part of epsilon" if entry.linked is None else ""
    epsilon = float(json.loads(entry.request)["epsilon"])
    advice.append(f"{_enough(epsilon * width / WIDE, left)} would show half of these pairs{more}.")
    return advice


def _is_of_pairs(entry: Entry) -> bool:
    """Whether the release was asked for with workload := 'all 2-way'."""
    pairs = Workload(tuple(combinations(entry.domain.names, 2)))
    return bool(json.loads(entry.request)["workload"] == workload_digest(pairs))
