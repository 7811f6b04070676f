"""Which SQL functions the users of a service call, by their role. Nobody calls one of the owner's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SERVED: Final = (
    "dp_query",
    "dp_synthesize",
    "dp_plan",
    "dp_budget",
    "dp_releases",
    "dp_measurements",
    "dp_domains",
)
ROLES: Final[Mapping[str, frozenset[str]]] = {
    "reader": frozenset({"dp_budget", "dp_releases"}),
    "analyst": frozenset(SERVED),
}
"""Roles, each with what it calls beside reading what is published; one that calls more comes after."""
CHARGING: Final = frozenset({"dp_query", "dp_synthesize"})


def role_for(function: str) -> str:
    """The least role that calls a function; the least of all for what nobody calls.

    >>> role_for("dp_query"), role_for("dp_budget")
    ('analyst', 'reader')
    """
    return next((role for role, called in ROLES.items() if function in called), next(iter(ROLES)))
