"""How near a synthetic database is to the real one: `python -m tests.benchmarks.linked 1 0.1 …` (values of ε).

A simulated chain of 20,000 patients, visits and labs, of which 16,000 are protected. Errors are L1 distances of shares (0 to
2); `joins` is the mean relative error of ten queries over joins; `siblings off by` the mean error of Cramér's V of a column
of two rows of one parent; `AUC` of high risk predicted from a patient's rows below, trained on synthetic patients and tested on
the 4,000 that are held out.
"""

from __future__ import annotations

import itertools
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
    "SELECT kind k, count(*) v FROM (SELECT pid, kind FROM visits GROUP BY 1, 2 HAVING count(*) >= 2) GROUP BY 1",
    "SELECT d k, count(*) v FROM (SELECT pid, count(DISTINCT ward) d FROM visits GROUP BY 1 HAVING count(*) >= 3) GROUP BY 1",
    "SELECT kind k, count(*) v FROM visits JOIN labs USING (vid) WHERE result >= 3 GROUP BY 1",
    "SELECT region * 5 + income k, count(*) v FROM patients JOIN visits USING (pid) JOIN labs USING (vid) WHERE flag = 1 GROUP BY 1",
    "SELECT risk k, count(*) v FROM patients JOIN (SELECT pid, max(result) m FROM visits JOIN labs USING (vid) GROUP BY 1) "
    "USING (pid) WHERE m = 4 GROUP BY 1",
    "SELECT least(s, 6) k, count(*) v FROM (SELECT pid, sum(severity) s FROM visits GROUP BY 1) GROUP BY 1",
]
SIZES = {
    "patients": {"region": 6, "age": 8, "sex": 2, "income": 5, "risk": 3},
    "visits": {"ward": 6, "kind": 5, "severity": 4, "outcome": 3},
    "labs": {"test": 6, "result": 5, "flag": 2},
}
ORDERED = {"age", "income", "risk", "severity", "result"}
KEYS = {"visits": ("vid", "pid"), "labs": ("lid", "vid")}
SIBLINGS = """
    WITH r AS (SELECT {column} AS c, {up} AS up, row_number() OVER (PARTITION BY {up} ORDER BY {key}) AS i FROM {table})
    SELECT a.c * 10 + b.c k, count(*) v FROM r a JOIN r b USING (up) WHERE a.i <> b.i AND abs(a.i - b.i) <= 3 GROUP BY 1
"""


