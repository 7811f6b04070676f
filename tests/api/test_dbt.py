"""The dbt plugin: as dbt-duckdb calls it, and the example project run by dbt itself, where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.dbt import Plugin
from dpsql.errors import InvalidArgument, NotOwner

EXAMPLE = Path(__file__).parents[2] / "examples" / "dbt"


def plugin(config: dict[str, object]) -> Plugin:
    """One as dbt-duckdb makes it, with or without dbt."""
    made = object.__new__(Plugin)
    made.creds = SimpleNamespace(settings={"threads": 1})
    made.initialize({"threads": 1, **config})
    return made


@pytest.mark.parametrize("owner", [False, True])
def test_the_plugin_puts_dpsql_into_a_connection(owner):
    made = plugin({"owner": owner})
    config: dict[str, str] = {}
    made.update_connection_config(None, config)
    with duckdb.connect(config=config) as connection:
        made.configure_connection(connection)
        cursor = connection.cursor()  # dbt gives one to each thread
        cursor.execute("CREATE TABLE t (a BOOLEAN NOT NULL)")
        if not owner:
            with pytest.raises(duckdb.Error, match="owner"):
                cursor.execute("CALL dp_protect('t', epsilon := 1.0, delta := 1e-6)")
            with pytest.raises(NotOwner):
                dpsql.install(connection).protect("t", epsilon=1.0, delta=1e-6)
            return
        cursor.execute("CALL dp_protect('t', epsilon := 1.0, delta := 1e-6)")
        assert cursor.execute("SELECT source FROM dp_budget()").fetchall() == [("t",)]


@pytest.mark.parametrize("config", [{"owner": "yes"}, {"epsilon": 3}])
def test_a_wrong_configuration_is_refused(config):
    with pytest.raises(InvalidArgument, match="owner: true or false"):
        plugin(config)


def dbt() -> Path | None:
    """The command: of this environment, or the one that DPSQL_DBT names, because dbt may want one of its own."""
    if "DPSQL_DBT" in os.environ:
        return Path(os.environ["DPSQL_DBT"])
    return Path(sys.executable).with_name("dbt") if find_spec("dbt") is not None else None


@pytest.mark.slow
@pytest.mark.skipif(dbt() is None, reason="needs dbt-duckdb here, or DPSQL_DBT: the dbt of an environment with dpsql")
def test_the_example_is_charged_once(tmp_path, monkeypatch):
    project = shutil.copytree(EXAMPLE, tmp_path / "dbt")
    monkeypatch.chdir(project)
    assert main(["sql", "bank.duckdb", "bank.sql"]) == 0
    spent, rows = [], []
    for _ in range(2):
        done = subprocess.run(
            [str(dbt()), "build", "--profiles-dir", ".", "--threads", "2"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
        )
        assert done.returncode == 0, done.stdout
        assert "ERROR=0" in done.stdout
        with dpsql.connect("bank.duckdb") as db:
            spent.append(db.ledger().query("kind == 'charge'").epsilon.tolist())
        with duckdb.connect("released.duckdb") as released:
            rows.append(released.execute("FROM synthetic_patients").fetchall())
            assert released.execute("SELECT count(*) > 0 FROM smokers").fetchall() == [(True,)]
    assert sorted(spent[0]) == [0.5, 1.0]
    assert spent[0] == spent[1]
    assert rows[0] == rows[1]
