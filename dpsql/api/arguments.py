"""The arguments of a SQL function that is called from Python: checked, and with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from dpsql.core.arguments import checked, checked_names
from dpsql.errors import InvalidArgument
from dpsql.udfs.bridge.declare import REQUIRED, Parameter, TableFunction
from dpsql.udfs.dp_synthesize import OPTIONS

_KINDS: Final[dict[str, type[Any]]] = {"BOOLEAN": bool, "BIGINT": int, "DOUBLE": float, "VARCHAR": str}


def arguments_of(
    function: type[TableFunction], arguments: Mapping[str, Any], *, of_user: bool = False
) -> dict[str, Any]:
    """All parameters of a function by name.

    Args:
        function: its class.
        arguments: those that are given; None for their defaults.
        of_user: whether a user of the service calls, who has fewer.

    Raises:
        InvalidArgument: one is unknown, missing or of another type.
    """
    allowed = [parameter for parameter in function.parameters if not (of_user and parameter.of_owner)]
    parameters = {parameter.name: parameter for parameter in allowed}
    unknown = sorted(set(arguments) - set(parameters))
    if unknown:
        own = [name for name, parameter in parameters.items() if parameter not in OPTIONS]
        meant = [f"did you mean {name}?" for name in get_close_matches(unknown[0], parameters, 1)]
        more = ["and options of mechanisms"] if len(own) < len(parameters) else []
        words = " ".join([*meant, "it takes", ", ".join([*own, *more])])
        raise InvalidArgument(f"{unknown[0]} is no parameter of {function.name}: {words}")
    given = {parameter.name: parameter.default for parameter in function.parameters}
    given |= {name: _checked(parameters[name], value) for name, value in arguments.items() if value is not None}
    missing = [name for name, value in given.items() if value is REQUIRED]
    if missing:
        raise InvalidArgument(f"{missing[0]} is missing: say {missing[0]}=…")
    return given


def _checked(parameter: Parameter, value: Any) -> Any:
    """A value of the parameter's type; that of an option is the mechanism's to check, which may take words too."""
    if parameter in OPTIONS:
        return value
    if parameter.type == "VARCHAR[]":
        return list(checked_names(parameter.name, value))
    kind = _KINDS.get(parameter.type)
    return value if kind is None else checked(parameter.name, value, kind)
