"""A call at our door and at a real PostgreSQL, with the same generated arguments."""

from __future__ import annotations

from typing import Any

import psycopg
from hypothesis import given, settings
from hypothesis import strategies as st


def compare(ours: Any, theirs: Any, call: str, arguments: st.SearchStrategy[tuple[Any, ...]], examples: int) -> None:
    """Assert that our door gives PostgreSQL's value or refuses the call, and that it does not refuse all of them.

    Args:
        ours: a connection to our door.
        theirs: one to PostgreSQL.
        call: a text of SQL, with a place for each argument.
        arguments: what is in these places.
        examples: how many are drawn; which, the test decides, so they are the same in each run.
    """
    served = []

    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(arguments)
    def alike(drawn: tuple[Any, ...]) -> None:
        value = _value(ours, call, drawn)
        served.append(value is not None)
        assert value is None or value == _value(theirs, call, drawn), drawn

    alike()
    assert any(served)


def _value(connection: Any, call: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return psycopg.ClientCursor(connection).execute(f"SELECT {call}", arguments).fetchall()
    except psycopg.Error:
        return None
