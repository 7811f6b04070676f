"""R with RPostgreSQL, the driver that Debian has: `clients/ask.R` asks, here is what it heard."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.service.conftest import need_r

pytestmark = pytest.mark.medium
ASK = Path(__file__).parent / "clients" / "ask.R"


@pytest.fixture(scope="module")
def heard(served) -> dict[str, list[str]]:
    """Lines by the section that said them."""
    need_r()
    environment = {
        **os.environ,
        "PGPASSWORD": served.tokens["alice"],
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": str(served.service.certificate),
        "TZ": "UTC",
    }
    command = ["Rscript", "--vanilla", str(ASK), "127.0.0.1", str(served.service.port), "alice"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("== "):
            found[line[3:].strip()] = []
        else:
            found[list(found)[-1]].append(line.strip())
    return found


@pytest.mark.client(
    "RPostgreSQL",
    "0.7",
    "questions, parameters, some rows at a time, the schema, types",
    "",
)
def test_what_an_analyst_asks(heard):
    assert heard["query"] == ["sex n n_stderr n_low n_high", "Female Male", "TRUE"]
    assert heard["fit"] == ["50 2"]
    assert heard["plan"] == ["TRUE"]
    assert heard["parameters"] == ["7"]
    assert heard["some at a time"] == ["10 990"]
    assert heard["transaction"] == ["1"]


def test_the_schema(heard):
    tables, fields, exists = heard["schema"]
    assert tables == "shown"
    assert fields.startswith("i b small whole x wide huge f n d time t tz")
    assert exists == "TRUE FALSE"


def test_types(heard):
    size, *columns = heard["released"]
    assert size == "1000 21"
    told = {name: (kind, value) for name, kind, value in (line.split(" | ") for line in columns)}
    assert told["i"] == ("numeric", "3")
    assert told["b"] == ("logical", "TRUE")
    assert told["whole"] == ("integer", "3")
    assert told["x"] == ("numeric", "0.43")
    assert told["d"] == ("Date", "2000-01-02")
    assert told["t"][0] == "POSIXct"
    assert told["t"][1].startswith("1999-12-31 13:00:00")
    assert told["m"] == ("character", "ok")
    assert told["nothing"] == ("integer", "NA")


def test_errors(heard):
    assert "nope" in heard["error"][0]
    assert heard["after"] == ["2"]
