"""Tiles are taken one at a time on a CPU and in batches elsewhere: loss and gradient are the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.loading import jnp
from dpsql.fitting.relaxed.program import TileProgram, device_grid
from dpsql.fitting.relaxed.settings import TILE_ROWS
from dpsql.fitting.relaxed.table import Blocks
from dpsql.fitting.relaxed.tiles import layout_of
from dpsql.fitting.target import Target

SIZES = (7, 8, 6, 90, 80)
ROWS = 8


@pytest.fixture(scope="module")
def laid_out():
    """P, and the tiles of all 1-, 2- and 3-way marginals."""
    draw = np.random.default_rng(5)
    constants = [tuple(map(str, range(size))) for size in SIZES]
    domain = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", each) for i, each in enumerate(constants)))
    cliques = [clique for order in (1, 2, 3) for clique in itertools.combinations(domain.names, order)]
    targets = [
        Target(clique, domain.shape(clique), draw.integers(0, 50, domain.size(clique)).astype(float), order)
        for order, clique in enumerate(cliques, 1)
    ]
    blocks = Blocks.of(domain)
    layout = layout_of(blocks, targets, 1000.0, 1.0)
    tiles = {
        level: (*map(jnp.asarray, (t.index, t.offset, t.size, t.weight, t.target)), jnp.asarray(t.count))
        for level, t in layout.items()
    }
    return blocks, jnp.asarray(draw.random((blocks.width, ROWS)), jnp.float32), tiles


@pytest.mark.medium
@pytest.mark.parametrize(("tiles_at_once", "every", "first"), [(1000, 1, 0), (3, 2, 0), (2, 2, 1)])
def test_batches_of_tiles_give_what_single_tiles_give(laid_out, tiles_at_once, every, first):
    blocks, p, tiles = laid_out
    assert min(int(stacked[-1][0]) for stacked in tiles.values()) < 8 < max(int(t[-1][0]) for t in tiles.values())
    no_views = jnp.zeros((0, blocks.width), jnp.int32), jnp.zeros((0, 0))
    single, batched = (
        TileProgram(blocks.sizes, ROWS, tuple(tiles), "softmax", "float32", device_grid(ROWS), batch)._gradient.of(
            p, tiles, ({}, None, None), no_views, np.int32(every), np.int32(first)
        )
        for batch in (0, tiles_at_once * TILE_ROWS * ROWS)
    )
    np.testing.assert_allclose(batched[0], single[0], rtol=1e-5)
    np.testing.assert_allclose(batched[1], single[1], rtol=1e-4, atol=1e-5 * float(jnp.abs(single[1]).max()))
