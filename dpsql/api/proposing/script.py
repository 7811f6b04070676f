"""The script: what it costs and what it discloses stand at its top, then a statement and its reason for each column."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dpsql.api.proposing.context import Context
from dpsql.api.proposing.forecast import Forecast
from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.api.proposing.trial import Tried
from dpsql.core.names import quote
from dpsql.engines.duckdb.calls import call_of

_WIDTH: Final = 118


def next_command(table: str, forecast: Forecast | None, database: str = "bank.duckdb", *, linked: bool = False) -> str:
    """The command that makes the release of a forecast, with about how many rows that is of.

    Args:
        table: the protected table.
        forecast: what a plan predicts; None where nobody can.
        database: the file.
        linked: whether the release keeps several rows of a unit together, where there is no forecast.
    """
    epsilon = 1 if forecast is None else forecast.epsilon
    rows = "" if forecast is None else f" {rows_of(forecast)}"
    linked = linked if forecast is None else forecast.linked
    target = "--linked --output synthetic/" if linked else "--output synthetic.parquet"
    return f"dpsql synthesize {shlex.quote(database)} {shlex.quote(table)} --epsilon {epsilon:g}{rows} {target}"


def rows_of(forecast: Forecast) -> str:
    """The option that says about how many rows a forecast is of."""
    return f"--assume-rows {forecast.rows}"


@dataclass(frozen=True)
class Script:
    """A script and what a person should know of it.

    Attributes:
        text: all of it.
        table: that it protects.
        proposals: for the table's columns.
        price: the ε that it spends when it runs.
        forecast: what a plan predicts of a release; None where nothing can be.
        linked: of several tables, what is said of them before all else, and the command that releases them.
        database: the file in which it is to be run.
    """

    text: str
    table: str
    proposals: tuple[Proposal, ...]
    price: float
    forecast: Forecast | None = None
    linked: tuple[str, str] = ("", "")
    database: str = "bank.duckdb"

    @property
    def next_command(self) -> str:
        """See `next_command`; empty without a forecast."""
        return "" if self.forecast is None else self.linked[1] or next_command(self.table, self.forecast)

    @property
    def keeps_columns(self) -> bool:
        """Whether any column is kept."""
        return any(not p.is_excluded and (p.how or p.type == "BOOLEAN") for p in self.proposals)

    @property
    def summary(self) -> str:
        """What is in it, in a sentence."""
        left_out = [p for p in self.proposals if p.is_excluded]
        questions = sum(p.ground in (Ground.QUESTION, Ground.CONFIRM) for p in self.proposals)
        spends = f"spends ε = {self.price:g}" if self.price else "spends nothing"
        return (
            f"{self.linked[0]}{len(self.proposals)} columns, {len(left_out)} of them left out; {questions} wait for "
            f"your word; running it {spends}"
        )

    @property
    def advice(self) -> str:
        """What a person may do about columns that are left out because nobody has answered; empty where none are."""
        questions = sum(p.is_excluded and p.ground is Ground.QUESTION for p in self.proposals)
        if not questions:
            return ""
        are = "1 column is" if questions == 1 else f"{questions} columns are"
        ways = "--owner-looks reads the rows (the script says what that discloses)"
        if not self.linked[1]:
            ways = f"--codebook FILE takes public values, {ways}, --discover 0.1 pays for it"
        return f"{are} left out until you answer the QUESTION lines of the script. Or let dpsql answer: {ways}."


def comment(text: str, indent: str = "") -> list[str]:
    """A text as lines of a comment; whatever a name holds, none of it gets out of the comment."""
    clean = " ".join(text.split())
    return [f"-- {line}" for line in textwrap.wrap(clean, _WIDTH - 3, subsequent_indent=indent, break_on_hyphens=False)]


def write(
    source: Input, context: Context, protection: str, trial: Tried, *, looked: bool, unknown: Sequence[str] = ()
) -> Script:
    """The script.

    Args:
        source: the table.
        context: what all proposals share.
        protection: the statement that protects it.
        trial: the proposals and facts.
        looked: whether rows were read.
        unknown: columns that the codebook names and the table lacks.
    """
    price = sum(p.price for p in trial.proposals)
    lines = [*_head(source, context, trial, price, looked=looked), ""]
    if source.is_file:
        lines += [*load_statement(source, trial.proposals), ""]
    budget = "The budget: all releases together will be (ε, δ)-DP. It is set once."
    if context.unit:
        budget += " Choose max_rows, how many rows of one unit count, from what is public, not off the rows."
    lines += [*comment(budget), protection, ""]
    for name in unknown:
        lines += comment(f"The codebook names {name!r}, which is no column of the table.")
    for proposal in trial.proposals:
        lines += [*declared_lines(context, proposal), ""]
    lines += fact_lines(context, trial)
    lines += comment(f"What is declared: {_listing(context)}")
    return Script("\n".join(lines) + "\n", context.table, trial.proposals, price, trial.forecast)


def _head(source: Input, context: Context, trial: Tried, price: float, *, looked: bool) -> Iterator[str]:
    by = f"dpsql init {source.given}{' --owner-looks' if looked else ''}"
    yield from comment(f"Protects the table {context.table} and declares its columns. Written by: {by}")
    yield from comment("Read it, edit it, then run it with dpsql sql; running it again changes nothing.")
    yield "--"
    if price:
        yield from comment(f"PRICE: running this script SPENDS ε = {price:g} of the budget, for the discoveries below.")
    else:
        yield from comment("PRICE: running this script spends nothing of the budget.")
    offered = sum("discover := true" in option for p in trial.proposals for option in p.options)
    if offered:
        yield from comment(
            f"Discoveries that stand in comments cost ε = {context.price:g} each, all {offered} of them "
            f"{offered * context.price:g}."
        )
    yield from reading_lines(looked=looked, is_typed=source.is_typed)
    yield from _forecast(trial.forecast, context.table)
    yield from asked_lines([(p.column, p) for p in trial.proposals])


def asked_lines(proposals: Sequence[tuple[str, Proposal]]) -> Iterator[str]:
    """Which columns wait for the owner's word; each is called as is said beside it."""
    waiting = [name for name, p in proposals if p.ground is Ground.QUESTION]
    confirm = [name for name, p in proposals if p.ground is Ground.CONFIRM]
    if waiting:
        yield from comment(f"QUESTION: only you can tell of {', '.join(waiting)}.")
    if confirm:
        yield from comment(f"CONFIRM: running this script is your word on {', '.join(confirm)}.")


