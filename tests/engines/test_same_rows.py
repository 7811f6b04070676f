"""Rows have one budget, however their files are named: no spelling, link or copy of a file is a second source."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.engines.lake.identity import identities_of
from dpsql.engines.place import PinnedFile
from dpsql.errors import InvalidArgument

REFUSED = "registered as 'visits' of 'bank' already"


def write(path, query="SELECT i AS x FROM range(100) r(i)") -> Path:
    path.parent.mkdir(exist_ok=True)
    with duckdb.connect() as own:
        own.execute(f"COPY ({query}) TO '{path}'")
    return path


@pytest.fixture
def db(tmp_path):
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        yield db


@pytest.fixture
def lake(db, tmp_path):
    """The folder of a protected source of two files."""
    for number in range(2):
        write(tmp_path / "lake" / f"{number}.parquet", f"SELECT i AS x FROM range({number}, 100) r(i)")
    db.source("visits", files=f"{tmp_path}/lake/*.parquet")
    db.protect("visits", epsilon=10.0, delta=1e-9)
    return tmp_path / "lake"


def linked(make, path, to) -> str:
    make(path, to)
    return str(to)


SPELLINGS = {
    "as it is": lambda p, new: str(p),
    "a folder up and down": lambda p, new: f"{p.parent}/../{p.parent.name}/{p.name}",
    "a folder that is the folder": lambda p, new: f"{p.parent}/./{p.name}",
    "slashes": lambda p, new: str(p).replace("/", "//"),
    "a pattern": lambda p, new: f"{p.parent.parent}/l?ke/{p.name[0]}*",
    "a URL": lambda p, new: f"file://{p}",
    "from here": lambda p, new: os.path.relpath(p),
    "a link": lambda p, new: linked(os.symlink, p, new / "link.parquet"),
    "a link of a link": lambda p, new: linked(
        os.symlink, linked(os.symlink, p, new / "first.parquet"), new / "link.parquet"
    ),
    "a hard link": lambda p, new: linked(os.link, p, new / "hard.parquet"),
    "a linked folder": lambda p, new: linked(os.symlink, p.parent, new / "folder") + f"/{p.name}",
    "the root of a process": lambda p, new: f"/proc/self/root{p}",
    "the root of a process, by its number": lambda p, new: f"/proc/{os.getpid()}/root{p}",
    "a copy": lambda p, new: linked(shutil.copyfile, p, new / "copy.parquet"),
    "a copy with its times": lambda p, new: linked(shutil.copy2, p, new / "copy.parquet"),
    "a copy by a link of its folder": lambda p, new: (
        linked(os.symlink, Path(linked(shutil.copyfile, p, new / "copy.parquet")).parent, new / "folder")
        + "/copy.parquet"
    ),
    "moved away": lambda p, new: linked(shutil.move, p, new / "moved.parquet"),
    "in a folder of a column": lambda p, new: linked(
        shutil.copyfile, p, (new / "year=2026").mkdir() or new / "year=2026" / "0.parquet"
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_a_file_has_a_second_budget(db, lake, tmp_path, spelling):
    """Alone, and among files that are new; in another database that is attached, too."""
    (tmp_path / "new").mkdir()
    path = SPELLINGS[spelling](lake / "1.parquet", tmp_path / "new")
    with pytest.raises(InvalidArgument, match=REFUSED):
        db.source("again", files=path)
    other = write(tmp_path / "other.parquet", "SELECT -i AS x FROM range(9) r(i)")
    if "column" not in spelling:
        with pytest.raises(InvalidArgument, match=REFUSED):
            db.source("again", files=[str(other), path])
    db.sql(f"ATTACH '{tmp_path}/second.duckdb' AS second")
    with pytest.raises(InvalidArgument, match=REFUSED):
        db.source("second.main.again", files=path)
    assert db.sql("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'again'").fetchall() == [(0,)]
    assert db.source("unlike", files=str(other)).files == 1


@pytest.mark.parametrize("name", ["link/1.parquet", "hard.parquet", "lake/../lake/1.parquet"])
def test_a_file_in_its_place_is_the_same_file(db, lake, name):
    """Written anew, it is about the same people, whichever name leads to it."""
    os.link(lake / "1.parquet", lake.parent / "hard.parquet")
    (lake.parent / "link").symlink_to(lake)
    more = write(lake.parent / "more.parquet", "SELECT i AS x FROM range(2, 200) r(i)")
    (lake / "1.parquet").write_bytes(more.read_bytes())
    with pytest.raises(InvalidArgument, match=REFUSED):
        db.source("again", files=f"{lake.parent}/{name}")


@pytest.mark.parametrize("written", [False, True])
def test_a_file_of_a_pin_before_is_not_free(db, lake, tmp_path, written):
    """Its rows were counted, though the source has moved on; written anew, it is about the same people still."""
    other = write(tmp_path / "other.parquet", "SELECT -i AS x FROM range(9) r(i)")
    db.source("visits", files=str(other))
    path = lake / "1.parquet"
    if written:
        write(path, "SELECT i AS x FROM range(2, 200) r(i)")
    with pytest.raises(InvalidArgument, match=REFUSED):
        db.source("again", files=f"{lake}/../lake/{path.name}")
    with pytest.raises(InvalidArgument, match=REFUSED):
        db.source("again", files=shutil.copyfile(other, tmp_path / "copy.parquet").as_posix())


def test_a_pin_that_moves_is_looked_at_again(db, lake, tmp_path):
    """A file that comes to a folder later may be one of another source."""
    write(tmp_path / "more" / "0.parquet", "SELECT -i AS x FROM range(9) r(i)")
    db.source("more", files=f"{tmp_path}/more/*.parquet")
    os.link(lake / "1.parquet", tmp_path / "more" / "1.parquet")
    with pytest.raises(InvalidArgument, match=REFUSED):
        db.source("more")
    assert db.sql("SELECT count(*) FROM dpsql.source_file WHERE source = 'more'").fetchall() == [(1,)]


def test_two_names_of_one_file_are_not_one_source(db, lake):
    """Its rows would count twice."""
    os.link(lake / "1.parquet", lake / "2.parquet")
    with pytest.raises(InvalidArgument, match="two of the paths lead to one file"):
        db.source("visits")
    with pytest.raises(InvalidArgument, match="two of the paths lead to one file"):
        db.source("visits", files=[str(lake / "1.parquet"), f"{lake}/../lake/1.parquet"])


@pytest.mark.parametrize("name", ["[0].parquet", "a*.parquet", "?.parquet", "new\nline.parquet"])
def test_a_name_that_is_a_pattern_is_no_file(db, tmp_path, name):
    """DuckDB would read the files that it fits in its place, and count them twice."""
    (tmp_path / "lake").mkdir()
    for file in ("0.parquet", "ab.parquet", name):
        shutil.copyfile(write(tmp_path / "one.parquet", f"SELECT '{file}' AS x"), tmp_path / "lake" / file)
    with pytest.raises(InvalidArgument, match="a name in .*lake' has a .*: rename the file"):
        db.source("visits", files=f"{tmp_path}/lake/*")
    (tmp_path / "lake" / name).rename(tmp_path / "lake" / "a{0,1}]b#%.parquet")
    assert db.source("visits", files=f"{tmp_path}/lake/*").files == 3
    db.protect("visits", epsilon=100.0, delta=1e-9)
    assert db.sql("FROM dp_query('SELECT count(*) FROM visits', epsilon := 50)").fetchall()[0][0] == 3


def test_a_name_of_an_earlier_registration_is_not_opened(db, lake, tmp_path):
    """It was written down before such names were refused: nothing is charged."""
    os.rename(lake / "1.parquet", lake / "[0].parquet")
    db.sql(f"UPDATE dpsql.source_file SET path = '{lake}/[0].parquet' WHERE path LIKE '%1.parquet'")
    with pytest.raises(dpsql.DpsqlError, match="files of 'visits' are not what they were"):
        db.sql("FROM dp_query('SELECT count(*) FROM visits', epsilon := 1)")
    assert db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(0,)]


def test_the_owners_word_is_in_the_ledger(db, lake, tmp_path):
    """Files may be alike though they are about others; the word goes with the relation that it is about."""
    copy = shutil.copyfile(lake / "1.parquet", tmp_path / "copy.parquet")
    with pytest.raises(InvalidArgument, match="other_rows is empty"):
        db.source("again", files=str(copy), other_rows=" ")
    db.sql(f"CALL dp_source('again', files := '{copy}', other_rows := 'made-up rows of a school')")
    db.protect("again", epsilon=1.0, delta=1e-9)
    db.source("again")
    said = db.sql("SELECT reason FROM dp_ledger() WHERE kind = 'source' AND source = 'again'").fetchall()
    assert len(said) == 2
    assert all("the owner says: made-up rows of a school" in reason for (reason,) in said)
    with pytest.raises(InvalidArgument, match="registered as 'visits'"):
        db.source("again", files=str(lake / "0.parquet"))


@pytest.mark.medium
@pytest.mark.parametrize("first", ["delta", "parquet"])
def test_files_of_a_table_are_its_rows_after_it_wrote_them_anew(db, tmp_path, first):
    """As OPTIMIZE does: no file is the same one, and the rows are."""
    import deltalake
    import pyarrow as pa

    folder = tmp_path / "t"
    for start in (0, 50):
        deltalake.write_deltalake(folder, pa.table({"x": range(start, start + 50)}), mode="append")
    (tmp_path / "link").symlink_to(folder)
    if first == "delta":
        db.source("visits", "delta", relation=str(folder))
    else:
        db.source("visits", files=f"{folder}/*.parquet")
    deltalake.DeltaTable(folder).optimize.compact()
    (newest,) = deltalake.DeltaTable(folder).file_uris()
    with pytest.raises(InvalidArgument, match=REFUSED):
        if first == "delta":
            db.source("again", files=f"{tmp_path}/link/{Path(newest).name}")
        else:
            db.source("again", "delta", relation=f"{tmp_path}/link")


def test_files_without_rows_are_all_alike(db, tmp_path):
    """A writer leaves such files; they hold nobody."""
    for name in ("a", "b"):
        write(tmp_path / name / "0.parquet", "SELECT 1 AS x WHERE false")
        write(tmp_path / name / "1.parquet", f"SELECT '{name}' AS y, 1 AS x")
        assert db.source(name, files=f"{tmp_path}/{name}/*.parquet").files == 2


def test_a_name_that_was_never_protected_keeps_nothing(db, tmp_path):
    """Its stub was dropped, or leads elsewhere now: nothing was charged for its rows."""
    first, second = (write(tmp_path / f"{n}.parquet", f"SELECT {n} AS x") for n in range(2))
    db.source("visits", files=str(first))
    db.source("visits", files=str(second))
    db.source("others", files=str(first))
    db.sql("DROP TABLE visits")
    assert db.source("more", files=str(second)).files == 1


def test_files_that_spark_reads_are_known_by_the_same(lake):
    """It pins their times in place of footers, and may reach them by a linked folder or as a copy."""
    path, link = lake / "1.parquet", lake.parent / "link"
    link.symlink_to(lake)
    copy = shutil.copyfile(path, lake.parent / "copy.parquet")
    of_spark = [identities_of([PinnedFile(str(p), 1, "1764103539000000")]) for p in (link / "1.parquet", copy)]
    assert len(of_spark[0].keys() & identities_of([PinnedFile(str(path), 1, "")]).keys()) == 3
    assert {kind.split()[0] for kind in of_spark[1].keys() & of_spark[0].keys()} == {"bytes"}
    in_bucket = [*identities_of([PinnedFile("s3a://lake/1.parquet", 1, "1764103539000000")])]
    assert in_bucket == [f"path {scheme}://lake/1.parquet" for scheme in ("s3", "s3a", "s3n", "gs", "gcs", "r2")]
    assert [*identities_of([PinnedFile("hdfs://lake/1.parquet", 1, "1764103539000000")])] == [
        "path hdfs://lake/1.parquet"
    ]
