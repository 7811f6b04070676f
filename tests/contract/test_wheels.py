"""Wheels of all platforms: what `.ci/wheels` lets pass, and that a compiler for all of them makes what it should."""

from __future__ import annotations

import runpy
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from dpsql.udfs.bridge.library import PATH

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(find_spec("hatchling") is None, reason="needs hatchling")


@pytest.fixture(scope="module")
def build() -> dict:
    """The names of `hatch_build.py`."""
    return runpy.run_path(str(ROOT / "hatch_build.py"))


def wheel(folder: Path, name: str, tag: str, library: bytes) -> Path:
    """A wheel that holds as much as is looked at."""
    path = folder / f"dpsql-1.0-py3-none-{name}.whl"
    with zipfile.ZipFile(path, "w") as files:
        files.writestr("dpsql/udfs/native/dpsql.duckdb_extension", library)
        files.writestr("dpsql-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: py3-none-{tag}\n")
    return path


def library_of(build: dict, name: str, footer: str | None = None) -> bytes:
    return build["TARGETS"][name].magic + b"... dpsql_init_c_api ..." + build["footer"](footer or name)


def test_a_wheel_is_of_the_platform_that_it_says(build, tmp_path):
    for name, target in build["TARGETS"].items():
        path = wheel(tmp_path, target.wheel, target.wheel, library_of(build, name))
        assert build["inspected"](path) == name


@pytest.mark.parametrize("wrong", ["name", "tag", "footer", "library"])
def test_a_wheel_of_two_platforms_is_refused(build, tmp_path, wrong):
    """The broken twins."""
    linux, mac = (build["TARGETS"][name].wheel for name in ("linux_amd64", "osx_arm64"))
    footer = "osx_arm64" if wrong == "footer" else "linux_amd64"
    library = library_of(build, "osx_arm64" if wrong == "library" else "linux_amd64", footer)
    path = wheel(tmp_path, mac if wrong == "name" else linux, mac if wrong == "tag" else linux, library)
    with pytest.raises(ValueError, match="are not of one platform"):
        build["inspected"](path)


def test_another_platform_is_one_that_is_known(build, monkeypatch):
    monkeypatch.setenv("DPSQL_TARGET", "amiga_68k")
    with pytest.raises(ValueError, match="give one of linux_amd64"):
        build["wanted"]()


def test_what_duckdb_loads_here_has_the_footer_of_this_platform(build):
    assert PATH.read_bytes().endswith(build["footer"](build["this_platform"]()))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs ziglang")
@pytest.mark.parametrize("name", ["linux_arm64", "osx_arm64", "windows_amd64"])
def test_it_compiles_for_another_platform(build, tmp_path, monkeypatch, name):
    monkeypatch.setenv("DPSQL_TARGET", name)
    (tmp_path / "udfs").mkdir()
    (tmp_path / "udfs" / "shim.c").write_bytes((ROOT / "udfs" / "shim.c").read_bytes())
    made = build["compile_shim"](tmp_path).read_bytes()
    assert made.startswith(build["TARGETS"][name].magic)
    assert made.endswith(build["footer"](name))
    assert b"dpsql_init_c_api" in made
