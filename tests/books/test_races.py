"""Many threads on one budget: what is released never exceeds it, and exactly what fits is released."""

from __future__ import annotations

import subprocess
import sys
import threading

import duckdb
import pytest

import dpsql

FITTING = 5


def prepare(path) -> dpsql.Database:
    db = dpsql.connect(path)
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(100) r(i)")
    db.protect("t", epsilon=1.0, delta=1e-6)
    return db


def largest_share(db: dpsql.Database) -> float:
    """An epsilon of which exactly FITTING releases fit."""
    from dpsql.privacy.accounting import gaussian_gdp, largest_epsilon

    return largest_epsilon(gaussian_gdp(1.0, 1e-6) / FITTING, 1e-6)


@pytest.mark.medium
@pytest.mark.parametrize("connections", ["cursors", "connections"])
def test_sixteen_threads_on_one_budget(tmp_path, connections):
    path = str(tmp_path / "bank.duckdb")
    config = {"allow_unsigned_extensions": "true"}
    with prepare(path) as db:
        epsilon = largest_share(db)
        outcomes: list[str] = []
        start = threading.Barrier(16)

        def work(number: int) -> None:
            con = db.connection.cursor() if connections == "cursors" else duckdb.connect(path, config=config)
            start.wait()
            options = f"relaxed_rows := 4, steps := 2, rows := 3, release := 'r{number}'"
            try:
                con.execute(f"SELECT count(*) FROM dp_synthesize('t', epsilon := {epsilon!r}, {options})").fetchall()
                outcomes.append("released")
            except duckdb.Error as error:
                outcomes.append("refused" if "; this asks for " in str(error) else str(error))
            finally:
                con.close()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # rounding the share down leaves a little: never enough for one more
        refused = [o for o in outcomes if o != "released" and o != "refused" and "nothing more" not in o]
        assert refused == []
        assert outcomes.count("released") == FITTING
        spent, releases = db.sql("SELECT epsilon_spent, releases FROM dp_budget()").fetchall()[0]
        assert spent <= 1.0
        assert releases == FITTING
        charged, budget = db.sql(
            "SELECT (SELECT sum((content->>'$.gdp')::HUGEINT) FROM dpsql.event), gdp_budget FROM dpsql.account"
        ).fetchall()[0]
        assert charged <= budget


@pytest.mark.medium
def test_a_second_process_gets_a_clear_error(tmp_path):
    path = str(tmp_path / "bank.duckdb")
    with prepare(path):
        script = f"import dpsql; dpsql.connect({path!r})"
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert other.returncode != 0
        assert "lock" in other.stderr
    script = f"import dpsql; print(dpsql.connect({path!r}).budget().source.tolist())"
    after = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert after.stdout.strip() == "['t']"
