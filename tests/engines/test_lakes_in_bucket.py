"""Delta and Iceberg tables in a bucket, against a server on this machine that speaks S3: what fails, and what is kept.

How they are counted is in the conformance suite; what a bucket does with files is in `test_bucket.py`.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import dpsql
from dpsql.errors import DpsqlError, InvalidArgument

from .delta_mapped import checkpoint_of_version_2, classic_checkpoint
from .delta_vectors import DECLARED, delete
from .iceberg_catalog import configured
from .iceberg_deletes import add_file, delete_by_vector, delete_places, paths_of
from .s3_server import MISSING, httpfs, s3_server
from .test_bucket import AFTER, ANSWERS, CANARIES, READING, declare, goes_on_with_a_new_token, rows_of, spent

pytestmark = [pytest.mark.medium, pytest.mark.skipif(httpfs() is None, reason=MISSING)]
has_vectors = pytest.mark.skipif(not hasattr(deltalake.DeltaTable, "deletion_vectors"), reason="reads no vectors")
ROWS = pa.table({"age": [18 + i * 7 % 70 for i in range(200)], "sex": ["FM"[i % 2] for i in range(200)]})
KINDS = ("delta", "iceberg")
_numbers = iter(range(10**6))


@pytest.fixture
def db(tmp_path):
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        db.sql(f"LOAD '{httpfs()}'")
        db.sql(s3_server().secret())
        db.sql("SET GLOBAL http_retries = 0")
        yield db


@pytest.fixture
def bucket():
    name = f"lakes-{next(_numbers)}"
    s3_server().make(name)
    return name


def delta_of(folder, bucket, change=lambda folder: None):
    """A Delta table of two files with 400 rows in all, from which something is changed before it is there."""
    place = folder / f"d{next(_numbers)}"
    for _ in range(2):
        deltalake.write_deltalake(place, ROWS, mode="append", configuration=DECLARED)
    change(place)
    s3_server().put_folder(f"{bucket}/{place.name}", place)
    return {"engine": "delta", "relation": f"s3://{bucket}/{place.name}"}


def iceberg_table(folder, bucket, **settings):
    """Two files with 400 rows in all."""
    name = f"prod{next(_numbers)}"
    uri = f"sqlite:///{folder}/{name}.db"
    catalog = SqlCatalog(name, uri=uri, warehouse=f"s3://{bucket}/{name}", **s3_server().for_pyiceberg(), **settings)
    catalog.create_namespace("bank")
    table = catalog.create_table("bank.visits", schema=ROWS.schema, properties={"format-version": "2"})
    for _ in range(2):
        table.append(ROWS)
    return table


def iceberg_of(folder, bucket, change=lambda table: None):
    table = iceberg_table(folder, bucket)
    change(table)
    return {"engine": "iceberg", "relation": table.metadata_location}


MADE = {"delta": delta_of, "iceberg": iceberg_of}


@pytest.fixture(params=KINDS)
def made(request, tmp_path, bucket):
    """The arguments that register a table of either kind."""
    return MADE[request.param](tmp_path, bucket)


@pytest.fixture
def visits(db, made):
    """A database with the source `visits`, protected and declared."""
    db.source("visits", **made)
    declare(db)
    return db


LEFT_OUT = (*CANARIES, ".parquet", ".avro", "127.0.0.1", "_delta_log")
"""No text that leaves has a key, the name of a file, or an address."""


@pytest.mark.parametrize("after", [0, READING, AFTER])
@pytest.mark.parametrize("status", ANSWERS)
def test_what_a_bucket_refuses_is_charged_once(visits, after, status):
    """Before the charge nothing is; after it the charge is kept, and the same call goes on."""
    with s3_server().fault(after, status=status), pytest.raises(DpsqlError, match=ANSWERS[status]) as refused:
        rows_of(visits)
    assert not any(text in str(refused.value) for text in LEFT_OUT)
    assert spent(visits) == (0 if after == 0 else 5.0)
    assert abs(rows_of(visits) - 400) < 10
    assert spent(visits) == 5.0


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_table_that_cannot_be_looked_at_is_not_registered(db, made, status):
    """Whichever request fails: those for the log and the manifests, too. What mends it is said."""
    said, found = [], 0
    while not found:  # the next request fails each time, until there is none
        with s3_server().fault(len(said), status=status):
            try:
                found = db.source("visits", **made).files
            except DpsqlError as refused:
                said.append(str(refused))
                tables = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'visits'"
                assert db.sql(tables).fetchall() == [(0,)]
    assert found == 2
    assert len(said) > 6
    for text in said:
        assert ANSWERS[status].split()[0] in text or "a file or the bucket is not there" in text
        assert not any(place in text for place in LEFT_OUT)


def test_a_token_that_expires_is_replaced(visits):
    """In the middle of a release; the new secret has the name of the old one."""
    goes_on_with_a_new_token(visits)


@pytest.mark.parametrize("after", [0, READING])
def test_no_row_of_a_file_that_was_replaced_is_counted(visits, bucket, after):
    """One in the place of a pinned one, whenever it comes; the one that is put back counts, at no cost."""
    server = s3_server()
    ((path,),) = visits.sql("SELECT path FROM dpsql.source_file ORDER BY number LIMIT 1").fetchall()
    key = path.removeprefix("s3://")
    visits.sql(f"COPY (FROM range(900) r(age), (SELECT 'F' AS sex)) TO 's3://{bucket}/new.parquet' (FORMAT parquet)")
    with (
        server.fault(after, swap=key, by=f"{bucket}/new.parquet"),
        pytest.raises(DpsqlError, match=r"files of 'visits' are not"),
    ):
        rows_of(visits)
    assert spent(visits) == (0 if after == 0 else 5.0)
    with pytest.raises(DpsqlError, match="files of 'visits' are not"):
        rows_of(visits)


@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_count_when_the_pin_moves(db, tmp_path, bucket, kind):
    """And older versions can be pinned; the log begins with a checkpoint."""
    if kind == "delta":
        made = delta_of(tmp_path, bucket)
        place = tmp_path / made["relation"].rpartition("/")[2]
        db.source("visits", **made)
        declare(db)
        before = set(place.rglob("*"))
        deltalake.DeltaTable(place).create_checkpoint()
        deltalake.write_deltalake(place, ROWS, mode="append")
        for file in set(place.rglob("*")) - before:
            s3_server().put(f"{bucket}/{place.name}/{file.relative_to(place)}", file.read_bytes())
        for name in (0, 1):
            s3_server().delete(f"{bucket}/{place.name}/_delta_log/{name:020}.json")
        first = 1
    else:
        table = iceberg_table(tmp_path, bucket)
        db.source("visits", "iceberg", relation=table.metadata_location)
        declare(db)
        first = table.current_snapshot().snapshot_id
        table.append(ROWS)
        made = {"engine": "iceberg", "relation": table.metadata_location}
    assert abs(rows_of(db) - 400) < 10
    assert db.source("visits", **made).files == 3
    assert abs(rows_of(db, 6.0) - 600) < 10
    assert db.source("visits", snapshot=first).files == 2
    assert abs(rows_of(db, 7.0) - 400) < 10


def _vectors(folder):
    delete(folder, range(0, 200, 2))


def _classic(folder):
    """A checkpoint of version 2 that is called as those of version 1, with its files in others."""
    checkpoint_of_version_2(folder, sidecars=True)
    log = folder / "_delta_log"
    (whole,) = log.glob("*.checkpoint.*.json")
    actions = _actions_of(whole)
    (sidecar,) = (log / "_sidecars").iterdir()
    name = f"{whole.name.partition('.')[0]}.checkpoint.parquet"
    classic_checkpoint(actions, sidecar, log / name)
    whole.unlink()


CHANGES = {
    "vectors": ("delta", _vectors, 300),
    "vectors in the log": ("delta", lambda folder: delete(folder, range(0, 200, 2), inline=True), 300),
    "vectors and sidecars": ("delta", lambda f: (_vectors(f), checkpoint_of_version_2(f, sidecars=True)), 300),
    "a classic name, and sidecars": ("delta", lambda f: (_vectors(f), _classic(f)), 300),
    "checkpoint in JSON": ("delta", lambda folder: checkpoint_of_version_2(folder, sidecars=False), 400),
    "places": ("iceberg", lambda table: delete_places(table, {paths_of(table)[0]: range(0, 200, 2)}), 300),
    "Iceberg's vectors": (
        "iceberg",
        lambda table: delete_by_vector(table, {paths_of(table)[0]: range(0, 200, 2)}),
        300,
    ),
}


@has_vectors
@pytest.mark.parametrize("what", CHANGES)
def test_deleted_rows_do_not_count(db, tmp_path, bucket, what):
    kind, change, rows = CHANGES[what]
    db.source("visits", **MADE[kind](tmp_path, bucket, change))
    declare(db)
    assert abs(rows_of(db, 100.0) - rows) < 3


@has_vectors
def test_a_vector_at_an_address_of_its_own_is_not_asked_for(db, tmp_path, bucket):
    """It could be of any server, to which deltalake would go by itself."""

    def elsewhere(folder):
        delete(folder, [1], storageType="p", pathOrInlineDv="s3://elsewhere/deletion_vector.bin")

    with pytest.raises(InvalidArgument, match="at an address of its own"):
        db.source("visits", **delta_of(tmp_path, bucket, elsewhere))


def test_partitions_of_any_text(db, tmp_path, bucket):
    rows = pa.table({"ward": ["a b/%", "ü", None] * 40, "x": [1] * 120})
    deltalake.write_deltalake(tmp_path / "d", rows, partition_by=["ward"])
    s3_server().put_folder(f"{bucket}/d", tmp_path / "d")
    db.source("t", "delta", relation=f"s3://{bucket}/d/")
    db.protect("t", epsilon=300.0, delta=1e-9)
    db.domain("t", "ward", values=["a b/%", "ü"])
    found = db.sql("FROM dp_query('SELECT ward, count(*) FROM t GROUP BY ward', epsilon := 100)").fetchall()
    assert [(row[0], round(row[1], -1)) for row in found] == [("a b/%", 40), ("ü", 40), (None, 40)]


SPELLINGS = {
    "s3a": lambda made, b, new: {**made, "relation": made["relation"].replace("s3:", "s3a:")},
    "its files": lambda made, b, new: {"files": f"s3://{b}/**/*.parquet"},
    "its files by s3n": lambda made, b, new: {"files": f"s3n://{b}/**/*.parquet"},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_a_table_has_a_second_budget(visits, made, bucket, tmp_path, spelling):
    given = SPELLINGS[spelling](made, bucket, tmp_path)
    with pytest.raises(InvalidArgument, match="registered as 'visits' of 'bank' already"):
        visits.source("again", **given)


def _other_log(spelled):
    """A log whose second commit names the file of the first one, too."""

    def change(folder):
        first, second = sorted((folder / "_delta_log").glob("*.json"))
        (path,) = (action["add"]["path"] for action in _actions_of(first) if "add" in action)
        actions = _actions_of(second)
        for action in actions:
            if "add" in action:
                action["add"]["path"] = spelled(path, folder.name)
        second.write_text("\n".join(map(json.dumps, actions)))

    return change


def _actions_of(commit):
    return [json.loads(line) for line in commit.read_text().splitlines()]


TWICE = {
    "s3a": ("delta", lambda b: lambda path, name: f"s3a://{b}/{name}/{path}"),
    "its address": ("delta", lambda b: lambda path, name: f"s3://{b}/{name}/{path}"),
    "escapes": ("delta", lambda b: lambda path, name: path.replace("part", "%70art")),
    "s3a in Iceberg": ("iceberg", lambda b: lambda path: path.replace("s3:", "s3a:")),
}


@pytest.mark.parametrize("how", TWICE)
def test_a_file_counts_once(db, tmp_path, bucket, how):
    """By whatever spelling a log or a manifest names it again."""
    kind, of = TWICE[how]
    spelled = of(bucket)
    if kind == "delta":
        made = delta_of(tmp_path, bucket, _other_log(spelled))
    else:
        made = iceberg_of(tmp_path, bucket, lambda table: add_file(table, spelled(paths_of(table)[0]), 200))
    with pytest.raises(InvalidArgument, match="twice"):
        db.source("visits", **made)


ELSEWHERE = ("file:///dev/null/a.parquet", "/dev/null/a.parquet", "s3://of-another/a.parquet", "http://h/a.parquet")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("address", ELSEWHERE)
def test_a_table_in_a_bucket_has_files_there_alone(db, tmp_path, bucket, kind, address):
    """Neither the disk's, which only the owner may read, nor another bucket's."""
    if kind == "delta":
        made = delta_of(tmp_path, bucket, _other_log(lambda path, name: address))
    else:
        made = iceberg_of(tmp_path, bucket, lambda table: add_file(table, address, 200))
    with pytest.raises(InvalidArgument, match=r"not in its (own )?bucket|has files at") as refused:
        db.source("visits", **made)
    assert "a.parquet" not in str(refused.value)


def test_delete_files_of_a_table_in_a_bucket_are_there(db, tmp_path, bucket):
    gone = f"file://{tmp_path}/deletes.parquet"
    made = iceberg_of(tmp_path, bucket, lambda table: delete_places(table, {paths_of(table)[0]: [1]}, file_path=gone))
    with pytest.raises(InvalidArgument, match="not in its own bucket"):
        db.source("visits", **made)


def test_a_table_may_be_the_whole_bucket(db, tmp_path, bucket):
    """What it holds are the files of later versions as well."""
    name = f"prod{next(_numbers)}"
    uri = f"sqlite:///{tmp_path}/{name}.db"
    catalog = SqlCatalog(name, uri=uri, warehouse=f"s3://{bucket}/w", **s3_server().for_pyiceberg())
    catalog.create_namespace("bank")
    table = catalog.create_table("bank.visits", schema=ROWS.schema, location=f"s3://{bucket}")
    table.append(ROWS)
    db.source("visits", "iceberg", relation=table.metadata_location)
    db.sql(f"COPY (FROM range(900) r(age), (SELECT 'F' AS sex)) TO 's3://{bucket}/data/new.parquet' (FORMAT parquet)")
    with pytest.raises(InvalidArgument, match="registered as 'visits' of 'bank' already"):
        db.source("again", files=f"s3://{bucket}/data/new.parquet")


def test_files_that_a_table_wrote_anew_are_its_rows(db, tmp_path, bucket):
    """As plain files of its folder, which were not there when it was pinned; and a copy of its folder on the disk."""
    made = delta_of(tmp_path, bucket)
    db.source("visits", **made)
    deltalake.write_deltalake(tmp_path / "other", ROWS.slice(0, 7))
    (file,) = (tmp_path / "other").glob("*.parquet")
    key = made["relation"].removeprefix("s3://")
    s3_server().put(f"{key}/later/{file.name}", file.read_bytes())
    with pytest.raises(InvalidArgument, match="registered as 'visits' of 'bank' already"):
        db.source("again", files=f"s3://{key}/later/*.parquet")
    with pytest.raises(InvalidArgument, match="registered as 'visits' of 'bank' already"):
        db.source("again", "delta", relation=str(tmp_path / key.rpartition("/")[2]))


@pytest.mark.parametrize(
    ("engine", "relation", "says"),
    [
        ("delta", "s3://lake/visits?s3_endpoint=canary", "CREATE SECRET"),
        ("delta", "s3://lake/*", "the name of a table has no"),
        ("delta", "s3://lake/x/../visits", "empty or dots"),
        ("delta", "https://user:canary@lake/visits", "so say s3://bucket/key"),
        ("iceberg", "s3://lake/1.metadata.json#canary", "CREATE SECRET"),
        ("iceberg", "s3://lake/[1].metadata.json", "the name of a table has no"),
        ("iceberg", "az://lake/1.metadata.json?sig=canary", "reads files of this machine"),
        ("delta", "https://user:can?ary-canary@lake/visits", "so say s3://bucket/key"),
        ("delta", "/nowhere/table?token=canary", "no Delta table"),
        ("delta", "/nowhere/table?token=can@canary", "no Delta table"),
        ("delta", "az://lake/visits;AccountKey=canary", "reads files of this machine"),
        ("delta", "s3:/canary:canary@lake/visits", "no Delta table"),
        ("delta", "x?canary://lake", "reads files of this machine"),
        ("iceberg", "/nowhere/1.metadata.json;token=canary", "no such Iceberg table"),
        ("iceberg", "s3:/canary:canary@lake/1.metadata.json", "no such Iceberg table"),
    ],
)
def test_an_address_that_is_none_is_not_repeated(db, engine, relation, says):
    with pytest.raises(InvalidArgument, match=says) as refused:
        db.source("visits", engine, relation=relation)
    assert "canary" not in str(refused.value)


def test_what_is_no_table_is_said(db, bucket):
    for engine in KINDS:
        with pytest.raises(DpsqlError, match="there is no|is not there"):
            db.source("visits", engine, relation=f"s3://{bucket}/nothing")


def test_a_catalog_needs_no_key_of_the_bucket(db, tmp_path, bucket, monkeypatch):
    """DuckDB reads metadata and manifests, so the configuration of the catalog has none."""
    table = iceberg_table(tmp_path, bucket)
    catalog = table.catalog.name
    configured(monkeypatch, catalog, uri=f"sqlite:///{tmp_path}/{catalog}.db")
    db.source("visits", "iceberg", catalog=catalog, relation="bank.visits")
    declare(db)
    assert abs(rows_of(db) - 400) < 10
    table.append(ROWS)
    assert db.source("visits").files == 3


def test_a_table_names_no_class_that_reads_it(db, tmp_path, bucket, monkeypatch):
    """pyiceberg would import whatever module its properties name, and make what is there."""
    table = iceberg_table(tmp_path, bucket)
    metadata = json.loads(table.metadata.model_dump_json())
    metadata["properties"]["py-io-impl"] = "named_by_a_table.IO"
    s3_server().put(table.metadata_location.removeprefix("s3://"), json.dumps(metadata).encode())
    (tmp_path / "named_by_a_table.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    catalog = table.catalog.name
    configured(monkeypatch, catalog, uri=f"sqlite:///{tmp_path}/{catalog}.db")
    assert db.source("visits", "iceberg", catalog=catalog, relation="bank.visits").files == 2


def test_a_table_of_a_rest_catalog(db, tmp_path, bucket, monkeypatch):
    """A server that gives metadata, and a key that it lends, which nobody uses."""
    table = iceberg_table(tmp_path, bucket)

    class Catalog(BaseHTTPRequestHandler):
        def do_GET(self):
            answer = {"defaults": {}, "overrides": {}}
            if self.path.endswith("/tables/visits"):
                metadata = json.loads(table.metadata.model_dump_json())
                lent = {"s3.access-key-id": "canary", "s3.endpoint": "http://127.0.0.1:9"}
                answer = {"metadata-location": table.metadata_location, "metadata": metadata, "config": lent}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Catalog)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        configured(monkeypatch, "web", uri=f"http://127.0.0.1:{server.server_port}", token="canary-of-the-catalog")
        db.source("visits", "iceberg", catalog="web", relation="bank.visits")
    finally:
        server.shutdown()
        server.server_close()
    declare(db)
    assert abs(rows_of(db) - 400) < 10
    assert "canary" not in str(db.sql("FROM dpsql.source").fetchall())
    with pytest.raises(InvalidArgument, match="in catalog 'web'") as refused:
        db.source("visits")
    assert "canary" not in str(refused.value)


def test_no_credential_is_written_anywhere(visits, made, tmp_path):
    """Not in books, the file, the ledger, plans, errors, or in texts of statements; and no copy of a log stays."""
    visits.sql("CALL enable_logging('QueryLog')")
    said = [str(visits.sql("FROM dp_plan('visits', epsilon := 1)").fetchall())]
    for number, status in enumerate((400, 403, 500)):
        with s3_server().fault(READING, status=status), pytest.raises(DpsqlError) as refused:
            rows_of(visits, 2.0 + number)
        said += [str(refused.value), repr(refused.value.__cause__)]
        with s3_server().fault(3, status=status), pytest.raises(DpsqlError) as refused:
            visits.source("more", **made)
        said += [str(refused.value), repr(refused.value.__cause__)]
    said.append(str(visits.sql("SELECT message FROM duckdb_logs WHERE type = 'QueryLog'").fetchall()))
    tables = visits.sql("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'dpsql'").fetchall()
    said += [str(visits.sql(f'FROM dpsql."{table}"').fetchall()) for (table,) in tables]
    said.append(str(visits.sql("FROM dp_ledger()").fetchall()))
    visits.close()
    said += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir() if path.is_file()]
    assert len(said) > 20
    for text in said:
        assert not any(canary in text for canary in CANARIES)
