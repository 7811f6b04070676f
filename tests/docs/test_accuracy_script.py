"""The script that measures mechanisms makes a release, and its errors are those of the rows and of the model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from dpsql.books.ledger.store import Books
from dpsql.owner.protect import domain_of

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "accuracy.py"


@pytest.mark.medium
def test_the_script_makes_a_release_and_measures_it(db):
    spec = importlib.util.spec_from_file_location("accuracy_script", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    db.sql("CREATE TABLE t AS SELECT i % 2 AS a, i % 3 AS b FROM range(600) r(i)")
    db.protect("t", epsilon=100.0, delta=1e-6)
    for name, top in (("a", 1), ("b", 2)):
        db.domain("t", name, lower=0, upper=top, bins=top + 1, nulls=False)
    source = db._source(db.connection, "t")
    domain = domain_of(Books(db.connection, source.catalog), source)
    codes = db.sql("FROM t").df()[list(domain.names)].to_numpy()
    model, rows = script.release(
        db, 20.0, {**script.how_of("residual:steps=400,relaxed_rows=128"), "workload": "all 2-way"}
    )
    cliques = [("a", "b")]
    assert script.table_errors(domain, codes, codes, cliques) == (0.0, 0.0, 0.0)
    for largest, l1, _ in (
        script.table_errors(domain, codes, rows, cliques),
        script.model_errors(domain, codes, model, cliques),
    ):
        assert 0 <= largest <= l1 < 0.1
    assert np.abs(len(rows) - 600) < 60
