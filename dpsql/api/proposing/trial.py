"""A try of the script's statements on an empty table of the same columns, so that the script runs as it is.

What a statement would be refused for depends on its words and on types, never on rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dpsql.api.database import Database, connect
from dpsql.api.proposing.calendar_facts import calendar_facts
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.facts import Fact, find_facts
from dpsql.api.proposing.forecast import Forecast, with_forecast
from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.order_facts import order_facts
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.core.column_types import kind_of
from dpsql.core.names import quote
from dpsql.errors import DpsqlError


@dataclass(frozen=True)
class Tried:
    """What runs.

    Attributes:
        proposals: of every column, in order; one that was refused leaves the column out, and says so.
        facts: each with why it is refused; empty where it is not.
        forecast: what a plan predicts; None where nothing can be.
    """

    proposals: tuple[Proposal, ...]
    facts: tuple[tuple[Fact, str], ...]
    forecast: Forecast | None


def tried(
    source: Input, context: Context, protection: str, proposals: Sequence[Proposal], rows: int | None, *, looks: bool
) -> Tried:
    """Try all that the script will run, but for discoveries, which are charged.

    Args:
        source: the table.
        context: of the proposals.
        protection: the statement that protects it.
        proposals: for all columns.
        rows: about how many the table has; None if nobody says.
        looks: whether rows are read for facts about several columns.
    """
    with _empty(source, proposals) as db:
        db.sql(protection)
        settled = all_settled(db, context, proposals)
        settled, forecast = with_forecast(db, context, settled, rows)
        facts = facts_of(source, settled, looks=looks)
        return Tried(settled, tuple((fact, refused(db, fact.statement(context.table))) for fact in facts), forecast)


def facts_of(source: Input, proposals: Sequence[Proposal], *, looks: bool) -> list[Fact]:
    """Facts about several columns: those that everybody knows, and those that the rows suggest if they may be read."""
    suggested = [*find_facts(source, proposals), *order_facts(source, proposals)] if looks else []
    return [*calendar_facts(proposals), *suggested]


@contextmanager
def _empty(source: Input, proposals: Sequence[Proposal]) -> Iterator[Database]:
    """A database in memory with an empty table of the columns as the script loads them."""
    with connect() as db:
        create_empty(db, source, proposals)
        yield db


def create_empty(db: Database, source: Input, proposals: Sequence[Proposal]) -> None:
    """An empty table of the columns as the script loads them."""
    types = {p.column: p.type for p in proposals if p.load is not None}
    columns = ", ".join(
        f"{quote(column.name)} {types.get(column.name, column.type)}{'' if column.nullable else ' NOT NULL'}"
        for column in source.columns
    )
    if source.schema != "main":
        db.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(source.schema)}")
    db.sql(f"CREATE TABLE {source.sql_name} ({columns})")


def all_settled(db: Database, context: Context, proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """All proposals that run, in order. Computed columns come last: what they read may have been left out."""
    computed = [place for place, proposal in enumerate(proposals) if "computed_as" in (proposal.how or ())]
    others = [place for place in range(len(proposals)) if place not in computed]
    settled = {place: _settled(db, context, proposals[place]) for place in (*others, *computed)}
    return tuple(settled[place] for place in range(len(proposals)))


def _settled(db: Database, context: Context, proposal: Proposal) -> Proposal:
    """The proposal itself if it runs, else one that leaves the column out."""
    if proposal.how is None or proposal.price:
        return proposal
    why = refused(db, context.call(proposal.column, proposal.how))
    if not why:
        return proposal
    left_out = {"exclude": True}
    refused(db, context.call(proposal.column, left_out))
    because = f"what was proposed is refused: {why}"
    options = (context.call(proposal.column, proposal.how), *proposal.options)
    return Proposal(proposal.column, kind_of(proposal.type), Ground.QUESTION, because, left_out, options, proposal.load)


def refused(db: Database, statement: str) -> str:
    """Why a statement is refused; empty if it runs."""
    try:
        db.sql(statement)
    except DpsqlError as error:
        return re.sub(r"^.*?\bdp_\w+: ", "", str(error), count=1, flags=re.DOTALL)
    return ""
