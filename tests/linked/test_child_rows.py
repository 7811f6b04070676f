"""Rows below a parent follow the rows above them and those beside them, as units show that they do."""

from __future__ import annotations

import numpy as np
import pytest

import dpsql
from dpsql.release.child_rows import ChildRows, Places

pytestmark = pytest.mark.medium

UNITS = 4_000
HOMES = 5


def families(seed, number):
    """A column above, and rows with a column that follows it and one in which the rows of a parent are alike."""
    draw = np.random.default_rng(seed)
    above = draw.integers(0, 4, (UNITS, 1))
    home = draw.integers(0, HOMES, UNITS)
    rows = []
    for _ in range(number):
        follows = (above[:, 0] + draw.choice(4, UNITS, p=[0.6, 0.2, 0.1, 0.1])) % 4
        place = np.where(draw.random(UNITS) < 0.6, home, draw.integers(0, HOMES, UNITS))
        rows.append(np.stack([follows, place], axis=1))
    return above, rows


def drawn(above, rows, number, *, pool=None):
    """The next row of each unit, from two of each unit."""
    places = Places.of(above), Places.of(*rows)
    both = np.vstack(rows[:2]), np.vstack(rows[1::-1])
    pool = np.vstack(rows) if pool is None else pool
    child = ChildRows(np.vstack([above] * 2), both[0], both[1], pool, places, np.random.default_rng(9))
    beside = sum(places[1].shown(one) for one in rows[:number])
    return child.draw(above, beside, number)


def same(rows, other):
    """How often two rows of one parent have the same place."""
    return (rows[:, 1] == other[:, 1]).mean()


def test_rows_follow_the_row_above():
    above, rows = families(1, 2)
    third = drawn(above, rows, 2)
    for shift in range(4):
        real, made = ((of[:, 0] == (above[:, 0] + shift) % 4).mean() for of in (rows[0], third))
        assert abs(real - made) < 0.03


@pytest.mark.parametrize("number", [2, 4, 8])
def test_further_rows_are_as_alike_as_two_are(number):
    above, rows = families(2, number)
    alike = same(rows[0], rows[1])
    made = np.mean([same(drawn(above, rows, number), rows[place]) for place in range(number)])
    assert abs(made - alike) < 0.06


def test_rows_are_those_of_units():
    """A value of one column never goes with some values of another."""
    above, rows = families(3, 2)
    ruled = [np.where(part[:, [0]] == 0, [0, 0], part) for part in rows]
    third = drawn(above, ruled, 2)
    assert (third[third[:, 0] == 0][:, 1] == 0).all()
    pool = np.unique(np.vstack(ruled), axis=0)[::2]
    assert {tuple(row) for row in drawn(above, ruled, 2, pool=pool).tolist()} <= {tuple(row) for row in pool.tolist()}


def test_columns_of_many_values_are_left_out_of_what_tells():
    """A number for each value of them would be more than there are units."""
    above, rows = families(4, 2)
    wide = np.hstack([above, np.arange(UNITS)[:, None] % 3_000])
    third = drawn(wide, rows, 2)
    assert abs((third[:, 0] == above[:, 0]).mean() - 0.6) < 0.03


def alike_in(parents, children, values, share):
    """How often two children of a parent have the same value: in the rows, and in synthetic ones nearly without noise."""
    with dpsql.connect() as db:
        db.sql(
            f"CREATE TABLE parents AS SELECT i::INTEGER AS id, ['m', 'f'][1 + i % 2] AS sex FROM range({parents}) r(i)"
        )
        home, other = f"hash(id) % {values}", f"hash(id * 77 + k + 5) % {values}"
        db.sql(
            f"CREATE TABLE children AS SELECT id, (CASE WHEN hash(id * 1000 + k) % 100 < {share} THEN {home} ELSE {other} "
            f"END)::INTEGER AS place FROM parents, range({children}) s(k)"
        )
        db.protect("parents", epsilon=500.0, delta=1e-9)
        db.domain("parents", "sex", values=["m", "f"])
        db.sql(f"CALL dp_link('children', 'parents', key := 'id', \"references\" := 'id', most := {children})")
        db.domain("children", "place", lower=0, upper=values - 1, bins=values)
        db.synthesize("parents", 100.0, linked=True, steps=100).to_schema("made")
        counts = "SELECT id, place, count(*) AS n FROM {} GROUP BY ALL"
        totals = f"SELECT n, sum(n) OVER (PARTITION BY id) AS total FROM ({counts})"
        pairs = f"SELECT sum(n * (n - 1)) / sum(n * (total - 1)) FROM ({totals})"
        return [float(db.sql(pairs.format(name)).fetchall()[0][0]) for name in ("main.children", "made.children")]


def test_many_children_of_a_parent_stay_alike():
    """What is drawn of what was drawn must not end in rows that have nothing in common; they did, and had .5 of it."""
    real, made = alike_in(600, 24, 5, 60)
    assert made >= 0.6 * real


@pytest.mark.parametrize(("values", "learns"), [(4, True), (20, False), (60, False)])
def test_a_likeness_is_learned_only_where_units_show_it(values, learns, monkeypatch):
    """A value of a column has a hundred units, and a column at most 24 values; else rows of alike units are copied."""
    happened, learned = [], ChildRows.draw

    def noted(rows, *wanted):
        happened.append("drawn")
        return learned(rows, *wanted)

    monkeypatch.setattr(ChildRows, "draw", noted)
    alike_in(600, 6, values, 60)
    assert bool(happened) == learns
