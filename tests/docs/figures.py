"""Figures and numbers of the documentation, each made from one source: a file of measurements, the CI, or the kernel."""

from __future__ import annotations

import math
import re
import tomllib
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from dpsql.core.digits import up
from dpsql.engines.duckdb.versions import LOOKED_AT
from dpsql.privacy.accounting import gaussian_gdp
from dpsql.privacy.promised import largest_excess, normal_excess

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "tests" / "benchmarks" / "releases.toml"
DELTA = 1e-9
SUSPICIONS = {0.1: "strict", 0.5: "", 1.0: "usual", 3.0: "", 10.0: "weak"}


def releases() -> list[dict[str, Any]]:
    """What one release costs, as it was measured."""
    found: list[dict[str, Any]] = tomllib.loads(MEASURED.read_text(encoding="utf-8"))["release"]
    return found


def release_rows() -> list[list[str]]:
    """A row for each table and ε, with rounded figures."""
    return [
        [
            one["table"],
            f"{one['epsilon']}",
            f"{one['first']:.0f} s",
            f"{one['second']:.0f} s",
            f"{one['megabytes']:,} MB",
            f"{one['measured']}",
        ]
        for one in releases()
    ]


def cost() -> str:
    """What a release costs, in a sentence."""
    adult, _, million = releases()
    return (
        f"A synthetic table of Adult (48,842 rows, 15 columns) takes {adult['first']:.0f} seconds of CPU and "
        f"{adult['megabytes'] / 1000:.1f} GB. One of a million rows takes {million['first']:.0f} seconds and "
        f"{million['megabytes'] / 1000:.1f} GB."
    )


def duckdb_tested() -> str:
    """The versions of DuckDB that are tested, in words."""
    *earlier, newest = LOOKED_AT
    return f"DuckDB {', '.join(earlier)} and {newest} are tested."


def suspicion_rows() -> list[list[str]]:
    """How far a suspicion can grow, and how likely it grows further; all rounded up."""
    rows = []
    for epsilon, words in SUSPICIONS.items():
        factor = math.exp(epsilon)
        grown = [p * factor / (1 - p + p * factor) for p in (0.1, 0.5)]
        shown = [f"{up(100 * part, 2 if part < 0.99 else 5)} %" for part in grown]
        likely = largest_excess(gaussian_gdp(epsilon, DELTA), epsilon)
        rows.append([f"{epsilon:g}", *shown, words, up(likely, 2)])
    return rows


def excess() -> str:
    """An example of how likely the factor is exceeded."""
    gdp = gaussian_gdp(1.0, DELTA)
    return (
        f"With ε = 1 and δ = {DELTA:g} the factor 2.72 is exceeded with probability {up(normal_excess(gdp, 1.0), 2)} by a "
        f"noisy number, and at most {up(largest_excess(gdp, 1.0), 2)} by whatever is computed from the answers."
    )


# --- errors of synthetic tables: the table of "Accuracy" in RESULTS.md ------------------------------------------------

_NAMES = {
    ("adult", "64 random 3-way seed 0"): "Adult coded, `'64 random 3-way seed 0'` (2.77 million cells)",
    ("adult", "all 3-way"): "Adult coded, all 3-way (364 marginals, 20.9 million cells)",
    ("loans", "64 random 3-way seed 17"): "Loans coded (39,786 × 16), `'64 random 3-way seed 17'`",
}


def accuracy() -> list[dict[str, str]]:
    """The lines of the newest table, by the names of its columns."""
    return _section("RESULTS.md", "Accuracy")


def _section(page: str, heading: str) -> list[dict[str, str]]:
    """The lines of the first table of a section, by the names of its columns."""
    text = (ROOT / "tests" / "benchmarks" / page).read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    head, _, *lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)[0].splitlines()  # type: ignore[index]
    names, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in (head, *lines))
    return [dict(zip(names, row, strict=True)) for row in rows]


def claim_rows() -> list[list[str]]:
    """What each claim came to, without its setting; `tests/benchmarks/claims.py` wrote it."""
    return [
        [one[name].replace("\\|", "|") for name in ("place", "claim", "measured", "holds")]
        for one in _section("CLAIMS.md", "Claims")
    ]


def _error(text: str, digits: int) -> str:
    return str(Decimal(text).quantize(Decimal(10) ** -digits, ROUND_HALF_UP)).lstrip("0")


def accuracy_rows() -> list[list[str]]:
    """A row for each table, workload and ε."""
    return [
        [_NAMES[one["on"], one["workload"]], one["ε"], _error(one["max"], 4), _error(one["mean L1"], 3), one["CPU s"]]
        for one in accuracy()
    ]


def default_of(on: str) -> dict[str, str]:
    """The line of the comparison: 64 marginals of three columns at ε = 1."""
    return next(one for one in accuracy() if (one["on"], one["ε"]) == (on, "1") and one["workload"].startswith("64"))


def beside_peers(on: str) -> str:
    """The default's mean L1 and seconds, as the table of the README has them."""
    found = default_of(on)
    return f"**{_error(found['mean L1'], 3)}** in {found['CPU s']} s"


def compared(on: str) -> str:
    """The default's errors and seconds, as the table of the comparison has them."""
    found = default_of(on)
    return f"**{_error(found['max'], 4)} / {_error(found['mean L1'], 3)}** | **{found['CPU s']}**"


SENTENCES = {
    "cost": cost,
    "excess": excess,
    "duckdb": duckdb_tested,
    **{
        f"{name}-{on}": (lambda make=make, on=on: make(on))
        for on in ("adult", "loans")
        for name, make in (("peers", beside_peers), ("compared", compared))
    },
}
"""What stands in a sentence, by its name."""
