from __future__ import annotations

import gc
import gzip
import os
import runpy
import subprocess
import sys
import threading
import types
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, settings

import dpsql
from dpsql.mechanisms.own import load_file
from tests import depth, seeds
from tests.seeds import seeded_entropy

TIERS = {"medium": 10.0, "unmarked": 0.5}
"""Seconds of CPU time that a test of each tier may take; `slow` ones may take any."""
FAR = 3
"""A test that takes so many times what its tier allows is named at the end of every run: times vary by half."""
MOST = 1e-6
"""How often a test may fail by chance."""
DATA = Path(__file__).parents[2] / "shared" / "data"
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long an example takes depends on what else the machine does."""
settings.register_profile("fixed", _UNTIMED, derandomize=True)
settings.register_profile("explore", _UNTIMED, derandomize=False)
settings.load_profile("fixed")  # the same examples each time, so that no change pays for what another left to be found


# --- which tests are which -------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--tiers` lists each test above its tier of CPU time; with `--system-noise` none has a seed; `--deep`: `depth`."""
    parser.addoption("--load", action="append", default=[], help="a file of mechanisms that are tested as dpsql's own")
    parser.addoption("--tiers", action="store_true", help="list the tests that are above their tier of CPU time")
    parser.addoption("--deep", action="store_true", help="all cases of generated tests, not a part: before a release")
    parser.addoption("--part", type=int, default=1, help="of the parameters of a medium test, every so many-th")
    parser.addoption("--turn", default="", help="any text, such as a commit: half of the medium and slow tests, by it")
    parser.addoption("--system-noise", action="store_true", help="noise of the system, not of a seed: before a release")


def pytest_configure(config: pytest.Config) -> None:
    """What tests draw is of a seed, see `tests.seeds`; mechanisms from outside come before the tests are found."""
    if config.getoption("deep"):
        os.environ[depth.VARIABLE] = "1"
    for path in config.getoption("load"):
        load_file(path)
    seeds.install()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first, so that no core waits for one at the end; and a mark for what touches DuckDB.

    That is found out from the code of each test, its fixtures and what they name.
    """
    chosen = _part(items, config.getoption("part"), config.getoption("turn"))
    config.hook.pytest_deselected(items=list({*items} - {*chosen}))
    items[:] = chosen
    for item in items:
        if (chance := item.get_closest_marker("chance")) and chance.args[0] > MOST:
            raise pytest.UsageError(f"{item.nodeid} fails by chance more often than {MOST:g}: {chance.args[0]:g}")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    known: dict[int, bool] = {}
    for item in items:
        if not isinstance(item, pytest.Function):
            used = [*getattr(item, "dtest").globs.values()]  # noqa: B009 - a doctest
        else:
            fixtures = [one.func for found in item._fixtureinfo.name2fixturedefs.values() for one in found]
            params = item.callspec.params.values() if hasattr(item, "callspec") else ()
            inner = getattr(getattr(item.function, "hypothesis", None), "inner_test", None)
            used = [item.function, inner, *fixtures, *params, *(vars(item.cls).values() if item.cls else ())]
        if any(_touches_duckdb(one, known) for one in used):
            item.add_marker("duckdb")


WHOLE = (
    *("tests/contract/", "tests/privacy/", "tests/statistical/", "tests/books/"),
    *("tests/engines/test_conformance.py", "tests/linked/test_unit_rows.py", "tests/linked/test_units.py"),
)
"""Tests of promises, and of kinds: in every run each of them is tested, with all its parameters."""


def _part(items: list[pytest.Item], part: int, turn: str) -> list[pytest.Item]:
    """Fast tests and `WHOLE` ones, and a part of the others: `--turn` of the tests, `--part` of their parameters.

    Of parameters the first and the last stay. The names decide, and the turn: so each test has its turn.
    """
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(_function(item), []).append(item)
    ends = {id(item) for cases in functions.values() for item in (cases[0], cases[-1])}
    drawn = lambda name, of: zlib.crc32(f"{turn}{name}".encode()) % of == 0  # noqa: E731
    return [
        item
        for item in items
        if (not (medium := item.get_closest_marker("medium")) and not item.get_closest_marker("slow"))
        or item.nodeid.startswith(WHOLE)
        or ((not turn or drawn(_function(item), 2)) and (not medium or id(item) in ends or drawn(item.nodeid, part)))
    ]


def _function(item: pytest.Item) -> str:
    """The name of a test without its parameters."""
    return item.nodeid.partition("[")[0]


DOORS = (duckdb, dpsql, subprocess, runpy)
"""Modules through which a test reaches DuckDB: itself, this package's front, other processes and examples."""


def _touches_duckdb(value: object, known: dict[int, bool]) -> bool:
    """Whether it is a door, or code that names one, or anything of a module of this package that imports DuckDB."""
    if isinstance(value, types.ModuleType):
        return value in DOORS
    home = getattr(sys.modules.get(getattr(value, "__module__", None) or ""), "__dict__", {})
    if home.get("__name__", "").startswith("dpsql"):
        return "duckdb" in home
    code = getattr(value, "__code__", None)
    if code is None or not isinstance(value, types.FunctionType):
        return False
    if id(value) not in known:
        known[id(value)] = False  # while it is looked at: it may name itself
        named = (value.__globals__.get(name) for name in _names(code))
        known[id(value)] = any(_touches_duckdb(one, known) for one in named)
    return known[id(value)]


