"""The page: one self-contained HTML document of a release, with no script and nothing from the network.

The template writes every text escaped, because names and values of columns are whatever somebody stored. The page's
own policy (Content-Security-Policy) lets a browser run nothing and fetch nothing.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from dpsql.books.tables.owner_facts import tables_of
from dpsql.core.digits import down, up
from dpsql.core.domain import Clique
from dpsql.core.unit_words import one_above
from dpsql.errors import DpsqlError
from dpsql.privacy.account import ADD_UP
from dpsql.privacy.promised import bound, excess_words
from dpsql.release.estimates import Floats
from dpsql.release.judgement import JudgedColumn, JudgedPair
from dpsql.release.verdict import points
from dpsql.report import charts
from dpsql.report.column_chart import column_chart
from dpsql.report.facts import Facts, counted_rows
from dpsql.report.numbers import figure_rows, in_cells
from dpsql.report.periods import periods_of

_MOST_ROWS: Final = 200
"""Of a table of one column's values."""
_MOST_CHARTS: Final = 80
_WIDEST: Final = 60
"""Columns of a heat map."""
_STATES: Final = {
    "kept": "as measured",
    "likely": "shares likely right",
    "hidden": "noise hides it",
    "missed": "the fit missed it",
}


@dataclass(frozen=True)
class Farthest:
    """Where the synthetic rows are farthest from the real ones, the farthest first.

    Attributes:
        pairs: two columns, the true strength and the synthetic one.
        means: a column, the true mean and the synthetic one.
        groups: a GROUP BY, its farthest group, the rows of that, the true average and the synthetic one.
    """

    pairs: Sequence[tuple[str, ...]]
    means: Sequence[tuple[str, ...]]
    groups: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Truth:
    """What only an owner sees: figures that were computed from the real rows.

    Attributes:
        shares: of the values of each column, in the order of its cells.
        strengths: of pairs.
        figures: what each is, and the figure.
        notes: on them.
        farthest: None where the rows are in another engine.
    """

    shares: Mapping[str, Floats]
    strengths: Mapping[Clique, float]
    figures: Sequence[tuple[str, str]]
    notes: Sequence[str] = field(default=())
    farthest: Farthest | None = None


class Report:
    """A page on a release; a notebook shows it by itself.

    Attributes:
        facts: that are on it.

    >>> import dpsql
    >>> with dpsql.connect() as db:
    ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
    ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
    ...     page = db.synthesize("t", epsilon=1.0).report()
    >>> page.html[:15], "<script" in page.html
    ('<!doctype html>', False)
    """

    def __init__(self, facts: Facts, truth: Truth | None = None) -> None:
        charts.check_installed()
        self.facts, self._truth = facts, truth

    def __repr__(self) -> str:
        private = "PRIVATE " if self.private else ""
        return f"<{private}Report on release {self.facts.entry.number}: {self.facts.verdict}>"

    @property
    def private(self) -> bool:
        """Whether the truth is on it."""
        return self._truth is not None

    @cached_property
    def html(self) -> str:
        """The whole page."""
        from jinja2 import Environment, StrictUndefined

        template = files("dpsql.report").joinpath("page.html.j2").read_text(encoding="utf-8")
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(template).render(_context(self.facts, self._truth))

    def _repr_html_(self) -> str:
        """What a notebook shows: the page in a frame of its own, so that neither changes the other's style."""
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" sandbox="" style="width:100%;height:46rem;border:0"></iframe>'

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Raises:
            DpsqlError: it cannot be written.
        """
        try:
            Path(path).write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise DpsqlError(f"the report cannot be written to {str(path)!r}: {error.strerror}") from None


def _context(facts: Facts, truth: Truth | None) -> dict[str, Any]:
    """The values of the template's names."""
    entry, judgement = facts.entry, facts.judgement
    return {
        "private": truth is not None,
        "release": entry.number,
        "source": entry.source,
        "at": f"{facts.at:%Y-%m-%d %H:%M}",
        "verdict": facts.verdict.parts,
        "tiles": _tiles(facts),
        "warnings": facts.warnings,
        "advice": facts.verdict.advice,
        "guarantee": guarantee_words(facts),
        "exact": entry.guarantee,
        "budget_words": budget_words(facts),
        "spent": round(100 * min(1.0, facts.account.epsilon_spent / facts.account.epsilon), 2),
        "farthest": None if truth is None else truth.farthest,
        "numbers": figure_rows(judgement, facts.words),
        "in_cells": in_cells(judgement, facts.words),
        "figures": [] if truth is None else truth.figures,
        "figures_notes": [] if truth is None else truth.notes,
        "columns": [_column(facts, column, truth) for column in judgement.columns[:_MOST_CHARTS]],
        "tree": _tree(facts),
        "missed": judgement.of("missed"),
        "unmeasured": judgement.has_unjudged_pairs,
        "worst": _worst(facts),
        "worst_note": f"{judgement.looked_at:,} cells were looked at.",
        "outside": [(facts.words(name), f"{share:.1%}") for name, share in facts.outside.items()],
        "measured": measured_words(facts),
        "version": facts.version,
        "mechanism": entry.mechanism,
        "key": entry.key,
        "scale": _scale(),
        **_pairs(facts, truth),
    }


