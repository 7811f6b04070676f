"""A try of the script's statements on an empty table of the same columns, so that the script runs as it is.

What a statement would be refused for depends on its words and on types, never on rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from dpsql.api.database import Database, connect
from dpsql.api.proposing.calendar_facts import calendar_facts
from dpsql.api.proposing.coarsened import coarse_facts
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.facts import Fact, find_facts
from dpsql.api.proposing.forecast import Forecast, with_forecast
from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.order_facts import order_facts
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.core.column_types import kind_of
from dpsql.core.names import quote
from dpsql.errors import DpsqlError

_PAIR: Final = 2
_MOST_FACTS: Final = 8
_MANY: Final = 60
_MOST_TUPLES: Final = 5_000
"""Of values that facts which share columns span: a script that states more of them runs for minutes."""


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
    public = calendar_facts(proposals)
    if not looks:
        return public
    pairs = find_facts(source, proposals)
    decided = {fact.columns for fact in pairs if not fact.is_question}
    coarse = [fact for fact in coarse_facts(source, proposals) if fact.columns not in decided]
    coarse = _with_room(coarse, [*decided], {p.column: _cells(p) for p in proposals})
    together = _together([fact.columns for fact in coarse if len(fact.columns) == _PAIR])
    pairs = [fact for fact in pairs if not (fact.is_question and any(fact.columns <= group for group in together))]
    return [*public, *coarse, *pairs, *order_facts(source, proposals)]


def _with_room(facts: Sequence[Fact], groups: list[frozenset[str]], cells: Mapping[str, int]) -> list[Fact]:
    """The facts, but those whose columns would have too many tuples of values together with the facts before."""
    kept: list[Fact] = []
    for fact in facts[:_MOST_FACTS]:
        joined = _together([*groups, fact.columns])
        if all(
            math.prod(cells[column] for column in group) <= _MOST_TUPLES for group in joined if fact.columns <= group
        ):
            kept.append(fact)
            groups = joined
    return kept


def _cells(proposal: Proposal) -> int:
    """How many cells a column has, about, with that of NULL."""
    how = proposal.how or {}
    if "edges" in how:
        return len(how["edges"]) + 2 * len(how.get("points", ()))
    bins = how.get("bins") or (how["upper"] - how["lower"] + 1 if isinstance(how.get("lower"), int) else _MANY)
    return len(how["values"]) + 1 if "values" in how else 3 if proposal.type == "BOOLEAN" else int(bins) + 1


def _together(pairs: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Columns that one of them decides: which of their values never occur together follows from that."""
    groups: list[frozenset[str]] = []
    for pair in pairs:
        joined = frozenset[str]().union(pair, *(group for group in groups if group & pair))
        groups = [*(group for group in groups if not group & pair), joined]
    return groups


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
