"""Conditions that no row can satisfy, arithmetic with answers, and the words of refusals."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

import dpsql


@pytest.fixture(scope="module")
def sales():
    with dpsql.connect() as db:
        db.sql(
            "CREATE TABLE sales AS SELECT (['a', 'b'])[1 + i % 2] AS shop, i % 10 AS sold, i % 500 AS day, "
            "(i % 7)::DOUBLE AS price FROM range(40000) r(i)"
        )
        db.sql("CREATE VIEW seldom AS SELECT shop, sold FROM sales WHERE sold > 20")
        db.protect("sales", epsilon=300.0, delta=1e-9)
        db.domain("sales", "shop", values=["a", "b"])
        db.domain("sales", "sold", lower=0, upper=9)
        db.domain("sales", "day", lower=0, upper=499)
        db.domain("sales", "price", lower=0, upper=8, bins=4)
        yield db


IMPOSSIBLE = [
    "SELECT avg(sold) FROM sales WHERE sold > 100",
    "SELECT count(*) FROM sales WHERE sold > 100",
    "SELECT shop, sum(sold) FROM sales WHERE shop = 'c' GROUP BY shop",
    "SELECT count(*), avg(sold) FILTER (WHERE sold > 3 AND sold < 2) FROM sales",
    "SELECT stddev(sold) FROM sales WHERE sold IS NULL",
    "SELECT median(price) FROM sales WHERE price > 8",
    "SELECT corr(sold, day) FILTER (WHERE day < 0) FROM sales",
    "SELECT sum(sold) / count(*) FILTER (WHERE shop = 'x') FROM sales",
    "SELECT avg(sold) FROM seldom",
    "SELECT avg(sold) FROM sales WHERE shop = 'a' AND shop = 'b'",
    "SELECT shop, avg(sold) FROM sales GROUP BY shop HAVING avg(sold) FILTER (WHERE sold < 0) > 1",
]


@pytest.mark.medium
@pytest.mark.parametrize("sql", IMPOSSIBLE)
def test_conditions_that_leave_no_row_of_the_domain_are_refused_before_the_charge(sales, sql):
    before = len(sales.ledger())
    for function in ("dp_query", "dp_plan"):
        with pytest.raises(duckdb.Error, match="no row of the declared domain satisfies"):
            sales.sql(f"FROM {function}(?, epsilon := 0.1)", [sql]).fetchall()
    assert len(sales.ledger()) == before


@pytest.mark.medium
def test_a_group_that_no_row_can_be_in_has_no_average(sales):
    """It is NULL without an interval, whatever the noise is; the other group has its own."""
    of_one = "avg(sold) FILTER (WHERE shop = 'a') AS x, stddev(sold) FILTER (WHERE shop = 'a') AS y"
    sql = f"SELECT shop, {of_one} FROM sales GROUP BY shop"
    found = {row[0]: row[1:] for row in sales.sql("FROM dp_query(?, epsilon := 1)", [sql]).fetchall()}
    assert found["b"] == (None,) * 8
    assert all(value is not None for value in found["a"])


@pytest.mark.medium
def test_arithmetic_with_answers_costs_nothing_more(sales):
    sales.sql("FROM dp_query('SELECT shop, count(*) FROM sales GROUP BY shop', epsilon := 0.2)").fetchall()
    before = len(sales.ledger())
    made = "SELECT shop, count(*) * 5 AS x, -count(*) AS y, round(count(*), -2) AS z FROM sales GROUP BY shop"
    for shop, x, x_error, x_low, x_high, y, _, y_low, y_high, *_ in sales.sql(
        "FROM dp_query(?, epsilon := 0.2)", [made]
    ).fetchall():
        n, error, low, high = sales.sql(
            "SELECT * EXCLUDE (shop) FROM dp_query('SELECT shop, count(*) FROM sales GROUP BY shop', epsilon := 0.2) "
            "WHERE shop = ?",
            [shop],
        ).fetchall()[0]
        assert (x, x_low, x_high, y, y_low, y_high) == (5 * n, 5 * low, 5 * high, -n, -high, -low)
        assert x_error == pytest.approx(5 * error)
    assert len(sales.ledger()) == before


COVERED = {
    "count(*) * 5 - 3": 500,
    "7 - count(*)": 500,
    "100.0 * count(*) FILTER (WHERE sold > 4) / count(*)": 500,
    "count(*) + 2 * sum(sold)": 500,
    "count(*) FILTER (WHERE sold > 4) - count(*) FILTER (WHERE sold < 3)": 500,
    "round(avg(sold), 1) * 2": 500,
    "sqrt(count(*))": 500,
    "round(count(*) + count(*) FILTER (WHERE sold > 4), -1)": 500,
    "(sum(sold) - count(*))::INTEGER": 500,
    "(count(*) FILTER (WHERE sold > 4) / count(*))::INTEGER * 100": 500,
    "(count(*) FILTER (WHERE sold > 4) / count(*))::INTEGER": 500,
    "(count(*) / 7)::DECIMAL(9, 1)": 500,
}


@pytest.mark.medium
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("value", COVERED)
def test_intervals_of_arithmetic_hold_the_truth(sales, value, noise):
    """Of 500 groups at most 60 intervals may miss: more have a chance of 1e-9 where 5 % are allowed."""
    sql = f"SELECT day, {value} AS x FROM sales GROUP BY day"
    truth = dict(sales.sql(sql).fetchall())
    asked = f"SELECT day, x, x_low, x_high FROM dp_query(?, epsilon := 1.5, mechanism := '{noise}')"
    found = [row for row in sales.sql(asked, [sql]).fetchall() if None not in (row[0], row[2], row[3])]
    missed = sum(not row[2] <= truth[row[0]] <= row[3] for row in found)
    assert len(found) > 400
    assert missed <= 60
    assert np.ptp([float(row[1]) for row in found if row[1] is not None]) > 0


# several answers added after one was rounded: a sum of such intervals held the truth in 86 % of groups, not in 95 %
ROUNDED_INSIDE = (
    "floor(count(*)) + ceil(sum(sold))",
    "2 * (1 - round(sum(sold), -2)) + count(*)",
    "sum(sold)::INTEGER + count(*)",
    "sum(sold)::DECIMAL(18, 1)::DOUBLE - sum(day)",
    "sum(price)::FLOAT + sum(price) FILTER (WHERE shop = 'a')",
    "round(floor(count(*) FILTER (WHERE sold > 4)) - count(*), 1)",
    "nullif(count(*) FILTER (WHERE sold > 4), 0) / count(*)",  # NULL is not 0
)


@pytest.mark.medium
def test_the_value_of_a_cast_lies_within_its_ends(sales):
    """The ends are rounded as the value is, also where the cast is all there is."""
    share = "count(*) FILTER (WHERE sold < 6) / count(*)"
    for value, most in ((f"({share})::INTEGER * 100", 100), (f"({share})::BIGINT", 1), (f"round({share})", 1)):
        sql = f"SELECT {value} AS x FROM sales"
        ((x, _, low, high),) = sales.sql("FROM dp_query(?, epsilon := 1)", [sql]).fetchall()
        assert (x, low, high) == (most, most, most)


@pytest.mark.medium
def test_counts_below_zero_can_be_hidden_inside_arithmetic(sales):
    """Ends of one answer are no less than 0; those of a sum of several are left, because they would hold too seldom."""
    made = {
        "count(*) FILTER (WHERE sold = 1) + count(*) FILTER (WHERE sold = 2)": 0,
        "count(*) FILTER (WHERE sold = 1) * 5 + 3": 3,
        "-(count(*) FILTER (WHERE sold = 1))": None,
    }
    for value, least in made.items():
        sql = f"SELECT day, {value} AS x FROM sales WHERE day % 10 > 4 GROUP BY day"  # no row: sold is day % 10
        asked = "SELECT x, x_low, x_high FROM dp_query(?, epsilon := 0.1{}) ORDER BY day"
        raw = np.array(sales.sql(asked.format(""), [sql]).fetchall(), float)
        shown = np.array(sales.sql(asked.format(", non_negative := true"), [sql]).fetchall(), float)
        if least is None:
            assert shown.max() == 0 < raw[:, 0].max()
            continue
        assert raw[:, 0].min() < least
        assert shown[:, 0].min() == least
        assert (shown[:, 1:] == (raw[:, 1:] if least == 0 else np.maximum(raw[:, 1:], least))).all()


@pytest.mark.medium
def test_errors_that_nothing_is_known_of_are_null(sales):
    unknown = ("avg(sold) / avg(day)", "avg(sold) - avg(day)", "count(*) * count(*)", "count(*) // 7")
    for value in (*unknown, *ROUNDED_INSIDE):
        sql = f"SELECT {value} AS x FROM sales"
        (row,) = sales.sql("FROM dp_query(?, epsilon := 1)", [sql]).fetchall()
        assert row[0] is not None
        assert row[1:] == (None, None, None)


NAMES = {
    "SELECT #1, count(*) FROM sales GROUP BY ALL": "#1",
    "SELECT count(*) FROM sales WHERE [1, 2][sold] = 1": "[1, 2][sold]",
    "SELECT count(*) FROM (VALUES (1)) v(a)": "VALUES",
    "SELECT count(*) FROM sales WHERE list_transform([1], x -> x + sold)[1] = 1": "x -> x + sold",
    "SELECT shop, histogram(sold) FROM sales GROUP BY shop": "histogram(…) is not supported",
    "SELECT shop, approx_quantile(sold, 0.5) FROM sales GROUP BY shop": "approx_quantile(…) is not supported",
    "PIVOT sales ON shop USING count(*)": "PIVOT",
}


@pytest.mark.parametrize("sql", NAMES)
def test_refusals_name_what_somebody_wrote(sales, sql):
    """And no class of the parser's."""
    with pytest.raises(duckdb.Error) as caught:
        sales.sql("FROM dp_query(?, epsilon := 1)", [sql]).fetchall()
    assert NAMES[sql] in str(caught.value)
    for name in ("POSITIONALCOLUMN", "ATTIMEZONE", "BRACKET", "STRUCT ", "LAMBDA", "SUBQUERY", "add it to GROUP BY"):
        assert name not in str(caught.value)
