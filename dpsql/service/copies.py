"""How much DuckDB writes in the place of a call of a macro: its text, with the argument as often as it is there.

DuckDB calls no macro in another way, be it one of ours or of its own. Where calls are in one another, what is written
has the product.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from .parse_tree import parsed

_HEAD: Final = re.compile(r"\(((?:\w+(?: := \d+)?(?:, \w+(?: := \d+)?)*)?)\) AS ")
_OF_DUCKDB: Final = """
    SELECT function_name, parameters, macro_definition FROM duckdb_functions()
    WHERE function_type = 'macro' AND macro_definition IS NOT NULL
"""
_VIEW: Final = 1000
"""Expressions that take about as long as one of our views."""
_Form = tuple[Sequence[str], str]
"""The parameters of a macro, and its text."""
_Macro = tuple[str, Sequence[str], str]
"""The name of a macro, its parameters and its text."""
_listed: list[_Macro] = []
"""DuckDB's macros, once this process or the one that it was forked from has listed them."""


def list_macros(connection: duckdb.DuckDBPyConnection) -> Sequence[_Macro]:
    """DuckDB's macros, from a database without others; the first time it takes fifty milliseconds."""
    if not _listed:
        _listed[:] = connection.execute(_OF_DUCKDB).fetchall()
    return _listed


def know(macros: Sequence[_Macro]) -> None:
    """Let this process, and those that are forked from it, have DuckDB's macros without a list of their own."""
    _listed[:] = macros


@dataclass(frozen=True)
class Written:
    """What stands in the place of a call.

    Attributes:
        copies: of an argument, at most, and at least one.
        size: expressions besides.
        lambdas: in one another, at most.
    """

    copies: int = 1
    size: int = 0
    lambdas: int = 0


class Macros:
    """What is written for macros.

    Args:
        texts: ours, each as after CREATE MACRO and the schema.
        schemas: in which ours are; DuckDB's have none of them.
        parser: a connection to what `open_parser` opens, which nothing else uses.
    """

    def __init__(self, texts: Iterable[str], schemas: frozenset[str], parser: duckdb.DuckDBPyConnection) -> None:
        self._schemas, self._parser = schemas, parser
        self._lock = threading.RLock()
        self._macros: dict[tuple[bool, str], Written] = {}
        self._forms: dict[tuple[bool, str], list[_Form]] = {}
        for text in texts:
            self._forms[True, text.partition("(")[0]] = list(_forms(text))
        for name, parameters, text in list_macros(self._parser):
            self._forms.setdefault((False, name), []).append((parameters, text))

    def written(self, name: str, *, ours: bool) -> Written:
        """What is written for a call of a function; the call alone, where it is no macro."""
        key = (ours, name)
        with self._lock:
            if key not in self._macros:
                self._macros[key] = Written()  # what calls itself is another of its name, or none that runs
                try:
                    self._macros[key] = self._looked_up(key)
                except BaseException:  # such as too little memory: the next one looks again
                    del self._macros[key]
                    raise
            return self._macros[key]

    def _looked_up(self, key: tuple[bool, str]) -> Written:
        most = Written()
        for parameters, text in self._forms.get(key, ()):
            tree = self._tree(text)
            nodes = list(self._expressions(tree))
            of = [
                sum(many for node, many in nodes if node.get("column_names") == [parameter]) for parameter in parameters
            ]
            size = sum(many for _, many in nodes)
            least = 2 if size >= _VIEW else 1  # queries in one another take more than their number
            lambdas = max(most.lambdas, self.lambdas(tree))
            most = Written(max([most.copies, least, *of]), max(most.size, size), lambdas)
        return most

    def size(self, tree: Any) -> int:
        """Expressions of a tree of DuckDB's parser, once all macros are written out."""
        return sum(many for _, many in self._expressions(tree))

    def lambdas(self, tree: Any) -> int:
        """How many lambdas of a tree are in one another, those of macros that are called in them, too."""
        deepest, waiting = 0, [(tree, 0)]
        while waiting:
            node, depth = waiting.pop()
            if isinstance(node, list):
                waiting += [(value, depth) for value in node]
            if not isinstance(node, dict):
                continue
            depth += node.get("class") == "LAMBDA"
            own = self._of_call(node).lambdas if node.get("class") == "FUNCTION" else 0
            deepest = max(deepest, depth + own)
            waiting += [(value, depth) for value in node.values() if isinstance(value, (dict, list))]
        return deepest

    def _of_call(self, node: dict[str, Any]) -> Written:
        ours = str(node.get("schema") or "").lower() in self._schemas
        return self.written(str(node.get("function_name", "")).lower(), ours=ours)

    def _tree(self, text: str) -> Any:
        """DuckDB's tree of a macro's text. In it a CASE of a value has the value once for each arm."""
        return parsed(self._parser, f"SELECT {text}")["statements"]

    def _expressions(self, tree: Any) -> Iterator[tuple[dict[str, Any], int]]:
        """Every expression, and how often it is written; for a call, all that stands in its place, too."""
        waiting = [(tree, 1)]
        while waiting:
            node, many = waiting.pop()
            if isinstance(node, list):
                waiting += [(value, many) for value in node]
            if not isinstance(node, dict):
                continue
            if "class" in node:
                yield node, many
            if node.get("type") == "BASE_TABLE" and str(node.get("schema_name") or "").lower() in self._schemas:
                yield {}, many * _VIEW
            if node.get("class") == "FUNCTION":
                written = self._of_call(node)
                yield {}, many * written.size
                many *= written.copies
            waiting += [(value, many) for value in node.values() if isinstance(value, (dict, list))]


def _forms(text: str) -> Iterator[_Form]:
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=True):
        yield [name.partition(":=")[0].strip() for name in head[1].split(",")], text[head.end() : end].rstrip(", ")
