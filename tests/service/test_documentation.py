"""The page "Serve it to analysts" runs as it is written, with psql, Python and R."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from dpsql.service.configuration import KINDS
from dpsql.service.options import Options
from tests.service.conftest import free_port, need_odbc, need_psql, need_r

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")


def run_elsewhere(language: str, block: str, folder: Path, environment: dict[str, str]) -> str | None:
    """What a block of Python or R prints; None if R, or what ODBC needs, is not here, and CI does not want it to be."""
    try:
        if language == "r":
            need_r()
        elif "pyodbc" in block:
            need_odbc()
    except pytest.skip.Exception:
        return None
    command = [sys.executable, "-c", block] if language == "python" else ["Rscript", "--vanilla", "-e", block]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (block, done.stderr)
    return done.stdout


@pytest.mark.medium
def test_the_page_runs_as_it_is_written(tmp_path):
    need_psql()
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, module in (("dpsql", "-m dpsql"), ("python", "")):
        command = commands / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        command.chmod(command.stat().st_mode | stat.S_IEXEC)
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": path, "PAGER": "cat"}
    blocks = [
        block.replace("5439", str(port))
        for port in [free_port()]
        for block in re.findall(r"```((?:sh|python|r)\n.*?)```", PAGE, re.DOTALL)
    ]
    printed, service = [], None
    try:
        for language, _, block in (block.partition("\n") for block in blocks):
            if language != "sh":
                own = run_elsewhere(language, block, tmp_path, environment)
                assert own is None or "visits" in own or "(0, " in own, block
            elif block.startswith("dpsql serve"):
                service = subprocess.Popen(
                    ["bash", "-c", f"exec {block}"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
                )
                assert service.stdout.readline().startswith("serving bank.duckdb")
            else:
                done = subprocess.run(
                    ["bash", "-eu", "-c", block], cwd=tmp_path, env=environment, capture_output=True, text=True
                )
                assert done.returncode == 0, (block, done.stderr)
                printed.append(done.stdout)
    finally:
        if service is not None:
            service.terminate()
            assert service.wait(60) == 0
            service.stdout.close()
            print(*printed, sep="\n")
    asked, published, log = printed[-3:]
    assert "(2 rows)" in asked
    assert "(9 rows)" in asked
    assert re.search(r"visits \|\s+0.5 \|\s+0.[34]", asked)  # together less than the sum: they compose
    assert "visits_synth" in published
    assert "Visits, simulated" in published
    assert "each as it was written" in log


def test_every_option_is_on_the_page():
    table = PAGE.partition("## Configuration")[2].partition("\n## ")[0]
    assert set(KINDS) == set(
        re.findall(
            r"`([a-z_]+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
        )
    )
    defaults = {field.name: field.default for field in fields(Options)}
    for name in ("statement_seconds", "call_seconds", "queue", "login_seconds", "most_rows", "connections"):
        assert re.search(rf"`{name}` \| `{defaults[name]:g}`".replace("1e+07", "10000000"), table)
