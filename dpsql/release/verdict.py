"""The verdict on a release, in one to three sentences, and what would make the next one better.

    shares   "off by about x percentage points": the mean of the columns' errors (`dpsql.release.judgement`)
    pairs    "not reliable": how many are hidden by noise or missed by the fit
    cells    how many are beyond five deviations of their noise, and the one that is the most deviations off
    advice   ε·w/0.1 would show half of the hidden pairs, w the median width of their intervals, because noise and so
             the width of an interval shrink as 1/ε. No advice is made from the interval [-1, 1] of a correlation:
             a pair of which no row has both values keeps it at any ε

Only what was measured whole is judged. What was not is said to be not judged, so that nothing false is said of a
mechanism that measures single cells, or publishes choices and no counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from dpsql.books.releases import Entry
from dpsql.core.workload import Workload
from dpsql.release.judgement import WIDE, JudgedPair, Judgement
from dpsql.release.plan import workload_digest

_NAMED: Final = 2
"""Columns that advice names, at most."""
_FINE: Final = 20
"""Cells of a column above which coarser ones are worth the loss."""
_COARSE_ERROR: Final = 0.01


@dataclass(frozen=True)
class Verdict:
    """What released values say of a release.

    Attributes:
        text: one to three sentences.
        advice: what would make the next release better, a sentence each.
    """

    text: str
    advice: tuple[str, ...]

    def __str__(self) -> str:
        return self.text


def verdict_of(entry: Entry, judgement: Judgement) -> Verdict:
    """The verdict on a release.

    Args:
        entry: what the books say of it.
        judgement: of it.
    """
    sentences = [_of_columns(entry, judgement), _of_pairs(judgement), _of_far(judgement)]
    return Verdict(" ".join(filter(None, sentences)), tuple(_advice(entry, judgement)))


def points(fraction: float) -> str:
    """A fraction as percentage points, in two digits.

    >>> points(0.00123), points(0.25)
    ('0.12', '25')
    """
    value = 100 * fraction
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _of_columns(entry: Entry, judgement: Judgement) -> str:
    columns, error = judgement.columns, judgement.error
    if error is None:
        return _of_cells(entry, judgement)
    worst = max(columns, key=lambda column: column.error)
    most = f" ({worst.name} the most, {points(worst.error)})" if len(columns) > 1 else ""
    what = "Shares of single columns are" if len(columns) > 1 else f"Shares of {worst.name} are"
    unjudged = len(judgement.unmeasured_columns)
    whole = len(columns) + unjudged
    rest = f"; {unjudged} of {whole} columns were not measured, so they are not judged" if unjudged else ""
    return f"{what} off by about {points(error)} percentage points{most}{rest}."


def _of_cells(entry: Entry, judgement: Judgement) -> str:
    """Of a release without a whole marginal."""
    if judgement.cells_error is None:
        return (
            f"How good this table is cannot be judged from what was released, because {entry.mechanism} published no "
            "counts of whole columns or pairs of columns."
        )
    return (
        f"The {judgement.cells:,} single counts that {entry.mechanism} measured are off by about "
        f"{points(judgement.cells_error)} percentage points. Whole columns and pairs of columns were not measured, so "
        "they are not judged."
    )


def _of_pairs(judgement: Judgement) -> str:
    if judgement.error is None or not (judgement.pairs or judgement.unmeasured_pairs):
        return ""
    hidden, missed, unjudged = len(judgement.of("hidden")), len(judgement.of("missed")), judgement.unmeasured_pairs
    judged = len(judgement.pairs)
    many = "one more pair was not measured together, so it is not judged"
    if unjudged > 1:
        many = f"{unjudged:,} more pairs were not measured together, so they are not judged"
    rest = f"; {many}" if unjudged else ""
    if not judged:
        return "No two columns were measured together, so pairs are not judged."
    looked = " that were looked at" if judgement.skipped_pairs else ""
    pairs = f"{judged:,} pairs of columns{looked}" if judged > 1 else f"pair of columns{looked}"
    if not hidden and not missed:
        every = f"All {pairs} depend" if judged > 1 else "The two columns depend"
        return f"{every} on each other as strongly as was measured{rest}."
    bad = hidden + missed
    if judged == 1:
        count = f"The {pairs} is not"
    elif bad == judged:
        count = f"None of the {pairs} is"
    else:
        count = f"{bad:,} of {pairs} {'is' if bad == 1 else 'are'} not"
    them = "the two" if hidden else "it" if missed == 1 else "them"
    noise = "noise hides how strongly the two depend on each other"
    fit = f"the synthetic table has {them} weaker or stronger than was measured"
    if hidden and missed:
        return f"{count} reliable: in {hidden:,} {noise}, and {fit} in {missed:,} more{rest}."
    return f"{count} reliable, because {noise if hidden else fit}{rest}."


def _of_far(judgement: Judgement) -> str:
    if not judgement.far:  # else the farthest of them are listed
        return ""
    worst = max(judgement.worst, key=lambda one: abs(one.synthetic - one.measured) / one.stddev)
    cell = " and ".join(f"{name} = {label}" for name, label in zip(worst.columns, worst.labels, strict=True))
    are = "cell of columns and pairs is" if judgement.far == 1 else "cells of columns and pairs are"
    return (
        f"{judgement.far:,} {are} far from what was measured, the most {cell}: "
        f"{worst.synthetic:,.0f} rows, and {worst.measured:,.0f} were measured."
    )


def _advice(entry: Entry, judgement: Judgement) -> list[str]:
    found = []
    hidden = [pair for pair in judgement.of("hidden") if not pair.measured.is_vacuous]
    epsilon = float(json.loads(entry.request)["epsilon"])
    if judgement.error is not None and judgement.error > _COARSE_ERROR:
        enough = epsilon * judgement.error / _COARSE_ERROR
        found.append(
            f"About epsilon := {enough:.2g} would bring the shares of single columns within 1 percentage point, "
            "because noise shrinks as epsilon grows."
        )
    if hidden:
        found += _of_hidden(entry, judgement, hidden, epsilon)
    if judgement.of("missed"):
        listed = "; ".join(" and ".join(pair.clique) for pair in judgement.of("missed")[:_NAMED])
        found.append(
            f"The fit missed pairs such as {listed}: raise the options that make it longer or larger, such as steps "
            "or relaxed_rows, or ask for fewer columns."
        )
    if judgement.error is None:
        found.append(
            "To have columns and pairs judged, ask for a mechanism that measures them whole: mechanism := 'auto'."
        )
    return found


def _of_hidden(entry: Entry, judgement: Judgement, hidden: Sequence[JudgedPair], epsilon: float) -> list[str]:
    found = []
    sizes = {column.name: len(column.labels) for column in judgement.columns}
    times = Counter(name for pair in hidden for name in pair.clique if sizes.get(name, 0) > _FINE)
    fine = [name for name, _ in sorted(times.items(), key=lambda one: (-one[1], one[0]))[:_NAMED]]
    if fine:
        inside = sum(any(name in fine for name in pair.clique) for pair in hidden)
        named = " and ".join(f"{name} ({sizes[name]} cells)" for name in fine)
        found.append(
            f"Declare coarser bins or fewer values of {named}: {inside} of the {len(hidden)} pairs that noise hides "
            "have such a column."
        )
    width = float(np.median([pair.measured.width for pair in hidden]))
    fewer = "with fewer columns" if _is_of_pairs(entry) else "with fewer columns, or workload := 'all 2-way',"
    found.append(
        f"About epsilon := {epsilon * width / WIDE:.2g} would show half of these pairs; {fewer} each pair gets a "
        "larger part of epsilon."
    )
    return found


def _is_of_pairs(entry: Entry) -> bool:
    """Whether the release was asked for with workload := 'all 2-way'."""
    pairs = Workload(tuple(combinations(entry.domain.names, 2)))
    return bool(json.loads(entry.request)["workload"] == workload_digest(pairs))
