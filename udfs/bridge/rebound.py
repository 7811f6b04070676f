"""Calls that DuckDB binds once more to run them: they get the relations of the first time.

DuckDB binds the statement of a relation for its columns, and again when the relation runs. To bind a call may take as
long as to answer it. A relation looks at its table anew before it charges, however long ago it was bound.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .declare import Call, Relation


class _Calls(threading.local):
    """Of this thread, on which DuckDB binds what the thread asks for.

    Attributes:
        bound: relations of the first time that were not taken yet, by the function and what it was called with.
        is_again: whether the statement is bound for the second time.
    """

    bound: dict[tuple[Callable[[Call], Relation], str], list[Relation]] | None = None
    is_again = False


_calls = _Calls()


@contextmanager
def bound_once() -> Iterator[Callable[[], None]]:
    """Inside, a statement is bound, and after a call of what this yields it is bound again."""
    before = _calls.bound, _calls.is_again
    _calls.bound, _calls.is_again = {}, False

    def again() -> None:
        _calls.is_again = True

    try:
        yield again
    finally:
        _calls.bound, _calls.is_again = before


def relation_of(call: Call, bind: Callable[[Call], Relation]) -> Relation:
    """The relation of a call; each is taken once, because two scans of one would disturb each other."""
    if _calls.bound is None:
        return bind(call)
    relations = _calls.bound.setdefault((bind, repr(call)), [])
    if _calls.is_again and relations:
        return relations.pop()
    relation = bind(call)
    if not _calls.is_again:
        relations.append(relation)
    return relation
