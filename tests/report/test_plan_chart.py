"""The predicted error against epsilon: free, from public facts."""

from __future__ import annotations

import pytest

from dpsql.errors import InvalidArgument


@pytest.mark.medium
def test_the_chart_is_the_plans_and_spends_nothing(people):
    before = people.ledger().number.tolist()
    chart = people.plan_chart("people", [2.0, 0.5, 9.0], assume_rows=600, workload="all 2-way")
    assert chart.df.epsilon.tolist() == [0.5, 2.0, 9.0]
    for epsilon, error in chart.df.itertuples(index=False):
        plan = people.plan("people", epsilon, assume_rows=600, workload="all 2-way")
        assert error == pytest.approx(plan.overall_l1[0])
    lines = str(chart).splitlines()
    assert "mean L1" in lines[0]
    assert lines[3].split()[0] == "0.5"
    assert lines[3].count("█") > lines[4].count("█") > 0
    assert lines[5].endswith("more than the 3 left")
    assert people.ledger().number.tolist() == before
    people.sql("DELETE FROM people")
    assert str(people.plan_chart("people", [0.5, 2.0, 9.0], assume_rows=600, workload="all 2-way")) == str(chart)


@pytest.mark.medium
def test_it_is_drawn(people, tmp_path):
    chart = people.plan_chart("people", [0.5, 2.0, 9.0], assume_rows=600, workload="all 1-way")
    chart.plot().savefig(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 5000
    assert chart._repr_html_().startswith("<svg")
    assert "3 is left" in chart._repr_html_()


def test_a_query_has_a_standard_error(people):
    chart = people.plan_chart("SELECT sick, count(*) FROM people GROUP BY sick", [0.5, 1.0])
    assert "largest standard error" in str(chart)
    assert chart.df.error[0] > chart.df.error[1] > 0


@pytest.mark.parametrize("epsilons", [[], [0.0], [-1.0], ["many"], [float("inf")], 3.0])
def test_no_epsilons_are_refused(people, epsilons):
    with pytest.raises(InvalidArgument, match="epsilons is"):
        people.plan_chart("people", epsilons)
