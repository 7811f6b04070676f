"""The second stage spends exactly what it has, on strong pairs by their number, else on everything as before."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dpsql.strategy.second_stage import second_shares

from ..adult import domain_of

NAMES = ("age", "race", "sex", "relationship")
DOMAIN = domain_of(NAMES)
PAIRS = [("age", "race"), ("race", "sex"), ("sex", "relationship"), ("age", "sex"), ("race", "relationship")]
FIRST = [(("age",), Fraction(1, 10)), *((pair, Fraction(1, 20 + k)) for k, pair in enumerate(PAIRS))]


@given(st.lists(st.sampled_from(PAIRS), unique=True), st.fractions(Fraction(1, 10**6), 10))
def test_shares_add_up_to_all_of_it(strong, rho):
    shares = second_shares(DOMAIN, FIRST, strong, rho)
    assert sum(share for _, share in shares) == rho
    assert min(share for _, share in shares) > 0


def test_each_strong_pair_takes_one_part_in_as_many_as_there_are_columns():
    (_, taken), *rest = second_shares(DOMAIN, FIRST, PAIRS[:1], Fraction(1))
    assert taken == Fraction(1, 4)
    assert [clique for clique, _ in rest] == [clique for clique, _ in FIRST]


def test_strong_pairs_together_take_half_at_most_and_everything_the_other_half():
    shares = second_shares(DOMAIN, FIRST, PAIRS, Fraction(1))
    assert [clique for clique, _ in shares] == [*PAIRS, *(clique for clique, _ in FIRST)]
    assert sum(share for _, share in shares[: len(PAIRS)]) == Fraction(1, 2)


def test_where_nothing_is_strong_all_is_measured_again_in_proportion():
    shares = second_shares(DOMAIN, FIRST, [], Fraction(3))
    whole = sum(share for _, share in FIRST)
    assert shares == [(clique, 3 * share / whole) for clique, share in FIRST]
