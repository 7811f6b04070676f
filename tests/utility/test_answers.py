"""Answers of workloads and groups, beside plain loops over rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import InvalidArgument
from dpsql.utility.answers import answers
from dpsql.utility.coded import Coded
from dpsql.utility.groups import FAR, groups
from tests.utility.test_associations import SIZES, l1, shares, tables


@given(tables(), st.data())
@settings(max_examples=60, deadline=None)
def test_every_answer_is_looked_at(both, data):
    columns = tuple(data.draw(st.permutations(range(4)))[: data.draw(st.integers(1, 3))])
    least = data.draw(st.one_of(st.none(), st.integers(1, len(columns))))
    found = answers(both, [(columns, least)])
    gaps, largest = [], 0.0
    for y in itertools.product(*(range(SIZES[column]) for column in columns)):
        matched = [
            (rows[:, columns] == y).sum(axis=1) >= (least or len(columns)) for rows in (both.real, both.synthetic)
        ]
        p, q = (float(one.mean()) for one in matched)
        gaps.append(abs(p - q))
        largest = max(largest, p)
    assert found.largest == pytest.approx(max(gaps))
    assert found.zeros == pytest.approx(largest)
    assert found.rmse == pytest.approx(math.sqrt(sum(gap**2 for gap in gaps) / len(gaps)))
    if least is None:
        assert found.l1 == pytest.approx(l1(both, columns)[0])
    else:
        assert (found.l1, found.families) == (None, 1)


@given(tables())
@settings(max_examples=60, deadline=None)
def test_groups(both):
    found = groups(both, [1])
    expected = []
    for value in sorted(set(both.real[:, 1].tolist())):
        p, q = (rows[rows[:, 1] == value] for rows in (both.real, both.synthetic))
        if not len(q):
            expected.append(2.0)
            continue
        apart = []
        for pair in itertools.combinations((0, 2, 3), 2):
            a, b = shares(p, pair), shares(q, pair)
            apart.append(sum(abs(a.get(cell, 0) - b.get(cell, 0)) for cell in {*a, *b}))
        expected.append(float(np.mean(apart)))
    assert found.each == pytest.approx(sorted(expected))
    assert found.error == pytest.approx(np.mean(expected))
    assert found.punished == 0


@pytest.mark.parametrize(("more", "punished"), [(FAR, 0), (FAR + 1, 1)])
def test_a_group_of_another_size_is_punished(more, punished):
    real = np.zeros((1000, 2), int)
    found = groups(Coded(real, np.zeros((1000 + more, 2), int), (2, 2), (0, 0)), [0])
    assert (found.error, found.punished) == (2.0 * punished, punished)


def test_nothing_is_asked():
    both = Coded(np.zeros((1, 2), int), np.zeros((1, 2), int), (2, 2), (0, 0))
    with pytest.raises(InvalidArgument, match="name at least one marginal"):
        answers(both, [])
    with pytest.raises(InvalidArgument, match="leave at least one column out"):
        groups(both, [0, 1])
