"""Everything that would break trust, tried: one command, one table.

    python -m tests.campaign              all of it, under an hour on 2 cores
    python -m tests.campaign --short      a few of each, in about three minutes, as CI runs it
    python -m tests.campaign --only 'killed at random times' fuzz
    python -m tests.campaign --write      also into tests/benchmarks/RESULTS.md

Ends with 1 if anything was lost, told twice or overspent, or anything crashed.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from pathlib import Path

from . import faults, front, hostile, nested

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it says what it cannot parse, of a million statements

ROOT = Path(__file__).parents[2]
SUITES = {
    "noise: exact probabilities, χ², variance, OpenDP": ["tests/privacy/test_noise.py", "tests/privacy/test_paths.py"],
    "accounting, beside dp-accounting": ["tests/privacy/test_accounting.py", "tests/privacy/test_accounts.py"],
    "sensitivities, curator, selections": [
        "tests/privacy/test_linear.py",
        "tests/privacy/test_curator.py",
        "tests/privacy/test_choices.py",
        "tests/engines/test_units.py",
        "tests/release/test_discovery.py",
    ],
    "audits, each with broken twins": ["-m", "slow", "tests/statistical/test_audits.py"],
    "audits of what is measured, and of what is chosen": ["-m", "slow", "tests/statistical/test_audits_steps.py"],
    "audits from outside, by SQL": ["-m", "slow", "tests/statistical/test_audits_sql.py"],
    "books that were tampered with": ["tests/books/test_books.py"],
    "expressions that could be too large": ["tests/language/test_size_bounds.py"],
    "accounts of pure epsilon": ["tests/privacy/test_pure_account.py"],
}
GOOD = {
    "write-ahead log cut, deleted, flipped": {"whole", "refused"},
    "older copy restored": {"refused"},
    **{
        name: {"whole", "refused"}
        for name in (*hostile.CAMPAIGN, *nested.CAMPAIGN, *front.CAMPAIGN)
        if "names" not in name
    },
}
"""What may come out of a part; of the others only `whole`: nothing is damaged there, so nothing may be refused."""


def main() -> int:
    """Run the campaign; print a line for each part as it ends."""
    parser = argparse.ArgumentParser(description="the campaign that would find what breaks trust")
    parser.add_argument("--short", action="store_true", help="a few of each")
    parser.add_argument("--only", nargs="*", default=[], help="parts whose names contain one of these")
    parser.add_argument("--write", action="store_true", help="write the table to RESULTS.md")
    options = parser.parse_args()
    parts = {**faults.CAMPAIGN, **hostile.CAMPAIGN, **nested.CAMPAIGN, **front.CAMPAIGN}
    lines = ["| what | tried | whole | refused | lost or overspent | s |", "| --- | --- | --- | --- | --- | --- |"]
    print("\n".join(lines), flush=True)
    failed = 0
    for name, (work, times, few) in parts.items():
        if options.only and not any(word in name for word in options.only):
            continue
        began = time.monotonic()
        outcome = work(few if options.short else times)
        bad = {what: count for what, count in outcome.items() if what not in GOOD.get(name, {"whole"})}
        failed += sum(count for what, count in bad.items() if what != "late")  # a slow machine breaks no promise
        shown = ", ".join(f"{count} {what}" for what, count in bad.items()) or "0"
        counts = (sum(outcome.values()), outcome["whole"], outcome["refused"])
        lines.append(f"| {name} | {' | '.join(f'{n:,}' for n in counts)} | {shown} | {time.monotonic() - began:.0f} |")
        print(lines[-1], flush=True)
    for name, arguments in SUITES.items():
        if options.short or (options.only and not any(word in name for word in options.only)):
            continue
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-n", "logical", "-q", "--no-header", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        last = (done.stdout.strip().splitlines() or ["nothing ran"])[-1]
        failed += done.returncode != 0
        lines.append(f"| {name} | {last} | | | {done.returncode and 'failed'} | {time.monotonic() - began:.0f} |")
        print(lines[-1], flush=True)
    if options.write:
        from tests.benchmarks import results

        results.write("Trust", "\n".join(lines), "python -m tests.campaign --write")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
