"""DuckDB's counts = numpy's counts = the relaxed table's answers on one-hot rows, for generated domains and tables."""

from __future__ import annotations

import itertools

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.domain import Attribute, Domain
from dpsql.core.formula import COLUMN
from dpsql.engines.duckdb.catalog import find_source
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.declare import declare_bins
from dpsql.errors import DomainTooLarge
from dpsql.evaluation.moments import Branch, moments_of
from dpsql.fitting.relaxed.program import TileProgram, device_grid  # the compiled query itself
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable
from dpsql.fitting.relaxed.tiles import layout_of
from dpsql.fitting.target import Target
from tests.depth import depth


@st.composite
def tables(draw):
    """A domain of 2 to 4 attributes of listed integers, some nullable or with OTHER, and rows with stray values."""
    attributes = []
    for index in range(draw(st.integers(2, 4))):
        size = draw(st.integers(1, 5))
        rest = draw(st.sampled_from(["other", "outside", "none"]))
        values = tuple(str(10 * value) for value in range(size))
        other, outside = "-1" if rest == "other" else None, rest == "outside"
        nullable = draw(st.booleans())
        attributes.append(
            Attribute(f"c{index}", "INTEGER", "values", values, nullable=nullable, other=other, outside=outside)
        )
    value = st.one_of(st.none(), st.sampled_from([0, 10, 20, 30, 40, 7, -5]))
    rows = draw(st.lists(st.tuples(*[value] * len(attributes)), max_size=40))
    return Domain(tuple(attributes)), rows


def code(attribute: Attribute, value: int | None) -> int | None:
    """What docs/how-to/domains.md says of a value's code."""
    if value is None and attribute.nullable:
        return attribute.null_code
    if str(value) in attribute.values:
        return attribute.values.index(str(value))
    return attribute.outside_code if attribute.other is None else attribute.other_code


@pytest.mark.medium
@settings(max_examples=depth(150), deadline=None)
@given(tables())
def test_duckdb_counts_equal_numpy_counts_and_one_hot_answers(table):
    domain, rows = table
    with duckdb.connect() as con:
        columns = ", ".join(f"{name} INTEGER" for name in domain.names)
        con.execute(f"CREATE TABLE t ({columns})")
        if rows:
            con.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(domain))})", rows)
        counter = DuckDBCounter(con.cursor(), find_source(con, "t"), domain)
        codes = [[code(a, v) for a, v in zip(domain, row, strict=True)] for row in rows]
        assert counter.marginal(()).counts.tolist() == [len(rows)]
        for order in range(1, len(domain) + 1):
            for clique in itertools.combinations(domain.names, order):
                places = [domain.names.index(name) for name in clique]
                inside = [[row[p] for p in places] for row in codes if all(row[p] is not None for p in places)]
                expected = np.zeros(domain.shape(clique), int)
                for cell in inside:
                    expected[tuple(cell)] += 1
                dense = counter.marginal(clique).dense()
                assert dense.tolist() == expected.ravel().tolist()
                if inside:
                    relaxed = one_hot(domain, clique, inside)
                    np.testing.assert_allclose(relaxed.project(clique) * len(inside), dense, atol=1e-4)


@pytest.mark.medium
@settings(max_examples=depth(60), deadline=None)
@given(tables(), st.data())
def test_a_sample_counts_only_its_rows(table, data):
    """The counts of some rows are those of a table of these rows only, whatever the rows' values."""
    domain, rows = table
    places = data.draw(st.lists(st.integers(0, max(0, len(rows) - 1)), unique=True, max_size=len(rows)).map(sorted))
    with duckdb.connect() as con:
        columns = ", ".join(f"{name} INTEGER" for name in domain.names)
        con.execute(f"CREATE TABLE t ({columns}); CREATE TABLE part ({columns})")
        insert = f"INSERT INTO {{}} VALUES ({', '.join('?' * len(domain))})"
        if rows:
            con.executemany(insert.format("t"), rows)
        if places:
            con.executemany(insert.format("part"), [rows[place] for place in places])
        cursor = con.cursor()
        counter = DuckDBCounter(cursor, find_source(con, "t"), domain)
        sample = counter.among(np.array(places, np.int64))
        alone = DuckDBCounter(cursor, find_source(con, "part"), domain)
        for clique in [(), *((name,) for name in domain.names), domain.names]:
            assert sample.marginal(clique).dense().tolist() == alone.marginal(clique).dense().tolist()
        assert counter.marginal(()).counts.tolist() == [len(rows)]
        alone.close()
        counter.close()
        assert cursor.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall() == [(0,)]


def one_hot(domain: Domain, clique, rows) -> RelaxedTable:
    blocks = Blocks.of(domain)
    p = np.zeros((blocks.width, len(rows)), np.float32)
    for row, cells in enumerate(rows):
        for name, cell in zip(clique, cells, strict=True):
            p[blocks.block(name).start + cell, row] = 1
    return RelaxedTable(blocks, p, float(len(rows)))


