"""With which arguments functions are served. The keeper decides; the front is only told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dpsql.core.roles import SERVED
from dpsql.errors import InvalidArgument

PULSE: Final = "dpsql pulse"
"""Logs in for the heartbeat, sees nothing and may do nothing; no user can have this name."""
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "BOOLEAN": (bool,),
    "BIGINT": (int,),
    "DOUBLE": (int, float),
    "VARCHAR": (str,),
    "VARCHAR[]": (list,),
    "ANY": (bool, int, float, str, list),
}
_LONGEST: Final = 100_000


def _parameters(function: str) -> Any:
    from dpsql.udfs import FUNCTIONS

    parameters = next(served_function for served_function in FUNCTIONS if served_function.name == function).parameters
    return [parameter for parameter in parameters if not parameter.of_owner]


def functions_served() -> list[dict[str, Any]]:
    """Names and parameters, for the front to declare."""
    return [
        {
            "name": name,
            "parameters": [
                {
                    "name": p.name,
                    "type": p.type,
                    "positional": p.positional,
                    "required": not _has_default(p),
                }
                for p in _parameters(name)
            ],
        }
        for name in SERVED
    ]


def _has_default(parameter: Any) -> bool:
    from dpsql.udfs.bridge.declare import REQUIRED

    return parameter.default is not REQUIRED and not parameter.positional


def checked_arguments(function: str, given: object) -> dict[str, object]:
    """The arguments of a call with defaults; what a front that was broken into may send is refused.

    Raises:
        InvalidArgument: one is unknown, missing or of the wrong type.
    """
    if not isinstance(given, dict):
        raise InvalidArgument(f"{function}: arguments are given by name")
    arguments: dict[str, object] = {}
    for parameter in _parameters(function):
        if parameter.name not in given:
            if not _has_default(parameter):
                raise InvalidArgument(f"{parameter.name} is missing: say {function}(…, {parameter.name} => …)")
            arguments[parameter.name] = parameter.default
            continue
        value = given[parameter.name]
        is_kind = isinstance(value, _KINDS[parameter.type]) and (
            "BOOLEAN" in parameter.type or parameter.type == "ANY" or not isinstance(value, bool)
        )
        if not is_kind or (isinstance(value, str | list) and len(value) > _LONGEST):
            raise InvalidArgument(f"{parameter.name} of {function} is not of the type {parameter.type}")
        arguments[parameter.name] = float(value) if parameter.type == "DOUBLE" else value
    unknown = set(given) - set(arguments)
    if unknown:
        raise InvalidArgument(f"{function} has no parameter {min(unknown)!r}")
    return arguments
