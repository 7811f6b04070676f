r"""Joined attributes as a fit sees them: further rows of P, each a sum of the first ones.

    V = G·P,    G[c, t] = 1 where tuple t of a joint lies in cell c of some of its attributes, else 0

A measured marginal names attributes; of each joint it has all, some or none. Those that it has become one column of the
marginal, whose probabilities are rows of V, or of P where it has all of them: then cells of tuples that are left out of
the joint are left out, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.fitting.relaxed.table import Blocks
from dpsql.fitting.target import Target

_STEP = 64  # lengths of G: the next fit finds the compiled program of an earlier one


@dataclass(frozen=True)
class Views:
    """What a fit to some marginals needs to know of joints.

    Attributes:
        blocks: the units, and after them the views, each as if it were an attribute.
        sums: G, shape (rows of V, of P); the further rows that it is padded with are 0.
    """

    blocks: Blocks
    sums: npt.NDArray[np.float32]
    _of: Blocks

    @staticmethod
    def of(blocks: Blocks, measured: Sequence[Target]) -> Views:
        """The views that these marginals need."""
        parts = {part for one in measured for part in blocks.parts(one.clique) if part not in blocks.units}
        rows, columns = _padded(sum(int(np.prod(blocks.shape(part))) for part in parts)), 0
        for joint in blocks.joints:
            columns += len(joint.tuples)
        names, sizes = [*map(_named, blocks.units)], [*blocks.unit_sizes]
        columns = min(_padded(columns), blocks.width)
        sums, begin = np.zeros((rows, columns), np.float32), 0
        for part in sorted(parts):
            joint, shape = blocks.joint_of[part[0]], blocks.shape(part)
            place = blocks.block(joint.names)
            sums[begin + joint.cells(part, shape), np.arange(place.start, place.stop)] = 1
            begin += int(np.prod(shape))
            names.append(_named(part))
            sizes.append(int(np.prod(shape)))
        names.append("")  # the padding
        sizes.append(rows - begin)
        return Views(Blocks(tuple(names), tuple(sizes)), sums, blocks)

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Sizes of a clique's attributes."""
        return self._of.shape(clique)

    def target(self, one: Target) -> Target:
        """A marginal over the units and views."""
        of = self._of
        if not of.joints:
            return one
        parts = of.parts(one.clique)
        shaped = one.values.reshape(one.shape).transpose([one.clique.index(n) for part in parts for n in part])
        sizes = [int(np.prod(of.shape(part))) for part in parts]
        values = shaped.reshape(sizes)
        for place, part in enumerate(parts):
            if part in of.units and part[0] in of.joint_of:
                joint = of.joint_of[part[0]]
                values = values.take(joint.cells(part, of.shape(part)), axis=place)
        return replace(one, clique=tuple(map(_named, parts)), shape=values.shape, values=values.ravel())


def _named(part: Clique) -> str:
    return part[0] if len(part) == 1 else "\0".join(part)


def _padded(length: int) -> int:
    return -(-length // _STEP) * _STEP
