"""Codes and ticks travel in the smallest type that holds their domain, and come out as the values that they stand for.

Edges lie beside 2¹⁵, 2³¹ and the ends of each type, where a type that is too small would give another value.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pytest

import dpsql
from dpsql.release import drawing


def drawn(kind: str, lower: object, upper: object) -> list[object]:
    """Synthetic values of a column whose rows are half at each end, with so little noise that both are occupied."""
    with dpsql.connect() as db:
        made = f"CASE WHEN i % 2 = 0 THEN CAST('{lower}' AS {kind}) ELSE CAST('{upper}' AS {kind}) END"
        db.sql(f"CREATE TABLE ends AS SELECT {made} AS v FROM range(400) r(i)")
        db.protect("ends", epsilon=50.0, delta=1e-9)
        db.domain("ends", "v", lower=lower, upper=upper, bins=3, points=[lower, upper])
        rows = db.sql("FROM dp_synthesize('ends', epsilon := 40.0, mechanism := 'direct')").fetchall()
    return sorted({value for (value,) in rows})


@pytest.mark.medium
@pytest.mark.parametrize("bits", [15, 31, 40])
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_whole_numbers_at_the_ends_of_types(bits, beside):
    """Both ends come out, and nothing beyond them."""
    ends = -(2**bits) - beside, 2**bits + beside
    values = drawn("BIGINT", *ends)
    assert (values[0], values[-1]) == ends


@pytest.mark.medium
@pytest.mark.parametrize(
    ("kind", "lower", "upper"),
    [
        ("SMALLINT", -(2**15), 2**15 - 1),
        ("TINYINT", -128, 127),
        ("UINTEGER", 0, 2**32 - 1),
        ("DECIMAL(6,2)", Decimal("-327.68"), Decimal("327.68")),
        ("DECIMAL(18,2)", Decimal("-21474836.49"), Decimal("21474836.48")),
        ("DATE", datetime.date(1880, 4, 13), datetime.date(2059, 9, 19)),
        ("TIMESTAMP", datetime.datetime(1969, 12, 31, 14, 53, 52), datetime.datetime(1970, 1, 1, 9, 6, 9)),
        ("TIME", datetime.time(0, 0, 1), datetime.time(23, 59, 58)),
    ],
)
def test_values_of_other_types(kind, lower, upper):
    """Of types whose values are made of ticks by arithmetic, which would overflow in a small type."""
    values = drawn(kind, lower, upper)
    assert (values[0], values[-1]) == (lower, upper)


@pytest.mark.medium
def test_a_type_that_is_too_small_would_be_noticed(monkeypatch):
    """The broken twin: everything in 16 bits."""
    monkeypatch.setattr(drawing, "whole_type", lambda least, most: np.int16)
    with np.errstate(all="ignore"):
        values = drawn("BIGINT", 0, 2**15 + 10)
    assert (values[0], values[-1]) != (0, 2**15 + 10)
