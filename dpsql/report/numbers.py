"""The table of figures that analysts ask of columns: mean, spread and median of numbers, the largest cell of each."""

from __future__ import annotations

import math

import numpy as np

from dpsql.release.column_words import Words
from dpsql.release.judgement import JudgedColumn, Judgement
from dpsql.release.numbers import Figure, NumberFigures


def figure_rows(judgement: Judgement, words: Words) -> list[tuple[str, str, str, str, str]]:
    """Of each column and figure: the column, the figure, measured, its 95 % interval, synthetic."""
    numbers = {figures.name: figures for figures in judgement.numbers}
    rows = []
    for column in judgement.columns:
        if column.name in numbers:
            rows += _of_numbers(numbers[column.name], words)
        rows.append((words(column.name), *_largest(column, judgement.total or 1.0)))
    return rows


def in_cells(judgement: Judgement, words: Words) -> list[str]:
    """Means that depend on where inside their cells values lie, which was not measured: between which each is."""
    wide = [figures for figures in judgement.numbers if figures.inside and figures.mean.least < figures.mean.most]
    return [
        f"{words(column.name)}: {digits(column.mean.least, column.mean)} to {digits(column.mean.most, column.mean)}"
        for column in wide
    ]


def _of_numbers(figures: NumberFigures, words: Words) -> list[tuple[str, str, str, str, str]]:
    named = (("mean", figures.mean), ("spread", figures.spread), ("median", figures.median))
    return [(words(figures.name), name, *_shown(figure)) for name, figure in named]


def _shown(figure: Figure) -> tuple[str, str, str]:
    low, high = digits(figure.low, figure), digits(figure.high, figure)
    made = "none" if math.isnan(figure.synthetic) else digits(figure.synthetic, figure)
    return digits(figure.measured, figure), f"{low} to {high}", made


def _largest(column: JudgedColumn, total: float) -> tuple[str, str, str, str]:
    place = int(np.argmax(column.measured))
    share, reach, made = (
        100 * float(part[place]) / total for part in (column.measured, column.reach, column.synthetic)
    )
    interval = f"{share - reach:.1f} to {share + reach:.1f} %"
    return f"share of {column.labels[place]}", f"{share:.1f} %", interval, f"{made:.1f} %"


def digits(value: float, figure: Figure) -> str:
    """A number with as many digits as its interval has a meaning for.

    >>> digits(1234.567, Figure(1234.567, 1230.1, 1239.2, 1233.0)), digits(0.12345, Figure(0.12, 0.11, 0.13, 0.12))
    ('1,234.6', '0.123')
    """
    width = figure.high - figure.low
    if not (0 < width < math.inf):
        return f"{value:,.6g}"
    places = min(12, max(0, 1 - math.floor(math.log10(width))))
    return f"{value:,.{places}f}"
