"""Values at their extremes: text and binary, to the client and from it, each compared with a real PostgreSQL.

One table of types and values. `raw` is libpq with each format; psycopg, asyncpg and pgjdbc read and send the same values.
"""

from __future__ import annotations

import asyncio
import difflib
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import duckdb
import psycopg
import pytest

from tests.engines.postgres_server import server
from tests.service.conftest import JDBC, browsing, need_jdbc

pytestmark = pytest.mark.medium
NINES, TINY = "9" * 38, f"0.{'0' * 37}1"
LONGEST = "2562047788:00:54.775807"
WORDS = ["", "a b", 'say "x", {y}', "null", "back\\slash", "ü€😀", " x ", "tab\tline\n"]
LARGE = ["7", "-100000", "999999", "1e+16", "0.0001", "1e-05"]
"""Whole floats, and those that both write with an exponent."""
BLOBS = ["\\x", "\\x00", "\\x00ff5c7827"]
MOMENTS = [
    "infinity",
    "-infinity",
    "4713-01-01 00:00:00 BC",
    "0044-03-15 10:00:00.5 BC",
    "0001-12-31 23:59:59.999999 BC",
    "0001-01-01 00:00:00",
    "1999-12-31 23:59:59.999999",
    "2000-02-29 00:00:00",
    "9999-12-31 23:59:59.999999",
    "10000-01-01 00:00:00",
    *(["294246-12-31 23:59:59.999999"] if duckdb.__version__ >= "2" else []),  # 1.5 writes it wrong, with a zone
]
COARSE = ["infinity", "-infinity", "0044-03-15 10:00:00 BC", "1999-12-31 23:59:59", "10000-01-01 00:00:00"]
VALUES = {
    "BOOLEAN": ("boolean", ["true", "false"]),
    "TINYINT": ("smallint", ["-128", "127"]),
    "UTINYINT": ("smallint", ["0", "255"]),
    "SMALLINT": ("smallint", ["-32768", "32767"]),
    "USMALLINT": ("integer", ["0", "65535"]),
    "INTEGER": ("integer", ["-2147483648", "0", "2147483647"]),
    "UINTEGER": ("bigint", ["0", "4294967295"]),
    "BIGINT": ("bigint", ["-9223372036854775808", "9223372036854775807"]),
    "UBIGINT": ("numeric", ["0", "10000", "18446744073709551615"]),
    "HUGEINT": ("numeric", [str(-(2**127)), str(2**127 - 1), "100000000", "0"]),
    "UHUGEINT": ("numeric", ["0", str(2**128 - 1)]),
    "DECIMAL(9,2)": ("numeric(9,2)", ["-9999999.99", "0.05", "0.00", "10000.00"]),
    "DECIMAL(38,0)": ("numeric(38,0)", [NINES, f"-{NINES}", "0", "10000"]),
    "DECIMAL(38,4)": ("numeric(38,4)", ["1234567890123456789012345678901234.5678", "-0.0001", "0.0000"]),
    "DECIMAL(38,38)": ("numeric(38,38)", [TINY, f"-0.{NINES}", f"0.{'0' * 38}"]),
    "REAL": (  # FLOAT is a double at the service, as in PostgreSQL
        "real",
        ["NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e+38", "-3.4028235e+38", "0.1", *LARGE],
    ),
    "DOUBLE": (
        "double precision",
        ["NaN", "Infinity", "-Infinity", "-0", "5e-324", "1.7976931348623157e+308", "0.1", *LARGE],
    ),
    "VARCHAR": ("text", WORDS),
    "BLOB": ("bytea", BLOBS),
    "UUID": ("uuid", ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]),
    "DATE": (
        "date",
        [
            "infinity",
            "-infinity",
            "4713-01-01 BC",
            "0044-03-15 BC",
            "0001-12-31 BC",
            "0001-01-01",
            "1999-12-31",
            "9999-12-31",
            "10000-01-01",
            "5874897-12-31",
        ],
    ),
    "TIME": ("time", ["00:00:00", "23:59:59.999999", "24:00:00"]),
    "TIME WITH TIME ZONE": (
        "timetz",
        ["00:00:00+15:59", "24:00:00-15:59:59", "10:00:00.123456+02:30", "10:00:00+00"],
    ),
    "TIMESTAMP": ("timestamp", MOMENTS),
    "TIMESTAMP_S": ("timestamp", COARSE),
    "TIMESTAMP_MS": ("timestamp", [*COARSE, "1999-12-31 23:59:59.999"]),
    "TIMESTAMP WITH TIME ZONE": (
        "timestamptz",
        [
            one if "infinity" in one else f"{one.removesuffix(' BC')}+00{' BC' if 'BC' in one else ''}"
            for one in MOMENTS
        ],
    ),
    "INTERVAL": (
        "interval",
        [
            "00:00:00",
            "1 year",
            "-1 years",
            "-1 mons",
            "-1 days",
            "13 mons",
            "1 mon -1 days +00:00:01",
            "-1 mons +3 days -04:00:00.5",
            "-2 days +04:05:06",
            "178956970 years 7 mons 2147483647 days",
            "-178956970 years -8 mons -2147483648 days",
            LONGEST,
        ],
    ),
}
"""By DuckDB's type: PostgreSQL's, and values as PostgreSQL writes them."""
SENT = {
    kind: (postgres, values)
    for kind, (postgres, values) in VALUES.items()
    if kind
    not in (
        "TINYINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
        "HUGEINT",
        "UHUGEINT",
        "TIMESTAMP_S",
        "TIMESTAMP_MS",
    )
}
"""Types that PostgreSQL has, too, so that `$1::type` is the same statement on both."""


