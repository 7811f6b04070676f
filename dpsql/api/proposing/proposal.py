"""What is proposed for a column, and on what ground."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dpsql.udfs.dp_domain import DpDomain


class Ground(Enum):
    """Why a proposal may be made."""

    PUBLIC = "Public"
    """It follows from public facts: the type, the codebook, what everybody knows of such a column."""
    CONFIRM = "CONFIRM"
    """It is likely, but public only by the owner's word."""
    LOOKED = "Looked"
    """It was read off the rows, so it is the owner's disclosure."""
    QUESTION = "QUESTION"
    """Only the owner can tell."""


@dataclass(frozen=True)
class Proposal:
    """What is proposed for one column.

    Attributes:
        column: its name.
        type: its type, as the script loads it.
        ground: why it may be proposed.
        because: a sentence for the owner.
        how: the arguments of `dp_domain`; None where the type declares itself.
        plain: the same without arguments that an older `dp_domain` lacks; None where that is `how`.
        options: other statements for the owner to choose from, written as comments.
        load: the SQL expression by which a file's column is loaded; None for as it is.
        price: the ε that the statement costs.
        codes: each value that it has, where it is a column of few values; for facts of several columns.
    """

    column: str
    type: str
    ground: Ground
    because: str
    how: Mapping[str, Any] | None
    plain: Mapping[str, Any] | None = None
    options: tuple[str, ...] = ()
    load: str | None = None
    price: float = 0.0
    codes: tuple[str, ...] = field(default=())

    @property
    def is_excluded(self) -> bool:
        """Whether the column stays NULL in synthetic rows."""
        return self.how is not None and bool(self.how.get("exclude"))


LATER = frozenset({"nulls_as", "points", "read_as", "every", "ids", "fake"})
"""Arguments of `dp_domain` that are written where it has them."""


def knows(argument: str) -> bool:
    """Whether `dp_domain` has an argument of that name.

    >>> knows("lower"), knows("nothing")
    (True, False)
    """
    return any(parameter.name == argument for parameter in DpDomain.parameters)


def with_later(plain: Mapping[str, Any], **later: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The arguments of a declaration with those of `LATER` that `dp_domain` has, and without; the latter if it differs.

    >>> with_later({"lower": 0, "upper": 9})
    ({'lower': 0, 'upper': 9}, None)
    """
    more = {name: value for name, value in later.items() if name in LATER and knows(name) and value}
    return ({**plain, **more}, dict(plain)) if more else (dict(plain), None)
