r"""Rare values of a column, merged into one, as MST does before it looks at pairs.

    a value v of a column is kept where its noisy count y_v ≥ 3σ; the others are one value, of count Σ y_v

A domain of many values that nearly nobody has makes pairs whose cells are noise. What a fit of the smaller domain says
of the merged value is spread evenly over the values that it stands for. It looks at noisy counts only, so it costs no
privacy. A column of which at most one value is rare stays as it is.

Source: McKenna, Miklau, Sheldon 2021 (arXiv:2108.04978), section 3.1 (compression of the domain). Departs from it in
measuring pairs in all of their cells: the sum over m merged cells has m times the variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.fitting.target import Target
from dpsql.models.model import Codes, Model
from dpsql.models.weighted_rows import satisfying
from dpsql.runtime.progress import Progress

Floats = npt.NDArray[np.float64]
_DEVIATIONS: Final = 3.0


@dataclass(frozen=True)
class Merging:
    """A domain, and the smaller one whose rare values are one.

    Attributes:
        full: all values.
        domain: the smaller one; its values have no names.
        places: for each column the code in the smaller domain of each of its codes.
    """

    full: Domain
    domain: Domain
    places: Mapping[str, Codes]

    @staticmethod
    def of(domain: Domain, singles: Sequence[Target]) -> Merging:
        """By the noisy 1-way marginals."""
        noisy = {target.clique: target for target in singles}
        attributes, places = [], {}
        for attribute in domain:
            single = noisy[attribute.name,]
            mask = single.values >= _DEVIATIONS * single.stddev
            if int((~mask).sum()) <= 1:
                mask[:] = True
            places[attribute.name] = np.where(mask, np.cumsum(mask) - 1, int(mask.sum())).astype(np.int64)
            values = tuple(map(str, range(int(places[attribute.name].max()) + 1)))
            attributes.append(Attribute(attribute.name, "VARCHAR", "values", values))
        return Merging(domain, Domain(tuple(attributes)), places)

    @property
    def merged(self) -> dict[str, int]:
        """How many values of which columns are one."""
        merged_counts = {name: len(place) - int(place.max()) for name, place in self.places.items()}
        return {name: count for name, count in merged_counts.items() if count > 1}

    def sizes(self, clique: Clique) -> Floats:
        """How many cells of a marginal each cell of the smaller one stands for, flat."""
        cell_counts = np.ones(1)
        for name in clique:
            cell_counts = np.multiply.outer(cell_counts, np.bincount(self.places[name])).ravel()
        return np.asarray(cell_counts, np.float64)

    def target(self, target: Target) -> Target:
        """A marginal over the smaller domain; its variance is that of a cell that stands for one."""
        table = target.values.reshape(target.shape)
        for axis, name in enumerate(target.clique):
            place, size = self.places[name], self.domain.size((name,))
            moved = np.moveaxis(table, axis, 0)
            summed = np.zeros((size, *moved.shape[1:]))
            np.add.at(summed, place, moved)
            table = np.moveaxis(summed, 0, axis)
        return Target(target.clique, table.shape, table.ravel(), target.variance, target.rho)

    def precisions(self, targets: Sequence[Target]) -> list[Floats]:
        """How precise each cell of some targets is, of one that stands for one cell: 1/m for one of m."""
        return [1 / self.sizes(target.clique) for target in targets]

    def model(self, model: Model) -> Model:
        """A model of the smaller domain as one of the full."""
        return Unmerged(self, model) if self.merged else model


@dataclass(frozen=True)
class Unmerged:
    """A model of the smaller domain as a `Model` of the full one.

    Attributes:
        merging: both domains.
        inner: the model.
    """

    merging: Merging
    inner: Model

    @property
    def total(self) -> float:
        """The number of rows that it stands for."""
        return self.inner.total

    def project(self, clique: Clique) -> npt.NDArray[np.float32]:
        """See `Model.project`."""
        each = self.inner.project(clique) / self.merging.sizes(clique)
        table = each.reshape(self.merging.domain.shape(clique))
        for axis, name in enumerate(clique):
            table = table.take(self.merging.places[name], axis=axis)
        return table.astype(np.float32).ravel()

    def sample(
        self, rows: int, generator: np.random.Generator, progress: Progress, allowed: Sequence[Allowed] = ()
    ) -> Codes:
        """See `Model.sample`: merged values are drawn evenly."""
        merging = self.merging
        drawn = self.inner.sample(rows, generator, progress)
        columns = []
        for place, name in enumerate(merging.full.names):
            order = np.argsort(merging.places[name], kind="stable")
            counts = np.bincount(merging.places[name])
            first = np.cumsum(counts) - counts
            codes = drawn[:, place]
            columns.append(order[first[codes] + generator.integers(0, counts[codes])])
        return satisfying(self, np.stack(columns, axis=1), merging.full, allowed, generator)
