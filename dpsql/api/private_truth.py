"""What a private report adds: figures that were computed from the real rows. For the owner's eyes, stored nowhere."""

from __future__ import annotations

import importlib.util
import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from dpsql.api.errors import own_errors
from dpsql.api.evaluated_tree import compared_tree
from dpsql.api.farthest import farthest
from dpsql.books.ledger.store import Books
from dpsql.books.releases.releases import Entry, rows_table
from dpsql.core.domain import Attribute, Domain
from dpsql.core.period import table_of
from dpsql.engines.duckdb.reading import missing, value
from dpsql.engines.duckdb.types import text_of
from dpsql.engines.registry import find_source
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.owner.evaluate import compared, evaluation_of
from dpsql.release.judgement import Judgement
from dpsql.report.facts import check_synthetic
from dpsql.report.page import Truth
from dpsql.udfs.extension import Instance
from dpsql.udfs.interrupts import pressed

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS: Final = 20_000
"""That SDMetrics compares."""


def truth_of(instance: Instance, catalog: str, entry: Entry, target: str | None, judgement: Judgement) -> Truth:
    """The truth beside a release.

    Args:
        instance: of the database of the release.
        catalog: of its books.
        entry: of a synthetic table.
        target: a column that models predict, or None.
        judgement: of the release.

    Raises:
        NotOwner: the owner's functions are switched off.
        DpsqlError: a child says what is wrong, such as a table that was altered.
    """
    instance.check_owner("report(private=True)")
    check_synthetic(entry)
    if entry.linked is not None:
        return _truth_of_tree(instance, catalog, entry, target, judgement)
    with pressed(), instance.cursor() as cursor:
        comparison = compared(
            cursor, find_source(cursor, f"{_quoted(catalog)}.{table_of(entry.source)}"), str(entry.number)
        )
        source = comparison.source  # of one period where the release is
        evaluation = evaluation_of(comparison, target=target)
    figures, notes = list(evaluation.utility.lines()), [evaluation.warning]
    if source.place is not None:
        notes.append("SDMetrics was not asked: it compares rows, and those of this table are elsewhere.")
    elif (score := _quality_score(instance, source, catalog, entry)) is None:
        notes.append("SDMetrics is not installed: pip install sdmetrics adds its quality report.")
    else:
        figures += score
    strengths = comparison.strengths()
    far = None
    if source.place is None:
        made = {pair.clique: pair.synthetic for pair in judgement.pairs}
        far = farthest(instance, entry.domain, (source.table(), rows_table(catalog, entry)), strengths, made)
    return Truth(comparison.shares(), strengths, figures, notes, far)


def _truth_of_tree(instance: Instance, catalog: str, entry: Entry, target: str | None, judgement: Judgement) -> Truth:
    """The truth beside a linked release: of units' rows in the pictures, of the tables in the figures."""
    if target is not None:
        raise InvalidArgument(f"target is of one synthetic table, and {entry.called} has linked ones: leave target out")
    with pressed(), instance.cursor() as cursor, compared_tree(cursor, Books(cursor, catalog), entry) as comparison:
        evaluation = comparison.evaluation()
        shares = comparison.shares(column.name for column in judgement.columns)
        return Truth(shares, comparison.strengths(judgement.pairs), list(evaluation.lines()), [evaluation.warning])


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")


def _quality_score(instance: Instance, source: Source, catalog: str, entry: Entry) -> list[tuple[str, str]] | None:
    """What SDMetrics' quality report says; None where it is not installed."""
    if importlib.util.find_spec("sdmetrics") is None:
        return None
    frames = [_sample(instance, table, entry.domain) for table in (source.table(), rows_table(catalog, entry))]
    metadata = {"columns": {attribute.name: {"sdtype": _kind(attribute)} for attribute in entry.domain}}
    with _quiet():
        from sdmetrics.reports.single_table.quality_report import QualityReport  # the package's own door warns

        report = QualityReport()
        report.generate(*frames, metadata, verbose=False)
        properties = report.get_properties()
    scores = [("SDMetrics quality score, 1 is best", _score_text(report.get_score()))]
    named = zip(properties["Property"], properties["Score"], strict=True)
    return scores + [(f"  {name.lower()}", _score_text(score)) for name, score in named]


def _score_text(score: float) -> str:
    """A score; of pairs there is none where no two real columns depend on each other."""
    return "not scored: no two columns depend enough on each other" if math.isnan(score) else f"{score:.3f}"


def _sample(instance: Instance, table: exp.Expr, domain: Domain) -> pd.DataFrame:
    """Some of the rows, as SDMetrics takes them."""
    query = exp.select(*map(_column, domain)).from_(table).sql(dialect="duckdb")
    sampled = f"{query} USING SAMPLE reservoir({_MOST_ROWS} ROWS) REPEATABLE (0)"
    with instance.cursor() as cursor, own_errors:
        return cursor.execute(sampled).df()


def _column(attribute: Attribute) -> exp.Expr:
    """A column as texts, or as numbers: of times the seconds. SDMetrics leaves other types out without a word."""
    if attribute.kind == "values":
        taken: exp.Expr = text_of(value(attribute))
    elif attribute.is_number:
        taken = exp.cast(value(attribute), "DOUBLE", dialect="duckdb")
    else:
        taken = exp.func("epoch", value(attribute), dialect="duckdb")
    present = exp.Case(ifs=[exp.If(this=missing(attribute), true=exp.null())], default=taken)
    return exp.alias_(present, attribute.name, quoted=True)


def _kind(attribute: Attribute) -> str:
    """What SDMetrics calls a column."""
    return "categorical" if attribute.kind == "values" else "numerical"


@contextmanager
def _quiet() -> Iterator[Any]:
    """Nothing is printed and nothing warned of."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
