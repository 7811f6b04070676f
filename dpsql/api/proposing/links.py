"""Which tables lead to which: by FOREIGN KEYs, which are facts, and by the names of columns, which are questions.

    leads by name:  a column of a table is called as the key of another one (`pid`; `patient_id` or `patient` for
                    `patients.id`)
    with a look:    the key has no value twice, and most rows' values are there; else the question is not asked.
                    Two columns `id` are then taken for one, if the values of one of them repeat

No row is read for a name. A look reads two columns, and what it tells is the owner's disclosure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final

from sqlglot import exp

from dpsql.api.proposing import names
from dpsql.api.proposing.inputs import Input
from dpsql.core.column_types import column_type
from dpsql.core.names import fold, quote
from dpsql.engines.duckdb.calls import call_of
from dpsql.engines.source import Column

_CONSTRAINTS: Final = """
    SELECT constraint_type, constraint_column_names, referenced_table, referenced_column_names
    FROM duckdb_constraints()
    WHERE database_name = current_database() AND schema_name = $schema AND table_name = $name
        AND constraint_type IN ('FOREIGN KEY', 'PRIMARY KEY', 'UNIQUE')
    ORDER BY constraint_index
"""
_GENERIC: Final = frozenset({"id", "key", "nr", "no", "number", "code", "uuid"})
"""Names of keys that say nothing of the table they are in."""
_LEAST_SHARE: Final = 0.5
"""The least part of the rows whose values must be among the keys for the question to be asked after a look."""


@dataclass(frozen=True)
class Edge:
    """Columns of a table that lead to rows of another one.

    Attributes:
        child, parent: the tables.
        key, references: the columns, in the same order.
        because: why, in a sentence of the owner's script.
        is_fact: whether a FOREIGN KEY says it.
        is_single: whether a constraint says that no two rows lead to the same row.
        is_only: whether dp_link finds the columns by itself.
        looked: whether rows were read for it.
        is_faint: whether names alone say too little for a question: those of two keys that are called alike.
        covered: after a look the part of the parent's keys that the child has.
    """

    child: Input
    parent: Input
    key: tuple[str, ...]
    references: tuple[str, ...]
    because: str
    is_fact: bool
    is_single: bool = False
    is_only: bool = False
    looked: bool = False
    is_faint: bool = False
    covered: float = 0.0

    @property
    def call(self) -> str:
        """The statement that links the tables."""
        given: dict[str, object] = {}
        if not self.is_only:
            given = {"key": _named(self.key), "references": _named(self.references)}
        if self.is_single:
            given["most"] = 1
        return call_of("dp_link", [self.child.table, self.parent.table], given)


def _named(columns: Sequence[str]) -> str | list[str]:
    return columns[0] if len(columns) == 1 else list(columns)


@dataclass(frozen=True)
class _Constraints:
    """Of one table: its foreign keys as (key, table, references), and columns whose values are unique together."""

    foreign: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    primary: tuple[str, ...] = ()


def edges_of(sources: Sequence[Input], *, looks: bool) -> list[Edge]:
    """All ways from tables to others, facts first."""
    constraints = {source.table: _constraints(source) for source in sources}
    facts = [edge for source in sources for edge in _foreign(source, sources, constraints[source.table])]
    stated = {(edge.child.table, edge.key) for edge in facts}
    named = (
        edge
        for child, parent in permutations(sources, 2)
        for edge in _by_name(child, parent, constraints[child.table], constraints[parent.table])
        if (edge.child.table, edge.key) not in stated
    )
    if not looks:
        return [*facts, *(edge for edge in named if not edge.is_faint)]
    counts = _Counts()
    return [*facts, *_nearest([edge for suggested in named for edge in _after_a_look(suggested, counts)])]


def _nearest(edges: Sequence[Edge]) -> list[Edge]:
    """The edges; of faint ones of one column that with the most of the keys: numbers are among those of many tables."""
    nearest: dict[tuple[str, ...], Edge] = {}
    for edge in sorted((edge for edge in edges if edge.is_faint), key=lambda edge: edge.covered):
        nearest[edge.child.table, *edge.key] = edge
    return [edge for edge in edges if not edge.is_faint or edge in nearest.values()]


def _constraints(source: Input) -> _Constraints:
    if source.is_file:
        return _Constraints()
    rows = source.cursor.execute(_CONSTRAINTS, {"schema": source.schema, "name": source.name}).fetchall()
    foreign = tuple((tuple(own), table, tuple(other)) for kind, own, table, other in rows if kind == "FOREIGN KEY")
    unique = tuple(tuple(own) for kind, own, _, _ in rows if kind != "FOREIGN KEY")
    primary = next((tuple(own) for kind, own, _, _ in rows if kind == "PRIMARY KEY"), ())
    return _Constraints(foreign, unique, primary)


def numbered(source: Input) -> frozenset[str]:
    """The columns that are the PRIMARY KEY of a table by themselves."""
    primary = _constraints(source).primary
    return frozenset(primary if len(primary) == 1 else ())


def _foreign(source: Input, sources: Sequence[Input], constraints: _Constraints) -> Iterator[Edge]:
    """The foreign keys of a table; DuckDB has none across schemas."""
    for key, table, references in constraints.foreign:
        for parent in sources:
            if (parent.schema, parent.name) == (source.schema, table):
                count = sum(other == table for _, other, _ in constraints.foreign)
                because = f"a FOREIGN KEY leads from {', '.join(key)} to {', '.join(references)} of {parent.table}"
                is_single = any({*unique} <= {*key} for unique in constraints.unique)
                yield Edge(source, parent, key, references, because, True, is_single, is_only=count == 1)


def _by_name(child: Input, parent: Input, own: _Constraints, other: _Constraints) -> Iterator[Edge]:
    """Ways that the names of columns suggest."""
    for reference in parent.columns:
        if not _is_key(parent, reference, other):
            continue
        able = [column for column in child.columns if _can_be_key(column)]
        named = next((column for column in able if _suggests(child, column, parent, reference)), None)
        faint = next((column for column in able if _is_called_alike(column, reference)), None)
        column = named or faint
        if column is not None:
            because = f"{column.name} is called as the key {reference.name} of {parent.table}"
            is_single = (column.name,) in own.unique
            key, references = (column.name,), (reference.name,)
            yield Edge(child, parent, key, references, because, False, is_single, is_faint=named is None)


def _is_key(parent: Input, column: Column, constraints: _Constraints) -> bool:
    """Whether a column may be the key of its table: as a constraint says, or else by its name and place."""
    if not _can_be_key(column):
        return False
    if constraints.unique:
        return (column.name,) in constraints.unique
    return column == parent.columns[0] or _is_of(column.name, parent.name)


def _can_be_key(column: Column) -> bool:
    """Whether a column's type and name are not those of a measure."""
    of_type = column_type(column.type)
    whole = of_type.is_number and of_type.scale == 0
    if column.generated or not (whole or column.type in ("VARCHAR", "UUID")):
        return False
    meaning = names.number_of(column.name, whole=True) if whole else names.text_of(column.name)
    return meaning is None


