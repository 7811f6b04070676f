"""The package `mbi`, which is asked for in functions only and may be missing.

`mbi` turns 64-bit numbers on for all of JAX when it is imported. That would change the other fits of the process, so
the setting is put back, and turned on only around the calls, in the thread that makes them.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from dpsql.core.domain import Clique, Domain


def load_mbi() -> Any:
    """The package `mbi`, with JAX's setting of 64-bit numbers as it was before.

    Raises:
        ImportError: it is not installed.
    """
    from dpsql.fitting.loading import jax

    before = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():  # mbi 2 gives advice on JAX's settings, which are ours
            warnings.simplefilter("ignore", UserWarning)
            return importlib.import_module("mbi")
    finally:
        if jax.config.jax_enable_x64 != before:  # type: ignore[attr-defined]
            jax.config.update("jax_enable_x64", before)  # type: ignore[no-untyped-call]


def wide_numbers() -> AbstractContextManager[Any]:
    """64-bit numbers, in this thread only."""
    from dpsql.fitting.loading import jax

    wide: AbstractContextManager[Any] = jax.enable_x64(True)
    return wide


def maximal(domain: Domain, cliques: Sequence[Clique]) -> list[Clique]:
    """The cliques that lie in no other, in the domain's order, with every column in one.

    >>> from dpsql.core.domain import Attribute
    >>> domain = Domain(tuple(Attribute(n, "BOOLEAN", "values", ("false", "true")) for n in "abc"))
    >>> maximal(domain, [("b", "a"), ("a",)])
    [('a', 'b'), ('c',)]
    """
    everything = {domain.clique(clique) for clique in cliques} | {(name,) for name in domain.names}
    largest: list[Clique] = []
    for clique in sorted(everything, key=lambda c: (-len(c), [domain.names.index(name) for name in c])):
        if not any(set(clique) <= set(other) for other in largest):
            largest.append(clique)
    return largest


def model_megabytes(domain: Domain, cliques: Sequence[Clique]) -> float:
    """The size of the junction tree of these cliques, 8 bytes a cell."""
    mbi = load_mbi()
    return float(mbi.junction_tree.hypothetical_model_size(mbi_domain(mbi, domain), maximal(domain, cliques)))


def mbi_domain(mbi: Any, domain: Domain) -> Any:
    """A domain as `mbi` has them."""
    return mbi.Domain(domain.names, domain.shape(domain.names))
