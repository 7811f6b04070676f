"""What may be proposed for a column from public facts alone: its type, its name, a codebook, public tables.

Nothing here reads a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dpsql.api.proposing import codes, names
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.names import NameMeaning
from dpsql.api.proposing.proposal import KEPT, MOST_CELLS, Ground, Proposal, ladder
from dpsql.core.column_types import column_type, kind_of, lists_members
from dpsql.core.names import fold
from dpsql.core.readings import LAST, READINGS
from dpsql.engines.source import Column

_STRANGE: Final = "only its owner knows which values it may have, whatever the rows are"


def settled(column: Column, context: Context) -> Proposal | None:
    """What the codebook or the type alone decides, whether or not rows are looked at."""
    shown, of_type = kind_of(column.type), column_type(column.type)
    words = context.codebook_entry(column.name)
    if context.columns and fold(column.name) not in context.columns and column.name != context.unit:
        return Proposal(column.name, shown, Ground.PUBLIC, "it is not among --columns", {"exclude": True})
    if column.name == context.unit:
        return Proposal(column.name, shown, Ground.PUBLIC, "it is the privacy unit, which dp_protect leaves out", None)
    if words is not None:
        return Proposal(column.name, shown, Ground.PUBLIC, "the codebook says so", words)
    if column.generated:
        why = "its expression would run on private rows, so a generated column is left out"
        return Proposal(column.name, shown, Ground.PUBLIC, why, {"exclude": True})
    if of_type.declares_itself:
        return Proposal(column.name, shown, Ground.PUBLIC, "its type has only these values: nothing to declare", None)
    if not of_type.listable:
        why = "a nested or binary column can have no domain: load its parts as columns of their own to keep them"
        return Proposal(column.name, shown, Ground.PUBLIC, why, {"exclude": True})
    if lists_members(column.type):
        why = "running this line is your word that the members of its ENUM type are public, whatever the rows are"
        return Proposal(column.name, shown, Ground.CONFIRM, why, {"type": True})
    return _clock(column) if column.type in ("TIME", "TIME_NS") else None


def _clock(column: Column) -> Proposal:
    day = NameMeaning({"lower": "00:00:00", "upper": "23:59:59.999999", "bins": 24}, "a day has 24 hours")
    return known_by_name(column, day)


def propose(column: Column, context: Context) -> Proposal:
    """A proposal without a look at the rows; a question where only the owner can tell."""
    proposal = settled(column, context)
    if proposal is not None:
        return proposal
    of_type = column_type(column.type)
    if of_type.is_number:
        return _number(column, context)
    if of_type.has_bins:
        return _date(column, context)
    return _text(column, context)


def known_by_name(column: Column, meaning: NameMeaning) -> Proposal:
    """What the name of a column says of it."""
    ground, shown = Ground.PUBLIC if meaning.sure else Ground.CONFIRM, kind_of(column.type)
    how = dict(meaning.how)
    if "lower" in how:
        return ladder(
            lambda most: Proposal(column.name, shown, ground, meaning.because, of_equal_width(column, how, most))
        )
    if how.get("exclude"):
        how |= {"fake": meaning.fake} if meaning.fake else {"ids": True} if names.key_like(column.name) else {}
    return Proposal(column.name, shown, ground, meaning.because, how)


def of_equal_width(column: Column, how: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The same bounds in at most so many cells; of few whole numbers each keeps its own.

    Args:
        column: of numbers.
        how: its bounds, and as `bins` the most cells that suit them.
        most: cells.

    >>> of_equal_width(Column("age", "INTEGER", nullable=True), {"lower": 0, "upper": 119, "bins": 24}, 6)
    {'lower': 0, 'upper': 119, 'bins': 6}
    """
    if column_type(column.type).scale != 0:
        return {**how, "bins": min(most, how["bins"])}
    count = how["upper"] - how["lower"] + 1
    if count <= KEPT or (most == MOST_CELLS[0] and "bins" not in how):
        return dict(how)
    widths = range(-(-count // most), count + 1)
    width = next((width for width in widths if count % width == 0 and count // width >= most / 2), widths[0])
    if count % width == 0:
        return {**how, "bins": count // width}
    edges = [*range(how["lower"], how["upper"] + 1, width), how["upper"] + 1]
    return {"edges": edges, **{name: value for name, value in how.items() if name not in ("lower", "upper", "bins")}}


def _number(column: Column, context: Context) -> Proposal:
    whole = column_type(column.type).scale == 0
    if names.key_like(column.name):
        return known_by_name(column, NameMeaning({"exclude": True}, "a key says whose row it is"))
    meaning = names.number_of(column.name, whole=whole)
    if meaning is not None:
        return known_by_name(column, meaning)
    bounds = {"lower": 0, "upper": 1000}
    flags = [context.call(column.name, {"values": [0, 1]})] if whole else []
    options = (
        *flags,
        *_times(column, context),
        context.call(column.name, {**bounds, "bins": 20}),
        context.call(column.name, context.discovery(column.name, **bounds)),
    )
    why = "what are its smallest and largest possible values? Give them for lower and upper"
    return _question(column, context, why, options)


def _times(column: Column, context: Context) -> list[str]:
    """Statements for numbers that may write times, by their name."""
    forms = names.forms_of(column.name)
    days = {"lower": "2020-01-01", "upper": "2026-12-31", "every": "month"}
    whole_day = {"lower": "00:00:00", "upper": LAST, "bins": 24}
    return [
        context.call(column.name, {**(whole_day if READINGS[form].type == "TIME" else days), "read_as": form})
        for form in forms
    ]


def _date(column: Column, context: Context) -> Proposal:
    meaning = names.date_of(column.name)
    if meaning is not None:
        return known_by_name(column, meaning)
    bounds = {"lower": "2020-01-01", "upper": "2026-12-31"}
    options = (
        context.call(column.name, {**bounds, "bins": 28}),
        context.call(column.name, context.discovery(column.name, **bounds)),
    )
    return _question(column, context, "between which dates can it be? Give them for lower and upper", options)


def _text(column: Column, context: Context) -> Proposal:
    if column.type == "UUID":
        return known_by_name(column, NameMeaning({"exclude": True}, "a key says whose row it is"))
    if (pair := context.pairs.get(column.name)) is not None:
        return words_of_flag(column, pair, Ground.CONFIRM)
    meaning = names.left_out(column.name) or names.text_of(column.name)
    if meaning is not None:
        return known_by_name(column, meaning)
    sure, options = codes.is_sure(column.name), []
    for which in codes.lists_for(column.name):
        listed = codes.code_list(which)
        if listed is None:
            options.append(f"its codes are public, where the package is there that lists them: {codes.NEEDED}")
            break
        if which == sure:
            why = f"it is a code of a public list: {listed.name}"
            return Proposal(column.name, column.type, Ground.PUBLIC, why, {"values": list(listed.codes)})
        options.append(f"{listed.name}: {context.call(column.name, {'values': list(listed.codes)})}")
    options += [context.call(column.name, {"reference": name}) for name in context.references.get(column.name, ())]
    options.append(context.call(column.name, {"values": ["…", "…"], "other": "other"}))
    missing = context.missing.get(column.name)
    if missing:
        flags = " and ".join(f"--nullstr {text}" for text in missing)
        why = (
            f"all other texts are numbers, so {flags} of dpsql init would make it a column of numbers; else {_STRANGE}"
        )
        return _question(column, context, why, (*options, _discovery(column, context)), discovered=True)
    return _question(column, context, _STRANGE, (*options, _discovery(column, context)), discovered=True)


def words_of_flag(column: Column, pair: Sequence[str], ground: Ground) -> Proposal:
    """What is proposed for a column of yes and no: both words, as the file writes them.

    Args:
        column: of texts.
        pair: the words.
        ground: why it may be proposed.

    >>> words_of_flag(Column("paid", "VARCHAR", nullable=True), ("N", "Y"), Ground.CONFIRM).how
    {'values': ['N', 'Y']}
    """
    why = f"all of its texts are {pair[0]} and {pair[1]}, and stay so, where BOOLEAN would make them false and true"
    return Proposal(column.name, column.type, ground, why, {"values": [*pair]}, codes=tuple(pair))


def _discovery(column: Column, context: Context) -> str:
    return context.call(column.name, context.discovery(column.name))


def _question(
    column: Column, context: Context, why: str, options: tuple[str, ...], *, discovered: bool = False
) -> Proposal:
    """What only the owner can tell: left out until then; or discovered, where that needs no word of the owner's."""
    if discovered and context.discover:
        how = context.discovery(column.name)
        because = f"discovered for ε = {context.price:g}; if no value is common enough, the script stops here"
        return Proposal(column.name, column.type, Ground.QUESTION, because, how, options[:-1], price=context.price)
    return Proposal(column.name, column.type, Ground.QUESTION, why, {"exclude": True}, options)
