"""A mechanism's output is a function of the curator's answers, its options and public facts, and of nothing else.

Each mechanism runs on a table, with its real fits, and its journal is kept. It then runs on an unrelated table with that
journal: every answer is replayed. The outcome must be the same to the bit, and nothing private may be touched. So nothing
but the answers reaches the output, and the privacy of a mechanism is the list of its questions, whose noise
`tests/statistical/test_questions.py` audits.

Between both runs the mechanism runs on the unrelated table afresh: what it might keep in the process is then of that
table, and its outcome must differ, so the comparison can fail.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.books.ledger.store import Books
from dpsql.books.releases import journal, publication
from dpsql.core.domain import Clique
from dpsql.core.linear_family import LinearFamily
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import Threshold
from dpsql.core.workload import Workload
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.errors import Interrupted
from dpsql.mechanisms.base import Mechanism, explicit_options, make, registered
from dpsql.mechanisms.mwem.mwem import MWEM
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows
from .recorded import recorded, short
from .test_mechanisms import FAST, NAMES, domain_of, prior_of

DOMAIN = domain_of(3)
FIRST = np.random.default_rng(1).integers(0, 3, size=(60, 3))
UNRELATED = np.random.default_rng(2).integers(2, 5, size=(23, 3))
PAIRS = Workload((("c0", "c1"), ("c1", "c2")))
ONE = Workload((("c0", "c1"),))
THRESHOLDS = Workload((("c0", "c1"),), (Threshold(("c0", "c1", "c2"), 2),))


def linear(clique: Clique, groups: int) -> LinearFamily:
    """Some weights of a clique's cells, in so many groups."""
    cells = np.arange(DOMAIN.size(clique))
    return LinearFamily(clique, cells % 5 - 2, cells % groups, groups, Fraction(1, 2))


SUMS = Workload((), (), (), (linear(("c0", "c1"), 1), linear(("c1", "c2"), 3)))
BESIDE = Workload((("c0", "c1"),), (), (), SUMS.linear)


