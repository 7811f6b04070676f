"""The door for several tables: a folder or a database in, one script out that links them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from dpsql.api.database import Database, connect
from dpsql.api.proposing import public
from dpsql.api.proposing.computed import with_computed
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.forecast import Forecast, with_tree_forecast
from dpsql.api.proposing.inputs import Input, Tables, opened_tables
from dpsql.api.proposing.links import edges_of, numbered
from dpsql.api.proposing.looked import look
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.api.proposing.propose import propose
from dpsql.api.proposing.references import references_of
from dpsql.api.proposing.script import Script
from dpsql.api.proposing.shape import Shape, arrange, without
from dpsql.api.proposing.tables_script import write
from dpsql.api.proposing.trial import Tried, all_settled, create_empty, facts_of, refused
from dpsql.core.column_types import kind_of
from dpsql.core.names import fold, quote
from dpsql.engines.duckdb.calls import call_of
from dpsql.errors import DpsqlError, InvalidArgument

_DUCKDB_HEADER: Final = b"DUCK"


def is_of_tables(given: str) -> bool:
    """Whether an input is a folder or a DuckDB file, and not one table.

    >>> is_of_tables("bank.duckdb:patients")
    False
    """
    path = Path(given)
    if path.is_dir():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(12)[8:] == _DUCKDB_HEADER


def propose_tables(
    given: str,
    *,
    epsilon: float = 3.0,
    delta: float = 1e-9,
    unit: str | None = None,
    owner_looks: bool = False,
    nullstr: Sequence[str] = (),
    rows: int | None = None,
) -> Script:
    """A script that protects and links tables, and declares their columns.

    Args:
        given: a folder of CSV and Parquet files, or a DuckDB file.
        epsilon: of the budget, which is one for all tables.
        delta: of the budget.
        unit: the table whose rows are the units.
        owner_looks: whether rows are read to propose.
        nullstr: texts of a CSV file that mean NULL.
        rows: about how many units there are; with `owner_looks` as many as there are.

    Raises:
        DpsqlError: a child says what is wrong.
    """
    with opened_tables(given, nullstr, read=owner_looks) as tables:
        if len(tables.sources) > 1:
            return _proposed(given, tables, epsilon, delta, unit, rows, looks=owner_looks)
        (source,) = tables.sources
    alone = source.given if source.is_file else f"{given}:{source.table}"
    missing = nullstr if "read_csv" in (source.file_call or "") else ()
    return propose(alone, epsilon=epsilon, delta=delta, owner_looks=owner_looks, nullstr=missing, rows=rows)


def _proposed(
    given: str, tables: Tables, epsilon: float, delta: float, unit: str | None, rows: int | None, *, looks: bool
) -> Script:
    sources = tables.sources
    shape = arrange(sources, edges_of(sources, looks=looks), None if unit is None else _named(sources, unit))
    if looks and rows is None:
        rows = shape.root.ask({"v": "1"}, "count(*)")[0][0]
    contexts = {source.table: _context(source, epsilon) for source in shape.members}
    proposals = {source.table: _columns(source, shape, contexts[source.table], looks=looks) for source in shape.members}
    protection = call_of("dp_protect", [shape.root.table], {"epsilon": float(epsilon), "delta": float(delta)})
    with connect() as db:
        for source in shape.members:
            create_empty(db, source, proposals[source.table])
        db.sql(protection)
        shape = _linked(db, shape)
        settled, forecast = _settled(db, shape, contexts, proposals, rows)
        tried = {
            source.table: _with_facts(db, source, contexts[source.table], settled[source.table], looks=looks)
            for source in shape.members
        }
    return write(given, tables, shape, contexts, tried, protection, forecast, looked=looks)


def _named(sources: Sequence[Input], unit: str) -> Input:
    """The table that `unit` names."""
    for source in sources:
        if fold(unit) in (fold(source.table), fold(source.name)):
            return source
    listed = ", ".join(source.table for source in sources)
    raise InvalidArgument(f"unit is {unit!r}, which is no table: of several tables it names one of {listed}")


def _context(source: Input, epsilon: float) -> Context:
    return Context(
        source.table,
        source.is_file,
        references={} if source.is_file else references_of(source),
        epsilon=epsilon,
        is_csv=source.is_file and not source.is_typed,
        missing=source.missing,
        pairs=source.pairs,
    )


def _columns(source: Input, shape: Shape, context: Context, *, looks: bool) -> list[Proposal]:
    """A proposal for each column of a table; keys of the tree need none."""
    proposals = [(look(c, context, source) if looks else public.propose(c, context)) for c in source.columns]
    proposals = with_computed(source, context, proposals) if looks else proposals
    keys, types = shape.keys(source.table) | numbered(source), {column.name: column.type for column in source.columns}
    listed = _lists(source, shape)
    return [
        _key(proposal, types[proposal.column])
        if proposal.column in keys
        else replace(
            proposal,
            options=(
                *(context.call(proposal.column, how) for how in listed.get(proposal.column, ())),
                *proposal.options,
            ),
        )
        for proposal in proposals
    ]


def _key(proposal: Proposal, kind: str) -> Proposal:
    """A key as it is in the file: tables are linked by it, and it is left out of each alone."""
    because = "a key says whose row it is; a linked release numbers those of its tables"
    how = {"exclude": True, **({"ids": True} if (proposal.how or {}).get("ids") else {})}
    return Proposal(proposal.column, kind_of(kind), Ground.PUBLIC, because, how)


def _lists(source: Input, shape: Shape) -> dict[str, list[dict[str, str]]]:
    """For columns that lead to a table apart, domains that are its keys."""
    references: dict[str, list[dict[str, str]]] = {}
    apart = {other.table for other in shape.apart}
    for edge in shape.edges:
        if edge.child.table == source.table and edge.parent.table in apart and len(edge.key) == 1:
            reference = f"{edge.parent.sql_name}.{quote(edge.references[0])}"
            references.setdefault(edge.key[0], []).append({"reference": reference})
    return references


def _linked(db: Database, shape: Shape) -> Shape:
    """The tables linked, without those that are refused and what is below them."""
    why: dict[str, str] = {}
    for step in shape.steps:
        edge = replace(step.edge, is_only=False)  # the empty tables have no constraints
        if edge.parent.table in why:
            why[edge.child.table] = f"{edge.parent.table}, to which it leads, cannot be linked"
        elif reason := refused(db, edge.call):
            why[edge.child.table] = reason
    return without(shape, why)


def _settled(
    db: Database, shape: Shape, contexts: dict[str, Context], proposals: dict[str, list[Proposal]], rows: int | None
) -> tuple[dict[str, tuple[Proposal, ...]], Forecast | None]:
    """The proposals that run, with as many cells as suit a linked release."""
    tables = [
        (contexts[source.table], all_settled(db, contexts[source.table], proposals[source.table]))
        for source in shape.members
    ]
    chosen, forecast = with_tree_forecast(tables, db, rows, linked=bool(shape.steps))
    return {context.table: chosen_here for (context, _), chosen_here in zip(tables, chosen, strict=True)}, forecast


def _with_facts(db: Database, source: Input, context: Context, settled: tuple[Proposal, ...], *, looks: bool) -> Tried:
    """A table's proposals, and the facts about several of its columns."""
    facts = facts_of(source, settled, looks=looks)
    with suppress(DpsqlError):
        return Tried(settled, tuple((fact, refused(db, fact.statement(context.table))) for fact in facts), None)
    return Tried(settled, (), None)