def duckdbs(kind: str, value: str) -> str:
    """The value as an expression of DuckDB's."""
    if kind == "BLOB":
        return "'" + "".join(f"\\x{value[place : place + 2]}" for place in range(2, len(value), 2)) + "'::BLOB"
    if value.endswith(" BC"):
        day, _, time = value.removesuffix(" BC").partition(" ")
        value = f"{day} (BC){' ' * bool(time)}{time}"
    if value == LONGEST:
        return f"'{2**63 - 1} microseconds'::INTERVAL"
    shown = value.replace("'", "''")
    return f"'{shown.replace('+', '')}'::INTERVAL" if kind == "INTERVAL" else f"'{shown}'::{kind}"


def postgres_own(kind: str, value: str) -> str:
    shown = value.replace("'", "''")
    return f"'{shown}'::{kind}"


def both(kind: str) -> Iterator[tuple[str, str]]:
    """Expressions of a type, DuckDB's and PostgreSQL's: each value, NULL, an array of them all, and an empty one."""
    postgres, values = VALUES[kind]
    for value in values:
        yield duckdbs(kind, value), postgres_own(postgres, value)
    yield f"NULL::{kind}", f"NULL::{postgres}"
    if kind != "UINTEGER":  # in arrays it is `oid`, which the catalogue's own are
        ours = ", ".join([*(duckdbs(kind, value) for value in values), f"NULL::{kind}"])
        theirs = ", ".join([*(postgres_own(postgres, value) for value in values), "NULL"])
        yield f"[{ours}]", f"ARRAY[{theirs}]"
        yield f"[]::{kind}[]", f"ARRAY[]::{postgres}[]"


@pytest.fixture(scope="module")
def extremes(tmp_path_factory):
    """A service with a published table of all values, a type a column."""
    longest = max(len(values) for _, values in VALUES.values())
    rows = (
        "SELECT "
        + ", ".join(
            f"{duckdbs(kind, values[row])} AS c{n}"
            if row < len(values) and values[row] != LONGEST
            else f"NULL::{kind} AS c{n}"
            for n, (kind, (_, values)) in enumerate(VALUES.items())
        )
        + f", {row} AS row"
        for row in range(longest)
    )
    table = f"CREATE TABLE shown AS {' UNION ALL '.join(rows)}"
    with browsing(tmp_path_factory.mktemp("extremes"), table) as found:
        yield found


@pytest.fixture(scope="module")
def ours(extremes):
    with psycopg.connect(extremes.dsn(), autocommit=True) as connection:
        yield connection


def raw(connection, sql: str, form: int, parameters=(), oids=(), forms=()):
    """The first value of a statement in a format: its bytes, the type and the modifier, or the error's code."""
    found = connection.pgconn.exec_params(sql.encode(), [*parameters], [*oids] or None, [*forms] or None, form)
    if found.status != psycopg.pq.ExecStatus.TUPLES_OK:
        return found.error_message.decode()
    return found.get_value(0, 0), found.ftype(0), found.fmod(0)


@pytest.mark.parametrize("kind", VALUES)
def test_values_are_postgres_own_bytes(ours, real, kind):
    for expression, own in both(kind):
        for form in (0, 1):
            got, expected = (raw(c, f"SELECT {sql}", form) for c, sql in ((ours, expression), (real, own)))
            if "[" in expression and "(" in kind:  # of an array's elements PostgreSQL drops the modifier
                got, expected = got[:2], expected[:2]
            assert got == expected, (expression, form)


