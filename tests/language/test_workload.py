"""The workload language: golden pairs of what is accepted and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.domain import Attribute, Domain
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, DpsqlError
from dpsql.language.workloads import default_workload, parse_workload

FIXTURES = Path(__file__).parents[1] / "fixtures" / "workload"
SIZES = {"age": 6, "sex": 3, "mood": 4, "sick": 3}
SOURCE = ("memory", "main", "people")


def domain_of(sizes: dict[str, int]) -> Domain:
    return Domain(tuple(Attribute(n, "INTEGER", "values", tuple(map(str, range(s)))) for n, s in sizes.items()))


PEOPLE = domain_of(SIZES)


def golden(name: str) -> list[tuple[str, str]]:
    lines = (FIXTURES / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return [tuple(line.rsplit(" -> ", 1)) for line in lines if not line.startswith("--")]


@pytest.mark.parametrize(("sql", "expected"), golden("accepted"))
def test_accepted(sql, expected):
    workload = parse_workload(sql, SOURCE, PEOPLE)
    found = [" ".join(clique) for clique in workload.cliques]
    found += [f"{threshold.least} of {' '.join(threshold.clique)}" for threshold in workload.thresholds]
    assert " | ".join(found) == expected


@pytest.mark.parametrize(("sql", "reason"), golden("refused"))
def test_refused(sql, reason):
    with pytest.raises(DpsqlError) as caught:
        parse_workload(sql, SOURCE, PEOPLE)
    assert reason in str(caught.value)


def test_random_is_numpys_choice_over_combinations():
    columns = [f"c{i}" for i in range(14)]
    domain = domain_of(dict.fromkeys(columns, 2))
    everything = list(itertools.combinations(columns, 3))
    chosen = np.random.default_rng(0).choice(len(everything), 64, replace=False)
    cliques = parse_workload("64 random 3-way seed 0", SOURCE, domain).cliques
    assert cliques == tuple(everything[i] for i in chosen)


def test_default_falls_back_where_3_way_is_too_large():
    assert {len(c) for c in default_workload(PEOPLE).cliques} == {3}
    assert {len(c) for c in default_workload(domain_of({"a": 2, "b": 3})).cliques} == {2}
    assert {len(c) for c in default_workload(domain_of({f"c{i}": 400 for i in range(12)})).cliques} == {2}
    assert {len(c) for c in default_workload(domain_of({f"c{i}": 30_000 for i in range(9)})).cliques} == {1}
    assert {len(c) for c in default_workload(domain_of({f"c{i}": 2 for i in range(120)})).cliques} == {2}


def test_too_large_is_refused():
    huge = domain_of({f"c{i}": 50 for i in range(12)})
    with pytest.raises(DomainTooLarge, match=r"2\.44e\+20"):
        parse_workload("all 12-way", SOURCE, huge)
    with pytest.raises(DomainTooLarge, match="ask for fewer"):
        parse_workload("all 6-way", SOURCE, domain_of({f"c{i}": 2 for i in range(60)}))


def test_closure():
    closure = Workload((("a", "b", "c"), ("b", "d"))).closure()
    assert set(closure) == {
        *itertools.combinations("abc", 1),
        ("d",),
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
        ("b", "d"),
        ("a", "b", "c"),
    }
    assert [len(c) for c in closure] == sorted(len(c) for c in closure)
    assert len(closure) == len(set(closure))


@pytest.mark.medium
def test_deep_nesting_and_long_texts():
    for sql, expected in (
        ("SELECT sex, count(*) FROM people GROUP BY " + "(" * 200 + "sex" + ")" * 200, ("sex",)),
        ("SELECT sex, count(*) FROM people WHERE " + " OR ".join(["sick"] * 10_000) + " GROUP BY sex", ("sex", "sick")),
    ):
        assert parse_workload(sql, SOURCE, PEOPLE).cliques == (expected,)
    for sql in (
        "SELECT sex, count(*) FROM people GROUP BY " + "(" * 30_000 + "sex" + ")" * 30_000,
        "SELECT sex, count(*) FROM people GROUP BY sex" + " " * 2_000_000,
    ):
        with pytest.raises(DpsqlError):
            parse_workload(sql, SOURCE, PEOPLE)


WORDS = [
    "SELECT",
    "FROM",
    "GROUP BY",
    "people",
    "sex",
    "mood",
    "count(*)",
    ",",
    "(",
    ")",
    "*",
    "1",
    "'x'",
    ";",
    "ALL",
    "WHERE",
    "AS",
    '"',
    "--",
    "/*",
    "JOIN",
    "CUBE",
    "UNION",
    "\x00",
    "🦆",
    "=",
    "WITH",
]


@pytest.mark.medium
@settings(max_examples=2000, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_random_statements_are_accepted_or_refused(sql):
    """Never another exception, and never a column that is not the table's."""
    try:
        workload = parse_workload(sql, SOURCE, PEOPLE)
    except DpsqlError:
        return
    assert all(set(clique) <= set(SIZES) for clique in workload.cliques)


def test_weights():
    """A hint before the SELECT list; the largest of what is asked twice; what is no weight is refused."""
    sql = "SELECT /*+ weight 3 */ sex, count(*) FROM people GROUP BY sex; SELECT mood, count(*) FROM people GROUP BY 1"
    assert parse_workload(sql, SOURCE, PEOPLE).weights == ((("sex",), 3.0),)
    twice = sql + "; SELECT /*+ weight 0.5 */ sex, count(*) FROM people GROUP BY sex"
    assert parse_workload(twice, SOURCE, PEOPLE).weights == ((("sex",), 3.0),)
    for hint in ("weight 0", "weight -1", "weight many", "weight nan", "wait 3"):
        with pytest.raises(DpsqlError, match="say /\\*\\+ weight 3"):
            parse_workload(f"SELECT /*+ {hint} */ sex, count(*) FROM people GROUP BY sex", SOURCE, PEOPLE)


@pytest.mark.medium
def test_a_heavier_marginal_is_measured_better(people):
    """Eight times the weight is four times the share of its order."""
    sql = "SELECT {} sex, mood, count(*) FROM people GROUP BY ALL; SELECT mood, sick, count(*) FROM people GROUP BY ALL"
    plan = "SELECT rho FROM dp_plan('people', epsilon := 1.0, workload := ?, assume_rows := 100000) WHERE marginal = ?"
    share = {}
    for hint in ("", "/*+ weight 8 */"):
        share[hint] = [
            people.sql(plan, [sql.format(hint), m]).fetchall()[0][0] for m in (["sex", "mood"], ["mood", "sick"])
        ]
    before, after = (a / b for a, b in share.values())
    assert after / before == pytest.approx(4, rel=0.01)


def test_a_workload_over_a_view(people):
    people.sql("CREATE VIEW women AS SELECT mood AS m, sick FROM people WHERE sex = 'F'")
    sql = "SELECT m, count(*) FROM women GROUP BY m"
    rows = people.sql(
        "SELECT marginal FROM dp_plan('people', epsilon := 1.0, workload := ?, assume_rows := 10000)", [sql]
    ).fetchall()
    assert (["sex", "mood"],) in rows
