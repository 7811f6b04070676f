"""Whether the fit of `projection` fits in memory, and what would where it does not, by public facts."""

from __future__ import annotations

from typing import Final

from dpsql.core.domain import Domain
from dpsql.errors import DomainTooLarge
from dpsql.fitting.relaxed.settings import RELAXED_ROWS, fitting_bytes
from dpsql.runtime.memory import in_words

_FEWER: Final = tuple(RELAXED_ROWS >> halved for halved in range(4))
"""Numbers of relaxed rows that are tried in turn for one that fits."""


def check_fits(domain: Domain, rows: int, cells: int, linear: int, tuples: int, limit: int, *, given: bool) -> None:
    """Refuse a fit that needs more than `limit` bytes.

    Args:
        domain: the columns.
        rows: of the relaxed table.
        cells: the fewest that would be measured.
        linear: cells of linear queries beside them.
        tuples: the most that joints may have.
        limit: how many bytes the fit may take.
        given: whether the limit is the option `memory`, not the machine's.

    Raises:
        DomainTooLarge: it needs more; says what fits.
    """
    needed = fitting_bytes(domain, rows, cells + linear, tuples)
    if needed <= limit:
        return
    advice = "memory := " + repr(in_words(1.05 * needed))
    fewer = next((n for n in _FEWER if fitting_bytes(domain, n, cells, tuples) <= limit), None)
    if fewer is not None and fewer < rows:
        advice = f"relaxed_rows := {fewer} fits"
    elif not given:
        most = next((c for c in (10**6, 10**5, 10**4) if fitting_bytes(domain, 64, c, tuples) <= limit), None)
        advice = f"relaxed_rows := 64, all_cells := {most} fits" if most else "ask for fewer columns"
    raise DomainTooLarge(
        f"the fit of {len(domain)} columns of together {domain.width} values with relaxed_rows := {rows} and {cells} "
        f"cells needs about {in_words(needed)} of memory, {in_words(limit)} may be taken: {advice}"
    )
