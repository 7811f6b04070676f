"""Noise of a seed: what a test draws is the same in each run, so no change is red for what noise did.

The seed is the test's name, or a fixture's that several tests share. Of it are the noise and the choices of curators,
rows that are drawn, and the secrets by which rows of a unit are chosen. Other processes draw from the system, as a
release does, and so does a test with the mark `chance`, which says how often it fails by chance.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from dpsql.privacy.asking import Asking
from dpsql.privacy.noise import system_entropy


def seeded_entropy(seed: str) -> Callable[[int], bytes]:
    """A repeatable source of bytes."""
    counter = itertools.count()

    def draw(count: int) -> bytes:
        return hashlib.shake_256(f"{seed}/{next(counter)}".encode()).digest(count)

    return draw


_sources: list[Callable[[int], bytes]] = [system_entropy]
_PROCESS = os.getpid()


def draw(count: int) -> bytes:
    """Bytes of the seed that is in use; of the system's where there is none, and in a fork, which would draw them again."""
    return (_sources[-1] if os.getpid() == _PROCESS else system_entropy)(count)


def begin(name: str | None) -> None:
    """Draw for a test of that name from now on; from the system where it has none."""
    _sources[:] = [system_entropy if name is None else seeded_entropy(name)]


@contextmanager
def seed(name: str) -> Iterator[None]:
    """Draw by that seed, unless the test draws from the system."""
    _sources.append(system_entropy if _sources[-1] is system_entropy else seeded_entropy(name))
    try:
        yield
    finally:
        _sources.pop()


def install() -> None:
    """Put the seeds in the place of the system's entropy, and of no other that is given."""
    prepare, generator, token = Asking.__init__, np.random.default_rng, secrets.token_hex

    @functools.wraps(prepare)
    def prepared(self: Asking, *arguments: object, **more: object) -> None:
        prepare(self, *arguments, **more)  # type: ignore[arg-type]
        if self._entropy is system_entropy:
            self._entropy = draw

    @functools.wraps(generator)
    def default_rng(seed: object = None) -> np.random.Generator:
        return generator(int.from_bytes(draw(16), "big") if seed is None else seed)  # type: ignore[arg-type]

    @functools.wraps(token)
    def token_hex(nbytes: int | None = None) -> str:
        return draw(32 if nbytes is None else nbytes).hex()

    Asking.__init__ = prepared  # type: ignore[method-assign]
    np.random.default_rng = default_rng
    secrets.token_hex = token_hex
