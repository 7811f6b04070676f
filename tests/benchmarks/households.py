"""How near synthetic households with their persons are to real ones: `python -m tests.benchmarks.households FOLDER 1 0.1 …`.

FOLDER holds households.csv and persons.csv of the package `activitysim` (examples/production_semcog/data). Each ε is run
without roles and with them: one head in each household (or one person in group quarters), at most one spouse. At last
it is run with rules, too: children are younger than the head, whose age the household states, and there is a spouse where the
household is one of a married couple.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpsql
from tests.benchmarks.linked import far

AGES = [5, 13, 18, 21, 25, 30, 40, 50, 60, 70, 80]
MIDDLES = [2, 9, 15, 19, 22.5, 27, 34.5, 44.5, 54.5, 64.5, 74.5, 85]
INCOMES = [10_000, 20_000, 35_000, 50_000, 75_000, 100_000, 150_000]
COUPLES = "persons a JOIN persons b USING (hid) WHERE a.relate = 0 AND b.relate = 1"
JOINS = [
    "SELECT income k, count(*) v FROM households JOIN persons USING (hid) WHERE age <= 2 GROUP BY 1",
    "SELECT income k, count(pid)::DOUBLE v FROM households LEFT JOIN persons USING (hid) GROUP BY 1",
    "SELECT n k, count(*) v FROM (SELECT hid, count(*) n FROM persons GROUP BY 1) GROUP BY 1",
    "SELECT w k, count(*) v FROM (SELECT hid, count(*) FILTER (esr <= 1) w FROM persons GROUP BY 1) GROUP BY 1",
    "SELECT hht k, count(*) v FROM households SEMI JOIN (FROM persons WHERE age >= 9) USING (hid) GROUP BY 1",
    f"SELECT a.age * 12 + b.age k, count(*) v FROM {COUPLES} GROUP BY 1",
    "SELECT age k, count(*) v FROM persons SEMI JOIN (FROM persons WHERE relate IN (2, 3, 4)) p USING (hid) "
    "WHERE relate = 0 GROUP BY 1",
    f"SELECT a.esr * 5 + b.esr k, count(*) v FROM {COUPLES} GROUP BY 1",
]
POSSIBLE = """
    WITH h AS (
        SELECT hid, any_value(hht) AS hht, any_value(age_of_head) AS stated,
            count(*) FILTER (relate IN (0, 17)) AS heads, count(*) FILTER (relate = 1) AS spouses,
            any_value(age) FILTER (relate IN (0, 17)) AS head, max(age) FILTER (relate IN (2, 3, 4)) AS eldest
        FROM households LEFT JOIN persons USING (hid) GROUP BY hid)
    SELECT avg((heads = 1)::INT), max(spouses), avg((heads = 1 AND spouses = (hht = 1)::INT AND head = stated
        AND coalesce(eldest < head, true))::INT) FROM h
"""
RULES = [
    ("persons", "relate NOT IN (2, 3, 4) OR age < head.age"),
    ("households", "head.age = age_of_head"),
    ("households", "(spouse IS NOT NULL) = (hht = 1)"),
]
SEXES = f"SELECT a.sex * 2 + b.sex k, count(*) v FROM {COUPLES} GROUP BY 1"
SIZES = {"cars": 6, "income": 8, "hht": 8, "age_of_head": 12, "relate": 18, "age": 12, "sex": 2, "esr": 5}


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Households and persons, in codes."""
    h, p = pd.read_csv(folder / "households.csv"), pd.read_csv(folder / "persons.csv")
    number = pd.Series(np.arange(len(h)), h.household_id)
    households = {
        "hid": np.arange(len(h)),
        "cars": np.where(h.cars < 0, 5, np.minimum(h.cars, 4)).astype(int),
        "income": np.digitize(h.hincp, INCOMES),
        "hht": h.hht.to_numpy(int),
        "age_of_head": np.digitize(h.age_of_head, AGES),
    }
    persons = {
        "pid": np.arange(len(p)),
        "hid": number[p.household_id].to_numpy(),
        "relate": p.relate.to_numpy(int),
        "age": np.digitize(p.age, AGES),
        "sex": p.sex.to_numpy(int) - 1,
        "esr": p.esr.map({1: 0, 2: 1, 3: 2, 6: 3}).fillna(4).to_numpy(int),
    }
    return {"households": pd.DataFrame(households), "persons": pd.DataFrame(persons)}


def protect(db: dpsql.Database, found: dict[str, pd.DataFrame], *, roles: bool) -> None:
    """Load the tables and declare all that is public of them."""
    for name, frame in found.items():
        db.connection.register("frame", frame)
        db.sql(f"CREATE TABLE {name} AS FROM frame")
        db.sql(f"ALTER TABLE {name} ADD PRIMARY KEY ({frame.columns[0]})")
    db.protect("households", epsilon=100, delta=1e-9)
    said = {"one_of": {"head": "relate IN (0, 17)"}, "at_most_one": {"spouse": "relate = 1"}} if roles else {}
    db.link("persons", "households", key=["hid"], most=11, **said)
    for name, frame in found.items():
        for column in frame.columns.intersection(list(SIZES)):
            db.sql(f"CALL dp_domain('{name}', '{column}', lower := 0, upper := {SIZES[column] - 1})").fetchall()


def shown(db: dpsql.Database) -> str:
    """What is so of the households of a schema."""
    one, spouses, possible = db.sql(POSSIBLE).fetchall()[0]
    gaps = db.sql(f"SELECT a.age, b.age FROM {COUPLES}").fetchall()
    gap = np.mean([abs(MIDDLES[a] - MIDDLES[b]) for a, b in gaps])
    return (
        f"one head {one:.3f}, most spouses {spouses}, possible {possible:.3f}, couples {len(gaps)}, age gap {gap:.2f}"
    )


def main() -> None:
    """Print a line for each ε, without roles and with them."""
    found = tables(Path(sys.argv[1]))
    for words in ("without roles", "with roles", "with roles and rules"):
        with dpsql.connect() as db:
            protect(db, found, roles=words != "without roles")
            for table, rule in RULES if "rules" in words else ():
                db.constraint(table, rule)
            print("real:", shown(db))
            for epsilon in map(float, sys.argv[2:] or ["1"]):
                begun, schema = time.process_time(), f"made_{str(epsilon).replace('.', '_')}"
                rows = db.synthesize("persons", epsilon, linked=True).to_schema(schema)
                seconds, both = time.process_time() - begun, ("main", schema)
                joins = np.mean([far(db, query, both) for query in JOINS])
                db.sql(f"USE {schema}")
                print(
                    f"epsilon {epsilon:g}, {words}: {shown(db)}, joins {joins:.3f}, "
                    f"sex x sex of couples {far(db, SEXES, both, shares=True):.3f}, {seconds:.1f} CPU s, {rows}"
                )
                db.sql("USE main")


if __name__ == "__main__":
    main()
