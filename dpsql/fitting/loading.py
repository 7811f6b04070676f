"""JAX: no other module imports it, and only the programs of the fits import this one.

JAX takes half a second to load, so nothing loads it before the first fit of a process begins. An exception thrown into
the midst of it would leave it unusable until the process ends, so none is thrown meanwhile.

On the processor JAX gets one thread: its products are too small for more, which spin for longer than they work. With
two threads a fit of Adult took twice the CPU seconds, and not less time. JAX reads `NPROC` once, when its devices are
first asked for. Where somebody has set it, or has used JAX before, it stays as it is.
"""

from __future__ import annotations

import os
from typing import Final

from dpsql.runtime.progress import unbreakable

_THREADS: Final = "NPROC"

with unbreakable:
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    if _THREADS not in os.environ:
        os.environ[_THREADS] = "1"
        try:
            jax.devices()
        finally:
            del os.environ[_THREADS]

__all__ = ["Mesh", "NamedSharding", "PartitionSpec", "jax", "jnp"]