def drawn(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column for each row of weights."""
    shares = (weights / weights.sum(1, keepdims=True)).cumsum(1)
    return np.minimum((shares < rng.random(len(weights))[:, None]).sum(1), weights.shape[1] - 1)


def simulated(units: int = 20_000, seed: int = 1) -> dict[str, pd.DataFrame]:
    """Patients, visits and labs; a hidden frailty, a home ward and a favourite kind make the visits of one patient alike."""
    rng = np.random.default_rng(seed)
    region = rng.choice(6, units, p=[0.3, 0.22, 0.18, 0.14, 0.1, 0.06])
    age = np.clip(rng.normal(3.6 + 0.3 * (region == 0), 1.9, units).astype(int), 0, 7)
    sex = rng.integers(0, 2, units)
    wealth = 2 + 0.4 * (region % 3 - 1) + 0.15 * (age - 3)
    income = np.clip((wealth + rng.normal(0, 1.1, units)).round(), 0, 4).astype(int)
    frail = 0.35 * (age - 3.5) + 0.25 * (2 - income) + rng.normal(0, 1.0, units)
    risk = np.digitize(frail + rng.normal(0, 0.8, units), [-0.6, 1.0])
    up = np.repeat(np.arange(units), np.minimum(rng.poisson(np.exp(0.15 + 0.42 * frail + 0.2 * sex)), 8))
    f = frail[up]
    home = (region + rng.choice(3, units, p=[0.6, 0.25, 0.15])) % 6
    ward = np.where(rng.random(len(up)) < 0.7, home[up], rng.integers(0, 6, len(up)))
    favourite = rng.integers(0, 5, units)
    kinds = np.exp(np.stack([0 * f, 0.3 * sex[up], 0.25 * f, 0.2 * (age[up] - 3.5), -0.2 * f], 1))
    kind = np.where(rng.random(len(up)) < 0.45, favourite[up], drawn(kinds, rng))
    severity = 1.4 + 0.45 * f + 0.3 * (kind == 2) + rng.normal(0, 0.8, len(up))
    severity = np.clip(severity.round(), 0, 3).astype(int)
    outcome = drawn(np.exp(np.stack([1.5 - 0.5 * severity, 0.3 + 0 * severity, -1.2 + 0.7 * severity], 1)), rng)
    visit = np.repeat(np.arange(len(up)), np.minimum(rng.poisson(0.4 + 0.55 * severity + 0.5 * (kind == 1)), 4))
    test = np.where(rng.random(len(visit)) < 0.5, kind[visit], rng.integers(0, 6, len(visit)))
    result = 1.5 + 0.4 * f[visit] + 0.25 * severity[visit] + rng.normal(0, 0.7, len(up))[visit]
    result = np.clip((result + rng.normal(0, 0.6, len(visit))).round(), 0, 4).astype(int)
    flag = (rng.random(len(visit)) < 0.05 + 0.22 * result).astype(int)
    patients = {"pid": np.arange(units), "region": region, "age": age, "sex": sex, "income": income, "risk": risk}
    below = {"ward": ward, "kind": kind, "severity": severity, "outcome": outcome}
    labs = {"lid": np.arange(len(visit)), "vid": visit, "test": test, "result": result, "flag": flag}
    tables = (("patients", patients), ("visits", {"vid": np.arange(len(up)), "pid": up, **below}), ("labs", labs))
    return {name: pd.DataFrame(table) for name, table in tables}


def of_patients(tables: dict[str, pd.DataFrame], some: np.ndarray) -> dict[str, pd.DataFrame]:
    """The rows of some patients."""
    patients, visits, labs = (tables[name] for name in ("patients", "visits", "labs"))
    visits = visits[visits.pid.isin(some)]
    return {"patients": patients[patients.pid.isin(some)], "visits": visits, "labs": labs[labs.vid.isin(visits.vid)]}


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


def association(db: dpsql.Database, query: str, schema: str) -> float:
    """Cramér's V of the pairs of codes that a query counts in a schema."""
    db.sql(f"USE {schema}")
    found = db.sql(query).fetchall()
    db.sql("USE main")
    joint = np.zeros((10, 10))
    for pair, count in found:
        joint[pair // 10, pair % 10] = count
    joint /= joint.sum()
    expected = np.outer(joint.sum(1), joint.sum(0))
    chi = ((joint - expected)[expected > 0] ** 2 / expected[expected > 0]).sum()
    return float(np.sqrt(chi / max(1, min((joint.sum(1) > 0).sum(), (joint.sum(0) > 0).sum()) - 1)))


def siblings_off(db: dpsql.Database, schema: str) -> float:
    """The mean error of the association of a column of two rows of one parent."""
    found = []
    for table, (key, up) in KEYS.items():
        for column in SIZES[table]:
            query = SIBLINGS.format(table=table, column=column, key=key, up=up)
            found.append(abs(association(db, query, schema) - association(db, query, "main")))
    return float(np.mean(found))


def own_off(db: dpsql.Database, schema: str, columns: int) -> float:
    """The mean L1 distance of the marginals of so many columns of one table."""
    found = []
    for table, sizes in SIZES.items():
        for clique in itertools.combinations(sizes, columns):
            query = f"SELECT {' || '.join(clique)} k, count(*) v FROM {table} GROUP BY 1"
            found.append(far(db, query, ("main", schema), shares=True))
    return float(np.mean(found))


def features(tables: dict[str, pd.DataFrame]) -> np.ndarray:
    """For each patient and each table below: how many rows, the share of each value of each column, and their mean."""
    patients, visits, labs = (tables[name] for name in ("patients", "visits", "labs"))
    of = {"visits": visits, "labs": labs.merge(visits[["vid", "pid"]], on="vid")}
    parts = []
    for table, rows in of.items():
        unit = pd.Index(patients.pid).get_indexer(rows.pid)
        number = np.bincount(unit, minlength=len(patients))[:, None]
        parts.append(number)
        for column, size in SIZES[table].items():
            counts = np.bincount(unit * size + rows[column], minlength=len(patients) * size).reshape(-1, size)
            shares = counts / np.maximum(number, 1)
            parts += [shares, (shares * np.arange(size)).sum(1, keepdims=True)]
    return np.concatenate(parts, 1)


def auc(made: dict[str, pd.DataFrame], held: dict[str, pd.DataFrame]) -> float:
    """How well synthetic patients teach which patients that were held out are of high risk."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=0)
    model.fit(features(made), made["patients"].risk == 2)
    return float(roc_auc_score(held["patients"].risk == 2, model.predict_proba(features(held))[:, 1]))


def main() -> None:
    """Print a line for each ε."""
    tables = simulated()
    order = np.random.default_rng(0).permutation(len(tables["patients"]))
    protected, held = (of_patients(tables, some) for some in np.split(order, [len(order) * 4 // 5]))
    with dpsql.connect() as db:
        protect(db, protected)
        for epsilon in map(float, sys.argv[1:] or ["1"]):
            begun, schema = time.process_time(), f"made_{str(epsilon).replace('.', '_')}"
            rows = db.synthesize("patients", epsilon, linked=True).to_schema(schema)
            seconds, both = time.process_time() - begun, ("main", schema)
            joins = np.mean([far(db, query, both) for query in JOINS])
            link = "SELECT {a} * 10 + {b} k, count(*) v FROM patients JOIN visits USING (pid) GROUP BY 1"
            pairs = [(a, b) for a in SIZES["patients"] for b in SIZES["visits"]]
            links = np.mean([far(db, link.format(a=a, b=b), both, shares=True) for a, b in pairs])
            made = {name: db.sql(f"FROM {schema}.{name}").df().astype(int) for name in SIZES}
            print(
                f"epsilon {epsilon:g}: joins {joins:.3f}, siblings off by {siblings_off(db, schema):.3f}, "
                f"own pairs {own_off(db, schema, 2):.3f}, own triples {own_off(db, schema, 3):.3f}, "
                f"parent x child {links:.3f}, AUC {auc(made, held):.3f}, {seconds:.1f} CPU s, {rows}"
            )


if __name__ == "__main__":
    main()
