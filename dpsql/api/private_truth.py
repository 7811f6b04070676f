"""What a private report adds: figures that were computed from the real rows. For the owner's eyes, stored nowhere."""

from __future__ import annotations

import importlib.util
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from dpsql.api.errors import own_errors
from dpsql.books.releases import Entry, rows_table
from dpsql.core.domain import Attribute
from dpsql.engines.registry import find_source
from dpsql.engines.source import Source
from dpsql.owner.evaluate import compared, evaluation_of
from dpsql.report.facts import check_synthetic
from dpsql.report.page import Truth
from dpsql.udfs.interrupts import pressed

if TYPE_CHECKING:
    import pandas as pd

    from dpsql.api.database import Database

_MOST_ROWS: Final = 20_000
"""That SDMetrics compares."""


def truth_of(database: Database, catalog: str, entry: Entry, target: str | None) -> Truth:
    """The truth beside a release.

    Args:
        database: of the release.
        catalog: of its books.
        entry: of a synthetic table.
        target: a column that models foretell, or None.

    Raises:
        NotOwner: the owner's functions are switched off.
        DpsqlError: a child says what is wrong, such as a table that was altered.
    """
    database.instance.check_owner("report(private=True)")
    check_synthetic(entry)
    with pressed(), database.instance.cursor() as cursor:
        source = find_source(cursor, f"{_quoted(catalog)}.{entry.source}")
        found = compared(cursor, source, str(entry.number))
        evaluation = evaluation_of(found, target=target)
    figures, notes = list(evaluation.utility.lines()), [evaluation.warning]
    score = _quality_score(database, source, catalog, entry)
    if score is None:
        notes.append("SDMetrics is not installed: pip install sdmetrics adds its quality report.")
    else:
        figures += score
    return Truth(found.shares(), found.associations(), figures, notes)


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")


def _quality_score(database: Database, source: Source, catalog: str, entry: Entry) -> list[tuple[str, str]] | None:
    """What SDMetrics' quality report says; None where it is not installed."""
    if importlib.util.find_spec("sdmetrics") is None:
        return None
    from sdmetrics.reports.single_table import QualityReport

    names = entry.domain.names
    real = exp.table_(source.name, db=source.schema, catalog=source.catalog, quoted=True)
    frames = [_sample(database, table, names) for table in (real, rows_table(catalog, entry))]
    metadata = {"columns": {attribute.name: {"sdtype": _kind(attribute)} for attribute in entry.domain}}
    report = QualityReport()
    with _quiet():
        report.generate(*frames, metadata, verbose=False)
        properties = report.get_properties()
    found = [("SDMetrics quality score, 1 is best", f"{report.get_score():.3f}")]
    named = zip(properties["Property"], properties["Score"], strict=True)
    return found + [(f"  {name.lower()}", f"{score:.3f}") for name, score in named]


def _sample(database: Database, table: exp.Table, names: tuple[str, ...]) -> pd.DataFrame:
    columns = [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
    query = exp.select(*columns).from_(table).sql(dialect="duckdb")
    sampled = f"{query} USING SAMPLE reservoir({_MOST_ROWS} ROWS) REPEATABLE (0)"
    with database.instance.cursor() as cursor, own_errors:
        return cursor.execute(sampled).df()


def _kind(attribute: Attribute) -> str:
    """What SDMetrics calls a column."""
    if attribute.type == "BOOLEAN":
        return "boolean"
    if attribute.kind == "values":
        return "categorical"
    return "numerical" if attribute.is_number else "datetime"


@contextmanager
def _quiet() -> Iterator[Any]:
    """Nothing is printed and nothing warned of."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
