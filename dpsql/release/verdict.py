"""The verdict on a release, in a few sentences, and what would make the next one better.

    shares   "off by about x percentage points": the mean of the columns' errors (`dpsql.release.judgement`)
    pairs    "not reliable": how many are hidden by noise or missed by the fit
    groups   how many means of numbers in groups of rows are likely right (`dpsql.release.group_means`)
    cells    how many are off by more than noise explains, and the one that is the most deviations off
    joins    of a linked release: which of them can be trusted (`dpsql.release.judged_tree`)
    advice   see `dpsql.release.advice`

Columns of a unit's row are called as people know them (`dpsql.core.unit_words`).

Only what was measured whole is judged. What was not is said to be not judged, so that nothing false is said of a
mechanism that measures single cells, or publishes choices and no counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dpsql.books.releases.releases import Entry
from dpsql.release.advice import advice_on
from dpsql.release.column_words import Words, words_of_columns
from dpsql.release.group_means import GROUP_ROWS
from dpsql.release.judged_tree import judged_tree
from dpsql.release.judgement import Judgement

_NAMED: Final = 3
"""Columns whose means noise hides the most."""


@dataclass(frozen=True)
class Verdict:
    """What released values say of a release.

    Attributes:
        parts: a few sentences: of columns, pairs, means in groups, cells that are far off, joins; empty ones are left
            out.
        advice: what would make the next release better, a sentence each.
    """

    parts: tuple[str, ...]
    advice: tuple[str, ...]

    @property
    def text(self) -> str:
        """All parts, one after the other."""
        return " ".join(self.parts)

    def __str__(self) -> str:
        return self.text


def verdict_of(entry: Entry, judgement: Judgement, left: float) -> Verdict:
    """The verdict on a release.

    Args:
        entry: what the books say of it.
        judgement: of it.
        left: what one more release of its account may ask for (ε).
    """
    words = words_of_columns(entry)
    sentences = [
        _of_columns(entry, judgement, words),
        _of_pairs(judgement),
        _of_groups(judgement, words),
        _of_far(judgement, words),
    ]
    if entry.unit_row is not None:
        sentences.append(judged_tree(entry.unit_row, judgement).words)
    return Verdict(tuple(filter(None, sentences)), tuple(advice_on(entry, judgement, left)))


def points(fraction: float) -> str:
    """A fraction as percentage points, in two digits.

    >>> points(0.00123), points(0.25)
    ('0.12', '25')
    """
    value = 100 * fraction
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _of_columns(entry: Entry, judgement: Judgement, words: Words) -> str:
    columns, error = judgement.columns, judgement.error
    if error is None:
        return _of_cells(entry, judgement)
    if judgement.is_of_unknown_rows:
        return (
            "Shares of single columns are not known, because noise hides the number of rows (about "
            f"{judgement.total:,.0f}, within {judgement.total_reach:,.0f})."
        )
    worst = max(columns, key=lambda column: column.error)
    most = f" ({words(worst.name)} the most, {points(worst.error)})" if len(columns) > 1 else ""
    what = "Shares of single columns are" if len(columns) > 1 else f"Shares of {words(worst.name)} are"
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
    hidden, missed, judged = len(judgement.of("hidden")), len(judgement.of("missed")), len(judgement.pairs)
    rest = "".join(f"; {more}" for more in _of_others(judgement))
    if not judged:
        return "No two columns were measured together, so pairs are not judged."
    looked = " that were looked at" if judgement.skipped_pairs else ""
    pairs = f"{judged:,} pairs of columns{looked}" if judged > 1 else f"pair of columns{looked}"
    likely = _of_likely(judgement, pairs)
    if not hidden and not missed:
        if likely:
            return f"{likely}{rest}."
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
    fit = f"the synthetic table has {them} otherwise than was measured"
    more = f" {likely}." if likely else ""
    if hidden and missed:
        return f"{count} reliable: in {hidden:,} {noise}, and {fit} in {missed:,} more{rest}.{more}"
    return f"{count} reliable, because {noise if hidden else fit}{rest}.{more}"


def _of_others(judgement: Judgement) -> Iterator[str]:
    """Of pairs that are not judged."""
    unjudged, implied = len(judgement.unmeasured_pairs), judgement.implied_pairs
    if unjudged == 1:
        yield "one more pair was not measured together, so it is not judged"
    elif unjudged:
        yield f"{unjudged:,} more pairs were not measured together, so they are not judged"
    if implied == 1:
        yield "one more pair follows from others, so it was not measured"
    elif implied:
        yield f"{implied:,} more pairs follow from others, so they were not measured"


def _of_likely(judgement: Judgement, pairs: str) -> str:
    """Of pairs whose strength noise hides, while the fit predicts that they are right."""
    likely, judged = len(judgement.of("likely")), len(judgement.pairs)
    if not likely:
        return ""
    why = "noise hides how strongly the two depend, but the fit predicts at most a twentieth of the rows in wrong cells"
    if likely == judged:
        whole = f"All {pairs} are" if judged > 1 else "The two columns are"
        return f"{whole} likely reliable: {why}"
    if judgement.reliable == judged:
        return f"All {pairs} are reliable, {likely:,} of them likely: {why}"
    return f"Another {likely:,} {'is' if likely == 1 else 'are'} likely reliable: {why}"


def _of_groups(judgement: Judgement, words: Words) -> str:
    """Of means of numbers in groups."""
    groups = {figures.name: figures.groups for figures in judgement.numbers if figures.groups}
    likely = sum(mean.is_likely for means in groups.values() for mean in means)
    count = sum(map(len, groups.values()))
    of = f"means of numbers in groups of {GROUP_ROWS} rows and more"
    if likely == count:
        return f"All {count:,} {of} are likely right within a quarter." if count > 1 else ""
    lost = {name: sum(not mean.is_likely for mean in means) for name, means in groups.items()}
    worst = [name for name in sorted(lost, key=lambda name: -lost[name]) if lost[name]]
    named = ", ".join(f"{words(name)} ({lost[name]:,} of {len(groups[name]):,})" for name in worst[:_NAMED])
    rest = " and others" if len(worst) > _NAMED else ""
    right = f"{likely:,} {'is' if likely == 1 else 'are'}" if likely else "none is"
    return f"Of {count:,} {of} {right} likely right within a quarter; noise hides those of {named}{rest}."


def _of_far(judgement: Judgement, words: Words = str) -> str:
    if not judgement.far:  # else the farthest of them are listed
        return ""
    worst = max(judgement.worst, key=lambda far_cell: abs(far_cell.synthetic - far_cell.measured) / far_cell.stddev)
    cell = " and ".join(f"{words(name)} = {label}" for name, label in zip(worst.columns, worst.labels, strict=True))
    are = "cell of columns and pairs is" if judgement.far == 1 else "cells of columns and pairs are"
    return (
        f"{judgement.far:,} {are} far from what was measured, the most {cell}: "
        f"{worst.synthetic:,.0f} rows, and {worst.measured:,.0f} were measured."
    )
