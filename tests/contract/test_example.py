"""The mechanism that is shipped as an example passes the suite of the package's own, as one file outside of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_example_passes_the_contract_as_it_is(tmp_path):
    file = tmp_path / "outside.py"
    shutil.copy(ROOT / "examples" / "new_mechanism.py", file)
    suite = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", "-k", "independent", "--load", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *suite, "tests/contract"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "passed" in done.stdout
