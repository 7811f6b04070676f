"""Rows below a parent follow the rows above them and those beside them, as units show that they do."""

from __future__ import annotations

import numpy as np
import pytest

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
