"""Clients of node: `clients/ask.js` asks, here is what it heard."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.service.conftest import need

pytestmark = pytest.mark.medium
SCRIPT = Path(__file__).parent / "clients" / "ask.js"


def asked(served, client: str) -> dict:
    need(shutil.which("node"), "node", "apt-get install nodejs npm")
    packages = ("pg", "pg-query-stream") if client == "pg" else (client,)
    for package in packages:
        done = subprocess.run(["node", "-e", f"require('{package}')"], cwd="/", capture_output=True, check=False)
        need(
            done.returncode == 0,
            f"the package {package} of node",
            f"npm install {package}, and NODE_PATH to its folder",
        )
    command = ["node", SCRIPT, client, str(served.service.port), served.tokens["alice"], served.service.certificate]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [row["sex"] for row in told["asked"]] == ["Female", "Male"]
    assert [int(row["i"]) for row in told["any"]] == [1, 2]
    assert int(told["named"]["i"]) == 3
    assert told["named"]["s"].startswith("text 3\n")
    assert told["streamed"] == 1000
    assert told["wrong"] == "42703"
    return told


@pytest.mark.client(
    "node pg", "8.23", "a question, parameters, an array, a named statement, rows as a stream, an error", ""
)
def test_pg(served):
    named = asked(served, "pg")["named"]
    assert (named["b"], named["x"], named["wide"]) == (True, "0.43", "3000000000000000.0000")
    assert named["l"] == ["3", "4"]


@pytest.mark.client("postgres.js", "3.4", "a question, an array, a cursor, nested transactions, an error", "")
def test_postgres_js(served):
    told = asked(served, "postgres")
    assert told["nested"] == [{"x": 1}]
    assert told["named"]["l"] == ["3", "4"]


@pytest.mark.client(
    "Sequelize",
    "6.37",
    "a question, a model with find, count and a transaction, columns of a table, an error",
    "`describeTable` wants `{ schema: 'main' }`",
)
def test_sequelize(served):
    assert asked(served, "sequelize")["described"][:3] == ["i", "b", "small"]


@pytest.mark.client(
    "knex", "3.3", "a question, a builder with parameters, a transaction, rows as a stream, columns of a table", ""
)
def test_knex(served):
    told = asked(served, "knex")
    assert told["exists"] is True
    assert sorted(told["described"])[:3] == ["b", "bl", "d"]
