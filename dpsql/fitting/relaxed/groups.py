r"""Attributes of a relaxed table that are drawn and changed together, so that every row satisfies every constraint.

    by itself           an attribute in no joint and no constraint:   P_a
    of a joint          those of its tuples that the constraints within it allow:   P_joint in proportion
    of a constraint     the allowed tuples:   Π_a P_a in proportion
    joints together     that constraints tie to each other, or to other attributes:   Π P of the parts in proportion to
                        what all constraints allow

The last are drawn part by part, and anew where a constraint forbids the row. A row that thirty draws leave forbidden is
drawn by the constraints alone, as if there were no joints: so it happens only in relaxed rows that hardly allow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.fitting.relaxed.table import Blocks, Codes, Joint, RelaxedTable, draw_codes

_WEIGHTS_AT_ONCE: Final = 20_000_000
_TRIES: Final = 30


@dataclass(frozen=True)
class Group:
    """Attributes whose values are drawn and changed together.

    Attributes:
        places: which attributes.
        tuples: the codes that they may take together, shape (tuples, attributes); None for one attribute by itself.
        joint: where they are a joint of the table, which of its tuples those are, shape (tuples,).
    """

    places: tuple[int, ...]
    tuples: Codes | None = None
    joint: Codes | None = None

    def draw(
        self, model: RelaxedTable, parents: Codes, uniform: npt.NDArray[np.float64], generator: np.random.Generator
    ) -> Codes:
        """Codes of the group at places of the relaxed rows' cumulative probabilities, shape (rows, attributes).

        Args:
            model: the fit.
            parents: the relaxed row of each draw.
            uniform: the places.
            generator: of what is drawn beside them.
        """
        blocks = model.blocks
        if self.tuples is not None and self.joint is not None:
            rows = model.probabilities[blocks.block(tuple(blocks.names[place] for place in self.places))]
            return self.tuples[draw_codes(rows[self.joint] + np.float32(1e-30), parents, uniform)]
        probabilities = [model.part((blocks.names[place],)) for place in self.places]
        if self.tuples is None:
            return draw_codes(probabilities[0], parents, uniform)[:, None]
        chosen = np.zeros(len(parents), np.int64)
        chunk = max(1, _WEIGHTS_AT_ONCE // len(self.tuples))
        for begin in range(0, model.probabilities.shape[1], chunk):
            mine = np.flatnonzero((parents >= begin) & (parents < begin + chunk))
            logs = [np.log(p[:, begin : begin + chunk] + 1e-30) for p in probabilities]
            weight = np.sum([log[codes] for log, codes in zip(logs, self.tuples.T, strict=True)], axis=0)
            weight = np.exp(weight - weight.max(axis=0))
            chosen[mine] = draw_codes(weight, parents[mine] - begin, uniform[mine])
        return self.tuples[chosen]


@dataclass(frozen=True)
class Together:
    """Joints that constraints tie to each other, or to other attributes.

    Attributes:
        parts: the joints, and the attributes that are in none; each draws by itself.
        allowed: the constraints.
        without: groups of the same attributes that satisfy the constraints by construction.
        places: which attributes.
    """

    parts: tuple[Group, ...]
    allowed: tuple[tuple[tuple[int, ...], npt.NDArray[np.bool_]], ...]
    without: tuple[Group, ...]
    places: tuple[int, ...]

    def draw(
        self, model: RelaxedTable, parents: Codes, uniform: npt.NDArray[np.float64], generator: np.random.Generator
    ) -> Codes:
        """See `Group.draw`; the places are those of the first part."""
        codes = self._drawn(self.parts, model, parents, uniform, generator)
        left = self._forbidden(codes, np.arange(len(parents)))
        for _ in range(_TRIES):
            if not len(left):
                return codes
            codes[left] = self._drawn(self.parts, model, parents[left], generator.random(len(left)), generator)
            left = self._forbidden(codes, left)
        codes[left] = self._drawn(self.without, model, parents[left], generator.random(len(left)), generator)
        return codes

    def _drawn(
        self,
        groups: Iterable[Group],
        model: RelaxedTable,
        parents: Codes,
        uniform: npt.NDArray[np.float64],
        generator: np.random.Generator,
    ) -> Codes:
        codes = np.empty((len(parents), len(self.places)), np.int64)
        for group in groups:
            columns = [self.places.index(place) for place in group.places]
            codes[:, columns] = group.draw(model, parents, uniform, generator)
            uniform = generator.random(len(parents))
        return codes

    def _forbidden(self, codes: Codes, rows: Codes) -> Codes:
        """Those of the rows that a constraint forbids."""
        held = np.ones(len(rows), bool)
        for places, cells in self.allowed:
            held &= cells[tuple(codes[rows, self.places.index(place)] for place in places)]
        return rows[~held]


def groups_of(blocks: Blocks, allowed: Sequence[Allowed]) -> list[Group | Together]:
    """The groups of a table: each attribute is in one.

    Args:
        blocks: the joints and the attributes.
        allowed: the constraints; no attribute is in two.
    """
    parts = [part for part in allowed if part.clique]
    tied, rest = list[Group | Together](), [*parts]
    for joints, crossing in _components(blocks, parts):
        inside = [part for part in parts if any(set(part.clique) <= set(joint.names) for joint in joints)]
        if crossing:
            tied.append(_together(blocks, joints, inside, crossing))
        elif (only := _of_joint(blocks, joints[0], inside)) is not None:
            tied.append(only)
        else:
            continue
        rest = [part for part in rest if not any(part is one for one in (*inside, *crossing))]
    tied += [_of_constraint(blocks, part) for part in rest]
    return [*tied, *_singles(blocks, {place for group in tied for place in group.places})]


def _components(blocks: Blocks, allowed: Sequence[Allowed]) -> list[tuple[list[Joint], list[Allowed]]]:
    """The joints, those together that constraints tie to each other, each time with these constraints."""
    components: list[tuple[list[Joint], list[Allowed]]] = [([joint], []) for joint in blocks.joints]
    for part in allowed:
        names = set(part.clique)
        touched = [any(names & set(joint.names) for joint in joints) for joints, _ in components]
        if not any(touched) or any(names <= set(joint.names) for joint in blocks.joints):
            continue
        tied = [one for one, touches in zip(components, touched, strict=True) if touches]
        others = [one for one, touches in zip(components, touched, strict=True) if not touches]
        joints = [joint for joints, _ in tied for joint in joints]
        components = [*others, (joints, [*(one for _, parts in tied for one in parts), part])]
    return components


def _together(
    blocks: Blocks, joints: Sequence[Joint], inside: Sequence[Allowed], crossing: Sequence[Allowed]
) -> Together:
    cliques = [*(joint.names for joint in joints), *(part.clique for part in crossing)]
    places = {blocks.names.index(name) for clique in cliques for name in clique}
    drawn = [_of_joint(blocks, joint, ()) for joint in joints]
    parts = [group for group in drawn if group is not None]
    parts += _singles(blocks, {place for group in parts for place in group.places}, places)
    without = [_of_constraint(blocks, part) for part in (*inside, *crossing)]
    without += _singles(blocks, {place for group in without for place in group.places}, places)
    rules = []
    for part in (*inside, *crossing):
        cells = np.zeros(blocks.shape(part.clique), bool)
        cells[tuple(part.codes.T)] = True
        rules.append((tuple(map(blocks.names.index, part.clique)), cells))
    return Together(tuple(parts), tuple(rules), tuple(without), tuple(sorted(places)))


def _of_joint(blocks: Blocks, joint: Joint, inside: Sequence[Allowed]) -> Group | None:
    """A joint, without the tuples that constraints within it forbid; None where they forbid all."""
    tuples = np.arange(len(joint.tuples))
    for part in inside:
        shape = blocks.shape(part.clique)
        cells = np.ravel_multi_index(tuple(part.codes.T), shape)
        tuples = tuples[np.isin(joint.cells(part.clique, shape)[tuples], cells)]
    return Group(tuple(map(blocks.names.index, joint.names)), joint.tuples[tuples], tuples) if len(tuples) else None


def _of_constraint(blocks: Blocks, part: Allowed) -> Group:
    return Group(tuple(map(blocks.names.index, part.clique)), part.codes)


def _singles(blocks: Blocks, taken: set[int], among: Iterable[int] | None = None) -> list[Group]:
    """The attributes that are in no group yet."""
    return [
        Group((place,)) for place in sorted(range(len(blocks.names)) if among is None else among) if place not in taken
    ]
