"""Models that are trained on synthetic rows and tested on real ones."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.utility import training as training_module
from dpsql.utility.coded import Coded
from dpsql.utility.training import training
from dpsql.utility.utility import measure

SIZES, ORDERED = (10, 4, 3, 2), (9, 0, 0, 0)  # the first has a code for NULL


def learnable(rows: int, seed: int) -> np.ndarray:
    """The last column is predicted by the first, but for NULL, and by the second."""
    draw = np.random.default_rng(seed)
    first, second, third = draw.integers(0, 10, rows), draw.integers(0, 4, rows), draw.integers(0, 3, rows)
    score = np.where(first < 9, first - 4.0, 0.0) + 2.0 * (second == 2)
    return np.column_stack([first, second, third, draw.random(rows) < 1 / (1 + np.exp(-score))]).astype(np.int64)


def auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """How often a row with the label has a larger score than one without it."""
    above, below = scores[truth][:, None], scores[~truth][None]
    return float(((above > below) + 0.5 * (above == below)).mean())


@pytest.mark.medium
def test_rows_of_the_same_kind_teach_as_much_as_real_ones():
    real, made, held_out = (learnable(3000, seed) for seed in range(3))
    found = training(Coded(real, made, SIZES, ORDERED), 3, held_out)
    first, second = held_out[:, 0], held_out[:, 1]
    best = auc(np.where(first < 9, first - 4.0, 0.0) + 2.0 * (second == 2), held_out[:, 3] == 1)
    for got in (found.linear, found.boosting, found.linear_real, found.boosting_real):
        assert best - 0.03 < got < best + 0.005
    assert (found.trained, found.trained_real, found.tested) == (3000, 3000, 3000)


@pytest.mark.medium
def test_a_shuffled_column_teaches_nothing():
    """The broken twin: rows whose target is another row's."""
    real, made, held_out = (learnable(3000, seed) for seed in range(3))
    made[:, 3] = np.random.default_rng(9).permutation(made[:, 3])
    found = training(Coded(real, made, SIZES, ORDERED), 3, held_out, reference=False)
    honest = training(Coded(real, real, SIZES, ORDERED), 3, held_out, reference=False)
    assert found.linear < honest.linear - 0.15
    assert found.boosting < honest.boosting - 0.15
    assert (found.linear_real, found.boosting_real, found.trained_real) == (None, None, 0)


@pytest.mark.medium
def test_columns_with_an_order_are_told_from_above_the_median():
    real = learnable(2000, 0)
    found = training(Coded(real, real, SIZES, ORDERED), 0)
    assert found.linear > 0.7
    assert (found.trained, found.trained_real, found.tested) == (2000, 1600, 400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_module, "MOST_ROWS", 300)
        few = training(Coded(real, real, SIZES, ORDERED), 0)
    assert (few.trained, few.trained_real, few.tested) == (300, 300, 300)


def test_rows_of_one_label_teach_nothing():
    real = learnable(200, 0)
    made = real.copy()
    made[:, 3] = 1
    found = training(Coded(real, made, SIZES, ORDERED), 3, learnable(50, 1), reference=False)
    assert (found.linear, found.boosting) == (0.5, 0.5)


def test_what_cannot_be_predicted_is_refused(monkeypatch):
    real = learnable(200, 0)
    constant = real.copy()
    constant[:, 3] = 1
    with pytest.raises(InvalidArgument, match="name another column"):
        training(Coded(constant, real, SIZES, ORDERED), 3)
    with pytest.raises(InvalidArgument, match="the only column"):
        training(Coded(real[:, 3:], real[:, 3:], (2,), (0,)), 0)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DpsqlError, match=r"pip install 'dpsql\[evaluate\]', or leave target out"):
        training(Coded(real, real, SIZES, ORDERED), 3)
    assert measure(Coded(real, real, SIZES, ORDERED)).training is None


def test_the_figures_have_names():
    real = learnable(300, 0)
    found = measure(Coded(real, real, SIZES, ORDERED), target=3, held_out=learnable(50, 1), reference=False)
    figures = found.figures()
    assert {"l1_pairs", "l1_triples", "largest_error", "nmi", "nmi_top", "correlation", "unseen"} <= {*figures}
    assert figures["auc_boosting"] == found.training.boosting
    assert figures["auc_linear_real"] is None
    assert figures["rows"] == 300
    assert any("gradient boosting" in what for what, _ in found.lines())
