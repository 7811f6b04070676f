"""Which tests a run of CI takes: each has its turn, and tests of promises and fast ones are in every run."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.conftest import WHOLE, _part

TURNS = [str(number) for number in range(40)]


@dataclass
class Item:
    """As much of a test as says whether it is taken."""

    nodeid: str
    tiers: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> bool | None:
        """Whether it has that mark."""
        return name in self.tiers or None


def items(*tiers, folder="tests/report/"):
    parameters = [f"[{number}]" for number in range(6)]
    return [Item(f"{folder}test_it.py::test_{name}{p}", tiers) for name in "abcdefgh" for p in parameters]


def taken(of, turn):
    return {item.nodeid for item in _part(of, 3, turn)}


@pytest.mark.parametrize("tier", ["medium", "slow"])
def test_each_has_its_turn(tier):
    every = {item.nodeid for item in items(tier)}
    runs = [taken(items(tier), turn) for turn in TURNS]
    assert set.union(*runs) == every
    assert max(map(len, runs)) < len(every)
    assert taken(items(tier), TURNS[0]) == runs[0]


@pytest.mark.parametrize("folder", WHOLE)
def test_promises_are_in_every_run(folder):
    promises = items("medium", folder=folder)
    assert all(taken(promises, turn) == {item.nodeid for item in promises} for turn in TURNS)


def test_fast_ones_are_in_every_run():
    assert all(len(taken(items(), turn)) == len(items()) for turn in TURNS)


def test_of_a_test_whose_turn_it_is_both_ends_are_taken():
    for turn in TURNS:
        chosen = taken(items("medium"), turn)
        for name in {nodeid.partition("[")[0] for nodeid in chosen}:
            assert {f"{name}[0]", f"{name}[5]"} <= chosen
