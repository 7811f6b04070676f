"""The mechanism that is shipped as an example passes the suite that every mechanism of the package passes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_example_passes_the_contract_as_it_is(tmp_path):
    """Copied among the mechanisms, with nothing else changed."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("dpsql", "udfs", "sql", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "examples" / "new_mechanism.py", tmp_path / "dpsql" / "mechanisms" / "independent.py")
    suite = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", "-k", "independent", "tests/contract"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *suite],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "passed" in done.stdout
