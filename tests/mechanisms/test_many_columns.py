"""Marginals of many columns: their subsets are too many to be listed or compared, which is found before any charge."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement
from dpsql.errors import DomainTooLarge
from dpsql.evidence.earlier_releases import light

FAST = {"relaxed_rows": 16, "steps": 10}


def asked(db, columns, *, least=None):
    """A table of yes and no; a workload of its one marginal of all columns, or of thresholds over them."""
    names = [f"b{number}" for number in range(columns)]
    kinds = ", ".join(f"i % {2 + number} = 0 AS {name}" for number, name in enumerate(names))
    db.sql(f"CREATE TABLE t AS SELECT {kinds} FROM range(500) r(i)")
    for name in names:
        db.sql(f"ALTER TABLE t ALTER {name} SET NOT NULL")
    listed = ", ".join(names)
    return f"SELECT count(*) FROM t GROUP BY {listed if least is None else f'at_least({least}, {listed})'}"


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (40, {"mechanism": "projection"}),
        (40, {"memory": "2GB"}),
        (40, {"mechanism": "hdmm"}),
        (40, {"mechanism": "auto"}),
        (40, {"mechanism": "direct"}),
        (18, {"mechanism": "direct"}),
        (16, {"mechanism": "hdmm"}),
        (16, {"weights": "hdmm"}),
        (16, {"mechanism": "hdmm", "reconstruct": "least_squares"}),
    ],
)
def test_too_many_subsets_are_refused_before_the_charge(db, columns, options):
    workload = asked(db, columns)
    db.protect("t", epsilon=1.0, delta=1e-6)
    with pytest.raises(DomainTooLarge, match="columns|marginals"):
        db.synthesize("t", 0.5, workload=workload, **options)
    assert db.budget().epsilon_spent.tolist() == [0.0]


@pytest.mark.medium
@pytest.mark.parametrize("options", [{"mechanism": "direct"}, {"memory": "2GB"}, {"mechanism": "hdmm"}])
def test_subsets_are_counted_where_cells_are_few(db, options):
    """Nineteen columns of one value have one cell and 524,288 subsets."""
    workload = asked(db, 19)
    db.protect("t", epsilon=1.0, delta=1e-6)
    for number in range(19):
        db.domain("t", f"b{number}", values=["true"], nulls=False)
    with pytest.raises(DomainTooLarge, match="up to 19 columns"):
        db.synthesize("t", 0.5, workload=workload, **options)
    assert db.budget().epsilon_spent.tolist() == [0.0]


@pytest.mark.medium
def test_a_prior_is_not_compared_in_all_parts_of_many_columns(db):
    """A marginal of twelve columns has 4,095 parts; it is fitted as it was measured."""
    workload = asked(db, 12)
    db.sql("CREATE TABLE p AS FROM t LIMIT 100")
    db.protect("t", epsilon=9.0, delta=1e-6)
    for mechanism in ("direct", "hdmm"):
        made = db.synthesize("t", 4.0, workload=workload, prior="p", mechanism=mechanism, **FAST)
        assert set(made.entry.report["prior_shares"]) <= {"1", "2", "3", "4", "5", "6"}


def test_what_is_reused_is_what_one_estimate_holds():
    attributes = tuple(Attribute(f"b{n}", "BOOLEAN", "values", ("false", "true")) for n in range(18))
    domain = Domain(attributes)

    def measured(columns, variance):
        names = domain.names[:columns]
        return Measurement(
            names, (2,) * columns, np.zeros(2**columns, np.int64), Fraction(variance), "gaussian", Fraction(1)
        )

    small, wide, noisy = measured(2, 4), measured(18, 1), measured(15, 9)
    assert light(domain, [], [noisy, small, wide]) == [small, noisy]
    assert light(domain, [measured(15, 1)], [noisy]) == []
    assert light(domain, [wide], [small]) == []


@pytest.mark.medium
def test_thresholds_over_many_columns_are_made_again(db):
    """The second could use the first's marginal, of 2¹⁶ subsets: to compare them all took minutes, after the charge."""
    workload = asked(db, 16, least=3)
    db.protect("t", epsilon=3.0, delta=0)
    for name, used in (("one", None), ("two", 0)):
        how = {"mechanism": "lp", "points": 50, "seconds": 5, "space": "uniform"}
        made = db.synthesize("t", 1.0, workload=workload, release=name, **how)
        assert made.entry.report.get("reused") == used