@dataclass(frozen=True)
class Case:
    """One path of a mechanism.

    Attributes:
        name: of the mechanism.
        options: those that choose the path.
        workload: what is asked for.
        prior: whether a public table is given.
        earlier: whether an earlier release measured the table.
        neighbours: of the guarantee.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    workload: Workload = ONE
    prior: bool = False
    earlier: bool = False
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def mechanism(self) -> Mechanism:
        return make(self.name, {**FAST[self.name], **self.options})

    def __str__(self) -> str:
        words = [self.name, *(f"{key}={value}" for key, value in self.options.items())]
        words += ["pairs"] * (self.workload is PAIRS) + ["thresholds"] * (self.workload is THRESHOLDS)
        words += ["sums"] * (self.workload is SUMS) + ["sums beside"] * (self.workload is BESIDE)
        words += ["prior"] * self.prior + ["earlier"] * self.earlier
        return "-".join([*words, *([str(self.neighbours), str(self.neighbours.cell)] * (not self.options))])


PATHS = [
    Case("barak", {"noise": "gaussian"}),
    Case("barak", {"objective": "l1"}),
    Case("barak", {"bootstrap": True}),
    Case("barak", {"queries": "fourier", "rounding": "nearest"}),
    Case("barak", earlier=True),
    Case("direct", {"noise": "laplace"}),
    Case("direct", workload=PAIRS, prior=True),
    Case("direct", workload=PAIRS, earlier=True),
    Case("dualquery", {"subsample": True, "sample_rows": 9}),
    Case("dualquery", {"search": "milp"}, PAIRS),
    Case("dualquery", {"search": "local"}),
    Case("dualquery", workload=THRESHOLDS),
    Case("fem", {"noise": 0.0}, PAIRS),
    Case("fem", workload=THRESHOLDS),
    Case("fem", {"search": "milp"}, PAIRS),
    Case("hdmm", {"reconstruct": "least_squares"}, PAIRS),
    Case("hdmm", {"noise": "laplace"}, PAIRS),
    Case("hdmm", {"reconstruct": "pgm"}, PAIRS),
    Case("hdmm", workload=PAIRS, prior=True),
    Case("hdmm", workload=PAIRS, earlier=True),
    Case("ide", {"noise": "gaussian", "marginals": 1}, PAIRS),
    Case("ide", {"ties": "threshold"}),
    Case("ide", {"reach": "cells"}, PAIRS),
    Case("ide", {"reach": "domain", "clear": 2.0}),
    Case("ide", {"method": "exact", "seconds": 9.0}),
    Case("ide", {"region": "c0"}),
    Case("ide", {"region": "c0", "group_by": ("c1",)}),
    Case("ide", {"group_by": ("c1",), "group_prior": False}),
    Case("ide", workload=PAIRS, earlier=True),
    Case("jam", workload=PAIRS),
    Case("jam", workload=PAIRS, earlier=True),
    Case("jam", workload=PAIRS, neighbours=Neighbours.REPLACE_ONE),
    Case("lp", {"noise": "gaussian"}),
    Case("lp", {"objective": "l1"}),
    Case("lp", {"space": "uniform", "bootstrap": True}),
    Case("lp", {"space": "prior"}, prior=True),
    Case("lp", workload=THRESHOLDS),
    Case("lp", workload=PAIRS, prior=True, earlier=True),
    Case("mwem", {"noise": "gaussian"}),
    Case("mwem", {"queries": "marginals", "output": "last"}, PAIRS),
    Case("mwem", {"queries": "marginals", "noise": "gaussian", "passes": 3}, PAIRS),
    Case("mwem", {"rounds": "auto"}, PAIRS, earlier=True),
    Case("mwem", workload=THRESHOLDS),
    Case("mwem", {"queries": "marginals", "start": "marginals", "noise": "gaussian"}, THRESHOLDS),
    Case("pgm", {"selection": "mst"}),
    Case("pgm", {"selection": "mst", "merge_rare": True}),
    Case("pgm", {"selection": "aim"}, PAIRS),
    Case("pgm", workload=PAIRS, earlier=True),
    Case("pmwpub", {"rounds": 2}, PAIRS),
    Case("pmwpub", {"rounds": "auto"}, PAIRS, earlier=True),
    Case("pmwpub", {"queries": "cells", "output": "average", "start": "prior"}),
    Case("projection", {"weights": "hdmm"}, PAIRS),
    Case("projection", {"relaxation": "sparsemax", "memory": "4GB"}),
    Case("projection", workload=PAIRS, prior=True),
    Case("projection", workload=PAIRS, earlier=True),
    Case("projection", workload=THRESHOLDS),
    Case("rap", {"rounds": 1}),
    Case("rap", {"rounds": 1, "queries": "marginals"}, PAIRS),
    Case("rap", {"rounds": "auto", "queries_per_round": "auto"}),
    Case("rap", {"relaxation": "softmax", "conversion": "tight"}),
    Case("rap", {"neighbours": "replace_one"}, neighbours=Neighbours.REPLACE_ONE),
    Case("rap", workload=THRESHOLDS),
    Case("rap", workload=PAIRS, earlier=True),
    Case("residual", workload=PAIRS),
    Case("residual", workload=PAIRS, earlier=True),
    *(
        Case(name, options, workload=workload, earlier=workload is BESIDE, neighbours=kind)
        for name, options in (
            ("mwem", {"queries": "marginals", "start": "marginals", "passes": 3}),
            ("mwem", {"queries": "cells"}),
            ("lp", {"noise": "laplace"}),
            ("lp", {"noise": "gaussian", "objective": "l1"}),
            ("direct", {"noise": "laplace"}),
            ("projection", {}),
        )
        for workload, kind in ((SUMS, Neighbours.ADD_REMOVE), (BESIDE, Neighbours.REPLACE_ONE))
    ),
]
"""Every word and switch that an option takes, and what a mechanism does with a prior and earlier measurements."""
CASES = [
    pytest.param(
        case,
        id=str(case),
        marks=[mark for one in NAMES if hasattr(one, "marks") and case.name in one.values for mark in one.marks],
    )
    for case in [*(Case(name, neighbours=kind) for name in sorted(registered()) for kind in RELATIONS), *PATHS]
]


# --- what is compared ------------------------------------------------------------------------------------------------


class Touched(AssertionError):
    """Something that is private was asked for in a replay."""


class NoEntropy:
    """No noise is drawn in a replay."""

    def __call__(self, count: int) -> bytes:
        raise Touched(f"{count} bytes of fresh noise")


class NoCounter:
    """Remembers and refuses every use of it."""

    def __init__(self) -> None:
        object.__setattr__(self, "touched", [])

    def __getattribute__(self, name: str) -> Any:
        touched = object.__getattribute__(self, "touched")
        if name == "touched":
            return touched
        touched.append(name)
        raise Touched(name)


class Recording(Journal):
    """Keeps copies: a mechanism that changes what it was answered changes no record."""

    def append(self, answers):
        super().append(copy.deepcopy(answers))


class Closed(Recording):
    """Holds another run's answers, and refuses new ones."""

    def append(self, answers):
        raise Touched([answer.question.text for answer in answers])


