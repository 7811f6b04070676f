"""Deliberately broken curators, which audits must catch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import pytest

from dpsql.privacy import curator as curator_module


@contextmanager
def noise_of(share: float) -> Iterator[None]:
    """Noise of that share of its standard deviation, Gaussian and Laplace."""
    gaussian, laplace, part = curator_module.discrete_gaussian, curator_module.discrete_laplace, Fraction(share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curator_module, "discrete_gaussian", lambda v, n, e: gaussian(v * part**2, n, e))
        patch.setattr(curator_module, "discrete_laplace", lambda scale, n, e: laplace(scale * part, n, e))
        yield


@contextmanager
def choices_at(times: int) -> Iterator[None]:
    """Choices at a multiple of the rate that is paid for."""
    rate = curator_module.selection_rate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curator_module, "selection_rate", lambda rho, sensitivity: times * rate(rho, sensitivity))
        yield