@pytest.mark.parametrize("kind", VALUES)
def test_published_values_are_too(ours, real, kind):
    place = [*VALUES].index(kind)
    postgres, values = VALUES[kind]
    for row, value in enumerate(values):
        if value == LONGEST:  # DuckDB 1.5.5 cannot read what it writes
            continue
        for form in (0, 1):
            got = raw(ours, f"SELECT c{place} FROM shown WHERE row = {row}", form)
            assert got == raw(real, f"SELECT {postgres_own(postgres, value)}", form), (value, form)


@pytest.mark.parametrize("kind", SENT)
def test_parameters_come_back_as_they_went(ours, real, kind):
    """PostgreSQL's own bytes of each value, sent in both formats, with the type declared and left to the server."""
    postgres, values = SENT[kind]
    array = ", ".join(postgres_own(postgres, value) for value in values)
    for own, cast in (
        *((postgres_own(postgres, value), postgres) for value in values),
        (f"ARRAY[{array}, NULL]", f"{postgres}[]"),
        (f"ARRAY[]::{postgres}[]", f"{postgres}[]"),
    ):
        text, binary = (raw(real, f"SELECT {own}", form) for form in (0, 1))
        for form, sent in ((0, text), (1, binary)):
            for oid in (sent[1], 0):
                for back, expected in ((0, text), (1, binary)):
                    got = raw(ours, f"SELECT $1::{cast}", back, [sent[0]], [oid], [form])
                    assert got[:2] == expected[:2], (own, form, oid, back)
    for form in (0, 1):
        assert raw(ours, f"SELECT $1::{postgres}", form, [None])[0] is None


def test_numerics_of_no_scale_are_exact(ours, real):
    """As their clients declare them, without a cast; what DuckDB has no type for is refused, and never rounded."""
    oid = 1700
    texts = ["0", "-0.0", "1E+5", "1e37", "1.50", "NaN", f"0.5{'0' * 60}", NINES, f"-{NINES}.0", str(2**128 - 1), TINY]
    for text in texts:
        binary = raw(real, f"SELECT '{text}'::numeric", 1)[0]
        shown = {
            raw(ours, "SELECT $1::VARCHAR", 0, [sent], [oid], [form])[0]
            for form, sent in ((0, text.encode()), (1, binary))
        }
        assert len(shown) == 1
        (got,) = shown
        assert float(got) == float(text) or got == b"nan"
        assert got == b"nan" or raw(real, f"SELECT '{text}'::numeric = '{got.decode()}'::numeric", 0)[0] == b"t"
    for text in ("1e39", f"1{NINES}.5", f"0.{NINES}1", "1e-40", "1e16000", "1e-16000"):
        for form, sent in ((0, text.encode()), (1, raw(real, f"SELECT '{text}'::numeric", 1)[0])):
            assert "DuckDB" in raw(ours, "SELECT $1", 0, [sent], [oid], [form]), text
    for oid, text in ((23, b"1.5"), (23, b"1e3"), (20, b""), (1700, b"1_0"), (1700, b"one"), (1231, b"{1,x}")):
        assert "a parameter is not" in raw(ours, "SELECT $1", 0, [text], [oid]), text


def test_text_and_binary_agree_beyond_postgres(ours):
    """DuckDB's own extremes: the binary format has them, or says that it has not."""
    for kind, value in (
        ("DATE", "5877642-06-25 (BC)"),
        ("DATE", "5881580-07-10"),
        ("TIMESTAMP", "290309-12-22 (BC) 00:00:00"),
        ("TIMESTAMP", "294247-01-10 04:00:54.775806"),
    ):
        sql = f"SELECT '{value}'::{kind}"
        text, binary = (raw(ours, sql, form) for form in (0, 1))
        shown = value.replace(" (BC)", "") + (" BC" if "BC" in value else "")
        assert text[0] == shown.encode()
        if "BC" in value:
            assert "before what PostgreSQL's binary format holds" in binary
        else:
            assert raw(ours, f"SELECT $1::{kind}", 0, [binary[0]], [text[1]], [1])[0] == shown.encode()


def test_sums_are_exact(ours):
    sql = "SELECT sum(x) FROM (VALUES (9223372036854775807), (9223372036854775807), (9223372036854775806)) t(x)"
    assert raw(ours, sql, 0)[0] == str(3 * 2**63 - 4).encode()
    with psycopg.connect(ours.info.dsn, password=ours.info.password) as connection:
        assert int(connection.execute(sql, binary=True).fetchone()[0]) == 3 * 2**63 - 4


