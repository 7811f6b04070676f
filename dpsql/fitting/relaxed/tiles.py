"""Measured cells laid out in tiles, so that one compiled program fits any cliques.

A tile holds R rows times one attribute c: row i stands for the values of the clique's other attributes, as indices into
P (an index of constant ones where there are fewer). Tiles are collected by the size class of c: its size, rounded up to
one of eight for each power of two. A class that would save few cells goes with the next one, because each has a loop of
its own to compile.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.fitting.relaxed.empty_lines import Lines, all_lines
from dpsql.fitting.relaxed.settings import TILE_ROWS
from dpsql.fitting.relaxed.table import Blocks
from dpsql.fitting.target import Target

_LEAST_STEP: Final = 8  # numbers that a processor multiplies at once
_SAVED: Final = 8192  # cells: as many take a tenth of a second in all steps, as compiling a class does


@dataclass
class Tiles:
    """The tiles of one size class, as arrays with a leading axis of tiles (padded to a power of two)."""

    index: npt.NDArray[np.int32]  # (tiles, R, factors) rows of P
    offset: npt.NDArray[np.int32]  # (tiles,) first row of c's block
    size: npt.NDArray[np.int32]  # (tiles,) size of c
    weight: npt.NDArray[np.float32]  # (tiles, R)
    target: npt.NDArray[np.float32]  # (tiles, R, C)
    count: npt.NDArray[np.int32]  # (shards,) tiles in use, the first ones of each shard


def layout_of(
    blocks: Blocks,
    measurements: Sequence[Target],
    total: float,
    scale: float,
    shards: int = 1,
    like: Mapping[int, Tiles] | None = None,
    lines: Mapping[Clique, Lines] | None = None,
) -> dict[int, Tiles]:
    """Put measured cells into tiles, by the size class of the attribute that lines are along, dealt to `shards`.

    Args:
        blocks: the attributes.
        measurements: whole marginals.
        total: N, rows.
        scale: of the weights.
        shards: how many devices share the tiles.
        like: a layout of these measurements and more: the arrays get its shapes, so that one program serves both.
        lines: which lines of each marginal, along which attribute; all along the largest where it says nothing.
    """
    ones = blocks.width
    factors = max((len(m.clique) for m in measurements), default=1) - 1
    if like:
        factors = next(iter(like.values())).index.shape[2]
    stacks: dict[int, list[tuple[Any, Any, float]]] = {}
    for measurement in measurements:
        places = [blocks.names.index(name) for name in measurement.clique]
        chosen = (lines or {}).get(measurement.clique) or all_lines(measurement.shape)
        last, others = chosen.last, [k for k in range(len(places)) if k != chosen.last]
        values = measurement.values.reshape(measurement.shape).transpose([*others, last])
        target = values.reshape(-1, measurement.shape[last])[chosen.fitted] / total
        index = np.full((len(target), factors), ones, np.int32)
        codes = np.unravel_index(chosen.fitted, [measurement.shape[k] for k in others]) if others else ()
        for column, (k, code) in enumerate(zip(others, codes, strict=True)):
            index[:, column] = code + blocks.offsets[places[k]]
        weight = scale * total**2 / measurement.variance
        stacks.setdefault(places[last], []).append((index, target, weight))
    levels = sorted(like) if like else _levels(_possible(measurements) if lines else _used(blocks, stacks))
    by_level: dict[int, dict[int, list[tuple[Any, Any, float]]]] = {level: {} for level in levels}
    for place, stack in stacks.items():
        by_level[next(level for level in levels if level >= blocks.sizes[place])][place] = stack
    return {
        level: _tiles(blocks, level, factors, by_place, shards, len(like[level].index) if like else None)
        for level, by_place in by_level.items()
    }


def _levels(tiles: Sequence[tuple[int, int]]) -> list[int]:
    """The sizes of the classes, from sizes of c and how many tiles each has.

    >>> _levels([(37, 90), (38, 90), (20, 70), (7, 2), (300, 1)])
    [24, 40, 320]
    """
    numbers: dict[int, int] = {}
    for size, number in tiles:
        step = max(_LEAST_STEP, 1 << max(0, (size - 1).bit_length() - 4))
        level = -(-size // step) * step
        numbers[level] = numbers.get(level, 0) + number
    levels_used, levels = list[int](), sorted(numbers)
    for level, above in itertools.pairwise(levels):
        if numbers[level] * TILE_ROWS * (above - level) > _SAVED:
            levels_used.append(level)
        else:
            numbers[above] += numbers[level]
    return [*levels_used, *levels[-1:]]


def _used(blocks: Blocks, stacks: Mapping[int, Sequence[tuple[Any, Any, float]]]) -> list[tuple[int, int]]:
    """Of each c its size and how many tiles it has."""
    return [(blocks.sizes[place], _needed(stack)) for place, stack in stacks.items()]


def _possible(measurements: Sequence[Target]) -> list[tuple[int, int]]:
    """The same of all lines along any attribute: which are fitted is noise, and so would the classes be."""
    cells = ((size, len(target.values)) for target in measurements for size in target.shape)
    return [(size, -(-count // size // TILE_ROWS)) for size, count in cells]


def _needed(stack: Sequence[tuple[Any, Any, float]]) -> int:
    """How many tiles hold the rows of one c."""
    return -(-sum(len(index) for index, _, _ in stack) // TILE_ROWS)


def _tiles(
    blocks: Blocks,
    level: int,
    factors: int,
    by_place: dict[int, list[tuple[Any, Any, float]]],
    shards: int,
    padded: int | None = None,
) -> Tiles:
    rows = TILE_ROWS
    needed = sum(map(_needed, by_place.values()))
    each = 1 << max(0, -(-needed // shards) - 1).bit_length() if padded is None else padded // shards
    padded = each * shards
    tiles = Tiles(
        np.full((padded, rows, factors), blocks.width, np.int32),
        np.zeros(padded, np.int32),
        np.zeros(padded, np.int32),
        np.zeros((padded, rows), np.float32),
        np.zeros((padded, rows, level), np.float32),
        np.array([len(range(shard, needed, shards)) for shard in range(shards)], np.int32),
    )
    number = 0
    for place, stack in by_place.items():
        index = np.concatenate([index for index, _, _ in stack])
        target = np.concatenate([target for _, target, _ in stack])
        weight = np.concatenate([np.full(len(index), weight, np.float32) for index, _, weight in stack])
        for begin in range(0, len(index), rows):
            part = slice(begin, begin + rows)
            length, tile = len(index[part]), number % shards * each + number // shards
            tiles.index[tile, :length] = index[part]
            tiles.target[tile, :length, : target.shape[1]] = target[part]
            tiles.weight[tile, :length] = weight[part]
            tiles.offset[tile], tiles.size[tile] = blocks.offsets[place], blocks.sizes[place]
            number += 1
    return tiles
