"""Deliberately broken curators, which audits must catch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import pytest

from dpsql.privacy import asking, distributions


@contextmanager
def noise_of(share: float) -> Iterator[None]:
    """Noise of that share of its standard deviation, Gaussian and Laplace."""
    gaussian, laplace, part = distributions.discrete_gaussian, distributions.discrete_laplace, Fraction(share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributions, "discrete_gaussian", lambda v, n, e: gaussian(v * part**2, n, e))
        patch.setattr(distributions, "discrete_laplace", lambda scale, n, e: laplace(scale * part, n, e))
        yield


@contextmanager
def choices_at(times: int) -> Iterator[None]:
    """Choices at a multiple of the rate that is paid for."""
    rate = asking.selection_rate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "selection_rate", lambda rho, sensitivity: times * rate(rho, sensitivity))
        yield
