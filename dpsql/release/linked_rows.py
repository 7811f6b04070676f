"""Draw and store the tables of a linked release: all or none.

The tables are drawn from the same units, numbered, and written under the number of the release. They are there for
readers once the release is published, which is one commit.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

import numpy as np

from dpsql.books.releases import publication
from dpsql.books.releases.publication import Rows
from dpsql.books.releases.releases import Entry
from dpsql.books.tables.links import bound_of
from dpsql.core.marginal import Measurement
from dpsql.core.tree import SINGLE_OF_UNIT, UNITS
from dpsql.core.unit_row import UnitRow
from dpsql.errors import DpsqlError
from dpsql.evaluation.computed import computed_values
from dpsql.evaluation.constraints import settle_bins
from dpsql.evaluation.key_values import Key, frame_of, most_numbers, values_of
from dpsql.evaluation.presence import is_allowed
from dpsql.evaluation.ruled_rows import DrawnTable, RuledRows, Rules
from dpsql.evidence.ascent import orders
from dpsql.evidence.likely_numbers import likely_numbers
from dpsql.evidence.occupied import Occupied
from dpsql.models.model import Codes, Model
from dpsql.owner.stand_ins import stand_ins
from dpsql.release.drawing import rows_that_fit
from dpsql.release.keys import number_keys, own_key, own_keys
from dpsql.release.linked import Members
from dpsql.release.members import (
    allowed_by_role,
    allowed_rows,
    allowed_units,
    allowed_with_numbers,
    link_rules,
    presence_rules,
)
from dpsql.release.pipeline import Run
from dpsql.release.rule_drawing import RuleDrawing
from dpsql.release.unit_drawing import TooManyRows, draw_tables
from dpsql.runtime.progress import Progress

_LENDERS: Final = 50_000
"""Units that lend rows of a privacy unit, or in order: among few, nobody is like a unit in many columns."""


def publish_linked(
    run: Run,
    members: Members,
    measured: Sequence[Measurement],
    held: Occupied,
    model: Model,
    units: int,
    report: Mapping[str, Any],
) -> Entry:
    """Draw units, make tables of them, and store these; returns the release, published.

    Args:
        run: of the release.
        members: its tables.
        measured: noisy counts of units.
        held: which codes of the flat domain hold units.
        model: of units' rows.
        units: how many are drawn.
        report: what the release says of itself.
    """
    generator = np.random.default_rng()
    always = _public_number(run, members)
    numbers = likely_numbers(members.unit_row.domain, members.unit_row.numbers, measured, always, model.project)
    pairs, strict = orders(members.unit_row, allowed_units(members, run.books), measured)
    allowed = held.restricted([*pairs, *numbers])
    codes = model.sample(units, generator, run.progress, allowed)
    codes = codes[generator.permutation(len(codes))].astype(np.int64)
    lenders = None
    if units and (members.tree.root == UNITS or members.unit_row.orders):
        lenders = model.sample(_LENDERS, generator, run.progress, allowed).astype(np.int64)
    rules = {table: dict(allowed_by_role(members, run.books, table)) for table in members.tree.tables}
    limits = {table: dict(allowed_with_numbers(members, run.books, table)) for table in members.tree.tables}
    ruling = _ruling(run, members, rules, limits, generator)
    tables, drawn, stuck = _drawn(members, codes, lenders, generator, run.progress, limits, ruling, strict)
    report, words = dict(report), [report.get("rows", "")]
    if drawn < len(codes):
        words.append(
            f"{drawn} units were drawn of {len(codes)}: there is no memory, or there are no keys, for more rows"
        )
    if stuck:
        words.append(f"{stuck} units have the rows of other units: no values were found for theirs that obey the rules")
    words += _empty(members, tables)
    if stated := "; ".join(word for word in words if word):
        report["rows"] = stated
    run.progress.stage("storing")
    parts: list[Rows] = []
    keys = _keys_of_units(members, tables, generator)
    for table in members.tree.tables:
        keys[table] = _keys(members, table, tables[table], keys, generator)
        parts.append(_rows(run, members, table, tables[table], keys[table], generator))
    checked = _checked(ruling, tables) if ruling is not None else []
    if checked := [*checked, *_checked_presence(run, members, tables, limits)]:
        report["rules"] = checked
    report["tables"] = [_stated(members, table, tables[table]) for table in members.tree.tables]
    return publication.store_tables(run.books, run.entry, parts, report)


def _drawn(
    members: Members,
    codes: Codes,
    lenders: Codes | None,
    generator: np.random.Generator,
    progress: Progress,
    rules: Rules,
    ruling: RuleDrawing | None,
    strict: Container[str],
) -> tuple[dict[str, DrawnTable], int, int]:
    """The tables of drawn units, of how many, and how many of them have the rows of others.

    There may be fewer units than asked for: noise may be larger than the numbers of children.
    """
    unit_row: UnitRow = members.unit_row
    most = {}
    for table, member in members.of.items():
        fits = rows_that_fit(unit_row.extended(table))
        own = own_keys(members.tree, table, member.keys, member.primary)
        most[table] = min(fits, most_numbers(member.source, own))
    if unit_row.tree.root == UNITS:
        (link,) = unit_row.tree.links
        most[UNITS] = most_numbers(members.first, link.references)
    units = min(len(codes), most[unit_row.tree.root])
    while True:
        try:
            part = codes[:units]
            drawn, stuck = draw_tables(unit_row, part, lenders, generator, progress, most, rules, ruling, strict)
            return drawn, units, stuck
        except TooManyRows:
            units //= 2


def _ruling(
    run: Run, members: Members, allowed: Rules, limits: Rules, generator: np.random.Generator
) -> RuleDrawing | None:
    """What lets rows obey rules between them; None without rules."""
    rules = link_rules(members, run.books)
    if not rules:
        return None
    facts = {table: allowed_rows(members, run.books, table) for table in members.tree.tables}
    ruled = RuledRows(members.tree, members.sources, members.domains, rules, allowed, {}, generator)
    return RuleDrawing(members.unit_row, ruled, facts, limits, generator, run.progress)


def _checked(ruling: RuleDrawing, tables: Mapping[str, DrawnTable]) -> list[dict[str, Any]]:
    """What the release says of its rules: of how many rows each speaks, and that none breaks it.

    Raises:
        DpsqlError: one does, so that nothing is published.
    """
    counted: dict[tuple[str, str], int] = {}
    for rule, rows, broken in ruling.beside(tables).ruled.broken():
        if broken:
            raise DpsqlError(
                f"{broken} rows do not obey {rule.predicate!r}: it depends on more than their values. Take it back, "
                "dp_constraint(…, remove := true); then the same call completes the release, free"
            )
        stated = (rule.table, rule.predicate)
        counted[stated] = counted.get(stated, 0) + rows
    return [{"table": table, "rule": rule, "rows": rows, "broken": 0} for (table, rule), rows in counted.items()]


def _checked_presence(
    run: Run, members: Members, tables: Mapping[str, DrawnTable], limits: Rules
) -> list[dict[str, Any]]:
    """The same of rules that ask whether rows with a role are there.

    Raises:
        DpsqlError: one does not hold, so that nothing is published.
    """
    stated = []
    for table in members.tree.tables:
        if presence := presence_rules(members, run.books, table):
            rows, link = _with_numbers(members, tables, table), members.tree.link_of.get(table)
            for role, parts in limits[table].items():
                mine = tables[table].role == (-1 if link is None or role is None else link.roles.index(role))
                for part in parts:
                    if not is_allowed(members.unit_row.extended(table), part, rows[mine]).all():
                        raise DpsqlError(f"rows of {table!r} do not obey {part.predicates[0]!r}: nothing is published")
            stated += [{"table": table, "rule": rule.predicate, "rows": len(rows), "broken": 0} for rule in presence]
    return stated


def _with_numbers(members: Members, tables: Mapping[str, DrawnTable], table: str) -> np.ndarray[Any, Any]:
    """Rows of a table with columns that say whether rows with a role are below, as they are there; numbers are 0."""
    codes = tables[table].codes
    columns = [np.asarray(codes[:, place]) for place in range(codes.shape[1])]
    for below in members.unit_row.below(table):
        there = np.zeros(len(codes), np.int64)
        if below.role is not None:
            child = tables[below.link.child]
            assert child.up is not None
            there[child.up[child.role == below.link.roles.index(below.role)]] = 1
        columns.append(there)
    return np.stack(columns, axis=1)


def _public_number(run: Run, members: Members) -> int:
    """A number of rows that units may well have by what is public: of a table with a privacy unit its `max_rows`.

    Numbers that share a bin are likely only where counts show them: of few units noise may be most of the rows.
    """
    bound = bound_of(run.books, run.entry.source) if members.tree.root == UNITS else None
    return 0 if bound is None else min(bound.rows, SINGLE_OF_UNIT - 1)


def _keys_of_units(
    members: Members, tables: Mapping[str, DrawnTable], generator: np.random.Generator
) -> dict[str, dict[str, Key]]:
    """Of a table with a privacy unit, the value that each unit has there; of other trees nothing."""
    if members.tree.root != UNITS:
        return {}
    (link,) = members.tree.links
    units = len(tables[UNITS].codes)
    return {UNITS: {name: own_key(members.first.column(name).type, units, generator) for name in link.references}}


def _keys(
    members: Members,
    table: str,
    drawn: DrawnTable,
    keys_by_table: Mapping[str, dict[str, Key]],
    generator: np.random.Generator,
) -> dict[str, Key]:
    member, link = members.of[table], members.tree.link_of.get(table)
    above = {} if link is None else keys_by_table[link.parent]
    rows, up = len(drawn.codes), drawn.up
    return number_keys(members.tree, table, member.source, member.keys, member.primary, up, rows, above, generator)


def _rows(
    run: Run,
    members: Members,
    table: str,
    drawn: DrawnTable,
    keys: Mapping[str, Key],
    generator: np.random.Generator,
) -> Rows:
    """The rows of one table, as they are written."""
    member, frame = members.of[table], dict(drawn.frame)
    source, domain, rows = member.source, member.domain, len(drawn.codes)
    settle_bins(source, domain, allowed_rows(members, run.books, table), drawn.codes, frame, generator)
    frame |= stand_ins(domain, rows, generator) | computed_values(source, domain, frame) | frame_of(keys)
    if not frame:  # a table whose columns are all NULL has rows all the same
        frame["k"] = np.zeros(rows, np.int64)
    columns: Sequence[str] = member.columns
    return publication.rows_of(domain, source, columns, frame, values_of(keys, source))


def _empty(members: Members, tables: Mapping[str, DrawnTable]) -> list[str]:
    """What helps where a table below came out without rows; not said of those below it in turn."""
    return [
        f"{members.of[link.child].source.name} has no rows: noise hides how many of them a row above has, if there are "
        "any. Ask with a larger epsilon, or for fewer tables and columns"
        for link in members.tree.links
        if len(tables[link.parent].codes) and not len(tables[link.child].codes)
    ]


def _stated(members: Members, table: str, drawn: DrawnTable) -> dict[str, Any]:
    """What the release says of a table; see `dpsql.books.releases.releases.ReleasedTable`."""
    link, stated = members.tree.link_of.get(table), {"table": table, "rows": len(drawn.codes)}
    primary, named = members.of[table].primary, {below.references for below in members.tree.children(table)}
    if primary and members.is_unique(table, primary):
        stated["primary"] = list(primary)
    if unique := [list(names) for names in sorted(named) if members.is_unique(table, names)]:
        stated["unique"] = unique
    member = members.of[table]
    if required := [name for name in member.columns if not member.source.column(name).nullable]:
        stated["required"] = required
    if link is not None and link.parent != UNITS:
        stated |= {"parent": link.parent, "key": list(link.key), "references": list(link.references)}
    return stated
