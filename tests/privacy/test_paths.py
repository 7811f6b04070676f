"""No other path to noise or to rows: nothing in the package draws floats for counts, or draws from anything but the
system's entropy; and what can read private rows is made in the listed files only."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib

import pytest

from dpsql.engines.protocol import Engine
from tests.rooms import ROOMS, ROOT, room_of, trees_of

SAMPLERS = {
    *("normal", "standard_normal", "laplace", "exponential", "standard_exponential", "gumbel", "uniform", "random"),
    *("multivariate_normal", "standard_cauchy", "randn", "rand", "gauss", "expovariate", "normalvariate", "rvs"),
    *("poisson", "geometric", "binomial", "negative_binomial", "triangular", "logistic", "standard_t", "dirichlet"),
    *("shuffle", "permutation", "integers", "randint", "random_sample", "standard_gamma", "Rand", "Uuid"),
    *("default_rng", "seed", "PRNGKey", "RandomState", "Generator", "PCG64", "Philox", "MT19937", "Random"),
}
"""Names of functions that draw what is no noise of ours, and of what they draw from."""
_DRAWING = "random|setseed|uuid|gen_random_uuid|uuidv[47]"
SAMPLING_SQL = re.compile(rf"\b({_DRAWING})\s*\(|^({_DRAWING})$|\btablesample\s+\w|\busing\s+sample\b", re.IGNORECASE)
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
UNTRUSTED = next(c["source_modules"] for c in CONTRACTS if c["name"].startswith("What is computed from noisy answers"))
"""Floors that no contract lets reach a database: they compute with noisy answers only."""
AFTER_THE_CURATOR = {
    "dpsql/release/synthesis.py": "draws the rows of a fitted model",
    "dpsql/release/drawing.py": "draws where in their bins they lie",
    "dpsql/release/unit_slots.py": "draws declared values where no unit has any",
    "dpsql/release/unit_drawing.py": "draws rows of tables, of rows of a fitted model",
    "dpsql/release/lending.py": "draws which synthetic rows lend what to others",
    "dpsql/release/child_rows.py": "draws synthetic rows below synthetic rows, from drawn units",
    "dpsql/release/chains.py": "draws which codes a synthetic row has where nobody lends one that fits",
    "dpsql/evaluation/ruled_rows.py": "draws which declared values are tried first",
    "dpsql/release/replaced_units.py": "draws which synthetic units lend all their rows to others",
    "dpsql/release/rule_drawing.py": "draws which synthetic rows lend what to others, and where in their bins these lie",
    "dpsql/release/linked_rows.py": "draws the rows of a fitted model",
    "dpsql/release/keys.py": "draws keys that are UUIDs, and reads nothing of the rows",
    "dpsql/evaluation/key_values.py": "names the type UUID, and draws nothing",
    "dpsql/release/tied_bins.py": "draws which rows have like places in two bins",
    "dpsql/evaluation/constraints.py": "draws values inside bins that a public fact allows",
    "dpsql/core/domain.py": "places values inside bins",
    "dpsql/core/prior.py": "fills in the columns that a public table lacks",
    "dpsql/service/pgtypes.py": "names the type UUID, and draws nothing",
    "dpsql/service/parameters.py": "likewise",
    "dpsql/language/workloads.py": "draws which marginals are asked for, by a public seed",
    "dpsql/owner/stand_ins.py": "draws ids and texts for columns without a domain, and reads nothing of the rows",
    "dpsql/core/column_types/identifiers.py": "names the type UUID, and draws nothing",
    "dpsql/evaluation/decode.py": "names the type UUID, and draws nothing",
    "dpsql/api/proposing/": "names keys and the type UUID; a script of declarations is the owner's, and holds no noise",
    "dpsql/api/private_truth.py": "draws which rows the owner's own measures look at, for the owner's eyes",
    "dpsql/utility/": "draws which rows and columns the owner's measures look at; a contract keeps releases away from it",
} | {name.replace(".", "/") + "/": "computes with noisy answers only" for name in UNTRUSTED}
"""Where floats may be drawn: of released numbers only, or of what nobody but the owner sees; for what is no noise on a count."""


OF_NO_ROW = {"find", "find_parts", "check", "interrupt", "close"}
"""What an engine does without reading a row."""
READERS = {"engine_of"} | {name for name in vars(Engine) if not name.startswith("_")} - OF_NO_ROW
"""What gives somebody an engine, and what an engine gives that reads rows."""
ARGUMENTS = len(inspect.signature(Engine.codes).parameters) - 1
"""Of an engine's `codes`: what else has this name, such as the codes of synthetic rows, takes fewer."""
ENGINES = "dpsql/engines/"
MAY_READ = {
    "dpsql/release/pipeline.py": "hands the engine and the counter to the curator, after the charge",
    "dpsql/release/synthesis.py": "makes the counter that pipeline hands to the curator",
    "dpsql/release/members.py": "makes the counter of linked tables that pipeline hands to the curator",
    "dpsql/release/quality.py": "counts for a report that only the owner may ask for",
    "dpsql/owner/evaluate.py": "reads codes for an evaluation that only the owner may ask for",
    "dpsql/api/evaluated_tree.py": "counts for an evaluation that only the owner may ask for",
}
"""Who may make what reads private rows. A new file here is a new way to them: say who looks at what it reads."""