def _tiles(facts: Facts) -> list[tuple[str, str]]:
    entry, judgement = facts.entry, facts.judgement
    tiles = [
        (f"{sum(facts.rows.values()):,}", _rows_words(facts)),
        (f"ε = {up(facts.epsilon)}", f"δ = {up(facts.delta)}"),
    ]
    if judgement.error is not None:
        tiles.append((f"{points(judgement.error)} points", "mean error of a column's shares"))
    if judgement.pairs:
        number, likely = f"{judgement.reliable:,} of {len(judgement.pairs):,}", len(judgement.of("likely"))
        tiles.append((number, "pairs are reliable" + (f", {likely:,} of them likely" if likely else "")))
    return [*tiles, (entry.mechanism, f"mechanism, {facts.cells:,} noisy counts")]


def _rows_words(facts: Facts) -> str:
    each = ", ".join(f"{rows:,} of {table}" for table, rows in facts.rows.items())
    return "synthetic rows" if facts.tree is None else f"synthetic rows: {each}"


def _tree(facts: Facts) -> dict[str, list[tuple[str, ...]]] | None:
    """What the page says by table and by link; None of a release of one table."""
    tree = facts.tree
    if tree is None:
        return None
    rows = facts.rows

    def error(value: float | None) -> str:
        return "not judged" if value is None else points(value)

    return {
        "tables": [
            (table.name, f"{rows[table.name]:,}", error(table.error), str(table.pairs)) for table in tree.tables
        ],
        "links": [
            (
                f"{link.link.child} of one {one_above(link.link)}",
                error(link.error),
                str(link.numbers),
                str(link.siblings),
            )
            for link in tree.links
        ],
        "joins": [(str(join), str(join.pairs), join.answer) for join in tree.joins],
    }


def guarantee_words(facts: Facts) -> list[str]:
    """The promise of a release, for somebody who knows no differential privacy."""
    entry = facts.entry
    protected = "single privacy units" if entry.neighbours.of_units else "single rows"
    with_rows, linked = "", entry.linked
    if linked is not None and not entry.neighbours.whole:
        with_rows = f" with all its rows in {', '.join(tables_of(linked)[1:])}"
        protected = f"single rows of {linked['root']}, each{with_rows}"
    sentences = [
        f"If {entry.neighbours.change}{with_rows}, {bound(facts.epsilon, facts.delta)}. The factor is e to the power "
        f"of ε = {up(facts.epsilon)}.",
        *([] if entry.gdp != entry.rho else [excess_words(entry.budget)]),
        "That holds whatever else somebody knows, and whatever they compute from the synthetic rows or noisy counts.",
        f"The guarantee protects {protected}. Facts about the table as a whole are meant to be learnt.",
    ]
    if entry.looked:
        sentences.append(
            f"It does not cover the domains of {', '.join(entry.looked)}: the owner read them off the rows and "
            "discloses them."
        )
    if entry.looked_facts:
        sentences.append(
            f"Nor that every row has {'; '.join(entry.looked_facts)}, which the owner read off the rows, too."
        )
    return sentences


def budget_words(facts: Facts) -> str:
    """What is spent and left."""
    account = facts.account
    left = (
        "nothing more is released of it" if account.retired else f"one more may ask for {down(account.epsilon_left, 4)}"
    )
    plural = "" if account.releases == 1 else "s"
    adds = "" if account.pure or account.retired else f" The two may be more than the whole, because {ADD_UP}."
    return (
        f"Of ε = {up(account.epsilon)} at δ = {up(account.delta)}, "
        f"{account.spent_words} is spent in "
        f"{account.releases} release{plural}; {left}.{adds}"
    )


