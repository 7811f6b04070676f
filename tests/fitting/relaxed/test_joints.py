"""Joined columns: their table answers as its rows say, what is left out has probability 0, and weak pairs stay apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.believed_pairs import believed_pairs
from dpsql.fitting.relaxed.fit_marginals import fit_marginals
from dpsql.fitting.relaxed.groups import groups_of
from dpsql.fitting.relaxed.joints import joints_of
from dpsql.fitting.relaxed.rounding import round_table
from dpsql.fitting.relaxed.settings import Settings, one_way_prior
from dpsql.fitting.relaxed.strong_pairs import information, tell
from dpsql.fitting.relaxed.table import Blocks, Joint, RelaxedTable
from dpsql.fitting.relaxed.views import Views
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Quiet

SIZES = (3, 4, 3, 5)
NAMES = ("a", "b", "c", "d")
DOMAIN = Domain(
    tuple(
        Attribute(name, "INTEGER", "values", tuple(map(str, range(size))))
        for name, size in zip(NAMES, SIZES, strict=True)
    )
)
ROWS = 4000


def allowed(names: tuple[str, ...], tuples: list[tuple[int, ...]]) -> Allowed:
    codes = np.array(tuples, np.int64)
    return Allowed(names, names, ("declared",), codes, np.zeros(codes.shape))


def tables() -> np.ndarray:
    """Rows in which c = a, b and d are by themselves."""
    generator = np.random.default_rng(0)
    columns = [generator.integers(0, size, ROWS) for size in SIZES]
    columns[2] = columns[0]
    return np.stack(columns, axis=1)


def measured(rows: np.ndarray, stddev: float) -> list[Target]:
    generator, found = np.random.default_rng(1), []
    for clique in (c for k in (1, 2, 3) for c in itertools.combinations(NAMES, k)):
        cells = np.ravel_multi_index(tuple(rows[:, NAMES.index(name)] for name in clique), DOMAIN.shape(clique))
        counts = np.bincount(cells, minlength=DOMAIN.size(clique)) + generator.normal(0, stddev, DOMAIN.size(clique))
        found.append(Target(clique, DOMAIN.shape(clique), counts, stddev**2, 1 / (2 * stddev**2)))
    return found


def joined_table() -> tuple[RelaxedTable, np.ndarray]:
    """A table of random rows with (a, c) joined, two tuples left out; its distribution over all of a, b, c, d."""
    tuples = np.array([(a, c) for a in range(3) for c in range(3) if (a, c) not in ((0, 1), (2, 0))])
    joint = Joint(("a", "c"), tuples, np.full(7, 1 / 7), np.zeros(7))
    blocks = Blocks.of(DOMAIN, (joint,))
    generator, whole = np.random.default_rng(2), np.zeros(SIZES)
    parts = [generator.dirichlet(np.ones(size), 6).T.astype(np.float32) for size in (7, 4, 5)]
    for row in range(6):
        pair = np.zeros((3, 3))
        pair[tuple(tuples.T)] = parts[0][:, row]
        whole += np.einsum("ac,b,d->abcd", pair, parts[1][:, row], parts[2][:, row]) / 6
    return RelaxedTable(blocks, np.concatenate(parts), 100.0), whole


@pytest.mark.parametrize("clique", [c for k in (1, 2, 3, 4) for c in itertools.combinations(NAMES, k)])
def test_a_joined_table_answers_every_marginal_as_its_distribution(clique):
    table, whole = joined_table()
    wanted = whole.sum(axis=tuple(k for k, name in enumerate(NAMES) if name not in clique)).ravel()
    assert np.allclose(table.project(clique), wanted, atol=1e-6)
    assert np.allclose(table.answers(clique, np.arange(wanted.size)), wanted, atol=1e-6)


def test_views_sum_what_the_table_sums():
    table, _ = joined_table()
    targets = [
        Target(c, DOMAIN.shape(c), table.project(c).astype(float), 1.0) for c in (("a",), ("c",), ("a", "b", "c"))
    ]
    views = Views.of(table.blocks, targets)
    p = table.probabilities
    summed = np.zeros((views.rows, p.shape[1]))
    for cells in views.sums:
        np.add.at(summed, cells, p[: len(cells)])
    rows = np.concatenate([p, summed])
    seen = RelaxedTable(views.blocks, rows, 100.0)
    for one in map(views.target, targets):
        assert np.allclose(seen.project(one.clique), one.values, atol=1e-6)


@pytest.mark.medium
def test_a_strong_pair_is_joined_and_one_row_holds_it():
    known = measured(tables(), 5.0)
    strong = [one for one in known if one.clique == ("a", "c")]
    joints = joints_of(DOMAIN, strong, known, ROWS)
    assert [joint.names for joint in joints] == [("a", "c")]

    def error(joints: tuple[Joint, ...]) -> float:
        fit = fit_marginals(DOMAIN, known, ROWS, Settings(rows=1, steps=60, joints=joints), 0, Quiet())
        return float(np.abs(fit.model.project(("a", "c")) - np.eye(3).ravel() / 3).sum())

    assert error(joints) < 0.1
    assert error(()) > 0.5  # the same row without a joint can only have independent columns


def _children(together: float) -> tuple[Domain, list[Target], list[Target]]:
    """Two children of two columns, whom half of the units lack: their columns, and pairs of one child and of siblings."""
    names = [f"v[{child}].{column}" for child in (1, 2) for column in ("a", "b")]
    attributes = [Attribute(name, "VARCHAR", "values", tuple("uvwxyz"), nullable=False, absent=True) for name in names]
    size, absent = attributes[0].size, attributes[0].absent_code
    alone = np.zeros(size)
    alone[:6], alone[absent] = 1 / 6, 1
    chance, same = np.outer(alone[:6], alone[:6]), np.diag(alone[:6])

    def pair(one: str, two: str, share: float) -> Target:
        counts = np.zeros((size, size))
        counts[:6, :6], counts[absent, absent] = (1 - share) * chance + share * same, 1
        return Target((one, two), counts.shape, counts.ravel() * ROWS / 2, 1.0)

    pairs = [pair(*names[:2], together), pair(*names[2:], together), pair(*names[::2], 0.9), pair(*names[1::2], 0.9)]
    return Domain(tuple(attributes)), pairs, [Target((name,), (size,), alone * ROWS / 2, 1.0) for name in names]


@pytest.mark.parametrize(
    ("together", "joined"),
    [(0.0, {("v[1].a", "v[2].a"), ("v[1].b", "v[2].b")}), (0.7, {("v[1].a", "v[1].b"), ("v[2].a", "v[2].b")})],
)
def test_columns_of_a_child_are_joined_for_what_its_rows_say_and_not_because_it_is_absent(together, joined):
    domain, pairs, columns = _children(together)
    assert all(information(pair) > 0.6 for pair in pairs)  # absence alone has as many nats
    assert {joint.names for joint in joints_of(domain, pairs, columns, ROWS)} == joined


@pytest.mark.medium
def test_what_a_constraint_forbids_has_probability_0_in_the_fit():
    fact = allowed(("a", "c"), [(0, 0), (1, 1), (2, 2)])
    known = measured(tables(), 60.0)  # noise that alone would leave mass elsewhere
    joints = joints_of(DOMAIN, [], known, ROWS, [fact])
    fit = fit_marginals(DOMAIN, known, ROWS, Settings(rows=8, steps=40, joints=joints), 0, Quiet())
    pair = fit.model.project(("a", "c")).reshape(3, 3)
    assert pair[~np.eye(3, dtype=bool)].tolist() == [0.0] * 6
    assert np.isclose(pair.sum(), 1, atol=1e-5)
    rows = round_table(fit.model, 200, [("a", "c"), ("b", "c")], np.random.default_rng(0), Quiet(), [fact])
    assert (rows[:, 0] == rows[:, 2]).all()


def test_rounding_keeps_constraints_within_a_joint_and_across_one():
    table, _ = joined_table()
    inside = allowed(("a", "c"), [(1, 1), (2, 2)])
    (group,) = [group for group in groups_of(table.blocks, [inside]) if len(group.places) > 1]
    assert group.tuples.tolist() == [[1, 1], [2, 2]]
    across = allowed(("a", "b"), [(0, 0), (1, 3)])
    groups = groups_of(table.blocks, [across])
    assert sorted(group.places for group in groups) == [(0, 1, 2), (3,)]
    rows = round_table(table, 100, [("a", "b")], np.random.default_rng(0), Quiet(), [across])
    assert {tuple(pair) for pair in rows[:, :2].tolist()} <= {(0, 0), (1, 3)}


def test_columns_of_a_constraint_that_is_too_large_are_not_joined():
    large = Domain(tuple(Attribute(name, "INTEGER", "values", tuple(map(str, range(50)))) for name in "ab"))
    fact = allowed(("a", "b"), [(a, b) for a in range(50) for b in range(50) if a != b])
    assert joints_of(large, [], [], 100.0, [fact]) == ()
    assert len(joints_of(large, [], [], 100.0, [allowed(("a", "b"), [(k, k) for k in range(50)])])) == 1


def test_noise_alone_is_not_believed_and_a_trend_along_ordered_columns_is():
    size, rows, stddev = 16, 20_000.0, 60.0
    ordered = Domain(tuple(Attribute(name, "INTEGER", "bins", ticks=tuple(range(size + 1))) for name in "ab"))
    ones = [Target((name,), (size,), np.full(size, rows / size), 1.0) for name in "ab"]
    prior = one_way_prior(ordered, ones, rows)
    place = np.arange(size) / size - 0.5
    trend = rows / size**2 * (1 + 2.5 * np.outer(place, place))
    generator = np.random.default_rng(0)

    def believed(table: np.ndarray) -> float:
        noise = generator.normal(0, stddev, size**2)
        pair = Target(("a", "b"), (size, size), table.ravel() + noise, stddev**2)
        return sum(map(information, believed_pairs(ordered, prior, [pair], rows)))

    nothing = [believed(np.full((size, size), rows / size**2)) for _ in range(20)]
    true = information(Target(("a", "b"), (size, size), trend.ravel(), 1.0))
    assert np.mean(nothing) < 0.1 * true
    assert 0.5 * true < np.mean([believed(trend) for _ in range(20)]) < 1.5 * true


def agreeing(information: float) -> Target:
    """Counts of (a, c), both uniform over 3 values, with that mutual information."""
    shares = np.linspace(1 / 3, 1, 20_001)  # of the rows in which c = a
    other = (1 - shares) / 2
    nats = np.log(3) + shares * np.log(shares) + 2 * other * np.log(np.maximum(other, 1e-300))
    same = shares[np.argmin(np.abs(nats - information))]
    counts = ROWS / 3 * np.where(np.eye(3, dtype=bool), same, (1 - same) / 2)
    return Target(("a", "c"), (3, 3), counts.ravel(), 1.0)


@pytest.mark.parametrize(("nats", "joined"), [(0.12, []), (0.18, []), (0.22, [("a", "c")]), (0.6, [("a", "c")])])
def test_a_pair_of_less_than_a_fifth_of_a_nat_stays_apart(nats, joined):
    ones = [Target((name,), (3,), np.full(3, ROWS / 3), 1.0) for name in ("a", "c")]
    pair = agreeing(nats)
    assert information(pair) == pytest.approx(nats, abs=0.001)
    assert [joint.names for joint in joints_of(DOMAIN, [pair], ones, ROWS)] == joined


@pytest.mark.parametrize(("nats", "much"), [(0.08, False), (0.12, True)])
def test_a_pair_of_a_tenth_of_a_nat_tells_much(nats, much):
    assert tell([agreeing(0.01), agreeing(nats)]) == much


@pytest.mark.parametrize(("values", "joined"), [(35, [("u", "v")]), (36, [])])
def test_a_pair_of_more_than_700_tuples_stays_apart_and_tells(values, joined):
    columns = (("u", values), ("v", 20))
    sides = Domain(tuple(Attribute(name, "BIGINT", "values", tuple(range(size))) for name, size in columns))
    ones = [Target((one.name,), (one.size,), np.full(one.size, ROWS / one.size), 1.0) for one in sides.attributes]
    counts = np.zeros((values, 20))
    counts[np.arange(20), np.arange(20)] = ROWS / 20
    pair = Target(("u", "v"), counts.shape, counts.ravel(), 1.0)
    assert information(pair) > 2
    assert tell([pair])
    assert [joint.names for joint in joints_of(sides, [pair], ones, ROWS)] == joined


@pytest.mark.parametrize(("pairs", "joined"), [(3, 3), (4, 3), (10, 3), (60, 9)])
def test_joints_have_at_most_2000_tuples_in_all_or_twice_the_width(pairs, joined):
    """Pairs of 25 × 25 values, the later the stronger: a table of sixty has 3,000 values, so ⌊6,000 / 625⌋ = 9 fit."""
    size, names = 25, [f"{side}{n}" for n in range(pairs) for side in "uv"]
    sides = Domain(tuple(Attribute(name, "BIGINT", "values", tuple(range(size))) for name in names))
    ones = [Target((name,), (size,), np.full(size, ROWS / size), 1.0) for name in names]
    found = []
    for n in range(pairs):
        kept = 0.5 + 0.001 * n
        shares = (1 - kept) / size**2 + kept * np.eye(size) / size
        found.append(Target((f"u{n}", f"v{n}"), shares.shape, ROWS * shares.ravel(), 1.0))
    joints = joints_of(sides, found, ones, ROWS)
    assert sum(len(joint.tuples) for joint in joints) <= max(2000, 2 * sides.width)
    assert {joint.names[0] for joint in joints} == {f"u{n}" for n in range(pairs - joined, pairs)}


def test_constraints_take_no_room_from_strong_pairs():
    """Two constraints of 1,500 tuples each, and a strong pair beside them."""
    sizes = {"a": 50, "b": 50, "c": 50, "d": 50, "u": 5, "v": 5}
    sides = Domain(tuple(Attribute(name, "BIGINT", "values", tuple(range(size))) for name, size in sizes.items()))
    ones = [Target((name,), (size,), np.full(size, ROWS / size), 1.0) for name, size in sizes.items()]
    some = [divmod(number, 50) for number in range(1500)]
    declared = [allowed(("a", "b"), some), allowed(("c", "d"), some)]
    pair = Target(("u", "v"), (5, 5), (ROWS / 5 * np.eye(5)).ravel(), 1.0)
    joined = {joint.names for joint in joints_of(sides, [pair], ones, ROWS, declared)}
    assert joined == {("a", "b"), ("c", "d"), ("u", "v")}


def test_a_trend_of_skewed_columns_is_believed_nearer_than_its_noise():
    """Amounts in bins of equal width, most of them in the first few."""
    draw, size, rows, stddev = np.random.default_rng(3), 32, 20_000, 20.0
    level = draw.normal(size=rows)
    first, second = (np.minimum((np.exp(level + 0.7 * draw.normal(size=rows)) * 2).astype(int), size - 1) for _ in "ab")
    table = np.zeros((size, size))
    np.add.at(table, (first, second), 1.0)
    ordered = Domain(tuple(Attribute(name, "INTEGER", "bins", ticks=tuple(range(size + 1))) for name in "ab"))
    ones = [Target(("a",), (size,), table.sum(axis=1), 1.0), Target(("b",), (size,), table.sum(axis=0), 1.0)]
    noisy = Target(("a", "b"), (size, size), table.ravel() + draw.normal(0, stddev, size**2), stddev**2)
    (believed,) = believed_pairs(ordered, one_way_prior(ordered, ones, rows), [noisy], float(rows))
    assert np.abs(believed.values - table.ravel()).sum() < 0.3 * np.abs(noisy.values - table.ravel()).sum()
    assert np.abs(believed.values - table.ravel()).sum() < 0.15 * rows
