"""Questions and choices as the books keep them: the same bytes for good, and read back as the same values."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from dpsql.books.releases.answers import answers_from, cells_of, row_of
from dpsql.books.releases.questions import question_from
from dpsql.core.marginal import Measurement
from dpsql.core.threshold import Threshold
from dpsql.privacy.journal import Answer, ChosenLinear, PublicMarginal, SignedLinear, SignedQuery, WholeMarginal
from dpsql.privacy.questions import (
    AggregateQuestion,
    BinsQuestion,
    CellSelection,
    CellsQuestion,
    ForeignQuestion,
    MarginalQuestion,
    MarginalSelection,
    SignedSelection,
    SourceSelection,
    ValuesQuestion,
)

RHO = Fraction(3, 7)
THRESHOLD = Threshold(("a", "größe"), 2)
GOLDEN = {
    '{"ask": "measure", "clique": ["a", "größe"], "rho": "3/7", "detail": "gaussian"}': MarginalQuestion(
        ("a", "größe"), RHO, "gaussian"
    ),
    '{"ask": "measure", "clique": [], "rho": "0", "detail": "none"}': MarginalQuestion((), Fraction(0), "none"),
    '{"ask": "cells", "clique": ["a"], "rho": "3/7", "detail": "0,5"}': CellsQuestion(("a",), (0, 5), RHO, "gaussian"),
    '{"ask": "cells laplace", "clique": ["a"], "rho": "2", "detail": "3"}': CellsQuestion(
        ("a",), (3,), Fraction(2), "laplace"
    ),
    '{"ask": "cells", "clique": ["a", "größe"], "rho": "3/7", "detail": "1", "least": 2}': CellsQuestion(
        THRESHOLD, (1,), RHO, "gaussian"
    ),
    '{"ask": "select", "clique": [], "rho": "3/7", "detail": "2 of 9"}': CellSelection(2, 9, RHO),
    '{"ask": "select marginals", "clique": [], "rho": "3/7", "detail": "1 of 4"}': MarginalSelection(1, 4, RHO),
    '{"ask": "select source", "clique": [], "rho": "3/7", "detail": "1 of 4 or 3 public"}': SourceSelection(4, 3, RHO),
    '{"ask": "sample", "clique": [], "rho": "3/7", "detail": "8 of 3 with factor 5"}': SignedSelection(8, 3, 5, RHO),
    '{"ask": "sample", "clique": [], "rho": "3/7", "detail": "8 of 3 with factor 5 among 300 rows"}': SignedSelection(
        8, 3, 5, RHO, 300
    ),
    '{"ask": "query", "clique": ["a"], "rho": "3/7", "detail": "1: 0f"}': AggregateQuestion(("a",), 1, "0f", RHO),
    '{"ask": "bins", "clique": ["a"], "rho": "3/7", "detail": "0f"}': BinsQuestion("a", "0f", RHO),
    '{"ask": "values", "clique": ["a"], "rho": "3/7", "detail": "but for 5e-08"}': ValuesQuestion("a", 5e-08, RHO),
    '{"ask": "values", "clique": ["a"], "rho": "3/7", "detail": "but for 5e-08 of 9 units"}': ValuesQuestion(
        "a", 5e-08, RHO, 9
    ),
}


@pytest.mark.parametrize(("text", "question"), GOLDEN.items(), ids=[type(one).__name__ for one in GOLDEN.values()])
def test_a_question_has_the_text_that_it_always_had_and_is_read_back(text, question):
    assert question.text == text
    assert question_from(text) == question
    assert question.of_cells == (json.loads(text)["ask"] not in ("query", "bins"))


OTHERS = {
    "another question": '{"ask": "median", "clique": ["a"], "rho": "3/7", "detail": "x"}',
    "another detail": '{"ask": "select", "clique": [], "rho": "3/7", "detail": "two of nine"}',
    "another order": '{"clique": ["a"], "ask": "measure", "rho": "3/7", "detail": "gaussian"}',
    "no share": '{"ask": "measure", "clique": ["a"], "detail": "gaussian"}',
    "a share as another writes it": '{"ask": "measure", "clique": ["a"], "rho": "6/14", "detail": "gaussian"}',
    "a clique that is none": '{"ask": "values", "clique": ["a", "b"], "rho": "3/7", "detail": "but for 0.1"}',
    "of a query": '{"ask": "query", "clique": ["a"], "rho": "3/7", "detail": "first"}',
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_a_text_of_another_version_stays_as_it_is(text):
    found = question_from(text)
    assert isinstance(found, ForeignQuestion)
    assert found.text == text
    assert found.of_cells == ('"query"' not in text)


@pytest.mark.parametrize("text", ["", "[]", "{}", "measure", '"ask"', "3"])
def test_what_is_no_question_is_refused(text):
    with pytest.raises((ValueError, TypeError, KeyError)):
        question_from(text)


CHOICES = [
    (CellSelection(2, 9, RHO), (("a",), 5), '[["a"], 5]'),
    (CellSelection(2, 9, RHO), (("a",), 0), '[["a"], 0]'),
    (CellSelection(2, 9, RHO), (THRESHOLD, 3), '[["a", "größe"], 3, 2]'),
    (MarginalSelection(1, 4, RHO), WholeMarginal(("a", "b")), '[["a", "b"], -1]'),
    (SourceSelection(4, 3, RHO), WholeMarginal(("a", "b")), '[["a", "b"], -1]'),
    (SourceSelection(4, 3, RHO), PublicMarginal(("a", "b")), '[["a", "b"], -2]'),
    (SignedSelection(8, 3, 5, RHO), SignedQuery((("a",), 5), 1), '[["a"], 5]'),
    (SignedSelection(8, 3, 5, RHO), SignedQuery((("a",), 0), -1), '[["a"], -1]'),
    (SignedSelection(8, 3, 5, RHO), SignedQuery((("a",), 5), -1), '[["a"], -6]'),
    (SignedSelection(8, 3, 5, RHO), SignedLinear(ChosenLinear(("a",), "e3", 5), 1), '[["a"], 5, "e3"]'),
    (SignedSelection(8, 3, 5, RHO), SignedLinear(ChosenLinear(("a",), "e3", 0), -1), '[["a"], -1, "e3"]'),
]


@pytest.mark.parametrize(("question", "choice", "written"), CHOICES, ids=[one for _, _, one in CHOICES])
def test_a_choice_has_the_json_that_it_always_had_and_is_read_back(question, choice, written):
    """A negation, a whole marginal and a cell have numbers in the books only; there −1 is told by its question."""
    answer = Answer(question, RHO, selection=(choice,))
    row = row_of(1, answer)
    assert row["selection"] == f"[{written}]"
    (again,) = answers_from([row], cells_of([answer], 1))
    assert again == answer
    assert type(again.selection[0]) is type(choice)


def test_thresholds_are_read_back():
    question = CellsQuestion(THRESHOLD, (0, 2), RHO, "gaussian")
    measured = Measurement(
        ("a", "größe"), (2, 2), np.array([4, 5]), Fraction(9), "gaussian", RHO, (0, 2), THRESHOLD.least
    )
    answer = Answer(question, RHO, measured)
    (again,) = answers_from([row_of(1, answer)], cells_of([answer], 1))
    assert again.question == question
    assert again.measurement.family == THRESHOLD