@cache
def earlier_measurements() -> tuple[Measurement, ...]:
    """What an earlier release published."""
    known = Rows(DOMAIN, np.random.default_rng(4).integers(0, 4, size=(40, 3)))
    asked = Curator(known, DOMAIN, Neighbours.ADD_REMOVE, Fraction(2), Journal(), Quiet(), seeded_entropy("earlier"))
    return tuple(asked.measure([(("c1", "c2"), Fraction(1)), (("c0",), Fraction(1))]))


def outcome_of(case: Case, make: Callable[[], Mechanism], counter: Any, journal: Journal, entropy: Any) -> bytes:
    """All that leaves a mechanism: its report, its model's answers and the rows drawn from it."""
    prior = prior_of(DOMAIN) if case.prior or registered()[case.name].needs_prior else None
    earlier = copy.deepcopy(earlier_measurements()) if case.earlier else ()
    rho, neighbours = Fraction(1), case.neighbours
    facts = {"prior": prior, "earlier": earlier, "for_mechanism": True}
    curator = Curator(counter, DOMAIN, neighbours, rho, journal, Quiet(), entropy, **facts)
    mechanism = make()
    mechanism.check(DOMAIN, case.workload, neighbours)
    made = mechanism.run(curator, case.workload, rho, 7, Quiet())
    cliques = [*((name,) for name in DOMAIN.names), *case.workload.needed, DOMAIN.names]
    answers = [made.model.project(clique).tobytes() for clique in cliques]
    rows = made.model.sample(30, np.random.default_rng(3), Quiet())
    report = json.dumps(dict(made.report), sort_keys=True, default=repr)
    parts = [report.encode(), repr(float(made.model.total)).encode(), *answers, rows.astype(np.int64).tobytes()]
    return b"\n".join(parts)


def check_replay(case: Case, make: Callable[[], Mechanism] | None = None) -> list[str]:
    """Raise AssertionError unless the answers to a mechanism's questions alone decide its outcome; returns those."""
    make = make or case.mechanism
    journals, outcomes = [], []
    for seed, rows in (("one", FIRST), ("other", UNRELATED)):
        journals.append(Recording())
        outcomes.append(outcome_of(case, make, Rows(DOMAIN, rows), journals[-1], seeded_entropy(seed)))
    assert outcomes[0] != outcomes[1], "nothing that was asked reaches the outcome: the comparison proves nothing"
    assert journals[0].answers
    nothing = NoCounter()
    again = outcome_of(case, make, nothing, Closed(copy.deepcopy(journals[0].answers)), NoEntropy())
    assert nothing.touched == []
    assert again == outcomes[0], "the outcome depends on more than the curator's answers"
    return [answer.question.text for answer in journals[0].answers]