def measured_words(facts: Facts) -> list[str]:
    """What was measured and what was not, a sentence each."""
    judgement, entry = facts.judgement, facts.entry
    names = {1: "single columns", 2: "pairs"}
    kinds = [f"{n:,} of {names.get(order, f'{order} columns')}" for order, n in facts.marginals.items()]
    sentences = [f"Whole marginals: {', '.join(kinds) or 'none'}; with {' and '.join(facts.noise) or 'no'} noise."]
    if judgement.cells:
        sentences.append(f"{judgement.cells:,} single cells.")
    if judgement.unmeasured_columns:
        unmeasured = ", ".join(map(facts.words, judgement.unmeasured_columns))
        sentences.append(f"Not measured, so not judged: {unmeasured}.")
    if judgement.unmeasured_pairs:
        unjudged = len(judgement.unmeasured_pairs)
        sentences.append(f"{unjudged:,} pairs were not measured together, so they are not judged.")
    if judgement.implied_pairs:
        sentences.append(f"{judgement.implied_pairs:,} pairs follow from others, so they were not measured.")
    if judgement.undefined_pairs:
        sentences.append(
            f"{judgement.undefined_pairs:,} pairs have a column of a single value, which depends on nothing."
        )
    if judgement.skipped_pairs:
        sentences.append(f"{judgement.skipped_pairs:,} pairs were not looked at, because there are so many.")
    if entry.report.get("reused"):
        sentences.append(f"The fit also used {entry.report['reused']} marginals of earlier releases, left out here.")
    if facts.request.get("prior"):
        sentences.append("The fit also used a public table, left out here.")
    if facts.excluded:
        sentences.append(f"Excluded, and NULL in every synthetic row: {', '.join(facts.excluded)}.")
    if facts.computed:
        sentences.append(f"Not measured, but computed in each synthetic row: {'; '.join(facts.computed)}.")
    if facts.constraints:
        sentences.append(f"The owner states that every row has: {'; '.join(facts.constraints)}.")
    if facts.imposed:
        sentences.append(f"Imposed on the synthetic rows, whatever the real ones are: {'; '.join(facts.imposed)}.")
    if facts.entry.looked:
        sentences.append(f"The owner read these domains off the rows: {', '.join(facts.entry.looked)}.")
    for period, columns in periods_of(entry.domain).items():
        listed = ", ".join(map(facts.words, columns))
        sentences.append(
            f"By the {period}, and no finer, were measured: {listed}. Inside a {period} synthetic "
            "values are spread evenly."
        )
    unit = facts.account.unit_column
    if unit is not None:
        sentences.append(f"Of each value of {unit} {counted_rows(entry.neighbours)}.")
    return sentences


# --- columns and cells ------------------------------------------------------------------------------------------------


def _column(facts: Facts, column: JudgedColumn, truth: Truth | None) -> dict[str, Any]:
    from markupsafe import Markup

    total = facts.judgement.total or 1.0
    attribute = facts.entry.domain.by_name[column.name]
    true = None if truth is None else truth.shares[column.name]
    shares = [100 * part / total for part in (column.synthetic, column.measured, column.reach)]
    if true is not None:
        shares.append(100 * true)
    order = range(len(column.labels)) if attribute.is_ordered else np.argsort(-column.measured, kind="stable").tolist()
    rows = [(column.labels[place], *(f"{part[place]:.3f}" for part in shares)) for place in order]
    more = len(rows) - _MOST_ROWS
    shown = f"the first {_MOST_ROWS} of {len(rows):,} values" if more > 0 else f"all {len(rows)} values"
    return {
        "name": facts.words(column.name),
        "note": f"off by about {points(column.error)} percentage points" + _origin(facts, column.name),
        "chart": Markup(column_chart(column, attribute, total, true, facts.words(column.name))),
        "summary": f"Figures of {shown}",
        "rows": rows[:_MOST_ROWS],
    }


def _origin(facts: Facts, name: str) -> str:
    return (
        "; the owner read this domain off the rows" if facts.entry.stated_names.get(name) in facts.entry.looked else ""
    )


def _worst(facts: Facts) -> list[tuple[str, str, str, str]]:
    return [
        (
            ", ".join(f"{facts.words(name)} = {label}" for name, label in zip(cell.columns, cell.labels, strict=True)),
            f"{cell.measured:,.0f}",
            f"{cell.stddev:,.1f}",
            f"{cell.synthetic:,.0f}",
        )
        for cell in facts.judgement.worst
    ]


# --- pairs ------------------------------------------------------------------------------------------------------------


def _pairs(facts: Facts, truth: Truth | None) -> dict[str, Any]:
    from markupsafe import Markup

    pairs = facts.judgement.pairs
    names = [column.name for column in facts.judgement.columns]
    if not pairs:
        return {"heat_map": "", "pairs": [], "pairs_summary": ""}
    note = f"Figures of {len(pairs):,} pairs, the strongest first"
    if len(names) > _WIDEST:
        names = _most_tied(names, pairs)
        note += f"; the picture has the {_WIDEST} columns with the strongest"
    shown = [pair for pair in pairs if set(pair.clique) <= set(names)]
    true = None if truth is None else truth.strengths
    rows = [
        (
            *map(facts.words, pair.clique),
            f"{pair.measured.value:.3f}",
            f"{pair.measured.low:.3f} to {pair.measured.high:.3f}",
            f"{pair.synthetic:.3f}",
            *(() if true is None else (f"{true.get(pair.clique, math.nan):.3f}",)),
            _STATES[pair.state],
        )
        for pair in sorted(pairs, key=lambda judged: -judged.surely)
    ]
    drawn = Markup(charts.heat_map(names, shown, true, facts.words))
    return {"heat_map": drawn, "pairs": rows[:2000], "pairs_summary": note}


def _most_tied(names: Sequence[str], pairs: Sequence[JudgedPair]) -> list[str]:
    """The columns that depend on others the most, in their order."""
    strongest = dict.fromkeys(names, 0.0)
    for pair in pairs:
        for name in pair.clique:
            strongest[name] = max(strongest[name], pair.surely)
    widest = set(sorted(names, key=lambda name: -strongest[name])[:_WIDEST])
    return [name for name in names if name in widest]


def _scale() -> str:
    """The colours of the heat map as a gradient."""
    return ", ".join(charts.scale_colours())
