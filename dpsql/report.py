"""How good a release is, judged by released values only."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from dpsql.database.catalog import Column, Source
from dpsql.database.counting import DuckDBCounter
from dpsql.database.store import Books, Entry, rows_table


def marginal_errors(cursor: duckdb.DuckDBPyConnection, books: Books, entry: Entry) -> pd.DataFrame:
    """The distance of a release's synthetic table from each of its noisy marginals.

    Columns: `columns`, `cells`, `stddev` (rows), `distance_l1` = Σ|synthetic − measured|/total and `noise_l1` =
    √(2/π)·σ·cells/total, what the noise alone is expected to make up.
    """
    table = rows_table(books.catalog, entry)
    columns = tuple(Column(a.name, a.type, a.nullable) for a in entry.domain)
    synthetic = Source(table.catalog, table.db, table.name, columns)
    counter = DuckDBCounter(cursor, synthetic, entry.domain)
    total = max(1, entry.rows or 1)
    rows: list[dict[str, Any]] = []
    for answer in books.answers(entry.key):
        measured = answer.measurement
        if measured is None or measured.cells is not None or not measured.clique:
            continue
        counts = counter.marginal(measured.clique).dense()
        rows.append(
            {
                "columns": list(measured.clique),
                "cells": len(counts),
                "stddev": measured.stddev,
                "distance_l1": float(np.abs(counts - measured.values).sum()) / total,
                "noise_l1": math.sqrt(2 / math.pi) * measured.stddev * len(counts) / total,
            }
        )
    counter.close()
    return pd.DataFrame(rows, columns=["columns", "cells", "stddev", "distance_l1", "noise_l1"])
