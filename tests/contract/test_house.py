"""The house: sizes that a reader can take in, and walls that a contract enforces."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.rooms import FILES, ROOMS, ROOT, name_of

MOST = {"module": 400, "class": 300, "function": 60}
"""Lines."""
PLANTED = {
    "The floors of the house": ("core/names.py", "from dpsql.books.ledger import store"),
    "Families of mechanisms": ("mechanisms/mwem/iterates.py", "import dpsql.mechanisms.rap.grid"),
    "Rooms of the books": ("books/ledger/heads.py", "import dpsql.books.tables.facts"),
    "The trusted kernel": ("privacy/noise.py", "import pandas"),
    "duckdb": ("mechanisms/matrix/direct.py", "import duckdb"),
    "jax": ("models/relaxed.py", "import jax"),
    "sqlglot": ("release/pipeline.py", "import sqlglot"),
    "Rows are reached through the Engine protocol": ("owner/protect.py", "import dpsql.engines.duckdb.counting"),
    "Plans are made without a database": ("release/plan.py", "import dpsql.engines.duckdb.frames"),
    "What is computed from noisy answers": ("strategy/allocation.py", "import dpsql.engines.duckdb.counting"),
    "The front reaches no books": ("service/analyst.py", "import dpsql.books.ledger.store"),
    "What compares with real rows": ("mechanisms/matrix/direct.py", "import dpsql.utility.coded"),
}
"""For each contract of `pyproject.toml`, by how its name begins, an import that it must not let pass."""


DIALECT = frozenset({"found", "known", "one", "asked", "kept", "told", "said", "aside", "foretold"})
"""Words that say how a value came about, and not what it is. A name is a noun: `tables`, `match`, `earlier_entry`."""
MOST_OF_DIALECT = 1
"""Per 1,000 names."""


def names_in(text: str) -> list[str]:
    """Every name of a module: variables, parameters, attributes, functions and classes, as often as each stands there."""
    names = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                names.append(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
    return names


def too_long(text: str) -> list[tuple[str, str, int]]:
    """What of a module is longer than it may be."""
    tree = ast.parse(text)
    lines = text.count("\n")
    found = [("module", "", lines)] if lines > MOST["module"] else []
    for node in ast.walk(tree):
        kind = {ast.ClassDef: "class", ast.FunctionDef: "function"}.get(type(node))
        if kind is not None and node.end_lineno - node.lineno >= MOST[kind]:
            found.append((kind, node.name, node.end_lineno - node.lineno + 1))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_reader_sees_it_whole(room):
    long = {name_of(path): parts for path in ROOMS[room] if (parts := too_long(path.read_text(encoding="utf-8")))}
    assert long == {}


def test_what_is_too_long_is_found():
    """The broken twins."""
    body = "    x = 1\n"
    assert too_long("y = 1\n" * 401)[0][0] == "module"
    assert too_long("class A:\n" + body * 300)[0][0] == "class"
    assert too_long("def f():\n" + body * 60)[0][0] == "function"
    assert too_long("def f():\n" + body * 59) == []


def imports_of(name: str, path: Path, modules: frozenset[str]) -> set[str]:
    """The modules of the package that a module imports anywhere: at its top, in a function, for types alone."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    reached = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            reached |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            reached |= {inner if (inner := f"{base}.{alias.name}") in modules else base for alias in node.names}
    return (reached & modules) - {name}


def circle_of(paths: dict[str, Path]) -> list[str]:
    """The modules of a circle of imports, if there is one."""
    graph = {name: imports_of(name, path, frozenset(paths)) for name, path in paths.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def modules_of(root: Path) -> dict[str, Path]:
    """The product's modules by name."""
    named = {}
    for path in [*(root / "dpsql").rglob("*.py"), *(root / "udfs").rglob("*.py")]:
        parts = path.relative_to(root).with_suffix("").parts
        parts = ("dpsql", *parts) if parts[0] == "udfs" else parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


@pytest.mark.medium
def test_no_modules_import_each_other_in_a_circle():
    """Whoever needs a part is given the part; what is given a whole object would name the module that makes it."""
    assert circle_of(modules_of(ROOT)) == []


@pytest.mark.parametrize(
    "text", ["import pkg.a", "from pkg.a import x", "from . import a", "def f():\n    from .a import x"]
)
def test_a_circle_is_seen(tmp_path, text):
    """The broken twins."""
    (tmp_path / "a.py").write_text("from pkg import b\n")
    (tmp_path / "b.py").write_text(text + "\n")
    (tmp_path / "__init__.py").write_text("")
    paths = {"pkg": tmp_path / "__init__.py", "pkg.a": tmp_path / "a.py", "pkg.b": tmp_path / "b.py"}
    assert {"pkg.a", "pkg.b"} <= set(circle_of(paths))


def house(folder: Path) -> Path:
    """A copy of the package as the contracts see it, with `udfs` inside as in the wheel."""
    ignored = shutil.ignore_patterns("__pycache__", "native")
    shutil.copytree(ROOT / "dpsql", folder / "dpsql", ignore=ignored)
    shutil.copytree(ROOT / "udfs", folder / "dpsql" / "udfs", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def contracts() -> list[str]:
    return [
        c["name"] for c in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    ]


def test_each_contract_has_an_import_that_is_planted():
    assert [next(name for name in contracts() if name.startswith(begin)) for begin in PLANTED] == contracts()


@pytest.mark.medium
@pytest.mark.skipif(find_spec("importlinter") is None, reason="needs import-linter")
@pytest.mark.parametrize("begin", PLANTED)
def test_an_import_through_a_wall_breaks_its_contract(tmp_path, begin):
    """As `.ci/run` calls it; nothing is broken where nothing is planted, which `.ci/run` shows."""
    copy = house(tmp_path)
    name, planted = PLANTED[begin]
    target = copy / "dpsql" / name
    text = target.read_text(encoding="utf-8")
    target.write_text(
        text.replace("from __future__ import annotations\n", f"from __future__ import annotations\n\n{planted}\n", 1)
    )
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", lint, "--no-cache"],
        cwd=copy,
        env={"PYTHONPATH": str(copy), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    (broken,) = [line for line in done.stdout.splitlines() if line.startswith(begin) and "BROKEN" in line]
    assert broken


@pytest.mark.medium
def test_names_say_what_a_value_is():
    names = [name for path in FILES for name in names_in(path.read_text(encoding="utf-8"))]
    dialect = [name for name in names if name.strip("_") in DIALECT]
    assert 1000 * len(dialect) <= MOST_OF_DIALECT * len(names), sorted({*dialect})


def test_a_name_of_the_dialect_is_seen():
    """The broken twin."""
    text = "def f(known):\n    _found = [one for one in known.asked]\n    return _found\n"
    assert sum(name.strip("_") in DIALECT for name in names_in(text)) == 7
