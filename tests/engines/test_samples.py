"""Samples of sources: whether a row is drawn depends on that row alone, over all pins together; its size is private.

The brute force compares two worlds that differ by one row, or by one unit, at every pin, with one secret: their samples
may differ by that row or unit and by nothing else, wherever rows are stored in either world.
"""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.errors import DpsqlError, InvalidArgument

from .iceberg_catalog import configured

SCHEMA = pa.schema({"who": pa.string(), "age": pa.int32(), "cost": pa.float64(), "tags": pa.list_(pa.string())})
SAMPLED = {"sample": 500, "rows": 1000}


@pytest.fixture
def db():
    with dpsql.connect() as db:
        yield db


def table_of(rows) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def drawn(db, name) -> Counter:
    """The rows of a sample, each as often as it is there."""
    sql = "SELECT json_extract_string(sample, '$.table') FROM dpsql.source WHERE source = ?"
    ((table,),) = db.sql(sql, [name]).fetchall()
    return Counter(map(repr, db.sql(f"FROM dpsql.{table}").fetchall()))


def write(folder, rows, source: random.Random) -> None:
    """The rows as files, in an order and of sizes of their own."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.parquet"):
        path.unlink()
    rows = source.sample(rows, len(rows))
    cuts = sorted(source.randrange(len(rows) + 1) for _ in range(source.randrange(3)))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        path = folder / f"{source.randrange(10**9)}-{number}.parquet"
        pq.write_table(table_of(rows[start:end]), path, use_dictionary=False)  # a dictionary may take -0 for 0


def made(source: random.Random, who=None) -> tuple:
    """A row, often like another one; what tells some apart is not their text."""
    tags = source.choice([[], ["x, y"], ["x", "y"], ["x", None], None])
    who = source.choice(["ann", "bob", None, "", "NULL"]) if who is None else who
    return (who, source.choice([1, 2, None]), source.choice([0.0, -0.0, 1.5, float("nan")]), tags)


# --- attacks ----------------------------------------------------------------------------------------------------------


def test_a_row_less_at_the_front_leaves_all_others_as_they_were_drawn(db, tmp_path):
    """An erasure must not tell that the person was there: the other rows would be drawn anew only if they were."""
    path, samples = tmp_path / "v.parquet", []
    for skipped in (0, 1):
        with duckdb.connect() as own:
            own.execute(f"COPY (SELECT i AS id, i % 9 AS x FROM range({skipped}, 1000) r(i)) TO '{path}'")
        db.source("v", files=str(path), **SAMPLED)
        samples.append(set(drawn(db, "v")))
    assert 400 < len(samples[0]) < 600
    assert samples[0] ^ samples[1] <= {"(0, 0)"}


@pytest.mark.medium
@pytest.mark.parametrize("engine", ["delta", "iceberg"])
def test_a_delete_of_a_row_leaves_all_others_as_they_were_drawn(db, tmp_path, monkeypatch, engine):
    rows = pa.table({"id": list(range(1000)), "x": [i % 9 for i in range(1000)]})
    if engine == "delta":
        import deltalake

        deltalake.write_deltalake(tmp_path / "t", rows)
        where, delete = {"relation": str(tmp_path / "t")}, lambda: deltalake.DeltaTable(tmp_path / "t").delete("id = 0")
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
        configured(monkeypatch, "prod", uri=f"sqlite:///{tmp_path}/c.db")
        catalog.create_namespace("bank")
        table = catalog.create_table("bank.t", schema=rows.schema)
        table.append(rows)
        where, delete = {"relation": "bank.t", "catalog": "prod"}, lambda: table.delete("id = 0")
    db.source("v", engine, **where, **SAMPLED)
    before = drawn(db, "v")
    delete()
    db.source("v")
    assert 400 < len(before) < 600
    assert set(before) ^ set(drawn(db, "v")) <= {"(0, 0)"}


# --- brute force ------------------------------------------------------------------------------------------------------


class Files:
    """Rows in Parquet files, written anew at every pin."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self.where = {"files": f"{folder}/*.parquet"}

    def write(self, rows, source: random.Random) -> None:
        write(self._folder, rows, source)


class Table(Files):
    """Rows in a table that replaces, appends and deletes; the rows that are deleted stand anywhere before."""

    def write(self, rows, source: random.Random) -> None:
        rows = source.sample(rows, len(rows))
        cut = source.randrange(len(rows) + 1)
        deleted = [("gone", *made(source)[1:]) for _ in range(source.randrange(1, 5))]
        first = [*rows[:cut], *deleted]
        self.replace(table_of(source.sample(first, len(first))))
        self.append(table_of(rows[cut:]))
        self.delete("who = 'gone'")


class InDelta(Table):
    def __init__(self, folder) -> None:
        self._folder, self.where = folder, {"engine": "delta", "relation": str(folder)}

    def replace(self, rows) -> None:
        import deltalake

        deltalake.write_deltalake(self._folder, rows, mode="overwrite")

    def append(self, rows) -> None:
        import deltalake

        deltalake.write_deltalake(self._folder, rows, mode="append")

    def delete(self, which) -> None:
        import deltalake

        deltalake.DeltaTable(self._folder).delete(which)


class InIceberg(Table):
    def __init__(self, folder) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("prod", uri=f"sqlite:///{folder}.db", warehouse=f"file://{folder}")
        catalog.create_namespace("bank")
        self._table = catalog.create_table("bank.t", schema=SCHEMA)
        self.append, self.delete = self._table.append, self._table.delete

    def replace(self, rows) -> None:
        is_new = self._table.current_snapshot() is None  # of which pyiceberg warns that nothing is replaced
        (self._table.append if is_new else self._table.overwrite)(rows)

    @property
    def where(self):
        return {"engine": "iceberg", "relation": self._table.metadata_location}


class Worlds:
    """Two sources that draw by one secret, each of which stores its rows in its own way."""

    def __init__(self, db, stores, source: random.Random, identity: str | None) -> None:
        self._db, self._stores, self._source = db, stores, source
        self._identity = {} if identity is None else {"identity": identity}
        self._is_made = False

    def drawn(self, *worlds) -> list[Counter]:
        """Write both worlds anew, move both pins, and read both samples."""
        for store, rows in zip(self._stores.values(), worlds, strict=True):
            store.write(list(rows), self._source)
        for _ in range(1 if self._is_made else 2):  # at first each has a secret of its own
            for name, store in self._stores.items():
                self._db.source(name, **store.where, other_rows="a test", **SAMPLED, **self._identity)
            self._db.sql("UPDATE dpsql.source SET secret = ?", [f"{7:064x}"])
        self._is_made = True
        return [drawn(self._db, name) for name in self._stores]


@pytest.mark.medium
@pytest.mark.parametrize("identity", [None, "who", "age"])
@pytest.mark.parametrize(("store", "seed"), [(Files, 0), (Files, 1), (InDelta, 2), (InIceberg, 3)])
def test_neighbours_have_neighbouring_samples_at_every_pin(db, tmp_path, identity, store, seed):
    """A row more, a row of another content, or a unit more: samples differ by what may differ, at a ratio of at most 1."""
    source = random.Random(seed)
    worlds = Worlds(db, {name: store(tmp_path / name) for name in ("a", "b")}, source, identity)
    rows, reached = [made(source) for _ in range(40)], set()
    for _ in range(8 if store is Files else 5):
        for _ in range(source.randrange(4)):  # what happens to the rows that both worlds have
            change = source.choice(["add", "remove", "replace"])
            if change != "add":
                rows.pop(source.randrange(len(rows)))
            if change != "remove":
                rows.append(made(source))
        kind = source.choice(["row", "replaced", "unit"])
        if kind == "unit":
            more, less = [made(source, "zoe") for _ in range(5)], []
        else:
            more, less = [made(source)], [made(source)] if kind == "replaced" else []
        with_more, with_less = worlds.drawn([*rows, *more], [*rows, *less])
        gained, lost = with_more - with_less, with_less - with_more
        as_read = [Counter(map(repr, table_of(part).to_pylist())) for part in (more, less)]
        reached.add((kind, gained.total(), lost.total()))
        assert gained.total() <= as_read[0].total(), kind
        assert lost.total() <= as_read[1].total(), kind
        if kind == "unit" and identity == "who":
            assert gained.total() in (0, 5)
    assert len(reached) > 2  # the worlds did differ; one secret, so by no chance


@pytest.mark.medium
@pytest.mark.chance(1e-17, "a share of rows drawn by a random secret")
def test_alike_rows_are_drawn_one_by_one(db, tmp_path):
    """A table of few different rows has a sample of about its share of each, and grows by one row at a time."""
    folder, before = tmp_path / "lake", None
    for number in range(90, 100):
        write(folder, [("ann", 1, 0.0, [])] * number + [("bob", 2, 1.5, None)] * 1000, random.Random(number))
        db.source("v", files=f"{folder}/*.parquet", **SAMPLED)
        ann, bob = sorted(drawn(db, "v").values())
        assert before is None or (ann - before[0] in (0, 1) and bob == before[1])
        before = (ann, bob)
    assert 5 < ann < 95  # fails by chance less than once in 10^17
    assert 400 < bob < 600


# --- the number of rows -----------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path):
    write(tmp_path / "lake", [("ann", n, 0.0, []) for n in range(1000)], random.Random(0))
    return f"{tmp_path}/lake/*.parquet"


@pytest.mark.parametrize("how", [{}, {"identity": "age"}])
def test_a_sample_does_not_have_a_public_number_of_rows(db, lake, how):
    """Whichever is said first: a replaced row may leave the sample, so how many rows it has tells of that row."""
    db.source("v", files=lake, **SAMPLED, **how)
    with pytest.raises(InvalidArgument, match="neighbours is 'replace_one'.*add_remove"):
        db.protect("v", epsilon=10.0, delta=1e-9, neighbours="replace_one")
    assert db.sql("SELECT count(*) FROM dpsql.account").fetchall() == [(0,)]
    db.sql("DROP TABLE v")
    db.source("w", files=lake)
    db.protect("w", epsilon=10.0, delta=1e-9, neighbours="replace_one")
    with pytest.raises(InvalidArgument, match="replace_one.*leave sample and rows out"):
        db.source("w", **SAMPLED, **how)


def test_a_sample_of_an_earlier_version_with_a_public_number_of_rows_is_not_counted(db, lake):
    """As books of that version have it: nothing is charged, and the call that the error names counts all rows."""
    db.source("v", files=lake)
    db.protect("v", epsilon=10.0, delta=1e-9, neighbours="replace_one")
    db.domain("v", "age", lower=0, upper=999, bins=10)
    db.sql("CREATE TABLE dpsql.sample_0 AS FROM v; UPDATE dpsql.source SET sample = "
           """'{"table": "sample_0", "share": 0.5, "by": null}'""")  # fmt: skip
    for call in ("query('SELECT count(*) FROM v WHERE age < 500', epsilon := 1)", "synthesize('v', epsilon := 1)"):
        with pytest.raises(DpsqlError, match=r"CALL dp_source\('v'\), which ends the sample"):
            db.sql(f"FROM dp_{call}").fetchall()
    assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]
    assert db.source("v").share == 1.0
    ((counted,),) = db.sql("SELECT columns(*)::DOUBLE FROM (SELECT n FROM dp_query("
                           "'SELECT count(*) AS n FROM v WHERE age < 500', epsilon := 5))").fetchall()  # fmt: skip
    assert abs(counted - 500) < 30
