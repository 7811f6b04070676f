"""The arguments of a SQL function that is called from Python: checked, and with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dpsql.core.arguments import checked, checked_names
from dpsql.errors import InvalidArgument
from dpsql.mechanisms.base import options
from dpsql.udfs.bridge.declare import REQUIRED, TableFunction

_KINDS: Final[dict[str, type[Any]]] = {"BOOLEAN": bool, "BIGINT": int, "DOUBLE": float, "VARCHAR": str}


def arguments_of(function: type[TableFunction], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a function by name.

    Args:
        function: its class.
        arguments: those that are given; None for their defaults.

    Raises:
        InvalidArgument: one is unknown, missing or of another type.
    """
    parameters = {parameter.name: parameter for parameter in function.parameters}
    unknown = sorted(set(arguments) - set(parameters))
    if unknown:
        raise InvalidArgument(f"{unknown[0]} is no parameter of {function.name}; there are {', '.join(parameters)}")
    given = {name: parameter.default for name, parameter in parameters.items()}
    for name, value in arguments.items():
        if value is not None:
            kind = _KINDS.get(parameters[name].type)
            listed = parameters[name].type == "VARCHAR[]"
            given[name] = list(checked_names(name, value)) if listed else value
            if kind is str and name in options() and isinstance(value, int | float) and not isinstance(value, bool):
                value = str(value)  # a number of a mechanism's option that may be a word too
            given[name] = given[name] if kind is None else checked(name, value, kind)
    missing = [name for name, value in given.items() if value is REQUIRED]
    if missing:
        raise InvalidArgument(f"{missing[0]} is missing: say {missing[0]}=…")
    return given
