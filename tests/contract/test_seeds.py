"""What tests draw is of a seed, their own name, and is the same in each run; by the mark `chance` it is the system's."""

from __future__ import annotations

import secrets

import numpy as np
import pytest

import dpsql
from tests import seeds

DOORS = {
    "the noise of answers": "SELECT list(n) FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon := 0.5)",
    "the rows of a table": "SELECT list(a) FROM dp_synthesize('t', epsilon := 0.5, mechanism := 'direct', rows := 90)",
}


def drawn(call: str) -> object:
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 20 AS a FROM range(900) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-9)
        db.domain("t", "a", lower=0, upper=19)
        return db.sql(call).fetchall()


@pytest.mark.medium
@pytest.mark.parametrize("door", DOORS)
def test_a_seed_decides_what_is_drawn(door):
    found = []
    for name in ("one", "one", "two"):
        with seeds.seed(name):
            found.append(drawn(DOORS[door]))
    assert found[0] == found[1] != found[2]


def test_a_seed_decides_generators_and_secrets():
    found = []
    for name in ("one", "one", "two"):
        with seeds.seed(name):
            found.append((np.random.default_rng().random(), secrets.token_hex(32), secrets.token_hex(32)))
    assert found[0] == found[1]
    assert len({*found[0][1:], *found[2][1:]}) == 4


@pytest.fixture(scope="module")
def shared():
    return seeds.draw(8)


def test_what_tests_share_is_not_of_the_test_that_is_first(shared):
    with seeds.seed("tests/contract/test_seeds.py::shared[]"):
        assert seeds.draw(8) == shared


@pytest.mark.chance(1e-20, "twenty counts with noise of deviation 9 are the same, or 256 bits")
def test_a_test_with_the_mark_draws_from_the_system():
    with seeds.seed("one"):
        first = drawn(DOORS["the noise of answers"]), secrets.token_hex(32)
    with seeds.seed("one"):
        assert first[0] != drawn(DOORS["the noise of answers"])
        assert first[1] != secrets.token_hex(32)
