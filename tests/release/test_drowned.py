"""Releases whose noise is larger than the table: they say so, are of a size that memory holds, or are refused."""

from __future__ import annotations

import pytest

import dpsql
from dpsql.errors import InvalidArgument

QUICK = {"relaxed_rows": 16, "steps": 20}


@pytest.fixture
def few(db):
    db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a, (i % 4)::TINYINT AS b FROM range(500) r(i)")
    db.protect("t", epsilon=30.0, delta=1e-9)
    db.domain("t", "b", lower=0, upper=3)
    return db


@pytest.mark.medium
@pytest.mark.parametrize(("epsilon", "how"), [(1e-4, {}), (1e-9, {"mechanism": "direct", "noise": "laplace"})])
def test_a_release_says_that_its_size_is_noise(few, epsilon, how):
    """σ of the number of rows is 10⁵ rows and more: below 2σ it is in 97.7 % of releases; of five all miss it in 10⁻⁸.

    Above 5σ, where more than 100,000 rows are drawn, is one of 3·10⁶, or of 10⁵ with Laplace noise in eight cells.
    """
    releases = [few.synthesize("t", epsilon, release=f"{number}", **how, **QUICK) for number in range(5)]
    assert all(release.entry.rows <= 100_000 for release in releases)
    said = [release for release in releases if any("lost in noise" in words for words in release.warnings)]
    assert said
    assert "lost in noise" in repr(said[0])
    assert (
        "lost in noise"
        in few.sql(f"SELECT report FROM dp_releases() WHERE release = {said[0].entry.number}").fetchall()[0][0]
    )


@pytest.mark.medium
def test_a_release_that_is_not_drowned_says_nothing(few):
    assert not any("lost in noise" in words for words in few.synthesize("t", 3.0, **QUICK).warnings)


@pytest.mark.medium
def test_a_size_that_is_asked_for_is_given(few):
    release = few.synthesize("t", 1e-4, rows=321, **QUICK)
    assert len(release.df()) == 321
    assert not any("lost in noise" in words for words in release.warnings)


@pytest.mark.medium
def test_where_the_size_is_public_it_is_refused_before_the_charge(db):
    db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(500) r(i)")
    db.protect("t", epsilon=3.0, delta=1e-9, neighbours="replace_one")
    with pytest.raises(dpsql.DpsqlError, match=r"too small for the 500 rows of 't'.*max_error"):
        db.synthesize("t", 1e-4, **QUICK)
    assert db.budget().releases.tolist() == [0]
    assert len(db.synthesize("t", 1.0, **QUICK).df()) == 500


def test_more_rows_than_memory_holds_are_refused(few):
    with pytest.raises(InvalidArgument, match="rows is 190000000, but the memory of this machine holds about"):
        few.synthesize("t", 1.0, rows=190_000_000)
    assert few.budget().releases.tolist() == [0]
