"""Joints that constraints tie to each other are drawn together: every row satisfies them, and pairs stay as they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.groups import Together, groups_of
from dpsql.fitting.relaxed.joints import joints_of
from dpsql.fitting.relaxed.rounding import draw_each, round_table
from dpsql.fitting.relaxed.table import Blocks, Joint, RelaxedTable
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Quiet

SIZE, NAMES = 4, tuple("abcdef")
DOMAIN = Domain(tuple(Attribute(name, "INTEGER", "values", tuple(map(str, range(SIZE)))) for name in NAMES))
PAIRS = list(itertools.product(range(SIZE), repeat=2))
EQUAL = np.array([(k, k) for k in range(SIZE)])


def allowed(names: tuple[str, ...], tuples: list[tuple[int, ...]]) -> Allowed:
    codes = np.array(tuples, np.int64)
    return Allowed(names, names, ("declared",), codes, np.zeros(codes.shape))


def two_joints(rows: int, seed: int) -> RelaxedTable:
    """b = a, d = c, and the others by themselves."""
    joints = tuple(Joint(names, EQUAL, np.full(SIZE, 1 / SIZE), np.zeros(SIZE)) for names in (("a", "b"), ("c", "d")))
    draw, blocks = np.random.default_rng(seed), Blocks.of(DOMAIN, joints)
    parts = [draw.dirichlet(np.full(size, 0.3), rows).T for size in blocks.unit_sizes]
    return RelaxedTable(blocks, np.concatenate(parts).astype(np.float32), 100.0)


def satisfies(codes: np.ndarray, part: Allowed) -> bool:
    tuples = {tuple(one) for one in part.codes.tolist()}
    return all(tuple(row) in tuples for row in codes[:, [NAMES.index(n) for n in part.clique]].tolist())


@settings(deadline=None)  # a first draw is slow
@given(st.sets(st.sampled_from(PAIRS), min_size=1), st.sets(st.sampled_from(PAIRS), min_size=1), st.integers(0, 2**32))
def test_every_row_satisfies_every_constraint(first, second, seed):
    """Of columns of two joints, and of a joint and a column by itself."""
    table = two_joints(3, seed)
    declared = [allowed(("b", "c"), sorted(first)), allowed(("d", "e"), sorted(second))]
    groups = groups_of(table.blocks, declared)
    assert sorted(place for group in groups for place in group.places) == list(range(len(NAMES)))
    draw = np.random.default_rng(seed)
    codes = draw_each(table, groups, draw.integers(0, 3, 200), draw)
    assert all(satisfies(codes, part) for part in declared)


def test_pairs_stay_joined_across_a_constraint():
    """Only b = c = 3 or neither: few draws are forbidden, and none of the others is touched."""
    table = two_joints(8, 3)
    loose = allowed(("b", "c"), [(b, c) for b, c in PAIRS if (b == 3) == (c == 3)])
    (group,) = [group for group in groups_of(table.blocks, [loose]) if isinstance(group, Together)]
    assert group.places == (0, 1, 2, 3)
    rows = round_table(table, 2000, [("a", "b"), ("c", "d"), ("b", "c")], np.random.default_rng(0), Quiet(), [loose])
    assert satisfies(rows, loose)
    assert (rows[:, 0] == rows[:, 1]).mean() > 0.99  # relaxed rows that hardly allow it are drawn without joints
    assert (rows[:, 2] == rows[:, 3]).mean() > 0.99


def test_a_forbidden_row_keeps_one_of_its_values():
    """Against the exact distribution of one relaxed row; each of 16 shares is within 5 deviations, the seed is fixed."""
    table = two_joints(1, 5)
    loose = allowed(("b", "c"), [(b, c) for b, c in PAIRS if b != c])
    draw, rows = np.random.default_rng(1), 20_000
    codes = draw_each(table, groups_of(table.blocks, [loose]), np.zeros(rows, np.int64), draw)
    first, second = (table.part((name,))[:, 0].astype(float) for name in "bc")
    exact, forbidden = np.outer(first, second), first * second
    others = 1 - np.eye(SIZE)
    exact = others * (
        exact + (forbidden / (1 - second))[:, None] * second / 2 + first[:, None] * forbidden / (1 - first) / 2
    )
    assert exact.sum() == pytest.approx(1)
    seen = np.zeros((SIZE, SIZE))
    np.add.at(seen, (codes[:, 1], codes[:, 2]), 1 / rows)
    assert (np.abs(seen - exact) < 5 * np.sqrt(exact / rows) + 1e-3).all()


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(("first", "second"), [(0.1, 0.1), (0.02, 0.06), (0.5, 0.9)])
def test_what_is_missing_together_is_missing_as_often(joined, first, second):
    """Of columns that are NULL together, relaxed rows say how often; the product of both would square that."""
    rows, last = 40_000, SIZE - 1
    joints = (Joint(("a", "b"), EQUAL, np.full(SIZE, 1 / SIZE), np.zeros(SIZE)),) if joined else ()
    blocks = Blocks.of(DOMAIN, joints)
    shares = {"a": first, "b": first, "c": second}
    parts = [shares.get(unit[0], 0.25) for unit in (["ab", *"cdef"] if joined else [*"abcdef"])]
    columns = [np.array([*[(1 - part) / last] * last, part]) for part in parts]
    table = RelaxedTable(blocks, np.concatenate(columns)[:, None].astype(np.float32), float(rows))
    both = allowed(("b", "c"), [(b, c) for b, c in PAIRS if (b == last) == (c == last)])
    codes = draw_each(table, groups_of(blocks, [both]), np.zeros(rows, np.int64), np.random.default_rng(2))
    assert satisfies(codes, both)
    share = (first + second) / 2
    assert abs((codes[:, 1] == last).mean() - share) < 5 * np.sqrt(share * (1 - share) / rows)


@settings(deadline=None)  # a first draw is slow
@given(st.sets(st.tuples(*[st.integers(0, SIZE - 1)] * 3), min_size=1), st.integers(0, 2**32))
def test_constraints_over_three_columns_hold_in_every_row(tuples, seed):
    table = two_joints(3, seed)
    part, draw = allowed(("a", "c", "e"), sorted(tuples)), np.random.default_rng(seed)
    codes = draw_each(table, groups_of(table.blocks, [part]), draw.integers(0, 3, 200), draw)
    assert satisfies(codes, part)


@pytest.mark.parametrize(("loose", "joined"), [(True, [("a", "b")]), (False, [("a", "b", "c")])])
def test_a_ridge_goes_before_a_constraint_that_allows_most(loose, joined):
    size, rows = 40, 100_000
    ridge = np.eye(size) * rows / size
    domain = Domain(tuple(Attribute(n, "INTEGER", "bins", ticks=tuple(range(size + 1))) for n in "abc"))
    ones = [Target((n,), (size,), np.full(size, rows / size), 1.0) for n in "abc"]
    pair = Target(("a", "b"), ridge.shape, ridge.ravel(), 25.0)
    both = [(b, c) for b in range(size) for c in range(size) if ((b == 0) == (c == 0) if loose else b == c)]
    joints = joints_of(domain, [pair], ones, rows, [allowed(("b", "c"), both)], [pair])
    assert [joint.names for joint in joints] == joined
