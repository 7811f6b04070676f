"""PostgreSQL's JDBC driver, by which DBeaver, LibreOffice and Spark ask: `clients/Ask.java` asks, here is what it heard."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dpsql.service.certificate import certificate_beside
from tests.service.conftest import JDBC, SHOWN, need_jdbc
from tests.service.test_clients import own_rows

pytestmark = pytest.mark.medium
ASK = Path(__file__).parent / "clients" / "Ask.java"
KINDS = {
    "i": ("int8", "Long"),
    "b": ("bool", "Boolean"),
    "small": ("int2", "Integer"),
    "whole": ("int4", "Integer"),
    "x": ("numeric", "BigDecimal"),
    "wide": ("numeric", "BigDecimal"),
    "huge": ("numeric", "BigDecimal"),
    "f": ("float4", "Float"),
    "n": ("float8", "null"),
    "d": ("date", "Date"),
    "time": ("time", "Time"),
    "t": ("timestamp", "Timestamp"),
    "tz": ("timestamptz", "Timestamp"),
    "iv": ("interval", "PGInterval"),
    "u": ("uuid", "UUID"),
    "bl": ("bytea", "byte[]"),
    "m": ("text", "String"),
    "l": ("_int8", "PgArray"),
    "st": ("text", "String"),
    "s": ("text", "String"),
    "nothing": ("int4", "null"),
}


@pytest.fixture(scope="module")
def heard(served, tmp_path_factory) -> dict[str, list[str]]:
    """Lines by the section that said them."""
    need_jdbc()
    other, _ = certificate_beside(str(tmp_path_factory.mktemp("other") / "other.duckdb"))
    url = (
        f"jdbc:postgresql://127.0.0.1:{served.service.port}/dpsql"
        f"?sslmode=verify-full&sslrootcert={served.service.certificate}"
    )
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=Europe/Berlin"]
    command = ["java", *quick, "-cp", str(JDBC), str(ASK), url, "alice", served.tokens["alice"], other]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("== "):
            found[line[3:]] = []
        else:
            found[list(found)[-1]].append(line)
    return found


@pytest.mark.client(
    "pgjdbc",
    "42.5",
    "questions, parameters, types in both formats, rows some at a time, the metadata, cancel",
    "",
)
def test_what_an_analyst_asks(heard):
    assert [line.split(" | ")[0] for line in heard["query"]] == ["Female", "Male"]
    assert heard["again"] == heard["query"], "a repeat is free, and the same, with parameters"
    assert heard["fit"] == ["50"]
    assert heard["plan"] == ["t"]
    assert heard["released"] == heard["simple"] == ['7 | text 7\\n"quoted", and a tab\\t']


def test_types_are_the_same_in_both_formats(heard):
    lines = heard["types"]
    middle = lines.index("-- binary")
    # where a float is binary, pgjdbc writes a whole one as Java does, at PostgreSQL too
    differ = [pair for pair in zip(lines[:middle], lines[middle + 1 :], strict=True) if pair[0] != pair[1]]
    assert all(" | float" in text and binary == f"{text}.0" for text, binary in differ)
    told = {line.split(" | ")[0]: tuple(line.split(" | ")[1:3]) for line in lines[:middle]}
    assert told == KINDS
    shown = {line.split(" | ")[0]: line.split(" | ", 3)[3] for line in lines[:middle]}
    own = dict(zip(KINDS, own_rows("*")[3], strict=True))
    for name in ("i", "small", "whole", "x", "wide", "huge", "d", "t", "u", "l", "m"):
        text = str(own[name])
        assert shown[name] == (text.removesuffix("00000") if "." in text and name == "t" else text), name
    assert shown["bl"] == own["bl"].hex()
    assert shown["s"].encode().decode("unicode_escape") == own["s"]


def test_parameters_of_many_types(heard):
    uuid = "00000000-0000-0000-0000-00000000000"
    for i, line in enumerate(heard["parameters"][:8]):
        flag = "t" if i % 2 == 0 else "f"
        moment = "2020-02-29 12:34:56.789"
        assert (
            line.replace(".0 | 12.34", " | 12.34")  # where it is binary
            == f"{i + 1} | it's {i} | {i / 2:g} | 12.34 | {flag} | 2020-02-29 | {moment} | {uuid}{i} | 106 | 00ff0{i}"
        )
    assert heard["parameters"][8].startswith("null | null | 3.5")
    assert heard["parameters"][9] == "10 columns, 16 parameters"
    assert heard["arrays"] == ["50", "3", "5", '[a, null, b "c", ] | [1.5, 2.0] | [] | [2020-02-29]']


def test_rows_come_some_at_a_time(heard):
    assert heard["cursor"] == ["between", "1000 rows, sum 499500"]


def test_the_schema_as_tools_list_it(heard):
    assert heard["product"] == ["PostgreSQL | dpsql | main"]
    assert [line.split(" | ")[0] for line in heard["schemas"]] == ["information_schema", "main", "pg_catalog"]
    kinds = [line.split(" | ")[2:4] for line in heard["all tables"]]
    assert kinds == [["adult", "FOREIGN TABLE"], ["asked", "FOREIGN TABLE"], ["shown", "TABLE"]]
    (table,) = heard["tables"]
    assert table.startswith("null | main | shown | TABLE | Every type: it's made, not measured")
    columns = [line.split(" | ") for line in heard["columns"]]
    assert [(column[3], column[5]) for column in columns] == [(name, kind) for name, (kind, _) in KINDS.items()]
    assert {line.split(" | ")[0] for line in heard["type info"]} >= {kind for kind, _ in KINDS.values()}
    for nothing in ("primary keys", "imported keys", "exported keys", "indexes", "best row", "procedures", "udts"):
        assert heard[nothing] == [], nothing
    assert {line.split(" | ")[5] for line in heard["table privileges"]} == {"SELECT"}
    assert {line.split(" | ")[2] for line in heard["functions"]} >= {"dp_query", "dp_synthesize", "dp_plan"}
    assert [line.split(" | ")[3] for line in heard["function columns"]][1:3] == ["sql", "epsilon"]
    assert heard["sql keywords"] == ["true"]
    assert heard["user name"] == ["alice"]
    assert heard["column facts"][2].split(" | ")[5:7] == ["9", "2"]


def test_no_section_failed(heard):
    expected = {"wrong password", "no tls", "unknown certificate"}
    assert {name for name, lines in heard.items() if any(line.startswith("!!") for line in lines)} == expected


def test_who_may_not_log_in(heard):
    assert heard["wrong password"][0].startswith("!! 28P01")
    assert "TLS only" in heard["no tls"][0]
    assert "PKIX path" in heard["unknown certificate"][0]


def test_cancel_and_timeout(heard):
    cancelled, timed_out, alive = heard["cancel"]
    assert cancelled.startswith("57014 | ERROR: canceling statement")
    assert timed_out.startswith("57014")
    assert alive == "alive"


def test_errors_have_codes(heard):
    codes = [line.split(" | ")[0] for line in heard["errors"]]
    assert codes == ["42703", "42P01", "42601", "22P02", "42501", "53400", "42704"]


def test_what_tools_set(heard):
    assert heard["tools"] == [
        "isolation 4",
        "schema main",
        "valid true",
        "name it's a tool",
        "1",
        "main",
        "main | alice | alice | dpsql | PostgreSQL 14.0 (dpsql)",
        "5 rows of at most 5",
    ]


def test_every_type_is_asked_for():
    assert all(f"AS {name}" in SHOWN or f"{name}," in SHOWN for name in KINDS)
