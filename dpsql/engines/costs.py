"""About what it takes an engine to count: known from declared domains and an assumed number of rows alone.

    statements  one a marginal, or one for all, and some more
    bytes       rows · width of the columns, once where rows repeat, else for each marginal
    seconds     of one core: rows · s_choice where rows of units are chosen, and
                rows · s_row where rows repeat, else rows · Σ_marginals (s_marginal + s_column · columns +
                s_exact · decimals) + s_cell · Σ_marginals min(rows, cells), and a part a statement

Whether rows repeat, so that counts of distinct ones can be kept, is private, so both ends are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dpsql.core.domain import Attribute, Clique, Domain

_HEADER: Final = 24  # bytes, of a row that is stored as a whole
_TEXT: Final = 8  # bytes, of a text of which no values are declared
_WIDTHS: Final = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INTEGER": 4, "FLOAT": 4, "DATE": 4}
_WIDE: Final = 8


@dataclass(frozen=True)
class Rates:
    """How fast an engine counts: seconds of one core; measured by `tests/benchmarks/counting_cost.py`.

    Attributes:
        label: of the engine, for people.
        row: a row whose columns are encoded and grouped once, for all marginals; None where it never does that.
        marginal: a row in a marginal that is counted by itself; None where nobody measured it.
        column: each column of the table, of a row in such a marginal.
        exact: each column of decimals in bins that is in the marginal, of such a row.
        cell: each cell that such a marginal may have.
        choice: a row of a table with privacy units, of which the rows that count are chosen once.
        statement: each statement.
        more: statements beside those of marginals.
        whole_rows: whether it reads all columns of a row to see some.
        together: whether one statement counts all marginals.
    """

    label: str
    row: float | None
    marginal: float | None
    column: float = 0.0
    exact: float = 0.0
    cell: float = 0.0
    choice: float = 0.0
    statement: float = 0.01
    more: int = 2
    whole_rows: bool = False
    together: bool = False


@dataclass(frozen=True)
class Cost:
    """What counting would take.

    Attributes:
        label: of the engine.
        statements: how many.
        gigabytes: read, least and most.
        seconds: of one core, least and most; None where nobody measured it.
    """

    label: str
    statements: int
    gigabytes: tuple[float, float]
    seconds: tuple[float, float] | None

    def __str__(self) -> str:
        """For a plan.

        >>> print(Cost("Postgres", 67, (0.1, 6.2), (2.0, 15.0)))
        Postgres would run about 67 statements: 2 to 15 seconds of one core, 0.1 to 6.2 GB read
        """
        took = "" if self.seconds is None else f"{_range(*self.seconds)} seconds of one core, "
        return f"{self.label} would run about {self.statements:,} statements: {took}{_range(*self.gigabytes)} GB read"


def predict_cost(
    rates: Rates, domain: Domain, cliques: Sequence[Clique], rows: float, *, has_units: bool = False
) -> Cost:
    """What counting some marginals would take.

    Args:
        rates: of the engine.
        domain: of the columns.
        cliques: the marginals, each once.
        rows: about how many rows the table has.
        has_units: whether rows of privacy units are chosen.
    """
    width = {attribute.name: _width(attribute) for attribute in domain}
    every = sum(width.values()) + _HEADER
    once = every if rates.whole_rows else every - _HEADER
    each = sum(every if rates.whole_rows else sum(width[name] for name in clique) for clique in cliques)
    statements = (1 if rates.together else len(cliques)) + rates.more
    beside = rates.statement * statements + (rates.choice * rows if has_units else 0.0)
    has_rate = rates.row is not None
    seconds = None
    if rates.marginal is not None:
        most = sum(_marginal(rates, domain, clique, rows) for clique in cliques) + beside
        seconds = (min(most, (rates.row or 0.0) * rows + beside) if has_rate else most, most)
    if rates.together:
        each = once
    least = min(once, each) if has_rate else each
    return Cost(rates.label, statements, (least * rows / 1e9, max(least, each) * rows / 1e9), seconds)


def _marginal(rates: Rates, domain: Domain, clique: Clique, rows: float) -> float:
    """Seconds of a marginal that is counted by itself."""
    decimals = sum(a.kind == "bins" and a.type.startswith("DECIMAL") for a in map(domain.by_name.__getitem__, clique))
    columns = len(domain) + len(domain.excluded)
    row = (rates.marginal or 0.0) + rates.column * columns + rates.exact * decimals
    return rows * row + min(rows, domain.size(clique)) * rates.cell


def _width(attribute: Attribute) -> float:
    """Bytes of a value; of listed texts their mean length."""
    if attribute.type == "VARCHAR" or attribute.type.startswith("ENUM"):
        texts = attribute.values
        return sum(len(text.encode()) + 1 for text in texts) / len(texts) if texts else _TEXT
    return _WIDTHS.get(attribute.type, _WIDE)


def _range(low: float, high: float) -> str:
    first, last = f"{low:.2g}", f"{high:.2g}"
    return first if first == last else f"{first} to {last}"
