"""The measures of a synthetic table together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsql.utility.associations import Associations, associations
from dpsql.utility.coded import Coded, Codes
from dpsql.utility.training import Training, training


@dataclass(frozen=True)
class Utility(Associations):
    """What a synthetic table is good for. Computed from real rows: private.

    Attributes:
        rows, synthetic_rows: how many were compared.
        training: AUC of models, None without a target.
    """

    rows: int
    synthetic_rows: int
    training: Training | None = None

    def figures(self) -> dict[str, int | float | None]:
        """The figures by name, those of the models after `auc_`."""
        figures: dict[str, Any] = {name: value for name, value in asdict(self).items() if name != "training"}
        if self.training is not None:
            trained = asdict(self.training)
            for name in ("linear", "boosting", "linear_real", "boosting_real"):
                figures[f"auc_{name}"] = trained.pop(name)
            figures |= {f"rows_{name}": value for name, value in trained.items()}
        return figures

    def lines(self) -> Iterator[tuple[str, str]]:
        """What each figure is, and the figure, for people."""
        yield "rows: real, synthetic", f"{self.rows:,}, {self.synthetic_rows:,}"
        yield f"mean L1 of {self.pairs:,} pairs of columns", f"{self.l1_pairs:.4f}"
        yield f"mean L1 of {self.triples:,} triples", f"{self.l1_triples:.4f}"
        yield "largest error of a cell of these", f"{self.largest_error:.4f}"
        yield "normalised mutual information, mean |difference|", f"{self.nmi:.4f}"
        yield "  of the tenth of the pairs with the largest", f"{self.nmi_top:.4f}"
        yield "the same beyond chance, mean |difference|", f"{self.dependence:.4f}"
        yield "  of the most dependent tenth of the pairs", f"{self.dependence_top:.4f}"
        if self.correlation is not None:
            yield "correlation of ordered columns, mean |difference|", f"{self.correlation:.4f}"
        yield "times that a synthetic row has a pair that no real row has", f"{self.unseen:,}"
        if self.impossible is not None:
            yield "synthetic rows with an impossible pair", f"{self.impossible:,}"
        if self.training is not None:
            t = self.training
            for what, made, real in (
                ("a linear model", t.linear, t.linear_real),
                ("gradient boosting", t.boosting, t.boosting_real),
            ):
                yield f"AUC of {what}, trained on synthetic rows", f"{made:.3f}"
                if real is not None:
                    yield "  trained on real rows", f"{real:.3f}"
            yield "  rows: synthetic, real, tested", f"{t.trained:,}, {t.trained_real:,}, {t.tested:,}"


def measure(
    tables: Coded,
    *,
    target: int | None = None,
    held_out: Codes | None = None,
    reference: bool = True,
    impossible: Mapping[tuple[int, int], npt.NDArray[np.bool_]] | None = None,
) -> Utility:
    """Compare a synthetic table with the real one.

    Args:
        tables: both.
        target: the column that models predict; None for no models.
        held_out: see `training`.
        reference: whether models are trained on real rows too.
        impossible: see `associations`.

    Raises:
        DpsqlError: see `training`.

    >>> rows = np.array([[0, 1], [1, 0], [1, 1], [0, 0]])
    >>> same = measure(Coded(rows, rows, (2, 2), (0, 0)))
    >>> same.l1_pairs, same.nmi, same.unseen
    (0.0, 0.0, 0)
    """
    compared = associations(tables, impossible)
    trained = None if target is None else training(tables, target, held_out, reference=reference)
    return Utility(**vars(compared), rows=len(tables.real), synthetic_rows=len(tables.synthetic), training=trained)
