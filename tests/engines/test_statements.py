"""No statement that counts changes unseen: the texts of each engine, of each type and kind of domain, are in `golden/`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .statements import ENGINES

UPDATE = "DPSQL_WRITE_GOLDEN"


@pytest.mark.medium
@pytest.mark.parametrize("engine", ENGINES)
def test_statements_are_as_written_down(engine):
    """Who changes one shows that its answers are the same, and writes it down anew."""
    path = Path(__file__).parent / "golden" / f"statements_{engine}.sql"
    found = ";\n\n".join(ENGINES[engine]()) + ";\n"
    if os.environ.get(UPDATE):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")
