"""The simulated tables of the benchmark are what they say, by the measures."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from dpsql.utility.associations import information
from dpsql.utility.coded import Coded

MADE = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "simulated.py"))


def dependences(table):
    names, sizes = list(table.sizes), tuple(table.sizes.values())
    coded = Coded(table.codes, table.codes, sizes, (0,) * len(sizes))

    def between(first: str, second: str) -> float:
        found = coded.marginals((names.index(first), names.index(second)))
        return information(found, found.real)

    return between


@pytest.mark.parametrize(("name", "columns"), [("linked", 24), ("long", 12), ("survey", 24)])
def test_codes_are_in_their_domains_and_nothing_impossible_is_there(name, columns):
    table = MADE[name](5000)
    names = list(table.sizes)
    assert table.codes.shape == (5000, columns)
    Coded(table.codes, table.codes, tuple(table.sizes.values()), (0,) * columns)  # checks the codes
    for pair, cells in table.impossible.items():
        first, second = (table.codes[:, names.index(one)] for one in pair)
        assert not cells[first, second].any()
        assert cells.any()
    assert {*table.ordered} < {*names}
    assert np.array_equal(MADE[name](5000).codes, table.codes)


def test_the_dependences_are_known():
    between = dependences(MADE["linked"](5000))
    assert between("site", "site_code") == pytest.approx(1)
    assert between("area", "region") == pytest.approx(1)
    assert 0.85 < between("product", "package") < 0.97
    chain = [between("stage_0", f"stage_{place}") for place in (1, 2, 3)]
    assert chain[0] > chain[1] > chain[2] > 0.05
    assert between("spend", "income") > 0.3
    assert max(between("left", "parity"), between("right", "parity"), between("left", "right")) < 0.005
    assert between("age", "income") < 0.15  # independent: what few rows in many cells make up
    assert dependences(MADE["long"](20_000))("age", "band") == pytest.approx(1)


def test_skipped_questions_follow_from_another_answer():
    table = MADE["survey"](7634)
    codes = dict(zip(table.sizes, table.codes.T, strict=True))
    assert np.array_equal(codes["occupation"] > 0, codes["work"] < 2)
    assert np.array_equal(codes["kid_age"] > 0, codes["kids"] > 0)
    between = dependences(table)
    assert between("smokes", "cigarettes") > 0.5
    assert between("medicine", "target") > 0.5
    assert between("mode", "target") < 0.005


def test_a_column_of_100_values():
    assert max(MADE["long"](1000).sizes.values()) == 100
