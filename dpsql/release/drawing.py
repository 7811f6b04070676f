"""Rows of a fitted model: how many, their codes and where in their bins they lie.

All of it is made of noisy answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dpsql.books.releases.releases import Entry
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.row_codes import code_type, whole_type
from dpsql.core.steps import released_ticks
from dpsql.errors import InvalidArgument
from dpsql.models.model import Model
from dpsql.release.inside_bins import places
from dpsql.release.request import MOST_ROWS
from dpsql.release.tied_bins import tied
from dpsql.runtime.memory import machine_memory

_MOST_DROWNED: Final = 100_000  # rows of a release whose number of rows may be noise alone
_MAY_BE_NOISE: Final = 5  # standard deviations that noise alone exceeds once in millions of releases
_COPIES: Final = 8  # of a row's codes that are there at once while a table is drawn and stored
_STRETCH: Final = 65_536  # rows that are moved at a time


def check_rows_fit(rows: int | None, domain: Domain) -> None:
    """Refuse more rows than the machine's memory holds, before the charge.

    Raises:
        InvalidArgument: they are.
    """
    most = rows_that_fit(domain)
    if rows is not None and rows > most:
        raise InvalidArgument(f"rows is {rows}, but the memory of this machine holds about {most} of them: give fewer")


def rows_to_draw(entry: Entry, measured: Sequence[Measurement], model: Model) -> tuple[int, str | None]:
    """How many rows a release gets whose request does not say it; and what is to be said of that, None if nothing is.

    Noise may be larger than the table. Then the number of rows is noise too, and of any size.
    """
    total = _total(entry, measured, model)
    stddev = _total_noise(measured)
    most, reason = rows_that_fit(entry.domain), "the memory of this machine holds no more"
    if total < _MAY_BE_NOISE * stddev:
        most, reason = min(most, _MOST_DROWNED), "more would be noise"
    rows = min(max(0, total), most)
    words = []
    if rows < total:
        words.append(f"{rows} rows were drawn of {total}: {reason}")
    if total < 2 * stddev:
        words.append(
            f"the number of rows is lost in noise: {total} were measured, with a standard deviation of "
            f"{stddev:.3g}; ask with a larger epsilon, or give rows := … for a table of that size"
        )
    return rows, "; ".join(words) or None


def _total_noise(measured: Sequence[Measurement]) -> float:
    """The standard deviation (rows) of the number of rows that whole marginals tell together; 0 where it is public."""
    variances = [float(m.variance) * len(m.values) for m in measured if m.cells is None and m.least is None]
    return 0.0 if not variances or 0.0 in variances else 1 / math.sqrt(sum(1 / variance for variance in variances))


def rows_that_fit(domain: Domain) -> int:
    """How many synthetic rows the memory holds while they are drawn, decoded and stored."""
    return min(MOST_ROWS, machine_memory() // (_COPIES * 8 * (len(domain) + 1)))


def _total(entry: Entry, measured: Sequence[Measurement], model: Model) -> int:
    """The number of rows: exact where it is public, also 0, which no model stands for; else what the fit found."""
    public = measured if entry.neighbours.total_is_public else ()
    exact = next((whole for whole in public if not whole.clique and whole.variance == 0), None)
    return round(model.total) if exact is None else int(exact.values[0])


def coded(
    domain: Domain, codes: np.ndarray[Any, Any], generator: np.random.Generator
) -> dict[str, np.ndarray[Any, Any]]:
    """Codes, and for bins ticks drawn inside them, as `dpsql.books.releases.publication.publish` wants them."""
    bins = [place for place, attribute in enumerate(domain) if attribute.kind == "bins"]
    ticks = {}
    for place, inside in tied(domain, codes, bins, lambda _: generator.random(len(codes)), generator):
        attribute, column = domain.attributes[place], np.asarray(codes[:, place], np.int64)
        ticks[place] = _small(attribute, released_ticks(attribute, column, places(attribute, column, inside)))
    columns: dict[str, np.ndarray[Any, Any]] = {}
    small = code_type(attribute.size for attribute in domain)
    for place in range(len(domain)):
        columns[f"c{place}"] = codes[:, place].astype(small, copy=False)
        if place in ticks:
            columns[f"t{place}"] = ticks[place]
    return columns


def _small(attribute: Attribute, ticks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Ticks in the smallest type that holds the attribute's; floats as they are."""
    if attribute.is_float:
        return ticks
    return ticks.astype(whole_type(int(attribute.ticks[0]), int(attribute.ticks[-1])), casting="same_kind")


def shuffled(domain: Domain, codes: np.ndarray[Any, Any], generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """The rows in a random order, a column after the other in memory, as `coded` and DuckDB read them."""
    order = generator.permutation(len(codes))
    mixed = np.empty(codes.shape, code_type(attribute.size for attribute in domain), order="F")
    for start in range(0, len(codes), _STRETCH):
        mixed[start : start + _STRETCH] = codes[order[start : start + _STRETCH]]
    return mixed
