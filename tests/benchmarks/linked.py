"""How near a synthetic database is to the real one: `python -m tests.benchmarks.linked 1 0.1 …` (values of ε).

A simulated chain of 20,000 patients, visits and labs, of which 16,000 are protected. Errors are L1 distances of shares (0 to
2); `joins` is the mean relative error of six queries over joins; `siblings` of two visits of one patient.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd

import dpsql

JOINS = [
    "SELECT region k, count(*) v FROM patients JOIN visits USING (pid) WHERE severity >= 2 GROUP BY 1",
    "SELECT age * 2 + sex k, count(vid) v FROM patients LEFT JOIN visits USING (pid) GROUP BY 1",
    "SELECT risk k, count(*) v FROM patients SEMI JOIN (FROM visits WHERE severity = 3) USING (pid) GROUP BY 1",
    "SELECT n k, count(*) v FROM (SELECT pid, count(vid) n FROM patients LEFT JOIN visits USING (pid) GROUP BY 1) GROUP BY 1",
    "SELECT kind k, count(*) v FROM visits JOIN labs USING (vid) WHERE result >= 3 GROUP BY 1",
    "SELECT d k, count(*) v FROM (SELECT pid, count(DISTINCT ward) d FROM visits GROUP BY 1 HAVING count(*) >= 3) GROUP BY 1",
]
SIZES = {
    "patients": {"region": 6, "age": 8, "sex": 2, "income": 5, "risk": 3},
    "visits": {"ward": 6, "kind": 5, "severity": 4, "outcome": 3},
    "labs": {"test": 6, "result": 5, "flag": 2},
}
ORDERED = {"age", "income", "risk", "severity", "result"}
SIBLINGS = (
    "SELECT a.{c} * 10 + b.{c} k, count(*) v FROM visits a JOIN visits b USING (pid) WHERE a.vid <> b.vid GROUP BY 1"
)


def drawn(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column for each row of weights."""
    shares = (weights / weights.sum(1, keepdims=True)).cumsum(1)
    return np.minimum((shares < rng.random(len(weights))[:, None]).sum(1), weights.shape[1] - 1)


def simulated(units: int = 16_000, seed: int = 1) -> dict[str, pd.DataFrame]:
    """Patients, visits and labs; a hidden frailty makes the visits of one patient alike."""
    rng = np.random.default_rng(seed)
    region = rng.choice(6, units, p=[0.3, 0.22, 0.18, 0.14, 0.1, 0.06])
    age = np.clip(rng.normal(3.6 + 0.3 * (region == 0), 1.9, units).astype(int), 0, 7)
    sex = rng.integers(0, 2, units)
    income = np.clip((2 + 0.15 * (age - 3) + rng.normal(0, 1.1, units)).round(), 0, 4).astype(int)
    frail = 0.35 * (age - 3.5) + 0.25 * (2 - income) + rng.normal(0, 1.0, units)
    risk = np.digitize(frail + rng.normal(0, 0.8, units), [-0.6, 1.0])
    up = np.repeat(np.arange(units), np.minimum(rng.poisson(np.exp(0.15 + 0.42 * frail + 0.2 * sex)), 8))
    home = (region + rng.choice(3, units, p=[0.6, 0.25, 0.15])) % 6
    ward = np.where(rng.random(len(up)) < 0.7, home[up], rng.integers(0, 6, len(up)))
    favourite = rng.integers(0, 5, units)
    kind = np.where(rng.random(len(up)) < 0.45, favourite[up], rng.integers(0, 5, len(up)))
    severity = np.clip((1.4 + 0.45 * frail[up] + rng.normal(0, 0.8, len(up))).round(), 0, 3).astype(int)
    outcome = drawn(np.exp(np.stack([1.5 - 0.5 * severity, 0.3 + 0 * severity, -1.2 + 0.7 * severity], 1)), rng)
    visit = np.repeat(np.arange(len(up)), np.minimum(rng.poisson(0.4 + 0.55 * severity + 0.5 * (kind == 1)), 4))
    test = np.where(rng.random(len(visit)) < 0.5, kind[visit], rng.integers(0, 6, len(visit)))
    result = np.clip((1.5 + 0.4 * frail[up][visit] + rng.normal(0, 0.9, len(visit))).round(), 0, 4).astype(int)
    flag = (rng.random(len(visit)) < 0.05 + 0.22 * result).astype(int)
    patients = {"pid": np.arange(units), "region": region, "age": age, "sex": sex, "income": income, "risk": risk}
    visits = {
        "vid": np.arange(len(up)),
        "pid": up,
        "ward": ward,
        "kind": kind,
        "severity": severity,
        "outcome": outcome,
    }
    labs = {"lid": np.arange(len(visit)), "vid": visit, "test": test, "result": result, "flag": flag}
    return {name: pd.DataFrame(table) for name, table in (("patients", patients), ("visits", visits), ("labs", labs))}


def protect(db: dpsql.Database, tables: dict[str, pd.DataFrame]) -> None:
    """Load the tables and declare all that is public of them."""
    for name, frame in tables.items():
        db.connection.register("frame", frame)
        db.sql(f"CREATE TABLE {name} AS FROM frame")
        db.sql(f"ALTER TABLE {name} ADD PRIMARY KEY ({frame.columns[0]})")
    db.protect("patients", epsilon=100, delta=1e-9)
    db.link("visits", "patients", key=["pid"], most=8)
    db.link("labs", "visits", key=["vid"], most=4)
    for name, sizes in SIZES.items():
        for column, size in sizes.items():
            if column in ORDERED:
                db.sql(f"CALL dp_domain('{name}', '{column}', lower := 0, upper := {size - 1})").fetchall()
            else:
                values = [str(value) for value in range(size)]
                db.sql(f"CALL dp_domain('{name}', '{column}', \"values\" := {values})").fetchall()


def far(db: dpsql.Database, query: str, schemas: tuple[str, str], *, shares: bool = False) -> float:
    """The L1 distance of a query's answers in two schemas, over their sum in the first; of shares where asked."""
    answers = []
    for schema in schemas:
        db.sql(f"USE {schema}")
        found = {k: float(v) for k, v in db.sql(query).fetchall() if k is not None}
        answers.append({k: v / (sum(found.values()) or 1) for k, v in found.items()} if shares else found)
    db.sql("USE main")
    real, made = answers
    return sum(abs(real.get(k, 0) - made.get(k, 0)) for k in {*real, *made}) / (sum(real.values()) or 1)


def main() -> None:
    """Print a line for each ε."""
    with dpsql.connect() as db:
        protect(db, simulated())
        for epsilon in map(float, sys.argv[1:] or ["1"]):
            begun, schema = time.process_time(), f"made_{str(epsilon).replace('.', '_')}"
            rows = db.synthesize("patients", epsilon, linked=True).to_schema(schema)
            seconds, both = time.process_time() - begun, ("main", schema)
            joins = np.mean([far(db, query, both) for query in JOINS])
            siblings = np.mean([far(db, SIBLINGS.format(c=c), both, shares=True) for c in SIZES["visits"]])
            link = "SELECT {a} * 10 + {b} k, count(*) v FROM patients JOIN visits USING (pid) GROUP BY 1"
            pairs = [(a, b) for a in SIZES["patients"] for b in SIZES["visits"]]
            links = np.mean([far(db, link.format(a=a, b=b), both, shares=True) for a, b in pairs])
            print(
                f"epsilon {epsilon:g}: joins {joins:.3f}, parent x child {links:.3f}, siblings {siblings:.3f}, {seconds:.1f} CPU s, {rows}"
            )


if __name__ == "__main__":
    main()