@pytest.mark.medium
@settings(max_examples=depth(10), deadline=None)  # each compiles a program of its own
@given(st.integers(0, 2**32 - 1))
def test_the_compiled_answers_equal_numpy(seed):
    """The tiles that the fit runs on give the same loss as numpy's answers, clique by clique."""
    import jax.numpy as jnp

    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 6, size=4)
    domain = Domain(
        tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(s)))) for i, s in enumerate(sizes))
    )
    blocks = Blocks.of(domain)
    p = generator.random((blocks.width, 8)).astype(np.float32)
    table = RelaxedTable(blocks, p, 1.0)
    cliques = [c for k in (1, 2, 3) for c in itertools.combinations(domain.names, k)]
    measured, expected = [], 0.0
    for clique in cliques:
        values = generator.integers(0, 50, size=domain.size(clique))
        variance = int(generator.integers(1, 9))
        measured.append(Target(clique, domain.shape(clique), values, variance))
        expected += float(((table.project(clique) - values / 100) ** 2).sum()) / 2 * 100**2 / variance
    layout = layout_of(blocks, measured, 100.0, 1.0)
    program = TileProgram(blocks.sizes, 8, tuple(layout), "softmax", "float32", device_grid(8))
    tiles = {
        level: tuple(map(jnp.asarray, (t.index, t.offset, t.size, t.weight, t.target, np.int32(t.count))))
        for level, t in layout.items()
    }
    alone = jnp.zeros((0, blocks.width), jnp.int32), jnp.zeros((0, 1), jnp.float32)  # no columns are joined
    every = np.int32(1), np.int32(0)  # tile, from the first on
    loss, gradient = program._gradient.of(jnp.asarray(p), tiles, ({}, None, None), alone, *every)
    np.testing.assert_allclose(float(loss), expected, rtol=1e-4)
    nudge = generator.normal(size=p.shape).astype(np.float32)
    ahead, _ = program._gradient.of(jnp.asarray(p + 1e-2 * nudge), tiles, ({}, None, None), alone, *every)
    behind, _ = program._gradient.of(jnp.asarray(p - 1e-2 * nudge), tiles, ({}, None, None), alone, *every)
    slope = (float(ahead) - float(behind)) / 2e-2
    np.testing.assert_allclose(float((gradient * nudge).sum()), slope, rtol=2e-2, atol=1e-3 * float(loss))


def test_a_domain_product_that_overflows_is_refused():
    domain = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(50)))) for i in range(12)))
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT " + ", ".join(f"1 AS c{i}" for i in range(12)))
        counter = DuckDBCounter(con.cursor(), find_source(con, "t"), domain)
        with pytest.raises(DomainTooLarge):
            counter.marginal(domain.names)
        assert counter.marginal(domain.names[:3]).counts.sum() == 1


def test_only_cells_that_are_not_zero_leave_the_engine():
    domain = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(1000)))) for i in range(3)))
    with duckdb.connect() as con:
        con.register("frame", pd.DataFrame({"c0": [1, 1, 999], "c1": [2, 2, 0], "c2": [3, 3, 5]}))
        con.execute("CREATE TABLE t AS SELECT c0::INTEGER c0, c1::INTEGER c1, c2::INTEGER c2 FROM frame")
        marginal = DuckDBCounter(con.cursor(), find_source(con, "t"), domain).marginal(domain.names)
        assert sorted(zip(marginal.cells.tolist(), marginal.counts.tolist(), strict=True)) == [
            (1_002_003, 2),
            (999_000_005, 1),
        ]


@pytest.mark.parametrize(
    ("kind", "lower", "upper", "odd"),
    [
        ("DOUBLE", -1.5, 2.5, ["'nan'", "'inf'", "'-inf'", "1e308", "-1e308", "2.5000001", "NULL"]),
        ("FLOAT", 0, 1, ["'nan'", "'inf'", "3e38", "-0.1", "NULL"]),
        ("DECIMAL(18, 4)", 0, 9_000_000_000, ["-0.0001", "99999999999999.9999", "NULL"]),
        ("BIGINT", -(2**40), 2**50, ["'-9223372036854775808'", "'9223372036854775807'", "NULL"]),
    ],
)
@pytest.mark.parametrize("other", [None, 1])
def test_no_value_adds_more_than_its_bounds(kind, lower, upper, odd, other):
    """Sums of a column's own values: what is outside adds nothing, or what stands for it; inside, what DuckDB sums."""
    with duckdb.connect() as con:
        con.execute(
            f"CREATE TABLE t AS SELECT ({lower} + (({upper}) - ({lower})) * i / 1000.0)::{kind} AS x FROM range(1001) r(i)"
        )
        source = find_source(con, "t")
        attribute = declare_bins(con, source.column("x"), None, lower, upper, 3, nullable=True, other=other)
        every = Branch(attribute, COLUMN, np.ones(attribute.size, bool))
        (moment,), unit, _ = moments_of([every], kind)
        inside = con.execute("SELECT sum(x::DOUBLE) FROM t").fetchall()[0][0]
        counter = DuckDBCounter(con.cursor(), source, Domain((attribute,)), once=True)
        steps = int(counter.sums(("x",), moment).counts.sum())
        assert float(steps * unit) == pytest.approx(inside, rel=1e-6)
        assert moment.low <= (lower if other is None else min(lower, other)) / unit
        assert moment.high >= (upper if other is None else max(upper, other)) / unit
        assert max(abs(moment.low), abs(moment.high)) <= 2**32 + 1
        for value in odd:
            con.execute(f"DELETE FROM t; INSERT INTO t VALUES ({value}::{kind})")
            marginal = counter.sums(("x",), moment)
            known = [
                count
                for cell, count in zip(marginal.cells, marginal.counts, strict=True)
                if cell != attribute.null_code
            ]
            assert known in ([], [moment.outside] if other is not None else [])
