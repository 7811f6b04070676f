"""What is proposed for a column once its owner lets the rows be read: then the domain is the owner's disclosure.

Values that fewer than `LEAST` rows have are not named, because they would be these people's: they become `other`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dpsql.api.proposing import codes, names, public
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.looked_dates import dates
from dpsql.api.proposing.looked_numbers import numbers
from dpsql.api.proposing.looked_parts import LEAST, disclosed, keyed, left_out
from dpsql.api.proposing.profile import Profile, profile
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.source import Column

_MISSING: Final = frozenset({"", "na", "n/a", "nan", "null", "?", "-", "--", ".", ".."})
"""Texts that stand for a missing value in any column."""
_MISSING_NUMBERS: Final = _MISSING | {"n", "none", "nil", "missing", "unknown", "x", "*"}
"""Texts that do so where all others are numbers."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(e[+-]?\d+)?", re.IGNORECASE)
_CODES: Final = frozenset({"zip", "postal", "postcode", "plz", "phone", "code", "account"})
_MOST_LISTED: Final = 500
_MOST_SCALE: Final = 6
_LONG: Final = 100  # characters of a text that nobody lists


def look(column: Column, context: Context, source: Input) -> Proposal:
    """A proposal from what the rows are like; it says so, unless the same is proposed without a look at them."""
    found = public.settled(column, context)
    if found is not None:
        return found
    return disclosed(_from_rows(column, context, source), public.propose(column, context))


def _from_rows(column: Column, context: Context, source: Input) -> Proposal:
    known = column_type(column.type)
    seen = profile(source, column.name, column.type)
    if seen.known == 0:
        return Proposal(column.name, column.type, Ground.LOOKED, "it is NULL in every row", {"exclude": True})
    if known.is_number:
        return numbers(column, seen, context)
    if known.has_bins:
        return dates(column, seen)
    return _texts(column, seen, context)


def _texts(column: Column, seen: Profile, context: Context) -> Proposal:
    if column.type == "UUID":
        return public.propose(column, context)
    numeric = _as_numbers(column, seen, context) or _as_dates(column, seen, context)
    if numeric is not None:
        return numeric
    named = names.left_out(column.name)
    if named is not None and (seen.nearly_unique or seen.distinct > _MOST_LISTED):
        return public.known_by_name(column, named)
    missing = [value for value in seen.values if value.strip().lower() in _MISSING]
    listed = _public_list(column, seen, missing)
    if listed is not None:
        return listed
    kept = [value for value, n in seen.top if n >= LEAST and value not in missing and len(value) <= _LONG]
    kept = kept[:_MOST_LISTED]
    rows = sum(n for value, n in seen.top if value in kept)
    missing_rows = sum(n for value, n in seen.top if value in missing)
    rest = seen.known - rows - missing_rows
    if seen.nearly_unique:
        return keyed(column, "nearly each row has a text of its own: a key, a name, or free text")
    if not kept or rows < rest:
        return left_out(column, f"most of its texts are rare: {seen.distinct} of them in {seen.known} rows")
    return _listed(column, kept, missing, rest)


def _listed(column: Column, kept: list[str], missing: list[str], rest: int) -> Proposal:
    """A column of a few texts."""
    ordered = sorted(kept)
    how: dict[str, Any] = {"values": ordered}
    because = f"{len(kept)} values that at least {LEAST} rows have each"
    if rest:
        how["other"] = next(text for text in ("other", "(other)", "((other))") if text not in kept)
        because += f"; rarer ones become {how['other']!r}"
    if missing:
        how["nulls_as"] = missing
        because += f"; {', '.join(map(repr, missing))} means that it is missing"
    codes = () if rest else tuple(ordered)
    return Proposal(column.name, column.type, Ground.LOOKED, because, how, codes=codes)