def _names(code: types.CodeType) -> set[str]:
    """All that a function names, and the functions inside it."""
    inside = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return {*code.co_names, *(name for one in inside for name in _names(one))}


def _cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


_began = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note when a test begins, before its fixtures, and let it draw from its seed."""
    item.stash[_began] = _cpu_seconds()
    is_of_system = item.config.getoption("--system-noise") or item.get_closest_marker("chance")
    seeds.begin(None if is_of_system else item.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> Iterator[object]:
    """What several tests share is the same whichever is first."""
    if fixturedef.scope == "function":
        return (yield)
    with seeds.seed(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param', '')}]"):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Its CPU time travels with the report, from a worker's process to the one that prints."""
    if call.when == "teardown":
        item.user_properties.append(("cpu", _cpu_seconds() - item.stash[_began]))


def pytest_collection_finish() -> None:
    """The garbage collector need not look again and again at a hundred thousand objects that stay."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Else libraries name all that was left at the end."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name tests that are above their tier: all on request, else those that are far above it."""
    allowed_times = 1 if config.getoption("--tiers") else FAR
    above = []
    for report in (one for reports in terminalreporter.stats.values() for one in reports):
        if not isinstance(report, pytest.TestReport) or report.when != "teardown" or "slow" in report.keywords:
            continue
        tier = "medium" if "medium" in report.keywords else "unmarked"
        used = dict(report.user_properties).get("cpu", 0.0)
        if used > allowed_times * TIERS[tier]:
            above.append((used, f"{used:6.1f} s of {TIERS[tier]:g} ({tier}) {report.nodeid}"))
    if above:
        terminalreporter.section("above their tier of CPU time: make them cheaper, or mark them")
        for _, line in sorted(above, reverse=True):
            terminalreporter.write_line(line)


# --- fixtures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def db() -> Iterator[dpsql.Database]:
    """A fresh in-memory database."""
    with dpsql.connect() as database:
        yield database


@contextmanager
def _interrupting(database: dpsql.Database | duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupts from another thread after so many seconds, and again each second until the work has ended.

    For an interrupt that comes before a statement has begun is lost.
    """
    ended = threading.Event()

    def interrupt() -> None:
        pause = seconds
        while not ended.wait(pause):
            database.interrupt()
            pause = 1.0

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def interrupting() -> Callable[..., AbstractContextManager[None]]:
    """A context that interrupts what is done in it on a database."""
    return _interrupting


PEOPLE = """
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE people AS
    SELECT
        (i * 7 % 60 + 18)::INTEGER AS age,
        CASE WHEN i % 3 = 0 THEN 'F' WHEN i % 31 = 1 THEN NULL ELSE 'M' END AS sex,
        (['sad', 'ok', 'happy'])[i % 3 + 1]::mood AS mood,
        i % 4 = 0 AS sick
    FROM range(600) r(i);
"""


@pytest.fixture
def people(db: dpsql.Database) -> dpsql.Database:
    """A small protected table `people` with all domains declared and a budget of epsilon 3."""
    return with_people(db)


def with_people(db: dpsql.Database) -> dpsql.Database:
    """See `people`."""
    db.sql(PEOPLE)
    db.protect("people", epsilon=3.0, delta=1e-6, enums=True)
    db.domain("people", "age", lower=18, upper=77, bins=6)
    db.domain("people", "sex", values=["F", "M"])
    return db


def settle(db: dpsql.Database, *tables: str) -> None:
    """The owner's word that tables are public, or other people's, though they were made from protected rows."""
    for table in tables:
        db.settle("simulated rows, made for a test", table=table)


QUICK = "relaxed_rows := 16, steps := 20"
"""Options of the projection that make it fast and bad."""


@pytest.fixture
def quick() -> str:
    return QUICK


@pytest.fixture
def data() -> Path:
    """The folder of real tables."""
    if not DATA.is_dir():
        pytest.skip(f"the real tables are not beside the checkout, in {'/'.join(DATA.parts[-2:])}")
    return DATA


def declare_from_data(db: dpsql.Database, table: str) -> None:
    """Domains for a table whose values are public here: texts as listed, numbers in at most 100 bins."""
    for name, kind in db.sql(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [table]
    ).fetchall():
        if kind == "VARCHAR":
            rows = db.sql(f'SELECT DISTINCT "{name}" FROM {table} WHERE "{name}" IS NOT NULL ORDER BY 1').fetchall()
            db.domain(table, name, values=[value for (value,) in rows])
        else:
            low, high = db.sql(f'SELECT min("{name}"), max("{name}") FROM {table}').fetchall()[0]
            db.domain(table, name, lower=low, upper=high)


@pytest.fixture
def load_adult(data: Path) -> Callable[[dpsql.Database], None]:
    """Loads the raw Adult table into a database, protects it and declares its domains."""

    def load(db: dpsql.Database) -> None:
        with gzip.open(data / "adult.csv.gz") as file:
            assert file.readline().startswith(b"age,")
        db.sql(f"CREATE TABLE adult AS FROM '{data}/adult.csv.gz'")
        db.protect("adult", epsilon=3.0, delta=1e-9)
        declare_from_data(db, "adult")

    return load


@pytest.fixture
def entropy() -> Callable[[int], bytes]:
    """A repeatable source of bytes, for tests only."""
    return seeded_entropy("dpsql tests")
