"""The options of an ADBC driver, from an environment variable of the owner's.

The variable holds a JSON object, the options that the ADBC driver's documentation names, such as `{"uri": "…"}`.
Neither the options nor a password in them is stored, logged or shown: the books hold the name of the variable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from dpsql.errors import InvalidArgument


def options_of(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options in the variable that the owner named.

    Raises:
        InvalidArgument: there is no such variable, or it holds no JSON object.
    """
    name = given.get("environment")
    usage = 'a JSON object of options of the ADBC driver, such as {"uri": "…"}'
    if not name:
        raise InvalidArgument(f"environment is missing: give the name of a variable that holds {usage}")
    try:
        options = json.loads(os.environ.get(name, ""))
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise InvalidArgument(
            f"environment is {name!r}: this process has no such variable, or it does not hold {usage}. Set it before "
            "DuckDB starts"
        )
    return options


def named_in(given: Mapping[str, Any]) -> str:
    """Where the options are, as errors say it.

    >>> named_in({"environment": "BANK_SF"})
    "environment := 'BANK_SF'"
    """
    return f"environment := {given.get('environment')!r}"
