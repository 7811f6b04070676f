"""No other path to noise: nothing in the package draws floats for counts, or draws from anything but the system's entropy."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "dpsql").rglob("*.py"), *(ROOT / "udfs").rglob("*.py")])
SAMPLERS = {
    *("normal", "standard_normal", "laplace", "exponential", "standard_exponential", "gumbel", "uniform", "random"),
    *("multivariate_normal", "standard_cauchy", "randn", "rand", "gauss", "expovariate", "normalvariate", "rvs"),
}
"""Names of functions that draw floats."""
AFTER_THE_CURATOR = {
    "dpsql/release.py": "draws the rows of a fitted model",
    "dpsql/database/constraints.py": "draws values inside bins that a public fact allows",
    "dpsql/fitting/": "starts and rounds fits",
    "dpsql/mechanisms/": "draws candidates and starts; the curator answers them",
    "dpsql/domain.py": "places values inside bins",
    "dpsql/workload.py": "draws which marginals are asked for, by a public seed",
}
"""Where floats may be drawn: of released numbers only, for what is no noise on a count."""
TRUSTED = ["dpsql/privacy/", "dpsql/database/", "dpsql/answering.py", "dpsql/discovery.py", "dpsql/linear.py", "udfs/"]
RANDOM_MODULES = {"random", "numpy.random", "jax.random"}


def draws(tree: ast.AST) -> list[tuple[int, str]]:
    """Calls of samplers of floats, and imports of modules that have them."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in SAMPLERS | {"default_rng", "seed", "PRNGKey", "RandomState"}:
                found.append((node.lineno, called))
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        found += [(node.lineno, name) for name in names if name in RANDOM_MODULES]
    return found


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_floats_are_drawn_of_released_numbers_only(path):
    found = draws(ast.parse(path.read_text(encoding="utf-8")))
    if any(name_of(path).startswith(allowed) for allowed in AFTER_THE_CURATOR):
        assert not any(name_of(path) == trusted for trusted in TRUSTED)
        return
    assert found == [], f"{name_of(path)} draws: {found}"


def test_a_sampler_in_a_trusted_file_is_found():
    """The broken twin: float noise on a count."""
    for text in (
        "import numpy as np\nx = counts + np.random.normal(0, 1, 5)",
        "from numpy.random import default_rng",
        "import random",
        "noise = generator.laplace(0, 1)",
        "key = jax.random.PRNGKey(0)",
    ):
        assert draws(ast.parse(text)), text


def test_sql_draws_nothing():
    """DuckDB's own random() is in no statement of the books; the simulated census is no private table."""
    for path in sorted((ROOT / "sql").glob("*.sql")):
        if path.name != "census.sql":
            assert "random" not in path.read_text(encoding="utf-8").lower().replace("-- ", "")