def _public_list(column: Column, seen: Profile, missing: list[str]) -> Proposal | None:
    """The public list of which all values are, if it is not much longer than what is there."""
    if missing or not seen.is_whole:
        return None
    for which in codes.lists_for(column.name):
        listed = codes.code_list(which)
        if listed is not None and {*seen.values} <= {*listed.codes} and len(listed.codes) <= 2 * seen.distinct:
            because = f"it is a code of a public list: {listed.name}"
            return Proposal(column.name, column.type, Ground.PUBLIC, because, {"values": list(listed.codes)})
    return None


# --- texts that are something else ------------------------------------------------------------------------------------


def _as_numbers(column: Column, seen: Profile, context: Context) -> Proposal | None:
    """Of numbers that are stored as text, with a percent sign or codes for missing ones; None for other texts."""
    missing = [value for value in seen.values if value.strip().lower() in _MISSING_NUMBERS]
    written = [value.strip() for value in seen.values if value not in missing]
    percent = bool(written) and all(value.endswith("%") for value in written)
    found = [_NUMBER.fullmatch(value.removesuffix("%").strip()) for value in written]
    if len(written) < 2 or None in found or _CODES & {*names.words_of(column.name)}:
        return None
    if any(re.match(r"0\d", value) for value in written):
        return None  # a code whose leading zeros count
    kind = _number_type([match for match in found if match is not None])
    text = f"trim({quote(column.name)})"
    text = f"rtrim({text}, '%')" if percent else text
    sql = f"TRY_CAST({text} AS {kind})"
    typed = profile(seen.source, column.name, kind, sql)
    lost = seen.known - typed.known - sum(n for value, n in seen.top if value in missing)
    if lost:
        return None
    because = f"numbers stored as text{', in percent' if percent else ''}"
    return _read(
        column, Column(column.name, kind, nullable=True), typed, context, kind + "%" * percent, missing, because
    )


def _number_type(found: list[re.Match[str]]) -> str:
    if any(match[3] for match in found):
        return "DOUBLE"
    scale = max(len(match[1] or match[2] or "") for match in found)
    if scale > _MOST_SCALE:
        return "DOUBLE"
    return f"DECIMAL(18,{scale})" if scale else "BIGINT"


def _as_dates(column: Column, seen: Profile, context: Context) -> Proposal | None:
    """Of dates that are stored as text, as ISO 8601 writes them; None for other texts."""
    missing = [value for value in seen.values if value.strip().lower() in _MISSING]
    written = [value for value in seen.values if value not in missing]
    if len(written) < 2 or not all(re.fullmatch(r"\s*\d{4}-\d{2}-\d{2}\s*", value) for value in written):
        return None
    typed = profile(seen.source, column.name, "DATE", f"TRY_CAST(trim({quote(column.name)}) AS DATE)")
    if seen.known - typed.known - sum(n for value, n in seen.top if value in missing):
        return None
    return _read(
        column, Column(column.name, "DATE", nullable=True), typed, context, "DATE", missing, "dates stored as text"
    )


def _read(
    column: Column,
    typed: Column,
    seen: Profile,
    context: Context,
    read_as: str,
    missing: list[str],
    because: str,
) -> Proposal:
    """The proposal for texts as what they are: read so by `dp_domain`, else loaded so from a file."""
    inner = numbers(typed, seen, context) if column_type(typed.type).is_number else dates(typed, seen)
    if missing:
        because += f"; {', '.join(map(repr, missing))} means that it is missing"
    has_bins = not any({"values", "exclude"} & {*(each.how or {"exclude"})} for each in (inner, *inner.coarser))

    def read(proposal: Proposal) -> Proposal:
        why, how = f"{because}; {proposal.because}", proposal.how or {}
        if has_bins:
            how = {**how, "read_as": read_as, **({"nulls_as": missing} if missing else {})}
            return Proposal(column.name, column.type, proposal.ground, why, how)
        if context.is_file:
            return Proposal(
                column.name, typed.type, proposal.ground, why, proposal.how, load=seen.sql, codes=proposal.codes
            )
        return left_out(column, f"{why}; load it as a column of type {typed.type} to keep it")

    return inner.each(read)