# --- as clients have them -----------------------------------------------------------------------------------------------


def outcome(action):
    """The value's text and type, or the error's: a driver's own limits are the same on both."""
    try:
        value = action()
    except (psycopg.Error, ValueError, OverflowError) as error:
        return type(error)
    return repr(value), type(value)


@pytest.mark.parametrize("kind", SENT)
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_psycopg(ours, real, kind, binary):
    postgres, values = SENT[kind]
    sign = "%b" if binary else "%t"
    for value in [*values, None]:
        own = postgres_own(postgres, value) if value is not None else f"NULL::{postgres}"
        try:
            sent = real.execute(f"SELECT {own}").fetchone()[0]
        except psycopg.DataError:
            sent = value  # a year that Python has not
        if isinstance(sent, str) and binary and kind != "VARCHAR":
            continue  # it has no binary form of its own

        def back(connection, sent=sent):
            return connection.execute(f"SELECT {sign}::{postgres}", [sent], binary=binary).fetchone()[0]

        assert outcome(lambda: back(ours)) == outcome(lambda: back(real)), value


def test_asyncpg(extremes, real):
    asyncpg = pytest.importorskip("asyncpg")

    async def read(connection, sql, *sent):
        try:
            value = await connection.fetchval(sql, *sent)
        except (ValueError, OverflowError) as error:  # a year that Python has not
            return None, type(error)
        return value, (repr(value), type(value))

    async def talk():
        theirs = await asyncpg.connect(host=str(server().folder), user="postgres", database="postgres")
        await theirs.execute("SET TimeZone = 'UTC'")
        own = await asyncpg.connect(
            host="127.0.0.1",
            port=extremes.service.port,
            user="alice",
            password=extremes.tokens["alice"],
            ssl="require",
            database="dpsql",
        )
        for kind, (postgres, values) in SENT.items():
            sent = [None]
            for value in values:
                found, expected = await read(theirs, f"SELECT {postgres_own(postgres, value)}")
                assert (await read(own, f"SELECT {duckdbs(kind, value)}"))[1] == expected, value
                sent += [found] if found is not None else []
            for cast, parameters in ((postgres, sent), (f"{postgres}[]", [sent, []])):
                for value in parameters:
                    answers = [(await read(one, f"SELECT $1::{cast}", value))[1] for one in (own, theirs)]
                    assert answers[0] == answers[1], value
        await own.close()
        await theirs.close()

    asyncio.run(talk())


@contextmanager
def relayed(path: Path) -> Iterator[int]:
    """A port of 127.0.0.1 that is the server's socket: pgjdbc knows no other."""

    def copied(source: socket.socket, target: socket.socket) -> None:
        with closing(target), suppress(OSError):
            while part := source.recv(65536):
                target.sendall(part)

    def accepting() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:  # the test ended
                return
            other = socket.socket(socket.AF_UNIX)
            other.connect(str(path))
            for pair in ((client, other), (other, client)):
                threading.Thread(target=copied, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accepting, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def java(folder: Path, literals: list[tuple[str, str]], *login: str) -> list[str]:
    path = folder / "literals"
    path.write_text("".join(f"{kind}\t{literal}\n" for kind, literal in literals if "\n" not in literal))
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC"]
    command = ["java", *quick, "-cp", f"{JDBC}:{folder}", "Values", str(path), *login]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_pgjdbc_reads_seven_times(extremes, real, tmp_path):
    need_jdbc()
    pairs = [
        (postgres + "[]" * ("[" in ours), ours, own) for kind, (postgres, _) in SENT.items() for ours, own in both(kind)
    ]
    url = "jdbc:postgresql://127.0.0.1:{}/{}?sslmode={}"
    source = Path(__file__).parent / "clients" / "Values.java"
    subprocess.run(["javac", "-J-XX:TieredStopAtLevel=1", "-d", tmp_path, source], check=True)
    told = url.format(extremes.service.port, "dpsql", "require"), "alice", extremes.tokens["alice"]
    got = java(tmp_path, [(kind, ours) for kind, ours, _ in pairs], *told)
    with relayed(server().folder / ".s.PGSQL.5432") as port:
        login = url.format(port, "postgres", "disable"), "postgres", "any"
        expected = java(tmp_path, [(kind, own) for kind, _, own in pairs], *login)
    differences = [*difflib.unified_diff(expected, got, "PostgreSQL", "dpsql", lineterm="", n=0)]
    assert len(got) > 1000
    assert not differences, "\n".join(differences[:40])
