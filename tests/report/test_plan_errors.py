"""The errors that a plan expects, as lines in SQL and as a picture: those of the plan's own rows."""

from __future__ import annotations

import re

import pytest

from dpsql.errors import DpsqlError

PLAN = "dp_plan('people', epsilon := {}, assume_rows := 600, chart := true{})"


def lines_of(db, epsilon: float, more: str = "") -> list[str]:
    found = db.sql(f"FROM {PLAN.format(epsilon, more)}")
    assert found.columns == ["chart"]
    return [line for (line,) in found.fetchall()]


@pytest.mark.medium
def test_the_lines_are_the_plans(people):
    before = people.ledger().number.tolist()
    plan = people.plan("people", 1.0, assume_rows=600, workload="all 2-way")
    lines = lines_of(people, 1.0, ", workload := 'all 2-way'")
    assert len(lines) <= 40  # DuckDB's shell shows so many
    assert max(map(len, lines)) <= 76  # in a frame, in 80 columns
    assert lines[0] == "Expected error at epsilon 1, as a fraction of the rows (L1)"
    line = lines[lines.index("pairs of columns (predicted)") + 1]
    label, error = re.fullmatch(r"  (.+?)  +(\S+) .*", line).groups()  # of several that are as large any
    said = {", ".join(one): error for one, error in zip(plan.marginal, plan.predicted_l1, strict=True)}
    assert error == f"{plan.predicted_l1.max():.3g}" == f"{said[label]:.3g}"
    assert line.count("█") == 30
    (asked,) = [line for line in lines if re.match(r" +1   ", line)]
    assert f"{plan.overall_l1[0]:.3g}" in asked
    assert any(line.endswith("more than the 3 left") for line in lines)
    assert people.ledger().number.tolist() == before
    people.sql("DELETE FROM people")  # nothing of it depends on a row
    assert lines_of(people, 1.0, ", workload := 'all 2-way'") == lines


def test_a_mechanism_that_predicts_nothing_says_so(people):
    lines = lines_of(people, 1.0, ", mechanism := 'mwem', faithful := true")
    assert lines[-1] == "No error of a whole marginal is predicted for this mechanism."


@pytest.mark.medium
def test_of_a_query_each_answer_has_a_line(people):
    sql = "dp_plan('SELECT sick, count(*) FROM people GROUP BY sick', epsilon := 0.7, chart := true)"
    lines = [line for (line,) in people.sql(f"FROM {sql}").fetchall()]
    assert lines[2].startswith("  count(*): 95 % interval ± ")
    assert any(line.startswith("    0.7   ") for line in lines)


@pytest.mark.medium
def test_a_plan_draws_itself(people, tmp_path):
    plan = people.plan("people", 1.0, assume_rows=600, workload="all 2-way")
    figure = plan.plot()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["single columns: noise of the counts", "pairs of columns: predicted error"]
    worst = plan.loc[plan.predicted_l1.idxmax()]
    bars, labels = figure.axes[1].patches, [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert bars[0].get_width() == pytest.approx(worst.predicted_l1)
    assert labels[0] == ", ".join(worst.marginal)
    figure.savefig(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 5000
    assert plan.plot(x="cells", y="stddev") is not None  # with arguments it is the plot of pandas


def test_a_plan_without_errors_of_marginals_is_not_drawn(people):
    for plan in (
        people.plan("people", 1.0, mechanism="mwem", faithful=True),
        people.plan("SELECT count(*) FROM people", 1.0),
    ):
        with pytest.raises(DpsqlError, match="plan_chart"):
            plan.plot()
