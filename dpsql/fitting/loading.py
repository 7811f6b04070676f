"""JAX: no other module imports it, and only the programs of the fits import this one.

JAX takes half a second to load, so nothing loads it before the first fit of a process begins. An exception thrown into
the midst of it would leave it unusable until the process ends, so none is thrown meanwhile.
"""

from __future__ import annotations

from dpsql.runtime.progress import unbreakable

with unbreakable:
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = ["Mesh", "NamedSharding", "PartitionSpec", "jax", "jnp"]
