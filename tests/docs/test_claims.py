"""Numbers in sentences of the documentation, computed."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.engines.duckdb.versions import LOOKED_AT
from dpsql.privacy.accounting import OTHER_PRICE, gaussian_gdp, zcdp_rho

from ..benchmarks.claims import quick_rows, replaced

ROOT = Path(__file__).parents[2]
LOSSES = list(itertools.product((0.5, 1.0, 2.0, 3.0, 5.0, 10.0), (1e-9, 1e-8, 1e-7, 1e-6)))


def page(name: str) -> str:
    """The words of a page, on one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_what_gaussian_dp_allows_more_than_zcdp():
    more = [100 * float(gaussian_gdp(e, d) / zcdp_rho(e, d) - 1) for e, d in LOSSES]
    low, high = min(more), max(more)
    assert f"allows {low:.0f} to {high:.0f} % more ρ than zCDP (ε from 0.5 to 10, δ from 10⁻⁹ to 10⁻⁶)" in page(
        "docs/explanation/guarantee.md"
    )


def test_what_a_first_discovery_takes_of_the_budget():
    less = [100 * float(1 - gaussian_gdp(e, d / 2) / gaussian_gdp(e, d)) for e, d in LOSSES]
    words = f"shrinks by {min(less):.1f} to {max(less):.1f} % of its ρ (ε from 0.5 to 10, δ from 10⁻⁹ to 10⁻⁶)"
    assert words in page("docs/how-to/discovery.md")


def test_what_laplace_noise_costs_in_an_account_with_a_delta():
    times = [float(Fraction(str(e)) ** 2 / 2 / gaussian_gdp(e, 1e-9)) for e in (0.1, 1.0, 3.0)]
    by_gdp = [one * float(OTHER_PRICE) for one in times]
    words = (
        f"For ε from 0.1 to 3 and δ = 10⁻⁹ it is {min(times):.0f} to {max(times):.0f} times in zCDP, {int(min(by_gdp))} to "
        f"{int(max(by_gdp)) + 1} times by Gaussian DP"
    )
    assert words in page("docs/how-to/pure.md")


@pytest.mark.medium
@pytest.mark.parametrize(("groups", "sets"), [("ward", 1), ("GROUPING SETS ((ward), (day))", 2)])
def test_what_counting_units_costs(db, groups, sets):
    """The L2 sensitivity of count(DISTINCT unit) is √(S·c), that of count(*) is c·√S: by the plan's deviations."""
    db.sql("CREATE TABLE s AS SELECT i % 50 AS who, i % 20 AS ward, i % 19 AS day FROM range(1000) r(i)")
    db.protect("s", epsilon=9.0, delta=1e-6, privacy_unit="who", max_rows=9)
    for name, size in (("ward", 20), ("day", 19)):
        db.domain("s", name, lower=0, upper=size - 1)
    deviations = []
    for aggregate in ("count(DISTINCT who)", "count(*)"):
        plan = db.sql(f"FROM dp_plan('SELECT {aggregate} AS n FROM s GROUP BY {groups}', epsilon := 1.0)").df()
        deviations.append(float(plan.stddev.dropna().iloc[0]))
    whole = (gaussian_gdp(1.0, 1e-6) * 2) ** Fraction(1, 2)
    assert deviations[0] == pytest.approx(float((sets * 9) ** 0.5 / whole), rel=0.02)
    assert deviations[1] == pytest.approx(float(9 * sets**0.5 / whole), rel=0.02)


def test_versions_of_duckdb_are_those_that_ci_tests():
    """Of the table of settings too; the package itself must not name others."""
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    both = re.findall(r"^  of_both (\d+\.\d+\.\d+)$", text, re.MULTILINE)
    assert {*both, *re.findall(r'"duckdb==(\d+\.\d+\.\d+)"', text)} == {*LOOKED_AT}
    for name in ("README.md", "docs/index.md"):
        assert set(re.findall(r"\d+\.\d+\.\d+", re.search(r"DuckDB [^<]*are tested", page(name))[0])) == {*LOOKED_AT}


@pytest.mark.medium
def test_claims_that_take_no_release_are_measured_again():
    """Each line of the benchmark's page is what its script says now, to the last digit."""
    lines = (ROOT / "tests/benchmarks/CLAIMS.md").read_text(encoding="utf-8").splitlines()
    found = [f"| {' | '.join(cells)} |" for cells in quick_rows()]
    assert len(found) > 10
    assert [line for line in found if line not in lines] == []
    assert replaced("\n".join(lines), [row[2:-2].split(" | ") for row in found]).splitlines() == lines


def test_a_factor_is_promised_without_an_exception():
    """Nowhere is δ the probability with which a promise does not hold."""
    wrong = re.compile(
        r"(except|but) (with|for) (a )?probability( of)? (δ|delta|10)|probability with which the bound"
        r"|(δ|delta)`? (is|means) (the|a) (chance|probability) (with which|that the)",
        re.I,
    )
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("dpsql/**/*.py"), *ROOT.glob("udfs/**/*.py")]
    assert not [file.name for file in files if wrong.search(" ".join(file.read_text(encoding="utf-8").split()))]
