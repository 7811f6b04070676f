"""`dpsql docs`: the documentation that is installed with this version."""

from __future__ import annotations

import re
import webbrowser
from importlib.util import find_spec
from pathlib import Path

import pytest

from dpsql.api import cli_docs
from dpsql.api.cli import main

ROOT = Path(__file__).parents[2]
needs_mkdocs = pytest.mark.skipif(find_spec("material") is None, reason="needs dpsql[docs]")


def test_pages_are_listed_and_shown(capsys):
    assert main(["docs", "--list"]) == 0
    listed = capsys.readouterr().out.split()
    assert {"index", "tutorial/owner", "reference/sql", "explanation/threats"} <= {*listed}
    for name in listed:
        assert main(["docs", name]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("# "), name
        assert "\n<!--" not in shown, name


def test_a_page_is_found_by_its_last_name_and_files_of_the_top_are_shown_whole():
    assert cli_docs.text_of("query") == cli_docs.text_of("how-to/query.md")
    assert cli_docs.text_of("threats") == (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "[An owner in ten minutes]" in cli_docs.text_of("index")


def test_a_page_that_is_not_there_names_a_near_one(capsys):
    assert main(["docs", "quary"]) == 1
    assert capsys.readouterr().err == (
        "dpsql: there is no page 'quary': did you mean 'query'? dpsql docs --list shows all\n"
    )


def test_without_the_packages_the_text_is_shown_and_a_build_says_what_it_needs(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cli_docs, "_NEEDED", ("a_package_that_is_not_there",))
    assert main(["docs"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# dpsql")
    assert "how-to/query" in shown
    assert main(["docs", "--build", str(tmp_path / "site")]) == 1
    assert "pip install 'dpsql[docs]'" in capsys.readouterr().err


@needs_mkdocs
@pytest.mark.medium
def test_the_site_is_built_once_and_loads_nothing_from_elsewhere(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert main(["docs"]) == 0
    index = Path(capsys.readouterr().out.strip())
    assert opened == [index.as_uri()]
    built = index.stat().st_mtime_ns
    assert main(["docs"]) == 0
    assert index.stat().st_mtime_ns == built
    pages = sorted(index.parent.rglob("*.html"))
    assert {page.relative_to(index.parent).with_suffix("").as_posix() for page in pages} >= {*cli_docs.pages()}
    loaded = r"<(?:script|img|iframe|link rel=\"?(?:stylesheet|icon))[^>]*(?:src|href)=\"?(?:https?:)?//"
    for page in pages:
        assert not re.search(loaded, page.read_text(encoding="utf-8")), page