# --- every mechanism -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_only_the_answers_reach_the_outcome_and_the_questions_are_what_they_were(case):
    questions = check_replay(case)
    if any(key.startswith(f"journal {case.name}-") for key in recorded()):  # of a new mechanism nothing is recorded
        assert short(questions) == recorded()[f"journal {case}"]


SINGLE_VALUED = {("projection", "queries")}
"""Options whose other value is refused by now; they stay in the keys of requests."""


def test_every_path_is_replayed():
    """Of every mechanism each option that is a word, a switch or a list of columns is tried with another value."""
    assert {case.name for case in PATHS} <= {*registered()}
    for name in registered():
        usual = explicit_options(make(name, {}))
        mine = [case for case in PATHS if case.name == name]
        for option, value in usual.items():
            kind = next(f for f in registered()[name].__dataclass_fields__.values() if f.name == option).type
            worded = any(word in str(kind) for word in ("str", "bool", "tuple"))
            if worded and option not in FAST[name] and (name, option) not in SINGLE_VALUED:
                tried = [case.options.get(option, value) for case in mine]
                assert any(one != value for one in tried), f"no case of {name} gives {option}"
        if registered()[name].uses_earlier:
            assert any(case.earlier for case in mine), f"no case of {name} has earlier measurements"
        if registered()[name].takes_prior and not registered()[name].needs_prior:
            assert any(case.prior for case in mine), f"no case of {name} has a prior"


# --- mechanisms that cheat -------------------------------------------------------------------------------------------

_kept: dict[str, int] = {}


class Cheat(MWEM):
    """A mechanism that has its total from a private count, by one of the ways that there are in Python."""

    def peek(self, curator: Curator) -> int:
        raise NotImplementedError  # abstract: each cheat below has a way of its own

    def run(self, curator, workload, rho, seed, progress):
        made = super().run(curator, workload, rho, seed, progress)
        return type(made)(made.model, {**made.report, "rows": self.peek(curator)})


class Reads(Cheat):
    """It counts."""

    def peek(self, curator):
        return int(curator._counter.marginal(()).counts[0])


class Hides(Cheat):
    """It counts, and hides that it was refused."""

    def peek(self, curator):
        try:
            return int(curator._counter.marginal(()).counts[0])
        except AssertionError:
            return 60


class Exploits(Cheat):
    """It takes an exact marginal that the curator has counted."""

    def peek(self, curator):
        return sum(int(exact.counts.sum()) for exact in curator._exact.values())


class Digs(Cheat):
    """It takes the rows themselves."""

    def peek(self, curator):
        return len(curator._counter._rows)


class Listens(Cheat):
    """It is called with the exact errors' candidates: how often it is asked tells whether anything was counted."""

    def run(self, curator, workload, rho, seed, progress):
        asked = []
        select = curator.select_cells

        def counted(families, answers, *how, **more):
            return select(families, lambda family: (asked.append(family), answers(family))[1], *how, **more)

        curator.select_cells = counted
        made = MWEM.run(self, curator, workload, rho, seed, progress)
        return type(made)(made.model, {**made.report, "asked": len(asked)})


class Remembers(Cheat):
    """It counts once in a process, and tells that number from then on where it cannot count."""

    def peek(self, curator):
        exact = curator._exact
        if exact:
            _kept["rows"] = sum(int(one.counts.sum()) for one in exact.values())
        return _kept["rows"]


class Draws(Cheat):
    """Its own randomness, unlike the curator's, is that of the process."""

    def peek(self, curator):
        return int(np.random.default_rng().integers(1 << 60))


@pytest.mark.parametrize("cheat", [Reads, Hides, Exploits, Digs, Listens, Remembers, Draws])
def test_a_mechanism_that_reads_a_count_is_caught(cheat):
    case = Case("mwem", workload=PAIRS)
    check_replay(case, lambda: MWEM(rounds=3))
    with pytest.raises(AssertionError):
        check_replay(case, lambda: cheat(rounds=3))


# --- through the public door -----------------------------------------------------------------------------------------

