"""What an editor completes: every public method is typed, has its arguments by name, and an example that runs."""

from __future__ import annotations

import inspect
import subprocess
import sys
from functools import cached_property
from importlib.util import find_spec

import pytest

import dpsql
from dpsql.api.comparing.settings import Compared
from dpsql.api.relation import Relation
from dpsql.api.request_arguments import Options
from dpsql.report.card import Stated

PUBLIC = [
    pytest.param(owner, name, id=f"{owner.__name__}.{name}")
    for owner in (dpsql.Database, Relation, dpsql.Release)
    for name, member in inspect.getmembers(owner)
    if not name.startswith("_")
]


def function_of(owner, name):
    member = inspect.getattr_static(owner, name)
    if isinstance(member, cached_property):
        return member.func
    return inspect.unwrap(member.fget if isinstance(member, property) else member)


@pytest.mark.parametrize(("owner", "name"), PUBLIC)
def test_it_completes(owner, name):
    function = function_of(owner, name)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Parameter.empty
    for parameter in list(signature.parameters.values())[1:]:
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            assert parameter.annotation in {f"Unpack[{named.__name__}]" for named in (Options, Stated, Compared)}
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            assert parameter.annotation not in ("Any", "object")


@pytest.mark.parametrize(("owner", "name"), PUBLIC)
def test_it_is_documented(owner, name):
    text = inspect.getdoc(function_of(owner, name))
    assert text
    if owner is not dpsql.Release:  # whose one example is that of the class, because each would be a release
        assert ">>> " in text


def test_the_class_of_a_release_has_an_example():
    assert ">>> " in (dpsql.Release.__doc__ or "")


TYPED = """
from typing import Any, assert_type
import dpsql
from dpsql.api.relation import Relation
with dpsql.connect("a.duckdb") as db:
    assert_type(db, dpsql.Database)
    assert_type(db.table("t"), Relation)
    assert_type(db.execute("SELECT 1"), dpsql.Database)
    assert_type(db.cursor(), dpsql.Database)
    assert_type(db.table("t").filter("a > 1"), Relation)
    assert_type(db.table("t").columns, list[str])
    assert_type(db.table("t").fetchone(), tuple[Any, ...] | None)
    assert_type(db.synthesize("t", 1.0, rounds=3), dpsql.Release)
    db.sql("FROM t").df()
    db.sql("SELECT ?", [1]).fetchall()
    db.synthesize("t", epsilom=1.0)  # error
    db.synthesize("t", 1.0, round=3)  # error
    db.sql(3)  # error
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mypy") is None, reason="needs mypy")
def test_a_type_checker_sees_it(tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "typed.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    wrong = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    expected = [number for number, line in enumerate(TYPED.splitlines(), 1) if line.endswith("# error")]
    assert wrong == expected, done.stdout
