"""How columns of a flat domain are called (`dpsql.core.unit_row`), and which row one of them is of.

    unit's own row   age
    nth child        visits[1].ward, visits[2].ward
    row of a role    persons.head.age

A name that is taken already gets another ending.
"""

from __future__ import annotations

import re
from typing import Final

_CHILD: Final = re.compile(r".+\[\d+\]\.")


def prefix_of(table: str, nth: int, role: str | None) -> str:
    """What stands before the names of a table's columns in a slot.

    >>> prefix_of("visits", 0, None), prefix_of("persons", 0, "head")
    ('visits[1].', 'persons.head.')

    Args:
        table: whose columns they are, below the unit's own.
        nth: which child without a role, from 0 on.
        role: of the row; None of a child without one.
    """
    return f"{table}[{nth + 1}]." if role is None else f"{table}.{role}."


def child_of(name: str) -> str:
    """Which child's row a column is of, by its name; "" of a unit's own row and of its roles'.

    >>> child_of("visits[2].ward"), child_of("age"), child_of("Sepal.Length")
    ('visits[2].', '', '')
    """
    child = _CHILD.match(name)
    return child[0] if child else ""
