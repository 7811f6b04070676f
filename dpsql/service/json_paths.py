"""Paths and values of JSON that a statement writes out, in words of DuckDB's.

$.a[*]          pgx.json_path_elements(pgx.json_path_member(pgx.json_path_root(x), '/a'))
x @> {"a": 1}   json_type(x) is an object, and what is at /a is the number 1

A path is lax, as PostgreSQL's is unless it says otherwise: a member of an array is that of each element. Every step
takes a list and gives a list, in time that is in proportion to the length of what is in it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from dpsql.core.names import as_text

from .allowlist import NotAllowed

NUMBER_TYPES: Final = "'BIGINT', 'UBIGINT', 'HUGEINT', 'UHUGEINT', 'DOUBLE'"
_MOST: Final = 20
"""Values in what is contained, and steps of a path: each is one look at the whole value."""
_LONGEST_PATH: Final = 300
_DEEPEST: Final = 4
"""Arrays in one another, each of which is a lambda."""
_LONGEST: Final = 15
"""Digits of a number that a float has."""
_STEP: Final = re.compile(
    r"""\s*(?:\.\s*(?P<name>[^\W\d]\w*)(?!\w|\s*\()|\.\s*"(?P<quoted>[^"\\]*)"|(?P<values>\.\s*\*)(?!\*)|(?P<all>\[\s*\*\s*\])
    |\[\s*(?P<place>\d{1,9})\s*\]|\?\s*\((?P<filter>(?:[^()"]|"[^"\\]*")*)\))""",
    re.VERBOSE,
)
_FILTER: Final = re.compile(
    r"""\s*@(?P<path>.*?)\s*(?P<sign>==|!=|<>|<=|>=|<|>)\s*(?P<value>"[^"\\]*"|-?\d+(?:\.\d+)?|true|false|null)\s*""",
    re.VERBOSE | re.DOTALL,
)
_HELP: Final = "such as '$.a[*].b', '$.a[0]' or '$.a[*] ? (@.b > 1)'"


def pointer(*steps: object) -> str:
    """The JSON pointer of names and places.

    >>> pointer("a/b", 0)
    '/a~1b/0'
    """
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def path(text: str, given: str) -> str:
    """An expression of the list of values at a path.

    Args:
        text: the path.
        given: an expression of the value.

    Raises:
        NotAllowed: the path has other parts.

    >>> path("$[*]", "x")
    'pgx.json_path_elements(pgx.json_path_root(x))'
    """
    begin = re.match(r"\s*(lax\s+)?\$", text) if len(text) <= _LONGEST_PATH else None
    if begin is None:
        raise NotAllowed(f"the path {text[:80]} is not served: write one {_HELP}")
    return _steps(text, begin.end(), f"pgx.json_path_root({given})")


def _steps(text: str, place: int, values: str) -> str:
    count = 0
    while text[place:].strip():
        step = _STEP.match(text, place)
        count += 1
        if step is None or count > _MOST:
            raise NotAllowed(f"the path {text} is not served: write one {_HELP}, of at most {_MOST} steps")
        place = step.end()
        name = step["name"] if step["quoted"] is None else step["quoted"]
        if name is not None:
            values = f"pgx.json_path_member({values}, {as_text(pointer(name))})"
        elif step["place"]:
            values = f"pgx.json_path_element({values}, {int(step['place'])})"
        elif step["filter"] is not None:
            values = f"list_filter(pgx.json_path_elements({values}), lambda dpsql_p: {_condition(step['filter'])})"
        else:
            values = f"pgx.json_path_{'elements' if step['all'] else 'values'}({values})"
    return values


def _condition(text: str) -> str:
    """Whether a value at a path of dpsql_p compares so."""
    match = _FILTER.fullmatch(text)
    if match is None or "?" in match["path"] or "$" in match["path"]:
        raise NotAllowed(f"the filter {text} of a path is not served: write one comparison with a value, as (@.b > 1)")
    value, sign = json.loads(match["value"]), {"==": "=", "!=": "<>"}.get(match["sign"], match["sign"])
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number and sign not in ("=", "<>"):
        raise NotAllowed(f"the filter {text} of a path is not served: only numbers are compared by {sign}")
    kinds, compared = _compared("dpsql_v", "", value, sign)
    is_so = f"{kinds} AND {compared}" if compared else kinds if sign == "=" else f"NOT ({kinds})"
    if sign == "<>" and value is not None:
        is_so = f"({is_so}) OR json_type(dpsql_v) = 'NULL'"
    values = f"pgx.json_path_elements({_steps(match['path'], 0, '[dpsql_p]')})"
    return f"len(list_filter({values}, lambda dpsql_v: {is_so})) > 0"


def _compared(given: str, at: str, value: Any, sign: str = "=") -> tuple[str, str]:
    """Whether what is at a pointer has the type of a value, and compares with it so; no second one for NULL."""
    where = f"{given}, {as_text(at)}"
    kind, text = f"json_type({where})", f"json_extract_string({where})"
    if value is None:
        return f"{kind} = 'NULL'", ""
    if isinstance(value, bool):
        return f"{kind} = 'BOOLEAN'", f"{text} {sign} '{str(value).lower()}'"
    if isinstance(value, str):
        return f"{kind} = 'VARCHAR'", f"{text} {sign} {as_text(value)}"
    written = json.dumps(value)
    if len(written.strip("-")) > _LONGEST or "e" in written.lower():
        raise NotAllowed(f"the number {written} is not compared: write at most {_LONGEST} digits")
    return f"{kind} IN ({NUMBER_TYPES})", f"pgx.json_number({text}) {sign} {written}::DOUBLE"


def holds(value: Any, given: str) -> str:
    """A condition: whether a JSON holds a value, as PostgreSQL's `@>` says.

    Args:
        value: as `json.loads` reads it.
        given: an expression of the JSON, which is not NULL.

    Raises:
        NotAllowed: the value has too many parts.
    """
    left = [_MOST]
    written = _holds(value, given, "", 0, left)
    if not isinstance(value, (dict, list)):  # of a value alone PostgreSQL says that an array holds it
        inner = _holds(value, "dpsql_e", "", 0, left)
        elements = f"json_extract({given}, '$[*]')"
        written = (
            f"{written} OR (json_type({given}) = 'ARRAY' AND len(list_filter({elements}, lambda dpsql_e: {inner})) > 0)"
        )
    return f"coalesce({written}, false)"


def _holds(value: Any, given: str, at: str, depth: int, left: list[int]) -> str:
    left[0] -= 1
    if left[0] < 0 or depth > _DEEPEST:
        raise NotAllowed(
            f"what is contained has at most {_MOST} values, and {_DEEPEST} arrays in one another: write several @>"
        )
    kind = f"json_type({given}, {as_text(at)})"
    if isinstance(value, dict):
        members = (_holds(member, given, at + pointer(name), depth, left) for name, member in value.items())
        return "(" + " AND ".join([f"{kind} = 'OBJECT'", *members]) + ")"
    if isinstance(value, list):
        name = f"dpsql_e{depth}"
        elements = f"json_extract(json_extract({given}, {as_text(at)}), '$[*]')"
        each = (
            f"len(list_filter({elements}, lambda {name}: {_holds(element, name, '', depth + 1, left)})) > 0"
            for element in value
        )
        return "(" + " AND ".join([f"{kind} = 'ARRAY'", *each]) + ")"
    kinds, compared = _compared(given, at, value)
    return f"({kinds} AND {compared})" if compared else f"({kinds})"
