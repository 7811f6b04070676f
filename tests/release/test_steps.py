"""Steps: whole numbers in a column of DOUBLE stay whole in synthetic rows, and rows are counted as they are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.domain import Attribute
from dpsql.core.steps import is_exact, released_ticks
from dpsql.errors import InvalidArgument
from dpsql.release.chains import rising

ROWS = """
    CREATE TABLE bills AS SELECT (i % 50)::DOUBLE AS items, round(i * 37 % 1000 / 100.0, 2)::DOUBLE AS price,
        (i % 40)::DECIMAL(9,2) AS fee, (i % 7)::FLOAT AS stars, (i % 9) || '.0' AS written,
        TIMESTAMP '2024-01-01' + INTERVAL (i % 300) DAY AS paid FROM range(3000) r(i)
"""


@pytest.fixture
def bills(db):
    db.sql(ROWS)
    db.protect("bills", epsilon=60.0, delta=1e-9)
    db.domain("bills", "items", lower=0, upper=50, bins=10, points=[0], step=1)
    db.sql("CALL dp_domain('bills', 'price', lower := 0, upper := 10, bins := 7, step := 0.01)")
    db.domain("bills", "fee", lower=0, upper=50, bins=5, step=1)
    db.domain("bills", "stars", edges=[0, 0.3, 0.4, 7], step=0.5)
    db.domain("bills", "paid", exclude=True)
    db.domain("bills", "written", lower=0, upper=9, bins=3, read_as="DOUBLE", step=0.25)
    return db


def releases(db, **how):
    return db.synthesize("bills", 2.0, mechanism="direct", workload="all 2-way", **how)


# --- synthetic rows ---------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_synthetic_values_are_multiples_of_the_step(bills):
    releases(bills).to_table("made")
    whole = "bool_and(items = round(items)), bool_and(price = round(price, 2)), bool_and(fee = round(fee))"
    multiples = "bool_and(stars * 2 = round(stars * 2) ), bool_and(written::DOUBLE % 0.25 = 0)"
    assert bills.sql(f"SELECT {whole}, {multiples} FROM made").fetchall() == [(True,) * 5]
    items, prices = bills.sql("SELECT count(DISTINCT items), count(DISTINCT price) FROM made").fetchall()[0]
    assert items == 51
    assert prices > 700


@pytest.mark.medium
def test_what_is_no_multiple_is_counted_in_its_bin(bills):
    """A later 4.7 is not rounded: it counts in [0, 5), as a query and the cells of a release show."""
    bills.sql("INSERT INTO bills SELECT 4.7, 4.705, 4.7, 4.7, '4.7', NULL FROM range(500)")
    query = "SELECT count(*) FILTER (WHERE items < 5) AS n FROM bills"
    ((here,),) = bills.sql(f"SELECT n FROM dp_query('{query}', epsilon := 9)").fetchall()
    assert abs(here - 800) < 40
    made = releases(bills).df()
    assert abs((made["items"] < 5).sum() - 800) < 60
    assert set(made["items"] % 1) == {0.0}


@pytest.mark.medium
def test_constraints_hold_of_multiples(bills):
    bills.sql("CALL dp_constraint('bills', 'price <= items')")
    made = releases(bills).df()
    assert (made["price"] <= made["items"])[made["price"].notna() & made["items"].notna()].all()
    assert ((made["price"] * 100).round() / 100 == made["price"])[made["price"].notna()].all()


# --- what was charged -------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_step_changes_no_answer_and_wastes_no_measurement(bills):
    """Queries are asked again free, and a release after the step leans on what was measured before it."""
    query = "SELECT * FROM dp_query('SELECT count(*) FILTER (WHERE fee < 20) AS n FROM bills', epsilon := 1)"
    first = bills.sql(query).fetchall()
    releases(bills)
    spent = bills.sql("FROM dp_budget()").fetchall()
    bills.domain("bills", "fee", lower=0, upper=50, bins=5, step=4)
    assert bills.sql(query).fetchall() == first
    assert bills.sql("FROM dp_budget()").fetchall() == spent
    after = bills.synthesize("bills", 1.0, workload="all 2-way", mechanism="projection")
    assert after.entry.report["reused"] > 1
    assert set(after.df()["fee"].dropna().astype(float) % 4) == {0.0}


def test_a_domain_with_a_step_is_declared_again_by_its_statement(bills):
    said = bills.sql("SELECT statement FROM dp_domains('bills') WHERE \"column\" IN ('items', 'price')").fetchall()
    before = bills.sql("FROM dp_domains('bills')").fetchall()
    assert all("step := " in statement for (statement,) in said)
    for (statement,) in said:
        bills.sql(statement)
    assert bills.sql("FROM dp_domains('bills')").fetchall() == before


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "how", "words"),
    [
        ("items", {"lower": 0, "upper": 50, "step": 0}, "above 0"),
        ("items", {"lower": 0, "upper": 50, "step": -1}, "above 0"),
        ("items", {"lower": 0, "upper": 50, "step": float("nan")}, "above 0"),
        ("items", {"lower": 0, "upper": 50, "step": float("inf")}, "above 0"),
        ("items", {"lower": 0, "upper": 50, "step": True}, "above 0"),
        ("items", {"lower": 0, "upper": 50, "step": "1"}, "above 0"),
        ("items", {"lower": 0, "upper": 50, "step": 1e-20}, "give a larger one"),
        ("items", {"lower": -1e300, "upper": 1e300, "step": 1}, "give a larger one"),
        ("fee", {"lower": 0, "upper": 50, "step": 0.005}, "multiple of 0.01"),
        ("items", {"values": [0, 1], "step": 1}, "no bins of numbers"),
        ("paid", {"lower": "2024-01-01", "upper": "2024-12-31", "step": 1e-7}, "multiple of 0.000001"),
        ("paid", {"lower": "1970-01-01", "upper": "1971-01-01", "step": 1e13}, "fewer than two multiples"),
        ("items", {"lower": 3, "upper": 50, "step": 40}, "fewer than two multiples"),
        ("items", {"exclude": True, "step": 1}, "leave one of them out"),
    ],
)
def test_what_is_no_step_is_refused(bills, column, how, words):
    with pytest.raises(InvalidArgument, match=words):
        bills.domain("bills", column, **how)


@pytest.mark.medium
def test_times_are_whole_seconds_minutes_and_days(db):
    """The step of a moment is in seconds, of every type with a clock; constraints hold of what is drawn."""
    moment = "TIMESTAMP '2024-01-01' + INTERVAL (i * 7919) MINUTE"
    db.sql(
        f"CREATE TABLE logins AS SELECT {moment} AS began, {moment} + INTERVAL (i % 90) SECOND AS ended, "
        f"date_trunc('day', {moment}) AS day, ({moment})::TIMESTAMP_MS AS sent, ({moment})::TIMESTAMPTZ AS zoned, "
        "TIME '06:00:00' + INTERVAL (i % 900) MINUTE AS clock FROM range(3000) r(i)"
    )
    db.protect("logins", epsilon=20.0, delta=1e-9)
    ends = {"lower": "2024-01-01 00:00:00", "upper": "2065-12-31 23:59:59.999", "every": "year"}
    zoned = {name: f"{text}+00" if name != "every" else text for name, text in ends.items()}
    for column, step in {"began": 60, "ended": 1, "day": 86_400, "sent": 0.25}.items():
        db.domain("logins", column, **ends, step=step)
    db.domain("logins", "zoned", **zoned, step=3600)
    db.sql("CALL dp_domain('logins', 'clock', lower := '00:00:00', upper := '23:59:59.999999', bins := 5, step := 60)")
    db.sql("CALL dp_constraint('logins', 'began <= ended')")
    db.synthesize("logins", 2.0, mechanism="direct", workload="all 2-way").to_table("made")
    steps = {"began": 60_000, "ended": 1000, "day": 86_400_000, "sent": 250, "zoned": 3_600_000, "clock": 60_000}
    whole = ", ".join(f"bool_and(epoch_us({column}) % {step}000 = 0)" for column, step in steps.items())
    others = "count(DISTINCT clock) > 600, count(DISTINCT epoch_ms(sent) % 1000), bool_and(began <= ended)"
    assert db.sql(f"SELECT {whole}, {others} FROM made").fetchall() == [(True,) * 7 + (4, True)]


def test_rows_of_a_parent_have_different_multiples():
    """Where a bin holds so many; else they stay as they were drawn."""
    day = Attribute("day", "TIMESTAMP_S", "bins", ticks=(0, 10 * 86_400, 11 * 86_400), step="86400")
    codes, up = np.array([0] * 10 + [1, 1]), np.zeros(12, np.int64)
    ticks = np.array([0] * 10 + [10 * 86_400] * 2)
    assert (rising(day, codes, ticks, up) // 86_400).tolist() == [*range(10), 10, 10]


@settings(deadline=None)
@given(
    st.sampled_from([("BIGINT", 1), ("TIMESTAMP_S", 1), ("DOUBLE", 1.0)]),
    st.integers(1, 9),
    st.lists(st.integers(1, 4), min_size=2, max_size=8),
    st.integers(0, 2**32),
)
def test_rows_of_a_parent_rise_whatever_the_step(kind, step, widths, seed):
    """Also where a bin holds no multiple, and the next one below or above is drawn."""
    edges = tuple(kind[1] * edge for edge in np.cumsum([0, *widths]).tolist())
    attribute = Attribute("a", kind[0], "bins", ticks=edges, step=str(step))
    generator = np.random.default_rng(seed)
    up = np.sort(generator.integers(0, 5, 40))
    codes = generator.integers(0, attribute.regular, 40)
    codes = codes[np.lexsort((codes, up))]
    drawn = released_ticks(attribute, codes, generator.random(40))
    made = rising(attribute, codes, drawn, up)
    assert all((np.diff(made[up == parent]) >= 0).all() for parent in range(5))


def test_dates_have_no_step(db):
    db.sql("CREATE TABLE t AS SELECT DATE '2024-01-01' + i::INTEGER AS d, i % 7 * 100 AS c FROM range(99) r(i)")
    db.protect("t", epsilon=1.0, delta=1e-9)
    with pytest.raises(InvalidArgument, match="is a DATE, which has days: leave step out"):
        db.domain("t", "d", lower="2024-01-01", upper="2024-12-31", step=7)
    with pytest.raises(InvalidArgument, match="no bins of numbers"):
        db.domain("t", "c", lower="00:00", upper="06:00", bins=6, read_as="HMM", step=100)
    with pytest.raises(InvalidArgument, match="step is given"):
        db.sql("CALL dp_domain('t', 'c', lower := 0, upper := 600, discover := true, epsilon := 0.1, step := 5)")


def multiples_of(attribute: Attribute) -> set[float]:
    """The multiples of the step from one before the first edge to one after the last."""
    known = attribute.of_type
    step = Fraction(attribute.step) * (known.ticks_per_second or (1 if known.is_float else 10 ** (known.scale or 0)))
    first, last = (int(Fraction(tick) / step) for tick in (attribute.ticks[0], attribute.ticks[-1]))
    number = attribute.of_type.float_type
    return {float(number(step * k)) if number else int(step * k) for k in range(first - 1, last + 2)}


# --- every step -------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.sampled_from(["DOUBLE", "FLOAT", "BIGINT", "DECIMAL(18,3)", "TIMESTAMP_MS", "TIMESTAMP_S"]),
    st.sampled_from(["0.01", "0.1", "0.25", "1", "3", "50", "0.03", "1000"]),
    st.lists(st.integers(-400, 400), min_size=2, max_size=5, unique=True),
    st.integers(0, 2**32),
)
def test_values_are_multiples_inside_their_bins(kind, step, edges, seed):
    """Of every type; from a bin that holds none the next one, and as without a step where there is none at all."""
    number = {"DOUBLE": lambda e: e / 100, "FLOAT": lambda e: float(np.float32(e / 100))}.get(kind, lambda e: e)
    attribute = Attribute("a", kind, "bins", ticks=tuple(map(number, sorted(edges))), step=step)
    if not is_exact(attribute):
        return
    uniform = np.random.default_rng(seed).random(60)
    multiples, lowest, highest = multiples_of(attribute), attribute.ticks[0], attribute.ticks[-1]
    within = {tick for tick in multiples if lowest <= tick < highest or (attribute.is_float and tick == highest)}
    for code in range(attribute.regular):
        low, high = attribute.ticks[code : code + 2]
        here = {tick for tick in within if low <= tick < high or tick == high == highest}
        codes = np.full(len(uniform), code)
        drawn = {*released_ticks(attribute, codes, uniform).tolist()}
        if here:
            assert drawn == here if len(here) < 4 else drawn <= here
        else:
            assert drawn <= (within or {*attribute.draw_ticks(codes, uniform).tolist()})
            assert not any(low < tick < max(drawn) or min(drawn) < tick < low for tick in within)
