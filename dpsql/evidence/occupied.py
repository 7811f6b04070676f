r"""Which of the cells for NULL and for values outside the domain hold rows, as far as noisy counts tell.

    N_c   the rows with code c of a column, by all whole marginals S that hold it (`rows_by_code`)
    c is occupied where N_c ≥ 4/√(Σ_S w_S), or where one measured cell with code c is ≥ 4σ

over the whole marginals S that were measured and hold the column. Where there are none NULL counts as occupied and
OUTSIDE does not, because the owner declared which values there are. A code that is not occupied is left out of the fit:
noise on its cells would else become synthetic rows, and a column without a single NULL would get some. What is left out
for good is at most what the noise of a count hides. Noise makes a code occupied in 3 of 100,000 cases.

It looks at noisy counts only, so it costs no privacy. Codes of declared values are never left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.prior import Prior
from dpsql.core.row_codes import code_type
from dpsql.errors import DpsqlError
from dpsql.fitting.rows_by_code import RowsByCode
from dpsql.models.model import Codes, Model
from dpsql.runtime.progress import Progress

_DEVIATIONS: Final = 4.0
_OF_A_CELL: Final = 4.0


@dataclass(frozen=True)
class SideFacts:
    """What a fit knows beside measurements.

    Attributes:
        domain: of what it fits.
        prior: a public table in that domain's codes; None without.
        allowed: constraints, in that domain's codes.
    """

    domain: Domain
    prior: Prior | None
    allowed: tuple[Allowed, ...] = ()


@dataclass(frozen=True)
class Occupied:
    """A domain, and the smaller one of the codes that hold rows.

    Attributes:
        full: all codes.
        domain: without codes of NULL and OUTSIDE that hold none.
        outside: for each column of which rows lie outside its domain, about how many, as a fraction of all.
    """

    full: Domain
    domain: Domain
    outside: Mapping[str, float]

    @staticmethod
    def all_of(domain: Domain) -> Occupied:
        """Every code of a domain."""
        return Occupied(domain, domain, {})

    @cached_property
    def codes(self) -> Mapping[str, Codes]:
        """For each column, which codes of the full domain those of the smaller one are."""
        pairs = zip(self.full, self.domain, strict=True)
        return {whole.name: np.array(_codes(whole, part), np.int64) for whole, part in pairs}

    @property
    def is_all(self) -> bool:
        """Whether no code is left out."""
        return self.domain == self.full

    def places(self, clique: Clique) -> tuple[Any, ...]:
        """Of a marginal's table, the part with occupied codes."""
        return np.ix_(*(self.codes[name] for name in clique))

    def measurements(self, measured: Iterable[Measurement]) -> list[Measurement]:
        """Whole marginals and linear queries without the cells that are left out; others as they are."""
        return [m if m.cells is not None or not m.clique or self.is_all else self._part(m) for m in measured]

    def _part(self, measured: Measurement) -> Measurement:
        if (family := measured.linear) is not None:
            places, shape = self.places(family.clique), self.full.shape(family.clique)
            weights, groups = (array.reshape(shape)[places].ravel() for array in (family.weights, family.groups))
            return replace(measured, linear=family.of_cells(weights, groups))
        values = measured.values.reshape(measured.shape)[self.places(measured.clique)]
        return replace(measured, shape=values.shape, values=values.ravel())

    def side_facts(self, prior: Prior | None, allowed: Sequence[Allowed] = ()) -> SideFacts:
        """What a fit of the smaller domain knows: a prior and constraints in the codes that are left."""
        return SideFacts(self.domain, self._prior(prior), tuple(self.inside(part) for part in allowed if part.clique))

    def inside(self, part: Allowed) -> Allowed:
        """What a constraint allows of the smaller domain.

        Raises:
            DpsqlError: nothing.
        """
        columns, mask = [], np.ones(len(part.codes), bool)
        for place, name in enumerate(part.clique):
            codes = self.codes[name]
            small = np.searchsorted(codes, part.codes[:, place])
            columns.append(np.minimum(small, len(codes) - 1))
            mask &= codes[columns[-1]] == part.codes[:, place]
        if part.clique and not mask.any():
            raise DpsqlError(
                f"{' and '.join(map(repr, part.predicates))} allows only NULL or values outside the domain of "
                f"{', '.join(part.clique)}, of which the noisy counts show none: take it back with "
                "dp_constraint(…, remove := true); then the same call completes the release, free"
            )
        codes = np.stack(columns, axis=1)[mask] if columns else part.codes
        return replace(part, codes=codes, places=part.places[mask] if columns else part.places)

    def _prior(self, prior: Prior | None) -> Prior | None:
        if prior is None or self.is_all:
            return prior
        columns, mask = [], np.ones(len(prior.codes), bool)
        for place, name in enumerate(prior.names):
            codes = self.codes[name]
            left, renumbered = np.zeros((2, self.full.size((name,))), np.int64)
            left[codes], renumbered[codes] = 1, np.arange(len(codes))
            columns.append(renumbered[prior.codes[:, place]])
            mask &= left[prior.codes[:, place]] == 1
        if not mask.any():
            return None
        return Prior(prior.names, np.stack(columns, axis=1)[mask], prior.weights[mask])

    def model(self, model: Model) -> Model:
        """A model of the smaller domain as one of the full."""
        return model if self.is_all else Widened(self, model)

    def restricted(self, allowed: Sequence[Allowed]) -> list[Allowed]:
        """Constraints with those that no row has a code that is left out: for a model of the full domain."""
        parts = [self._without(part) for part in allowed]
        tied = {name for part in allowed for name in part.clique}
        for attribute in self.full:
            codes, names = self.codes[attribute.name], (attribute.name,)
            if len(codes) < attribute.size and attribute.name not in tied:
                parts.append(Allowed(names, names, (), codes[:, None], np.zeros((len(codes), 1))))
        return parts

    def _without(self, part: Allowed) -> Allowed:
        """A constraint without the tuples that have such a code, unless it allows nothing else."""
        mask = np.ones(len(part.codes), bool)
        for place, name in enumerate(part.clique):
            mask &= np.isin(part.codes[:, place], self.codes[name])
        return replace(part, codes=part.codes[mask], places=part.places[mask]) if mask.any() else part


