r"""Joined attributes as a fit sees them: further rows of P, each a sum of the first ones.

    V = G·P,    G[c, t] = 1 where tuple t of a joint lies in cell c of some of its attributes, else 0

A measured marginal names attributes; of each joint it has all, some or none. Those that it has become one column of the
marginal, whose probabilities are rows of V, or of P where it has all of them: then cells of tuples that are left out of
the joint are left out, too.
"""

from __future__ import annotations

from collections import Counter
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
        sums: where G is 1: the rows of V that each of the first rows of P is part of, shape (views of a joint, rows of
            P). The last row of V stands where there are fewer; nobody asks for it.
        rows: of V.
    """

    blocks: Blocks
    sums: npt.NDArray[np.int32]
    rows: int
    _of: Blocks

    @staticmethod
    def of(blocks: Blocks, measured: Sequence[Target]) -> Views:
        """The views that these marginals need."""
        parts = {part for target in measured for part in blocks.parts(target.clique) if part not in blocks.units}
        rows = _padded(1 + sum(int(np.prod(blocks.shape(part))) for part in parts)) if blocks.joints else 0
        columns = min(_padded(sum(len(joint.tuples) for joint in blocks.joints)), blocks.width)
        names, sizes = [*map(_named, blocks.units)], [*blocks.unit_sizes]
        of_joints = Counter(blocks.joint_of[part[0]].names for part in parts)
        sums, begin = np.full((max(of_joints.values(), default=0), columns), rows - 1, np.int32), 0
        used = Counter[Clique]()
        for part in sorted(parts):
            joint, shape = blocks.joint_of[part[0]], blocks.shape(part)
            sums[used[joint.names], blocks.block(joint.names)] = begin + joint.cells(part, shape)
            used[joint.names] += 1
            begin += int(np.prod(shape))
            names.append(_named(part))
            sizes.append(int(np.prod(shape)))
        names.append("")  # the padding
        sizes.append(rows - begin)
        return Views(Blocks(tuple(names), tuple(sizes)), sums, rows, blocks)

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Sizes of a clique's attributes."""
        return self._of.shape(clique)

    def target(self, target: Target) -> Target:
        """A marginal over the units and views."""
        of = self._of
        if not of.joints:
            return target
        parts = of.parts(target.clique)
        shaped = target.values.reshape(target.shape).transpose([target.clique.index(n) for part in parts for n in part])
        sizes = [int(np.prod(of.shape(part))) for part in parts]
        values = shaped.reshape(sizes)
        for place, part in enumerate(parts):
            if part in of.units and part[0] in of.joint_of:
                joint = of.joint_of[part[0]]
                values = values.take(joint.cells(part, of.shape(part)), axis=place)
        return replace(target, clique=tuple(map(_named, parts)), shape=values.shape, values=values.ravel())


def _named(part: Clique) -> str:
    return part[0] if len(part) == 1 else "\0".join(part)


def _padded(length: int) -> int:
    return -(-length // _STEP) * _STEP
