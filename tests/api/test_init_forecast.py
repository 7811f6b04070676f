"""The forecast in a script of `dpsql init` is what the plan of the release says: it counts the same columns."""

from __future__ import annotations

import re

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.api.proposing.propose import propose

COLUMNS = {
    "amount": "round((hash(i) % 90000) / 100, 2)",
    "visits": "(hash(i + 1) % 40)::INTEGER",
    "region": "'r' || hash(i + 2) % 5",
    "paid": "DATE '2021-01-01' + (hash(i + 3) % 900)::INTEGER",
    "fixed": "7",
    "sick": "hash(i + 4) % 3 = 0",
    "person": "i",
    "note": "'note ' || hash(i + 5)",
    "twice": "2 * visits + 1",
    "square": "visits * visits",
    "cents": "(amount * 100)::INTEGER",
    "month": "month(paid)",
}
"""Some vary, one is constant, some are left out, and the last four follow from others."""
COMPUTED = {"twice": "visits", "square": "visits", "cents": "amount", "month": "paid"}
PREDICTED = r"about (\d+) of (\d+) pairs .* --epsilon (\S+) --assume-rows (\d+) "


@pytest.mark.medium
@settings(max_examples=7, deadline=None)
@given(
    st.sets(st.sampled_from(sorted(COLUMNS))),
    st.sampled_from([1_234, 56_789, 10**7]),
    st.sampled_from([(), ("amount", "visits", "twice"), ("region", "sick", "square", "visits")]),
    st.sampled_from([None, "person"]),
)
def test_a_script_predicts_what_the_command_that_it_names_predicts(tmp_path_factory, names, rows, kept, unit):
    names |= {COMPUTED[name] for name in names & COMPUTED.keys()} | {"region", "sick", unit or "sick"}
    path = tmp_path_factory.mktemp("forecast") / "visits.parquet"
    bases = ", ".join(f"{sql} AS {name}" for name, sql in COLUMNS.items())
    duckdb.sql(f"SELECT {', '.join(sorted(names))} FROM (SELECT {bases} FROM range(3000) r(i))").write_parquet(
        str(path)
    )
    kept = [name for name in kept if name in names]
    script = propose(str(path), owner_looks=True, rows=rows, columns=kept, unit=unit)
    numbers = re.search(PREDICTED, re.sub(r"\n-- +", " ", script.text))
    rows, epsilon = (int(numbers[4]), float(numbers[3])) if numbers else (rows, 1.0)
    with dpsql.connect() as db:
        for statement in db.connection.extract_statements(script.text):
            db.sql(statement.query)
        planned = db.forecast("visits", epsilon, assume_rows=rows)
    assert (planned.reliable, planned.pairs) == ((int(numbers[1]), int(numbers[2])) if numbers else (None, 0))
    computed = {p.column for p in script.proposals if p.how and "computed_as" in p.how}
    assert planned.scenario.varying.isdisjoint(computed | {"fixed", "person", "note"})
