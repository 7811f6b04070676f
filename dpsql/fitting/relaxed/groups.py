r"""Attributes of a relaxed table that are drawn and changed together, so that every row satisfies every constraint.

    by itself     an attribute in no joint and no constraint, or that a constraint of its own restricts:   P_a
    of a joint    those of its tuples that the constraints within it allow:   P_joint in proportion
    tied          joints and attributes that constraints tie to each other: each by itself, then settled

A row that a constraint forbids is settled: one of its parts, chosen at random, keeps its value, and each of the others
keeps its own or is drawn anew, in proportion among what goes with those before it. So two columns that are NULL
together are NULL as often as both are on average, where draws in proportion to Π P among allowed tuples square that:

    P(both NULL) = pq + ½·(p(1 − q) + (1 − p)q) = (p + q)/2          in place of   pq/(pq + (1 − p)(1 − q))

A row that this leaves forbidden is drawn by the constraints alone, as if there were no joints, in proportion to Π P.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.fitting.relaxed.table import Blocks, Codes, Joint, RelaxedTable, draw_codes

_WEIGHTS_AT_ONCE: Final = 20_000_000
_MASKED_AT_ONCE: Final = 4_000_000


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

    def weighed(self, model: RelaxedTable) -> tuple[Codes, npt.NDArray[np.float32]]:
        """All codes of a joint or of an attribute by itself, and how probable they are in each relaxed row."""
        names = tuple(model.blocks.names[place] for place in self.places)
        if self.tuples is None or self.joint is None:
            alone = model.part(names)
            return np.arange(len(alone))[:, None], alone + np.float32(1e-30)
        return self.tuples, model.probabilities[model.blocks.block(names)][self.joint] + np.float32(1e-30)


@dataclass(frozen=True)
class Together:
    """Joints and attributes that constraints tie to each other.

    Attributes:
        parts: the joints, and the attributes that are in none; each draws by itself.
        rules: the constraints.
        without: groups of the same attributes that satisfy the constraints by construction.
        places: which attributes.
    """

    parts: tuple[Group, ...]
    rules: tuple[Rule, ...]
    without: tuple[Group, ...]
    places: tuple[int, ...]

    def draw(
        self, model: RelaxedTable, parents: Codes, uniform: npt.NDArray[np.float64], generator: np.random.Generator
    ) -> Codes:
        """See `Group.draw`; the places are those of the first part."""
        codes = self._drawn(self.parts, model, parents, uniform, generator)
        left = self._forbidden(codes, np.arange(len(parents)))
        first = generator.integers(len(self.parts), size=len(left))
        for place in range(len(self.parts)):
            mine = left[first == place]
            codes[mine] = self._settled(model, parents[mine], codes[mine], place, generator)
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
            codes[:, self._columns(group.places)] = group.draw(model, parents, uniform, generator)
            uniform = generator.random(len(parents))
        return codes

    def _settled(
        self, model: RelaxedTable, parents: Codes, codes: Codes, first: int, generator: np.random.Generator
    ) -> Codes:
        """Rows of which one part stays, and each of the others as far as it goes with those before it."""
        codes, before = codes.copy(), set[int]()
        for part in (*self.parts[first:], *self.parts[:first]):
            rules, columns = self._rules_of(part, before), self._columns(part.places)
            values, weights = part.weighed(model)
            some = max(1, _MASKED_AT_ONCE // len(values))
            for begin in range(0, len(codes) if rules else 0, some):
                rows = np.arange(begin, min(begin + some, len(codes)))
                fits = np.ones((len(rows), len(values)), bool)
                for rule in rules:
                    fits &= rule.fits(part.places, values, before, self.places, codes[rows])
                mine = (values[None] == codes[rows][:, None, columns]).all(axis=2)
                anew = ~(fits & mine).any(axis=1)
                rows, fits = rows[anew], fits[anew]
                whole = np.cumsum(np.where(fits, weights[:, parents[rows]].T, 0.0), axis=1)
                chosen = (whole <= (generator.random(len(rows)) * whole[:, -1])[:, None]).sum(axis=1)
                codes[rows[:, None], columns] = values[np.minimum(chosen, len(values) - 1)]
            before |= {*part.places}
        return codes

    def _rules_of(self, part: Group, before: set[int]) -> list[Rule]:
        """The constraints that a part, or it and those before it, can break."""
        mine = set(part.places)
        return [r for r in self.rules if mine & {*r.places} and (before & {*r.places} or mine >= {*r.places})]

    def _columns(self, places: Iterable[int]) -> list[int]:
        return [self.places.index(place) for place in places]

    def _forbidden(self, codes: Codes, rows: Codes) -> Codes:
        """Those of the rows that a constraint forbids."""
        held = np.ones(len(rows), bool)
        for rule in self.rules:
            held &= rule.cells[tuple(codes[rows, place] for place in self._columns(rule.places))]
        return rows[~held]


@dataclass(frozen=True)
class Rule:
    """A constraint as a table of what it allows.

    Attributes:
        places: of its attributes.
        cells: for each tuple of their codes whether it is allowed.
    """

    places: tuple[int, ...]
    cells: npt.NDArray[np.bool_]

    @staticmethod
    def of(blocks: Blocks, part: Allowed) -> Rule:
        """That of a constraint."""
        cells = np.zeros(blocks.shape(part.clique), bool)
        cells[tuple(part.codes.T)] = True
        return Rule(tuple(map(blocks.names.index, part.clique)), cells)

    def fits(
        self, places: Sequence[int], values: Codes, before: set[int], order: Sequence[int], codes: Codes
    ) -> npt.NDArray[np.bool_]:
        """For each row and each tuple of values of some attributes whether they can go together.

        Args:
            places: of the attributes.
            values: their tuples, shape (tuples, attributes).
            before: places of the attributes whose codes in the rows are settled; those of others may become any.
            order: places of the columns of `codes`.
            codes: of the rows.
        """
        settled = [axis for axis, place in enumerate(self.places) if place in before]
        mine = [axis for axis, place in enumerate(self.places) if place in places]
        others = [axis for axis in range(len(self.places)) if axis not in settled and axis not in mine]
        table = self.cells.transpose(*settled, *mine, *others)
        table = np.asarray(table.reshape(*table.shape[: len(settled) + len(mine)], -1).any(axis=-1))
        of_rows = np.broadcast_to(table, (len(codes), *table.shape))
        if settled:
            of_rows = table[tuple(codes[:, order.index(self.places[axis])] for axis in settled)]
        wanted: tuple[Any, ...] = tuple(values[:, places.index(self.places[axis])] for axis in mine)
        return np.asarray(of_rows[(slice(None), *wanted)])


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
        rest = [part for part in rest if not any(part is other for other in (*inside, *crossing))]
    tied += [
        _of_constraint(blocks, part) if len(part.clique) == 1 else _together(blocks, (), (), [part]) for part in rest
    ]
    return [*tied, *_singles(blocks, {place for group in tied for place in group.places})]


def _components(blocks: Blocks, allowed: Sequence[Allowed]) -> list[tuple[list[Joint], list[Allowed]]]:
    """The joints, those together that constraints tie to each other, each time with these constraints."""
    components: list[tuple[list[Joint], list[Allowed]]] = [([joint], []) for joint in blocks.joints]
    for part in allowed:
        names = set(part.clique)
        touched = [any(names & set(joint.names) for joint in joints) for joints, _ in components]
        if not any(touched) or any(names <= set(joint.names) for joint in blocks.joints):
            continue
        tied = [component for component, touches in zip(components, touched, strict=True) if touches]
        others = [component for component, touches in zip(components, touched, strict=True) if not touches]
        joints = [joint for joints, _ in tied for joint in joints]
        components = [*others, (joints, [*(component for _, parts in tied for component in parts), part])]
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
    rules = tuple(Rule.of(blocks, part) for part in (*inside, *crossing))
    return Together(tuple(parts), rules, tuple(without), tuple(sorted(places)))


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
