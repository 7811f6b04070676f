"""Periods: each day lies in one of each kind, and what the books call them is what they call nothing else."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.core.domain import Attribute
from dpsql.core.period import Periods, check_every, period_key, periods_from, split_key
from dpsql.core.period_domain import fact_of, reaches
from dpsql.engines.source import key_of
from dpsql.errors import InvalidArgument

LABELS = {
    "day": lambda day: day.isoformat(),
    "week": lambda day: "{:04}-W{:02}".format(*day.isocalendar()[:2]),
    "month": lambda day: f"{day:%Y-%m}",
    "quarter": lambda day: f"{day:%Y}-Q{(day.month + 2) // 3}",
    "year": lambda day: f"{day:%Y}",
}


@pytest.mark.parametrize("every", LABELS)
@given(day=st.dates(date(1001, 1, 8), date(9997, 12, 24)))
def test_a_day_lies_in_one_period(every, day):
    periods = Periods(every, "day", "DATE")
    own = periods.period(LABELS[every](day))
    assert own.begin <= day < own.end
    after, before = periods.period(LABELS[every](own.end)), periods.period(LABELS[every](own.begin - timedelta(days=1)))
    assert (before.end, own.end) == (own.begin, after.begin)


@pytest.mark.parametrize(
    ("every", "label"),
    [
        ("day", "2026-02-29"),
        ("day", "2026-2-01"),
        ("week", "2026-W54"),
        ("week", "2025-W53"),
        ("week", "2026-W00"),
        ("month", "2026-13"),
        ("month", "2026-3"),
        ("month", " 2026-03"),
        ("month", "2026-03\n"),
        ("month", "٢٠٢٦-03"),  # digits, and not those
        ("quarter", "2026-Q5"),
        ("year", "0000"),
        ("year", "9999"),
        ("year", "2026-03"),
        ("year", ""),
    ],
)
def test_a_period_is_written_in_one_way(every, label):
    with pytest.raises(InvalidArgument, match=r"^period is "):
        Periods(every, "day", "DATE").period(label)


@given(
    st.text("ab.\"'-[]20Q", min_size=1),
    st.text("ab.\"'-20Q", min_size=1),
    st.sampled_from(["2026-03", "2026", "2026-Q1"]),
)
def test_no_table_is_called_as_a_period(schema, name, label):
    table = key_of(schema, name)
    assert split_key(table) == (table, None)
    assert split_key(period_key(table, label)) == (table, label)


def test_what_the_ledger_states_is_checked():
    stated = Periods("week", "at", "TIMESTAMP").stated
    assert periods_from(stated).stated == stated
    for changed in ({"every": "hour"}, {"type": "TIMESTAMP WITH TIME ZONE"}, {"more": 1}):
        with pytest.raises(InvalidArgument):
            periods_from({**stated, **changed})
    with pytest.raises(InvalidArgument, match="'fortnight': give 'day', 'week'"):
        check_every("fortnight")


def test_a_fact_is_stated_where_bins_can_obey_it():
    march = Periods("month", "day", "DATE").period("2026-03")
    begin = (date(2026, 3, 1) - date(1970, 1, 1)).days

    def bins(*edges):
        return Attribute("day", "DATE", "bins", ticks=tuple(begin + edge for edge in edges))

    assert fact_of(march, bins(-59, 0, 31)) is not None
    assert fact_of(march, bins(-10, 30, 90)) is not None
    assert fact_of(march, bins(-10, 90)) is None  # a bin over the whole of it
    assert reaches(march, bins(-10, 90))
    for elsewhere in (bins(-59, 0), bins(31, 50)):
        assert not reaches(march, elsewhere)
        assert fact_of(march, elsewhere) is None
    values = Attribute("day", "DATE", "values", values=("2026-02-28", "2026-03-31"))
    assert fact_of(march, values) is not None
    assert fact_of(march, Attribute("day", "DATE", "values", values=("2026-03-31",), other="1900-01-01")) is None
    assert not reaches(march, Attribute("day", "DATE", "values", values=("2026-02-28", "2026-04-01")))