def reading_lines(*, looked: bool, is_typed: bool) -> Iterator[str]:
    """Which rows were read to write a script."""
    if looked:
        yield from comment(
            "DISCLOSURE: the rows were read to write this file (--owner-looks). Lines that say 'Looked' tell of the "
            "rows, and whoever sees a release sees them: running them makes these domains the owner's disclosure, "
            "outside the guarantee. Their looked := true is recorded: dp_domains, dp_releases, reports and cards say "
            "so. Lines that say 'Public' do not depend on the rows."
        )
    elif not is_typed:
        yield from comment(
            "The rows were read for the types of the columns, which a CSV file does not tell, for texts such as NA "
            "that at least ten rows have beside numbers, and for nothing else."
        )
    else:
        yield from comment("No row was read to write this file.")


def _forecast(forecast: Forecast | None, table: str) -> Iterator[str]:
    if forecast is None:
        return
    cells = f", with about {forecast.cells} cells for a column of numbers" if len(forecast.reliable) > 1 else ""
    yield from comment(
        f"FORECAST: {str(forecast).replace('At', 'at', 1)}{cells}. {forecast.others} --epsilon, --columns and --rows "
        "change it; dp_plan tells of each pair."
    )
    yield from comment(f"AFTERWARDS: {next_command(table, forecast)}")


def load_statement(source: Input, proposals: Sequence[Proposal]) -> list[str]:
    """The statement that loads a file."""
    replaced = ",\n  ".join(f"{p.load} AS {quote(p.column)}" for p in proposals if p.load is not None)
    return [
        *comment("The rows, loaded once."),
        f"CREATE TABLE IF NOT EXISTS {source.sql_name} AS",
        *([f"SELECT * REPLACE (\n  {replaced}\n)"] if replaced else []),
        f"FROM {source.file_call};",
    ]


def declared_lines(context: Context, proposal: Proposal) -> Iterator[str]:
    """The lines of one column."""
    until = " It is left out until you have answered." if _waits(proposal) else ""
    because = proposal.because[:1].lower() + proposal.because[1:]
    yield from comment(
        f"{proposal.column}, {proposal.type}. {proposal.ground.value}: {because.rstrip('.')}.{until}", "  "
    )
    for option in proposal.options:
        priced = f"  -- price: ε = {context.price:g}" if "discover := true" in option else ""
        yield f"--   or: {' '.join(option.split())}{priced}"
    if proposal.how is not None:
        yield call_of("dp_domain", [context.table, proposal.column], proposal.how, _WIDTH)


def _waits(proposal: Proposal) -> bool:
    return proposal.ground is Ground.QUESTION and proposal.is_excluded


def fact_lines(context: Context, trial: Tried) -> Iterator[str]:
    """Facts about several columns: a line each, those that need the owner's word as comments."""
    if not trial.facts:
        return
    yield from comment(
        "Facts about several columns, which every synthetic row will satisfy. Keep those that hold for everybody, "
        "whoever is in the table."
    )
    for fact, refused in trial.facts:
        call = fact.statement(context.table)
        if fact.is_question or refused:
            why = f"refused: {refused}" if refused else f"QUESTION: does it hold for everybody? {fact.because}."
            yield from comment(why, "  ")
            yield f"-- {' '.join(call.split())}"
        else:
            yield from comment(f"{'Public' if fact.is_public else 'Looked'}: {fact.because}.", "  ")
            yield call
    yield ""


def _listing(context: Context) -> str:
    call = call_of("dp_domains", [context.table], {}).removeprefix("CALL ").removesuffix(";")
    return f"FROM {call};"
