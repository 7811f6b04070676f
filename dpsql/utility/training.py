"""Train on synthetic rows, test on real ones: the area under the ROC curve, by two kinds of model of scikit-learn.

    label   of a column with an order: whether the code is above the median of the real rows (or not below it, where it
            is the largest); of another: whether it is the most frequent code of the real rows
    linear  logistic regression; columns with an order as numbers from 0 to 1 with an indicator for each code beyond,
            others as indicators
    boosting  gradient boosting of trees over histograms; codes as numbers

AUC is 1 for a model that puts every row with the label above every other, 0.5 for one that knows nothing. Rows that
are all of one label teach nothing: 0.5. The same models trained on real rows that are not tested on tell
what is possible.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.utility.coded import Coded, Codes

MOST_ROWS: Final = 50_000
_SEED: Final = 0
_STEPS: Final = 300


@dataclass(frozen=True)
class Training:
    """AUC on real rows.

    Attributes:
        linear, boosting: of models trained on synthetic rows.
        linear_real, boosting_real: of models trained on real rows; None where that was not asked for.
        trained, trained_real, tested: how many rows.
    """

    linear: float
    boosting: float
    linear_real: float | None
    boosting_real: float | None
    trained: int
    trained_real: int
    tested: int


def training(tables: Coded, target: int, held_out: Codes | None = None, *, reference: bool = True) -> Training:
    """Train on synthetic and on real rows, test on others.

    Args:
        tables: the real and the synthetic one.
        target: the column that is predicted.
        held_out: real rows to test on. Without them a random fifth of the real rows is tested on; the synthetic table
            may have been made from those too.
        reference: whether models are trained on real rows too.

    Raises:
        DpsqlError: scikit-learn is not installed, or there are no other columns.
        InvalidArgument: all rows that are tested have the same label.
    """
    if len(tables.sizes) < 2:
        raise InvalidArgument("target is the only column: there is nothing to predict it from")
    _check_installed()
    draw = np.random.default_rng(_SEED)
    learnt, tested = tables.real, held_out
    if tested is None:
        apart = draw.permutation(len(tables.real))[: max(1, len(tables.real) // 5)]
        is_apart = np.zeros(len(tables.real), bool)
        is_apart[apart] = True
        learnt, tested = tables.real[~is_apart], tables.real[is_apart]
    synthetic, learnt, tested = (_sample(rows, draw) for rows in (tables.synthetic, learnt, tested))
    label = _label(tables, target)
    truth = label(tested[:, target])
    if truth.all() or not truth.any():
        raise InvalidArgument("target has one label in all rows that are tested: name another column")
    linear, boosting = _auc(tables, target, label, synthetic, tested, truth)
    real: tuple[float | None, float | None] = (None, None)
    if reference:
        real = _auc(tables, target, label, learnt, tested, truth)
    return Training(
        linear=linear,
        boosting=boosting,
        linear_real=real[0],
        boosting_real=real[1],
        trained=len(synthetic),
        trained_real=len(learnt) if reference else 0,
        tested=len(tested),
    )


def _check_installed() -> None:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise DpsqlError(
            "target needs scikit-learn, which is not installed: pip install 'dpsql[evaluate]', or leave target out"
        ) from None


def _sample(rows: Codes, draw: np.random.Generator) -> Codes:
    return rows if len(rows) <= MOST_ROWS else rows[np.sort(draw.choice(len(rows), MOST_ROWS, replace=False))]


def _label(tables: Coded, target: int) -> Any:
    """What makes labels of codes."""
    codes = tables.real[:, target]
    regular = tables.ordered[target]
    regular_codes = codes[codes < regular]
    if regular and len(regular_codes):
        median, largest = int(np.median(regular_codes)), int(regular_codes.max())
        least = median if median == largest else median + 1
        return lambda code: (code >= least) & (code < regular)
    most = int(np.bincount(codes).argmax())
    return lambda code: code == most


def _auc(
    tables: Coded, target: int, label: Any, rows: Codes, tested: Codes, truth: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """The AUC of both models, trained on some rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from threadpoolctl import threadpool_limits  # sklearn needs it too

    labels = label(rows[:, target])
    if labels.all() or not labels.any():
        return 0.5, 0.5
    others = [column for column in range(len(tables.sizes)) if column != target]
    areas = []
    models: tuple[tuple[Any, Any], ...] = (
        (LogisticRegression(max_iter=_STEPS), lambda codes: _indicated(tables, codes, others)),
        (HistGradientBoostingClassifier(random_state=_SEED), lambda codes: codes[:, others]),
    )
    for model, features in models:
        # Threads that wait for one another would take a minute on a busy machine for what one does in a second.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a linear model that has not converged is good enough to compare
            model.fit(features(rows), labels)
            areas.append(float(roc_auc_score(truth, model.predict_proba(features(tested))[:, 1])))
    return areas[0], areas[1]


def _indicated(tables: Coded, codes: Codes, columns: list[int]) -> Any:
    """Numbers and indicators, as a sparse matrix."""
    from scipy.sparse import csr_matrix, hstack

    blocks = []
    for column in columns:
        own, size, regular = codes[:, column].astype(np.int64), tables.sizes[column], tables.ordered[column]
        rows = np.arange(len(own))
        if regular:
            inside = own < regular
            number = np.where(inside, own / max(1, regular - 1), 0.0)
            blocks.append(csr_matrix(number[:, None]))
            own, rows, size = own[~inside] - regular, rows[~inside], size - regular
        if size:
            blocks.append(csr_matrix((np.ones(len(own)), (rows, own)), shape=(len(codes), size)))
    return hstack(blocks, format="csr")