def _codes(whole: Attribute, part: Attribute) -> list[int]:
    """The codes of the full domain that are left, in the order of the smaller one's."""
    special = (
        (whole.null_code, part.null_code),
        (whole.absent_code, part.absent_code),
        (whole.outside_code, part.outside_code),
    )
    left = [full for full, small in special if full is not None and small is not None]
    return [*range(whole.regular + (whole.other is not None)), *left]


def occupied(domain: Domain, measured: Sequence[Measurement]) -> Occupied:
    """The codes of a domain that hold rows by these measurements, by the rule at the top of this file.

    Args:
        domain: that was measured.
        measured: noisy answers to marginals or cells.
    """
    noisy_marginals = [m for m in measured if m.least is None and m.clique and m.variance > 0]
    whole = [m for m in noisy_marginals if m.cells is None]
    total = _total(whole)
    attributes, outside = [], {}
    for attribute in domain:
        mine = [m for m in noisy_marginals if attribute.name in m.clique]
        codes = attribute.null_code, attribute.outside_code
        by_code = None if codes == (None, None) else RowsByCode.of(attribute.name, mine)
        nulls, others = (_held(mine, by_code, attribute.name, code) for code in codes)
        attributes.append(
            replace(attribute, nullable=bool(nulls) or (nulls is None and attribute.nullable), outside=bool(others))
        )
        if others:
            outside[attribute.name] = min(1.0, others / total)
    return Occupied(domain, Domain(tuple(attributes), domain.excluded), outside)


def _total(whole: Sequence[Measurement]) -> float:
    """About how many rows there are."""
    weights = [1 / (float(m.variance) * len(m.values)) for m in whole]
    sums = sum(w * float(m.values.sum()) for m, w in zip(whole, weights, strict=True))
    return max(1.0, sums / sum(weights)) if weights else 1.0


def _held(measured: Sequence[Measurement], by_code: RowsByCode | None, name: str, code: int | None) -> float | None:
    """About how many rows have a code; 0 if that may be noise or there is no such code, None where nothing tells."""
    if code is None:
        return 0.0
    least = max((_standing_out(m, name, code) for m in measured), default=0.0)
    if by_code is None:
        return least or None
    rows = float(by_code.rows[code])
    return max(least, rows if rows >= _DEVIATIONS / math.sqrt(by_code.weight) else 0.0)


def _standing_out(measured: Measurement, name: str, code: int) -> float:
    """The most rows of a single measured cell with that code, if its noise does not explain them; else 0."""
    if measured.cells is None:
        return 0.0
    codes = np.unravel_index(np.array(measured.cells), measured.shape)[measured.clique.index(name)]
    most = float(measured.values[codes == code].max(initial=0))
    return most if most >= _OF_A_CELL * measured.stddev else 0.0


@dataclass(frozen=True)
class Widened:
    """A model of the smaller domain as a `Model` of the full one: it has no row with a code that was left out.

    Attributes:
        held: both domains.
        inner: the model.
    """

    held: Occupied
    inner: Model

    @property
    def total(self) -> float:
        """The number of rows that it stands for."""
        return self.inner.total

    def project(self, clique: Clique) -> npt.NDArray[np.float32]:
        """See `Model.project`."""
        values = np.zeros(self.held.full.shape(clique), np.float32)
        values[self.held.places(clique)] = self.inner.project(clique).reshape(self.held.domain.shape(clique))
        return values.ravel()

    def sample(
        self, rows: int, generator: np.random.Generator, progress: Progress, allowed: Sequence[Allowed] = ()
    ) -> Codes:
        """See `Model.sample`."""
        names = self.held.full.names
        drawn = self.inner.sample(rows, generator, progress, [self.held.inside(part) for part in allowed])
        # in place, in a small type: a second table of codes would be the peak of memory
        sizes = (max(self.held.full.size((name,)), len(self.held.codes[name])) for name in names)
        drawn = np.require(drawn, code_type(sizes), "W")
        for place, name in enumerate(names):
            drawn[:, place] = self.held.codes[name][drawn[:, place]]
        return drawn
