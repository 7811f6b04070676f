"""JAX: no other module imports it, and only the programs of the fits import this one.

JAX takes half a second to load, so nothing loads it before the first fit of a process begins. An interrupt while JAX is
half loaded would leave it unusable until the process ends. So a thread of its own loads it, because no interrupt is
thrown into that one.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from threading import Thread

from dpsql.runtime.progress import unbreakable


def _load() -> None:
    with suppress(Exception):  # the import below raises it again
        import_module("jax")


with unbreakable:
    _loader = Thread(target=_load, name="dpsql-jax")
    _loader.start()
    _loader.join()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

__all__ = ["Mesh", "NamedSharding", "PartitionSpec", "jax", "jnp"]