ROWS_OF_FIRST = "SELECT i % 50 AS age, 'FM'[1 + i % 2] AS sex, i % 3 = 0 AS sick FROM range(400) r(i)"
ROWS_OF_OTHER = "SELECT 90 - i % 20 AS age, CASE WHEN i % 9 > 0 THEN 'M' END AS sex, true AS sick FROM range(77) r(i)"
QUERY = "SELECT sex, count(*) AS n, avg(age) AS mean FROM t WHERE sick GROUP BY sex"
CALLS = {
    "direct": "FROM dp_synthesize('t', epsilon := 1.0, mechanism := 'direct', relaxed_rows := 8, steps := 5)",
    "mwem": "FROM dp_synthesize('t', epsilon := 1.0, mechanism := 'mwem', rounds := 3)",
    "rap": "FROM dp_synthesize('t', epsilon := 1.0, mechanism := 'rap', rounds := 2, queries_per_round := 2, "
    "relaxed_rows := 8, steps := 5)",
    "dualquery": "FROM dp_synthesize('t', epsilon := 1.0, mechanism := 'dualquery', rounds := 4, samples := 3)",
    "a query": f"FROM dp_query('{QUERY}', epsilon := 1.0)",
    "values": "FROM dp_domain('t', 'name', discover := true, epsilon := 3.0)",
    "edges": "FROM dp_domain('t', 'age', discover := true, lower := 0, upper := 99, bins := 5, epsilon := 3.0)",
}
COUNTS = ("marginal", "presence", "sums", "bins", "values", "among")


def protected(rows: str) -> dpsql.Database:
    """A database whose table `t` has these rows, and whose books are alike for all."""
    db = dpsql.connect()
    db.sql(f"CREATE TABLE t AS SELECT *, coalesce(sex, 'X') || (age % 2) AS name FROM ({rows})")
    db.protect("t", epsilon=10.0, delta=1e-6)
    db.domain("t", "age", lower=0, upper=99, bins=4)
    db.domain("t", "sex", values=["F", "M"])
    db.domain("t", "name", values=["F0", "M1"])
    return db


def told(db: dpsql.Database, call: str) -> list[Any]:
    """What a call answers, and what its release reports."""
    reported = "SELECT state, rows, report FROM dpsql.release"
    return [db.sql(call).fetchall(), db.sql(reported).fetchall()]


def interrupted(*_: Any, **__: Any) -> None:
    raise Interrupted


def untouchable(*_: Any, **__: Any) -> None:
    raise Touched("a count")


def replayed_by_sql(call: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a call tells of an unrelated table what it told of the first, from the first one's journal."""
    real = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed=3: real(seed))  # rows are drawn by a fresh one
    with protected(ROWS_OF_FIRST) as one, protected(ROWS_OF_OTHER) as other:
        first = told(one, call)
        ((key,),) = one.sql("SELECT key FROM dpsql.release").fetchall()
        answers = journal.answers(Books(one.connection.cursor(), "memory"), key)
        with monkeypatch.context() as patch:
            patch.setattr(DuckDBCounter, "__init__", interrupted)
            with pytest.raises((dpsql.DpsqlError, duckdb.Error)):
                other.sql(call).fetchall()
        journal.append_answers(Books(other.connection.cursor(), "memory"), key, answers)
        with monkeypatch.context() as patch:
            for count in COUNTS:
                patch.setattr(DuckDBCounter, count, untouchable)
            return told(other, call) == first


@pytest.mark.medium
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_only_the_answers_reach_what_is_published(call, monkeypatch):
    assert replayed_by_sql(call, monkeypatch)


@pytest.mark.medium
def test_a_count_beside_the_curator_is_caught_from_outside(monkeypatch):
    """A report that has the number of rows, which the connection to the books could count."""
    publish = publication.publish

    def leaky(books, entry, source, columns, frame, report):
        counted = books.cursor.execute("SELECT count(*) FROM memory.main.t").fetchall()
        return publish(books, entry, source, columns, frame, {**report, "counted": counted[0][0]})

    monkeypatch.setattr(publication, "publish", leaky)
    assert not replayed_by_sql(CALLS["mwem"], monkeypatch)