def test_the_documentation_names_the_floors_that_are_not_trusted():
    page = (ROOT / "docs" / "explanation" / "trust.md").read_text(encoding="utf-8")
    told = page[page.index("## What is trusted\n") :].split("\n\n")[1]
    assert {name.removeprefix("dpsql.") for name in UNTRUSTED} == set(re.findall(r"`([a-z]+)`", told.split(":")[0]))


def draws(tree: ast.AST) -> list[tuple[int, str]]:
    """Names of samplers, whatever is done with them; modules named random, however they come; SQL that draws."""
    nodes = list(ast.walk(tree))
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    found = []
    for node in nodes:
        names = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Name):
            names = [node.id] if id(node) in called else []
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = [part for name in [*module, *(alias.name for alias in node.names)] for part in name.split(".")]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            names = ["random"] if SAMPLING_SQL.search(node.value) else []
        found += [(node.lineno, name) for name in names if name in SAMPLERS]
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_floats_are_drawn_of_released_numbers_only_and_few_files_read_rows(room):
    drawing, reading = {}, {}
    for name, tree in trees_of(room):
        if not name.startswith(tuple(AFTER_THE_CURATOR)) and (places := draws(tree)):
            drawing[name] = places
        if not name.startswith(ENGINES) and (places := readers(tree)):
            reading[name] = places
    assert drawing == {}
    assert {name: places for name, places in reading.items() if name not in MAY_READ} == {}
    assert {*reading} == {name for name in MAY_READ if room_of(ROOT / name) == room}


def test_a_sampler_in_a_trusted_file_is_found():
    """The broken twin: float noise on a count."""
    for text in (
        "import numpy as np\nx = counts + np.random.normal(0, 1, 5)",
        "from numpy.random import default_rng",
        "import random",
        "noise = generator.laplace(0, 1)",
        "key = jax.random.PRNGKey(0)",
        "x = np.random.poisson(3)",
        "x = numpy.random.Generator(source)",
        "from numpy import random as r",
        "from numpy.random import Generator, PCG64",
        "draw = counts.rvs",
        "x = gen.standard_t(3)",
        "x = exp.Rand()",
        "x = exp.func('random')",
        "sql = 'SELECT n + random() FROM t'",
        "sql = f'SELECT n FROM {t} USING SAMPLE 10%'",
    ):
        assert draws(ast.parse(text)), text


def test_sql_draws_nothing():
    """DuckDB's own random() is in no statement of the books; simulated tables are not private."""
    for path in sorted((ROOT / "sql").glob("*.sql")):
        if path.name not in ("bank.sql", "census.sql"):
            assert not SAMPLING_SQL.search(re.sub("--.*", "", path.read_text(encoding="utf-8"))), path


def readers(tree: ast.AST) -> list[tuple[int, str]]:
    """Where code takes what reads rows: it names an engine's method or `engine_of`, or has the name in a text."""
    places = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Attribute):
            names = [node.attr] if node.attr != "codes" else []
        elif isinstance(node, ast.alias):
            names = [node.name] if node.name == "engine_of" else []
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", "")
            names = [called] if called == "codes" and len(node.args) >= ARGUMENTS else []
            if getattr(node.func, "id", called) in ("getattr", "attrgetter", "methodcaller"):
                names = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        places += [(node.lineno, name) for name in names if name in READERS]
    return places


def test_a_reader_in_another_file_is_found():
    """The broken twins: a floor that counts for itself."""
    for text in (
        "from dpsql.engines.registry import engine_of",
        "engine = registry.engine_of(cursor, source)",
        "rows = closing(engine).thing.codes(source, domain, 10)",
        "count = engine.counter",
        "make = getattr(engine, 'unit_counter')",
        "make = operator.methodcaller('codes', source, domain, 10)",
        "from dpsql.engines.registry import engine_of as find",
    ):
        assert readers(ast.parse(text)), text
