"""Rules between rows of a tree (`dpsql.core.link_rule`): read from SQL, and tried on public domains and synthetic rows.

    head.age   →   field `age` of a column `head`, a STRUCT of what the rule names of that row

So a rule runs as it is written, in an empty database, on one row for each subject and the rows that are given with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.constraint import MOST_TUPLES
from dpsql.core.domain import Attribute, Domain
from dpsql.core.link_rule import OWN, LinkRule, Part, drawn_last
from dpsql.core.names import fold, quote
from dpsql.core.tree import Tree
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.constraints import at_places, places_to_try, rows_that_obey, taken_back
from dpsql.evaluation.decode import decode
from dpsql.evaluation.row_expression import Frame, row_expression
from dpsql.evaluation.sandbox import empty_database
from dpsql.evaluation.workers import Empty

Columns = Mapping[str, npt.NDArray[Any]]
_EXAMPLE = "'day >= patients.birth'"


def names_other_rows(source: Source, predicate: str) -> bool:
    """Whether a predicate has a column with the name of another table, or of a role.

    Raises:
        InvalidArgument: see `row_expression`.
    """
    expression = row_expression(predicate, "predicate", "'sick OR cost = 0'")
    return any(column.table and fold(column.table) != fold(source.name) for column in expression.find_all(exp.Column))


def parse_rule(tree: Tree, sources: Mapping[str, Source], table: str, predicate: str) -> LinkRule:
    """Read a rule that is stated of a table.

    Args:
        tree: that the table is in.
        sources: all its tables.
        table: of which the rule is stated.
        predicate: of the rule.

    Raises:
        InvalidArgument: it names rows that do not belong to each other, a key, or nothing to compare; says what works.
        UnknownName: a column that its table does not have.
    """
    own, rows = sources[table], _rows_named(tree, sources, table)
    columns: dict[str, list[str]] = {}
    present: list[Part] = []
    for column in row_expression(predicate, "predicate", _EXAMPLE).find_all(exp.Column):
        if column.args.get("db"):
            raise InvalidArgument(f"predicate: say {column.sql('duckdb')} by the name of its table or role alone")
        name = OWN if fold(column.table) in ("", fold(own.name)) else fold(column.table)
        if name == OWN and is_row(tree, sources, table, column):
            present.append(_asked_for(tree, table, column, rows[fold(column.name)]))
            continue
        if name != OWN:
            _check_row(tree, sources, table, column.table, rows)
        part = Part(OWN, table, None, ()) if name == OWN else rows[name]
        spelling = sources[part.table].column(column.name).name
        _check_no_key(tree, part.table, spelling)
        columns.setdefault(name, []).append(spelling)
    parts = [
        Part(
            part.name,
            part.table,
            part.role,
            tuple(c.name for c in sources[part.table].columns if c.name in columns[name]),
        )
        for name, part in {OWN: Part(OWN, table, None, ()), **rows}.items()
        if name in columns
    ]
    if present:
        return _of_presence(own, predicate.strip(), parts, present)
    return _ordered(tree, table, predicate.strip(), parts)


def is_row(tree: Tree, sources: Mapping[str, Source], table: str, column: exp.Column) -> bool:
    """Whether what stands for a column in a predicate is a row that has a role, or one above."""
    is_named = fold(column.name) in _rows_named(tree, sources, table)
    return not column.table and is_named and not _has(sources[table], column.name)


def _asked_for(tree: Tree, table: str, column: exp.Column, part: Part) -> Part:
    """The row of which a rule asks whether it is there.

    Raises:
        InvalidArgument: it asks for a value, or of a row that every row has, or that lies elsewhere.
    """
    if not isinstance(column.parent, exp.Is) or not isinstance(column.parent.expression, exp.Null):
        raise InvalidArgument(
            f"predicate: {column.name!r} is a row and has no value: name a column of it, as in {column.name}.…; "
            "a rule holds of itself where that row is not there"
        )
    if part.role is None or part.role.always:
        raise InvalidArgument(
            f"predicate: each row has its {column.name!r}, so leave {column.parent.sql('duckdb')} out"
        )
    if tree.link_of[part.table].parent != table:
        raise InvalidArgument(
            f"predicate: whether {column.name!r} is there is known of the row above it alone: state the rule of "
            f"{tree.link_of[part.table].parent!r}"
        )
    return part


def _of_presence(own: Source, predicate: str, parts: Sequence[Part], present: Sequence[Part]) -> LinkRule:
    """The rule that asks whether rows are there."""
    if [part.name for part in parts] != [OWN]:
        raise InvalidArgument(
            f"predicate: a rule that asks whether {present[0].name!r} is there names columns of {own.name!r} beside "
            "it, and of no other row: state two rules"
        )
    return LinkRule(own.key, predicate, parts[0], (), present=tuple(dict.fromkeys(present)))


def parse_rules(tree: Tree, sources: Mapping[str, Source], table: str, predicate: str) -> list[LinkRule]:
    """The same, for each row that is drawn last of those that it speaks of: see `drawn_last`."""
    rule = parse_rule(tree, sources, table, predicate)
    link = tree.link_of.get(rule.subject.table)
    return drawn_last(rule, link.roles if link else ())


def _rows_named(tree: Tree, sources: Mapping[str, Source], table: str) -> dict[str, Part]:
    """The rows that a rule of a table can name: those above, those beside it with a role, and such rows below."""
    link = tree.link_of.get(table)
    above = [step.parent for step in tree.path(table)]
    listed = [Part(sources[name].name, name, None, ()) for name in above]
    links = [*([link] if link is not None else []), *tree.children(table)]
    listed += [Part(role.name, below.child, role, ()) for below in links for role in below.roles]
    names = [fold(part.name) for part in listed]
    return {fold(part.name): part for part in listed if names.count(fold(part.name)) == 1}


def _has(source: Source, name: str) -> bool:
    return any(fold(column.name) == fold(name) for column in source.columns)


def _check_row(tree: Tree, sources: Mapping[str, Source], table: str, name: str, rows: Mapping[str, Part]) -> None:
    """Refuse a name that no row has which a rule of a table can speak of."""
    own = sources[table].name
    if _has(sources[table], name):
        raise InvalidArgument(
            f"predicate: {name!r} is a column of {own!r}, too, so a rule cannot name a row by it: rename the column"
        )
    if fold(name) in rows:
        return
    names = {fold(source.name): key for key, source in sources.items()}
    if (other := names.get(fold(name))) is not None:
        if any(step.parent == table for step in tree.path(other)):
            raise InvalidArgument(
                f"predicate: a row of {own!r} may have many rows of {name!r} below it: state the rule of {name!r}, "
                f"where columns of {own!r} are {own}.…"
            )
        raise InvalidArgument(
            f"predicate: rows of {own!r} and of {name!r} belong to one row above them, and not to each other: "
            "state a rule of each with a column of a row above"
        )
    listed = ", ".join(part.name for part in rows.values()) or "none"
    raise InvalidArgument(
        f"predicate: {name!r} is no row that a rule of {own!r} can name; these are: {listed}. They are the tables "
        "above it, and the roles of its rows and of those right below"
    )


def _check_no_key(tree: Tree, table: str, name: str) -> None:
    keys = {column for link in tree.links if link.child == table for column in link.key}
    keys |= {column for link in tree.links if link.parent == table for column in link.references}
    if name in keys:
        raise InvalidArgument(
            f"predicate: {name!r} is a key of {table!r}, which is numbered anew in synthetic tables: leave it out"
        )


def _ordered(tree: Tree, table: str, predicate: str, parts: Sequence[Part]) -> LinkRule:
    """The rule with the row that is drawn last as its subject."""
    own = next((part for part in parts if part.name == OWN), None)
    below = [part for part in parts if part.role is not None and part.table != table]
    beside = [part for part in parts if part.role is not None and part.table == table]
    if len({part.table for part in below}) > 1 or (below and beside):
        raise InvalidArgument(
            "predicate: it names roles of two tables, whose rows do not belong to each other: state a rule for each"
        )
    if below:
        roles = tree.link_of[below[0].table].roles
        last = max(below, key=lambda part: [part.role == role for role in roles].index(True))
        return LinkRule(table, predicate, last, tuple(part for part in parts if part is not last))
    if own is None:
        raise InvalidArgument(
            f"predicate: it names no column of {table!r} itself: state it of the table whose columns it names, such as "
            f"{parts[0].table!r}"
        )
    return LinkRule(table, predicate, own, tuple(part for part in parts if part is not own))


def attributes_of(rule: LinkRule, domains: Mapping[str, Domain]) -> list[list[Attribute]]:
    """The attributes that a rule reads of each of its parts.

    Raises:
        InvalidArgument: a column has no domain in the release: it is a key, excluded or computed.
    """
    attributes = []
    for part in rule.parts:
        domain = domains[part.table]
        for name in part.columns:
            if name not in domain.by_name:
                raise InvalidArgument(
                    f"the rule {rule.predicate!r} names {name!r} of {part.table!r}, which is a key, excluded or "
                    "computed: say it by columns with a domain"
                )
        attributes.append([domain.by_name[name] for name in part.columns])
    return attributes


def obeys(
    empty: Empty, rule: LinkRule, source: Source, parts: Sequence[Sequence[Attribute]], rows: Sequence[Columns]
) -> npt.NDArray[np.bool_]:
    """For each subject, whether a rule holds of it and of what is given with it.

    Args:
        empty: where it runs.
        rule: the rule.
        source: the table that it is stated of.
        parts: see `attributes_of`.
        rows: of each part, codes `c<i>` and ticks `t<i>` of the i-th column that the rule names, one for each subject.

    Raises:
        InvalidArgument: it fails on them.
    """
    frame = Frame.of(source, {f"p{k}{name}": column for k, part in enumerate(rows) for name, column in part.items()})
    shown = [quote(frame.row)]
    for number, (part, attributes) in enumerate(zip(rule.parts, parts, strict=True)):
        values = [
            (
                quote(attribute.name),
                _value(attribute, f"{frame.prefix}p{number}c{place}", f"{frame.prefix}p{number}t{place}"),
            )
            for place, attribute in enumerate(attributes)
        ]
        if part.name == OWN:
            shown += [f"{value} AS {name}" for name, value in values]
        else:
            fields = ", ".join(f"{name} := {value}" for name, value in values)
            shown.append(f"struct_pack({fields}) AS {quote(part.name)}")
    decoded = f"SELECT {', '.join(shown)} FROM {quote(frame.name)}"  # noqa: S608
    query = f"SELECT {quote(frame.row)} FROM ({decoded}) AS {quote(source.name)}"  # noqa: S608
    return rows_that_obey(empty, source, frame, query, [rule.predicate])


def _value(attribute: Attribute, code: str, ticks: str) -> str:
    typed = exp.cast(decode(attribute, code, ticks), exp.DataType.build(attribute.released_type, dialect="duckdb"))
    return typed.sql(dialect="duckdb")


def tried(rule: LinkRule, sources: Mapping[str, Source], domains: Mapping[str, Domain]) -> tuple[int, int]:
    """How many tuples of codes there are of what a rule names, and of how many it holds somewhere in their bins.

    Raises:
        InvalidArgument: they are too many, it fails on them, or it holds of no declared values.
    """
    inner = {table: domain.inner for table, domain in domains.items()}
    held = held_tuples(rule, sources, inner)
    declared = tuple(slice(0, attribute.regular) for part in attributes_of(rule, inner) for attribute in part)
    if not held[declared].any():
        raise InvalidArgument(
            f"no declared values satisfy {rule.predicate!r}: correct the domains, "
            f"{taken_back(sources[rule.table], [rule.predicate])}"
        )
    return held.size, int(held.sum())


def held_tuples(rule: LinkRule, sources: Mapping[str, Source], domains: Mapping[str, Domain]) -> npt.NDArray[np.bool_]:
    """For each tuple of codes of what a rule names, part by part, whether it holds somewhere in their bins.

    Raises:
        InvalidArgument: they are too many, or it fails on them.
    """
    return _held(rule, sources[rule.table], tuple(map(tuple, attributes_of(rule, domains))))


@lru_cache(maxsize=32)  # asked for when it is stated, before a charge, for the fit, and where rows are drawn
def _held(rule: LinkRule, source: Source, parts: tuple[tuple[Attribute, ...], ...]) -> npt.NDArray[np.bool_]:
    """See `held_tuples`; the array is for reading only."""
    attributes = [attribute for part in parts for attribute in part]
    shape = [attribute.size for attribute in attributes]
    size = math.prod(shape)
    if size > MOST_TUPLES:
        raise InvalidArgument(
            f"the rule {rule.predicate!r} spans {size} tuples of values, more than {MOST_TUPLES}: state it over fewer "
            f"or coarser columns, {taken_back(source, [rule.predicate])}"
        )
    codes = np.stack(np.unravel_index(np.arange(size), shape), axis=1)
    held = np.zeros(size, bool)
    with empty_database() as empty:
        for places in places_to_try(attributes):
            left = np.flatnonzero(~held)
            if not len(left):
                break
            rows, start = [], 0
            for part in parts:
                inside = slice(start, start + len(part))
                at = np.broadcast_to(places[inside], (len(left), len(part)))
                rows.append(at_places(part, codes[left, inside], at))
                start += len(part)
            held[left] = obeys(empty, rule, source, parts, rows)
    held.flags.writeable = False
    return held.reshape(shape)
