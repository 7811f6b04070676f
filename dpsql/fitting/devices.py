"""Which of JAX's devices a fit uses: all that JAX prefers, or the CPU alone where there is little to do.

    work  =  cells × n′ × steps

A GPU is worth its while from 4·10¹⁰ on: below, the CPU has fitted before a program for a GPU is compiled. See
`tests/benchmarks/RESULTS.md`, "On a GPU".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dpsql.fitting.loading import jax

_WORTH_A_DEVICE: Final = 4e10


def devices_for(work: float) -> list[jax.Device]:
    """The devices of a fit, all of one kind: of the CPU where its work is little and the settings let JAX have it.

    Args:
        work: cells × n′ × steps.
    """
    from dpsql.fitting.loading import jax

    if work < _WORTH_A_DEVICE:
        try:
            return jax.devices("cpu")
        except RuntimeError:  # JAX_PLATFORMS leaves it out
            pass
    return jax.devices()