def _suggests(child: Input, column: Column, parent: Input, reference: Column) -> bool:
    """Whether a column is called as a key of another table, and is not rather the key of its own."""
    if not _are_comparable(column, reference):
        return False
    words, stem = _words(reference.name), _stem(parent.name)
    if {*words} <= _GENERIC:
        ways = (stem, (*stem, *words), ("".join((*stem, *words)),)) if stem else ()
        return fold(column.name) != fold(reference.name) and _words(column.name) in ways
    if fold(column.name) != fold(reference.name):
        return False
    is_first = column == child.columns[0] and reference == parent.columns[0]
    return _is_of(reference.name, parent.name) or not (is_first or _is_of(column.name, child.name))


def _is_called_alike(column: Column, reference: Column) -> bool:
    """Whether two columns have one name that says nothing of any table, such as `id`."""
    is_generic = {*_words(reference.name)} <= _GENERIC
    return is_generic and fold(column.name) == fold(reference.name) and _are_comparable(column, reference)


def _are_comparable(column: Column, reference: Column) -> bool:
    """Whether the values of two columns may be the same: both are numbers, or neither is."""
    return column_type(column.type).is_number == column_type(reference.type).is_number


def _is_of(key: str, table: str) -> bool:
    """Whether a name is that of the key of a table: `id`, `patient_id` or `pid` of `patients`."""
    words, stem = _words(key), "".join(_stem(table))
    if {*words} <= _GENERIC or not stem:
        return bool(words)
    joined = "".join(words)
    ending = next((word for word in sorted(_GENERIC, key=len, reverse=True) if joined.endswith(word)), "")
    beginning = joined.removesuffix(ending) if ending else joined
    return beginning == stem or (bool(ending) and beginning == stem[:1])


def _words(name: str) -> tuple[str, ...]:
    return names.words_of(name)


def _stem(table: str) -> tuple[str, ...]:
    """The words of a table's name, the last one in the singular."""
    words = _words(table)
    return (*words[:-1], singular(words[-1])) if words else ()


def singular(word: str) -> str:
    """The singular of a word.

    >>> singular("families"), singular("visits"), singular("people")
    ('family', 'visit', 'person')
    """
    if word == "people":
        return "person"
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


class _Counts:
    """How many values columns have, and how many different ones. Each column is read once: many tables have an `id`."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}

    def of(self, source: Input, column: str) -> tuple[int, int]:
        """Of a column; NULL is no value."""
        if (source.table, column) not in self._counts:
            (counts,) = source.ask({"v": quote(column)}, "count(v)", "count(DISTINCT v)")
            self._counts[source.table, column] = (counts[0], counts[1])
        return self._counts[source.table, column]


def _after_a_look(edge: Edge, counts: _Counts) -> list[Edge]:
    """The same way, with what the rows say of it; none where they speak against it."""
    child, parent, (key,), (reference,) = edge.child, edge.parent, edge.key, edge.references
    count, different = counts.of(parent, reference)
    if not count or count > different:
        return []
    rows, own = counts.of(child, key)
    if edge.is_faint and rows == own:  # each table has keys of its own
        return []
    above = exp.select(exp.cast(exp.column(reference, quoted=True), "VARCHAR"))
    above = above.from_(exp.maybe_parse(parent.rows, into=exp.Table, dialect="duckdb"))
    inside = exp.cast(exp.column("v"), "VARCHAR").isin(query=above)
    members = child.ask({"v": quote(key)}, "count(v)", where=inside.sql(dialect="duckdb"))[0][0]
    if not rows or members < _LEAST_SHARE * rows:
        return []
    are = "all of its values are there" if members == rows else "not all of its values are there, but most"
    because = f"{edge.because}; Looked: no value occurs twice there, and {are}"
    return [replace(edge, because=because, looked=True, covered=own / different)]
