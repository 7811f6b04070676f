"""Plants every defect in a copy of the checkout, one at a time, and shows which tier of tests catches it.

    python -m tests.planted [--only TEXT] [--part 1/2]

The imports that each contract must refuse are planted by `tests/contract/test_house.py`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .defects import DEFECTS, Defect

ROOT = Path(__file__).parents[2]
TIERS = {"default": "not slow and not medium", "medium": "medium and not slow", "slow": "slow and not audit"}


def copied(folder: Path) -> Path:
    """The checkout, without what is built or downloaded, beside the same shared data."""
    ignored = shutil.ignore_patterns(".git", "__pycache__", ".venv", "*.egg-info", ".pytest_cache", ".mypy_cache")
    copy = folder / "checkout"
    shutil.copytree(ROOT, copy, ignore=ignored)
    shared = ROOT.parent / "shared"
    if shared.is_dir():
        (folder / "shared").symlink_to(shared)
    return copy


def planted(copy: Path, defect: Defect) -> None:
    """Change the file; a text that is not there once is a defect of this list."""
    path = copy / defect.file
    text = path.read_text(encoding="utf-8")
    if text.count(defect.before) != 1:
        raise SystemExit(f"{defect.name}: {text.count(defect.before)} places in {defect.file} for {defect.before!r}")
    path.write_text(text.replace(defect.before, defect.after), encoding="utf-8")


def caught_by(copy: Path, defect: Defect) -> str | None:
    """The first tier of which a test fails; None where all pass."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    for tier, marks in TIERS.items():
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "-m",
            marks,
            *defect.tests,
        ]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 1:
            return tier
        if done.returncode not in (0, 5):
            raise SystemExit(f"{defect.name}: the tests did not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return None


def main() -> None:
    """One line for each defect; status 1 where one is not caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="defects with this text in their name or file")
    parser.add_argument("--part", default="1/1", help="the first of two parts is 1/2, for two processes")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    missed = []
    for defect in DEFECTS[part - 1 :: parts]:
        if options.only not in f"{defect.name} {defect.file}":
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            copy = copied(Path(folder))
            planted(copy, defect)
            tier = caught_by(copy, defect)
        if tier is None:
            missed.append(defect.name)
        print(
            f"{defect.name:55} {defect.file:40} {tier or 'NOT CAUGHT':10} {time.monotonic() - began:6.1f} s", flush=True
        )
    print(f"{len(missed)} not caught" + "".join(f"\n  {name}" for name in missed))
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
