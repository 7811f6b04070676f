"""Signatures and docstrings that name what `**arguments` stands for: `help` and notebooks show and complete it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar, get_type_hints

from .request_arguments import Options, RequestArguments

Method = TypeVar("Method", bound=Callable[..., Any])
_ARGUMENTS: Final = re.compile(r"(\n *)\*\*arguments: .*")
_OPTIONS: Final = "**options: of the mechanism, see `Options`."
_OWN: Final = {
    name: kind
    for name, kind in get_type_hints(RequestArguments, include_extras=True).items()
    if name not in Options.__annotations__
}


def of_requests(method: Method) -> Method:
    """Name the arguments of a request in the signature and docstring of a method that takes them as its last.

    >>> @of_requests
    ... def plan(table, *, delta=0.1, **arguments): ...
    >>> [name for name in inspect.signature(plan).parameters][:3], list(inspect.signature(plan).parameters)[-1]
    (['table', 'delta', 'workload'], 'options')
    """
    signature = inspect.signature(method)
    *own, more = signature.parameters.values()
    missing = {name: kind for name, kind in _OWN.items() if name not in signature.parameters}
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__origin__)
        for name, kind in missing.items()
    ]
    lines = [f"{name}: {kind.__metadata__[0]}." for name, kind in missing.items()]
    method.__doc__ = _ARGUMENTS.sub(lambda line: line[1] + line[1].join([*lines, _OPTIONS]), method.__doc__ or "")
    options = more.replace(name="options", annotation="Unpack[Options]")
    method.__signature__ = signature.replace(parameters=[*own, *named, options])  # type: ignore[attr-defined]
    return method
