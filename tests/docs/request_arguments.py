"""The keywords of Python for what `dp_synthesize` takes, made from its parameters and the fields of mechanisms."""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from dataclasses import fields
from typing import Any, Final, get_args, get_origin, get_type_hints

from dpsql.udfs.bridge.declare import REQUIRED
from dpsql.udfs.dp_synthesize import OPTIONS, REQUEST_PARAMETERS

from dpsql.mechanisms.base import FAITHFUL, registered

REQUEST_ARGUMENTS: Final = "dpsql/api/request_arguments.py"
_HEAD: Final = '''"""The arguments of `dp_synthesize` and the options of all mechanisms, for an editor that completes them.

Made by `python -m tests.docs.tables --write` from the parameters of `dp_synthesize` and the fields of the mechanisms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict
'''
_LINE: Final = 110
_KINDS: Final = {
    "BOOLEAN": "bool",
    "BIGINT": "int",
    "DOUBLE": "float",
    "VARCHAR": "str",
    "VARCHAR[]": "Sequence[str] | str",
}


def request_arguments() -> str:
    """The text of the module."""
    options = [f"    {name}: {kind} | None  # {', '.join(names)}" for name, kind, names in sorted(_options())]
    own = [
        f"    {one.name}: Annotated[\n        {_KINDS[one.type]} | None,\n        {_text(one.help)},\n    ]"
        for one in REQUEST_PARAMETERS
        if one not in OPTIONS and one.default is not REQUIRED
    ]
    return "\n".join(
        [
            _HEAD,
            "",
            "class Options(TypedDict, total=False):",
            '    """Options of mechanisms, each with those that have it; None for its default."""\n',
            *options,
            "",
            "",
            "class RequestArguments(Options, total=False):",
            '    """What `Database.synthesize` and `plan` take beside a table and ε, with its meaning; None for its default."""\n',
            *own,
            "",
        ]
    )


def _text(words: str) -> str:
    """A text as the code has it: in one line, or in several that are joined where that would be too long."""
    wide = len(json.dumps(words)) > _LINE
    lines = [json.dumps(line) for line in textwrap.wrap(words, _LINE - 2, drop_whitespace=False)]
    return "\n        ".join(lines) if wide else json.dumps(words)


def _options() -> list[tuple[str, str, list[str]]]:
    """The name of each option, its type, and the mechanisms that have it."""
    kinds, names = defaultdict[str, set[str]](set), defaultdict[str, list[str]](list)
    for mechanism, cls in sorted(registered().items()):
        hints = get_type_hints(cls)
        for field in fields(cls):  # type: ignore[arg-type]
            kinds[field.name] |= _kinds(hints[field.name])
            names[field.name].append(mechanism)
        if cls.published() is not None:
            kinds[FAITHFUL].add("bool")
            names[FAITHFUL].append(mechanism)
    return [(name, " | ".join(sorted(found)), names[name]) for name, found in kinds.items()]


def _kinds(hint: Any) -> set[str]:
    """The types that an annotation allows, as a caller writes them."""
    if get_origin(hint) is tuple:
        return {"Sequence[str]", "str"}
    if get_args(hint):
        return set[str]().union(*map(_kinds, get_args(hint)))
    return set() if hint is type(None) else {hint.__name__}
