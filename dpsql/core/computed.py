"""Computed columns: the owner says of which other columns of its row a column is made, so it is not measured.

Which column reads which others is a directed graph without cycles. Its stored values are never read, so no promise
depends on whether the owner's word is true of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from dpsql.core.domain import Attribute
from dpsql.errors import InvalidArgument

_DEEPEST: Final = 8


def in_levels(attributes: Iterable[Attribute]) -> list[list[Attribute]]:
    """The computed ones of some columns: those that read stored columns alone, those that read these too, and so on.

    Raises:
        InvalidArgument: columns are computed from each other in a circle, or through too many others.

    >>> a = Attribute("a", "BIGINT", "excluded", computed_as="b + 1", computed_from=("b",))
    >>> b = Attribute("b", "BIGINT", "excluded", computed_as="c * 2", computed_from=("c",))
    >>> [[attribute.name for attribute in level] for level in in_levels([a, b])]
    [['b'], ['a']]
    """
    left = {attribute.name: attribute for attribute in attributes if attribute.computed_as}
    levels: list[list[Attribute]] = []
    while left:
        ready = [column for column in left.values() if left.keys().isdisjoint(column.computed_from)]
        if not ready or len(levels) == _DEEPEST:
            how = "from each other in a circle" if not ready else f"through more than {_DEEPEST} others"
            raise InvalidArgument(f"the columns {', '.join(left)} are computed {how}: declare one of them otherwise")
        levels.append(ready)
        for column in ready:
            del left[column.name]
    return levels


def check_computed(attributes: Mapping[str, Attribute]) -> None:
    """Refuse computed columns that read each other in a circle, or a column that is excluded.

    Args:
        attributes: of a table, by name.

    Raises:
        InvalidArgument: they do.
    """
    for computed in chain.from_iterable(in_levels(attributes.values())):
        for name in computed.computed_from:
            base = attributes.get(name)
            if base is not None and base.kind == "excluded" and not base.computed_as:
                raise InvalidArgument(
                    f"column {computed.name!r} is computed from {name!r}, which is excluded, so its synthetic values "
                    f"tell nothing: declare a domain of {name!r}, or say exclude := true of {computed.name!r} too"
                )
