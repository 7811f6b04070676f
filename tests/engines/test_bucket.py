"""dp_source: tables whose rows are Parquet files in a bucket, against a server on this machine that speaks S3.

How they are counted is in the conformance suite; here is what a bucket does that no folder does, and what leaks nothing.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import duckdb
import pytest

import dpsql
from dpsql.engines.lake.bucket import footers_as_read
from dpsql.errors import DpsqlError, InvalidArgument

from .s3_server import KEY, MISSING, SECRET, TOKEN, httpfs, s3_server

CANARIES = (KEY, SECRET, TOKEN, "canary")
ROWS = "SELECT 18 + i * 7 % 70 AS age, (['F', 'M'])[1 + i % 2] AS sex FROM range({}, {}) r(i)"
needs_httpfs = pytest.mark.skipif(httpfs() is None, reason=MISSING)
_buckets = iter(range(10**6))


@pytest.fixture
def db(tmp_path):
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        if httpfs() is not None:
            db.sql(f"LOAD '{httpfs()}'")
            db.sql(s3_server().secret())
            db.sql("SET GLOBAL http_retries = 0")
        yield db


@pytest.fixture
def bucket(db):
    """A bucket with two files of 400 rows in all."""
    name = f"lake-{next(_buckets)}"
    s3_server().make(name)
    for number in range(2):
        write(db, f"s3://{name}/visits/{number}.parquet", ROWS.format(200 * number, 200 * number + 200))
    return name


@pytest.fixture
def visits(db, bucket):
    """A database with the source `visits`, protected and declared."""
    db.sql(f"CALL dp_source('visits', files := 's3://{bucket}/visits/*.parquet')")
    declare(db)
    return db


def declare(db):
    db.protect("visits", epsilon=1000.0, delta=1e-9)
    db.domains("visits", {"age": {"lower": 18, "upper": 87, "bins": 7}, "sex": {"values": ["F", "M"]}})


def write(db, path, rows):
    db.sql(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")


def rows_of(db, epsilon=5.0):
    """How many rows a query counts."""
    return db.sql(f"FROM dp_query('SELECT count(*) FROM visits', epsilon := {epsilon})").fetchall()[0][0]


def spent(db):
    return db.sql("SELECT coalesce(sum(epsilon), 0) FROM dp_ledger() WHERE kind = 'charge'").fetchall()[0][0]


@pytest.mark.medium
def test_what_is_missing_is_named(tmp_path):
    """At the registration, where DuckDB has no httpfs."""
    with dpsql.connect(config={"extension_directory": str(tmp_path), "autoinstall_known_extensions": False}) as db:
        with pytest.raises(DpsqlError, match=r"extension httpfs, which is not installed for DuckDB .*INSTALL httpfs"):
            db.source("visits", files="s3://lake/visits/*.parquet")
        for engine in ("delta", "iceberg"):
            with pytest.raises(
                DpsqlError, match=r"extension httpfs, which is not installed for DuckDB .*INSTALL httpfs"
            ):
                db.source("visits", engine, relation="s3://lake/visits/1.metadata.json")
        assert db.sql("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'visits'").fetchall() == [(0,)]


@needs_httpfs
@pytest.mark.medium
def test_a_process_without_the_extension_charges_nothing(visits, tmp_path):
    visits.close()
    options = {"extension_directory": str(tmp_path), "autoinstall_known_extensions": False}
    with dpsql.connect(tmp_path / "bank.duckdb", config=options) as db:
        with pytest.raises(DpsqlError, match="LOAD httpfs"):
            rows_of(db)
        assert spent(db) == 0
        db.sql(f"LOAD '{httpfs()}'")
        db.sql(s3_server().secret())
        assert abs(rows_of(db) - 400) < 10


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ("s3://lake/*.parquet?s3_secret_access_key=canary", "CREATE SECRET"),
        ("s3://user:canary@lake/*.parquet", "CREATE SECRET"),
        ("s3://lake", "give scheme://bucket/key"),
        ("S3://lake/", "give scheme://bucket/key"),
        ("S3://lake/x.parquet", "in small letters"),
        ("s3://lake/x/../0.parquet", "empty or dots"),
        ("s3://lake/./0.parquet", "empty or dots"),
        ("s3://lake//0.parquet", "empty or dots"),
        ("s3://lake/0.parquet/", "empty or dots"),
        ("s3://lake/0.parquet\n", "give scheme://bucket/key"),
        ("gs:///x.parquet#canary", "give scheme://bucket/key"),
        ("https://user:canary@127.0.0.1/lake/x.parquet?X-Amz-Signature=canary", "one address, so say s3://bucket/key"),
        ("az://lake/x.parquet?sig=canary", "reads files of this machine"),
    ],
)
def test_an_address_that_is_none_is_not_repeated(db, files, says):
    with pytest.raises(InvalidArgument, match=says) as refused:
        db.source("visits", files=files)
    assert "canary" not in str(refused.value)


@needs_httpfs
@pytest.mark.medium
def test_all_that_is_done_with_a_folder_is_done_with_a_bucket(db, bucket):
    """Columns of folders, new files once the pin moves, privacy units, a sample, synthetic rows."""
    for ward in ("a", "b"):
        write(db, f"s3://{bucket}/stays/ward={ward}/0.parquet", "SELECT i % 50 AS who FROM range(100) r(i)")
    files = f"s3a://{bucket}/stays/*/*.parquet"
    made = db.source("stays", files=files)
    assert (made.files, made.columns) == (2, ("who", "ward"))
    db.protect("stays", epsilon=1000.0, delta=1e-9, privacy_unit="who", max_rows=3)
    db.domain("stays", "ward", values=["a", "b"])
    query = "FROM dp_query('SELECT ward, count(*) FROM stays GROUP BY ward ORDER BY 1', epsilon := {})"
    counts = [count for _, count, *_ in db.sql(query.format(100)).fetchall()]
    assert sum(counts) == pytest.approx(150, abs=12)
    write(db, f"s3://{bucket}/stays/ward=b/1.parquet", "SELECT 50 + i AS who FROM range(100) r(i)")
    assert db.source("stays").files == 3
    counts = [count for _, count, *_ in db.sql(query.format(101)).fetchall()]
    assert sum(counts) == pytest.approx(250, abs=12)
    rows = db.sql("SELECT count(*) FROM dp_synthesize('stays', epsilon := 300, mechanism := 'direct')").fetchall()
    assert rows[0][0] == pytest.approx(250, abs=25)
    assert db.source("some", files=f"s3://{bucket}/visits/*.parquet", sample=200, rows=400).share == 0.5


SPELLINGS = {
    "as it is": lambda db, b, new: f"s3://{b}/visits/1.parquet",
    "s3a": lambda db, b, new: f"s3a://{b}/visits/*.parquet",
    "s3n": lambda db, b, new: f"s3n://{b}/visits/1.parquet",
    "a pattern": lambda db, b, new: f"s3://{b}/vis*/[01].parquet",
    "a copy in another bucket": lambda db, b, new: copied(db, b, f"s3://{b}/elsewhere/9.parquet"),
    "a copy on the disk": lambda db, b, new: copied(db, b, str(new / "9.parquet")),
}


def copied(db, bucket, path):
    """The same bytes."""
    body = s3_server().get(f"{bucket}/visits/1.parquet")
    if path.startswith("s3"):
        s3_server().put(path.removeprefix("s3://"), body)
    else:
        with open(path, "wb") as file:
            file.write(body)
    return path


@needs_httpfs
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.medium
def test_no_spelling_of_an_object_has_a_second_budget(visits, bucket, tmp_path, spelling):
    files = SPELLINGS[spelling](visits, bucket, tmp_path)
    with pytest.raises(InvalidArgument, match="registered as 'visits' of 'bank' already"):
        visits.source("again", files=files)
    write(visits, f"s3://{bucket}/other/0.parquet", "SELECT 7 AS x")
    assert visits.source("unlike", files=f"s3n://{bucket}/other/0.parquet").files == 1


@needs_httpfs
@pytest.mark.medium
def test_a_file_of_the_disk_has_no_second_budget_in_a_bucket(db, bucket, tmp_path):
    """Nor has an object one by another name of it in the same list."""
    write(db, tmp_path / "0.parquet", "SELECT 1 AS x FROM range(9)")
    db.source("here", files=f"{tmp_path}/0.parquet")
    s3_server().put(f"{bucket}/up/0.parquet", (tmp_path / "0.parquet").read_bytes())
    with pytest.raises(InvalidArgument, match="registered as 'here' of 'bank' already"):
        db.source("there", files=f"s3://{bucket}/up/0.parquet")
    with pytest.raises(InvalidArgument, match="two of the paths lead to one file"):
        db.source("twice", files=[f"s3://{bucket}/visits/*.parquet", f"s3a://{bucket}/visits/0.parquet"])


NAMES = [
    "1.parquet?s3_endpoint={canary}&s3_use_ssl=false&s3_url_style=path",
    "0.parquet?s3_region=.parquet",
    "0.parquet#canary",
    "*.parquet",
    "?.parquet",
    "[0].parquet",
    "x/../0.parquet",
    "./0.parquet",
    "/0.parquet",
]


@needs_httpfs
@pytest.mark.medium
@pytest.mark.parametrize("name", NAMES)
def test_no_name_in_a_bucket_leads_elsewhere(db, bucket, name):
    """Who may write to the bucket names its objects: no key of the secret goes to another server, no row counts twice."""
    asked = []

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = name.format(canary=f"127.0.0.1:{server.server_port}")
    try:
        s3_server().put(f"{bucket}/visits/{quote(name)}", s3_server().get(f"{bucket}/visits/0.parquet"))
        listed = db.sql(f"FROM glob('s3://{bucket}/visits/**')").fetchall()
        assert len(listed) == (3 if name[0] not in "x./" else len(listed))
        for pattern in ("*", "**"):
            try:
                made = db.source("visits", files=f"s3://{bucket}/visits/{pattern}")
            except InvalidArgument as refused:
                assert f"a name in 's3://{bucket}/visits" in str(refused)
                assert "s3_" not in str(refused)
                assert "canary" not in str(refused)
            else:
                assert made.files == 2
                assert name[0] in "x./"
    finally:
        server.shutdown()
        server.server_close()
    assert not asked


@needs_httpfs
@pytest.mark.medium
def test_the_files_of_a_source_are_of_one_scheme(db, bucket, tmp_path):
    """Another scheme may lead to the same endpoint, and a folder may be a mounted bucket."""
    write(db, tmp_path / "9.parquet", ROWS.format(0, 9))
    db.sql(s3_server().secret(token="").replace("SECRET lake", "SECRET other").replace("TYPE s3", "TYPE gcs"))
    object_ = f"{bucket}/visits/0.parquet"
    with pytest.raises(InvalidArgument, match="two of the paths lead to one file"):
        db.source("twice", files=[f"s3://{object_}", f"gs://{object_}"])
    with pytest.raises(InvalidArgument, match="of several schemes"):
        db.source("mixed", files=[f"s3://{object_}", str(tmp_path / "9.parquet")])
    db.source("first", files=f"s3://{object_}")
    with pytest.raises(InvalidArgument, match="registered as 'first' of 'bank' already"):
        db.source("second", files=f"gs://{object_}")


@needs_httpfs
@pytest.mark.medium
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("earlier", ["", "before it moved", "after it moved"])
def test_a_file_that_moved_to_a_bucket_has_no_second_budget(db, bucket, tmp_path, moved, earlier):
    """It went from the disk, and the pin moved on, perhaps; of an earlier registration its size alone is there."""
    write(db, tmp_path / "0.parquet", ROWS.format(0, 300))
    write(db, tmp_path / "other.parquet", ROWS.format(900, 1700))
    db.source("visits", files=f"{tmp_path}/0.parquet")
    declare(db)
    assert abs(rows_of(db) - 300) < 10
    forget = "DELETE FROM dpsql.source_past WHERE source = 'visits' AND regexp_matches(identity, '^(as |un)?read ')"
    if earlier == "before it moved":
        db.sql(forget)
    body = (tmp_path / "0.parquet").read_bytes()
    (tmp_path / "0.parquet").unlink()
    if moved:
        db.source("visits", files=f"{tmp_path}/other.parquet")
    if earlier == "after it moved":
        db.sql(forget)
    s3_server().put(f"{bucket}/up/0.parquet", body)
    with pytest.raises(InvalidArgument, match="registered as 'visits' of 'bank' already"):
        db.source("again", files=f"s3://{bucket}/up/0.parquet")
    assert db.source("unlike", files=f"s3://{bucket}/visits/*.parquet").files == 2
    assert db.source("said", files=f"s3://{bucket}/up/0.parquet", other_rows="a test of mine").files == 1


def other_of_size(db, bucket, size):
    """The bytes of a file of that size with other ages, which is new/0.parquet then."""
    for youngest in range(19, 60):
        write(db, f"s3://{bucket}/new/0.parquet", ROWS.format(0, 200).replace("18 +", f"{youngest} +"))
        body = s3_server().get(f"{bucket}/new/0.parquet")
        if len(body) == size:
            return body
    raise AssertionError(size)


@needs_httpfs
@pytest.mark.medium
def test_a_file_of_the_size_of_one_that_went_is_another_file(db, bucket, tmp_path):
    """Where it is written down what DuckDB read of the one that went."""
    here = tmp_path / "0.parquet"
    write(db, here, ROWS.format(0, 200))
    other_of_size(db, bucket, here.stat().st_size)
    db.source("visits", files=str(here))
    declare(db)
    here.unlink()
    assert db.source("unlike", files=f"s3://{bucket}/new/0.parquet").files == 1


def test_an_order_that_is_set_makes_no_other_file(tmp_path):
    """What is compared of a footer is in an order of its own."""
    path = str(tmp_path / "0.parquet")
    with duckdb.connect() as cursor:
        cursor.execute(f"COPY ({ROWS.format(0, 9)}) TO '{path}' (FORMAT parquet)")
        before = footers_as_read(cursor, [path])
        cursor.execute("SET default_order = 'DESC'")
        assert footers_as_read(cursor, [path]) == before


READING, AFTER = 4, 6
"""Requests before rows are read, and before the pin is looked at again."""
ANSWERS = {400: "token expired", 403: "CREATE OR REPLACE SECRET", 404: "restore them", 503: "wait a while"}


def goes_on_with_a_new_token(visits):
    """What fails when the old one expires is charged once, and its same call is answered with the new one."""
    with s3_server().fault(READING, status=400, token=TOKEN):
        with pytest.raises(DpsqlError, match="token expired"):
            rows_of(visits)
        visits.sql(s3_server().secret(token="a newer canary"))
        assert abs(rows_of(visits) - 400) < 10
    assert spent(visits) == 5.0


@needs_httpfs
@pytest.mark.medium
@pytest.mark.parametrize("after", [0, READING, AFTER])
@pytest.mark.parametrize("status", ANSWERS)
def test_what_a_bucket_refuses_is_charged_once(visits, after, status):
    """Before the charge nothing is; after it the charge is kept, and the same call goes on."""
    with s3_server().fault(after, status=status), pytest.raises(DpsqlError, match=ANSWERS[status]) as refused:
        rows_of(visits)
    assert not any(text in str(refused.value) for text in (*CANARIES, "parquet", "127.0.0.1"))
    assert spent(visits) == (0 if after == 0 else 5.0)
    assert abs(rows_of(visits) - 400) < 10
    assert spent(visits) == 5.0


@needs_httpfs
@pytest.mark.medium
def test_a_bucket_that_fails_ends_a_release(visits):
    """As often as the error says: which parts of a file are asked for may depend on its rows."""
    for _ in range(4):
        with (
            s3_server().fault(AFTER, status=503),
            pytest.raises(DpsqlError, match="the same call goes on with it, three times at most"),
        ):
            rows_of(visits)
    with pytest.raises(DpsqlError, match="stopped 4 times before it had stored a new answer"):
        rows_of(visits)
    assert spent(visits) == 5.0


@needs_httpfs
@pytest.mark.medium
def test_a_token_that_expires_is_replaced(visits):
    """In the middle of a release; the new secret has the name of the old one."""
    goes_on_with_a_new_token(visits)


@needs_httpfs
@pytest.mark.medium
@pytest.mark.parametrize("after", [0, READING, READING + 1])
def test_no_row_of_a_file_that_was_replaced_is_counted(visits, bucket, after):
    """One in the place of a pinned one, whenever it comes; the owner pins it, or puts the other one back."""
    write(visits, f"s3://{bucket}/new/0.parquet", ROWS.format(0, 900))
    with (
        s3_server().fault(after, swap=f"{bucket}/visits/0.parquet", by=f"{bucket}/new/0.parquet"),
        pytest.raises(DpsqlError, match=r"files of 'visits' are not.*CALL dp_source\('visits'\)"),
    ):
        rows_of(visits)
    before = spent(visits)
    assert before == (0 if after == 0 else 5.0)
    with pytest.raises(DpsqlError, match="files of 'visits' are not"):
        rows_of(visits)
    assert spent(visits) == before
    visits.sql("CALL dp_source('visits')")
    assert abs(rows_of(visits) - 1100) < 10
    assert spent(visits) == 5.0


@needs_httpfs
@pytest.mark.medium
def test_a_file_of_the_same_size_is_another_file(visits, bucket):
    """Rewritten within the second, perhaps: its footer tells."""
    server, path = s3_server(), f"{bucket}/visits/0.parquet"
    server.put(path, other_of_size(visits, bucket, len(server.get(path))))
    with pytest.raises(DpsqlError, match="files of 'visits' are not"):
        rows_of(visits)
    assert spent(visits) == 0


@needs_httpfs
@pytest.mark.medium
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("unsafe_disable_etag_checks", "true"),
        ("enable_http_metadata_cache", "true"),
        ("parquet_metadata_cache", "true"),
        ("validate_external_file_cache", "'NO_VALIDATION'"),
    ],
)
def test_settings_that_read_an_older_file_are_refused(visits, setting, value):
    """Before the charge; the statement that the error says mends it."""
    visits.sql(f"SET GLOBAL {setting} = {value}")
    with pytest.raises(DpsqlError, match=f"setting {setting} is .*SET GLOBAL {setting} = ") as refused:
        rows_of(visits)
    assert spent(visits) == 0
    visits.sql(str(refused.value).rpartition("say ")[2])
    assert abs(rows_of(visits) - 400) < 10


@needs_httpfs
@pytest.mark.medium
def test_no_credential_is_written_anywhere(visits, bucket, tmp_path):
    """Not in books, the file, the ledger, plans, errors, or in texts of statements."""
    visits.sql("CALL enable_logging('QueryLog')")
    said = [str(visits.sql("FROM dp_plan('visits', epsilon := 1)").fetchall())]
    for number, status in enumerate((400, 403, 404, 500, 503)):
        with s3_server().fault(READING, status=status), pytest.raises(DpsqlError) as refused:
            rows_of(visits, 2.0 + number)
        said += [str(refused.value), repr(refused.value.__cause__)]
        with s3_server().fault(0, status=status), pytest.raises(DpsqlError) as refused:
            visits.source("more", files=f"s3://{bucket}/visits/*.parquet")
        said += [str(refused.value), repr(refused.value.__cause__)]
    said.append(str(visits.sql("SELECT message FROM duckdb_logs WHERE type = 'QueryLog'").fetchall()))
    assert "read_parquet" in said[-1]
    assert f"{bucket}/visits/0.parquet" not in said[-1]
    tables = visits.sql("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'dpsql'").fetchall()
    said += [str(visits.sql(f'FROM dpsql."{table}"').fetchall()) for (table,) in tables]
    said.append(str(visits.sql("FROM dp_ledger()").fetchall()))
    visits.close()
    said += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir() if path.is_file()]
    assert len(said) > 30
    for text in said:
        assert not any(canary in text for canary in CANARIES)
