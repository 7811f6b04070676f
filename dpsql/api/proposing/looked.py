"""What is proposed for a column once its owner lets the rows be read: then the domain is the owner's disclosure.

Values that fewer than `LEAST` rows have are not named, because they would be these people's: they become `other`.
"""

from __future__ import annotations

from typing import Any, Final

from dpsql.api.proposing import codes, names, public
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.csv_types import MISSING, pair_of
from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.looked_dates import dates
from dpsql.api.proposing.looked_parts import LEAST, disclosed, keyed, left_out
from dpsql.api.proposing.looked_steps import with_step_of_rows
from dpsql.api.proposing.looked_texts import as_something_else, key_question, mostly_digits, numbers_or_times
from dpsql.api.proposing.profile import Profile, profile
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.source import Column

_MOST_LISTED: Final = 500
_LONG: Final = 100  # characters of a text that nobody lists


def look(column: Column, context: Context, source: Input) -> Proposal:
    """A proposal from what the rows are like; it says so, unless the same is proposed without a look at them."""
    settled = public.settled(column, context)
    if settled is None:
        proposal = disclosed(_from_rows(column, context, source), public.propose(column, context))
    elif context.codebook_entry(column.name):
        return settled
    else:
        proposal = settled
    return with_step_of_rows(proposal, source, column.type, quote(column.name))


def _from_rows(column: Column, context: Context, source: Input) -> Proposal:
    of_type = column_type(column.type)
    seen = profile(source, column.name, column.type)
    if seen.filled == 0:
        return Proposal(column.name, column.type, Ground.LOOKED, "it is NULL in every row", {"exclude": True})
    if of_type.is_number:
        return _things(column, seen) or numbers_or_times(column, seen, context)
    if of_type.has_bins:
        return dates(column, seen)
    return _texts(column, seen, context)


def _things(column: Column, seen: Profile) -> Proposal | None:
    """Whole numbers that name things of which there are few, such as schools; None of others.

    Each is a value: between two of them there is no school.
    """
    if column_type(column.type).scale != 0 or not names.key_like(column.name) or seen.nearly_unique:
        return None
    values = sorted(int(value) for value, n in seen.top if n >= LEAST)
    if not values or seen.distinct > _MOST_LISTED or (values[0] >= 0 and values[-1] <= 1):
        return None
    because = f"its name is that of a key; {len(values)} values that at least {LEAST} rows have each"
    if len(values) < seen.distinct:
        because += "; rarer ones are NULL in synthetic rows"
    return Proposal(column.name, column.type, Ground.LOOKED, because, {"values": values})


def _texts(column: Column, seen: Profile, context: Context) -> Proposal:
    if column.type == "UUID":
        return public.propose(column, context)
    if (pair := pair_of(seen.values) if seen.is_whole else None) is not None:
        return public.words_of_flag(column, pair, Ground.LOOKED)
    other = as_something_else(column, seen, context)
    if other is not None:
        return other
    named = names.left_out(column.name)
    if named is not None and (seen.nearly_unique or seen.distinct > _MOST_LISTED):
        return public.known_by_name(column, named)
    missing = [value for value in seen.values if value.strip().lower() in MISSING]
    listed = _public_list(column, seen, missing)
    if listed is not None:
        return listed
    texts = [value for value, n in seen.top if n >= LEAST and value not in missing and len(value) <= _LONG]
    texts = texts[:_MOST_LISTED]
    rows = sum(n for value, n in seen.top if value in texts)
    missing_rows = sum(n for value, n in seen.top if value in missing)
    rest = seen.filled - rows - missing_rows
    if seen.nearly_unique and mostly_digits(seen.values):
        return key_question(column, context)
    if seen.nearly_unique:
        return keyed(column, "nearly each row has a text of its own: a key, a name, or free text")
    if not texts or rows < rest:
        return left_out(column, f"most of its texts are rare: {seen.distinct} of them in {seen.filled} rows")
    return _listed(column, texts, missing, rest)


def _listed(column: Column, texts: list[str], missing: list[str], rest: int) -> Proposal:
    """A column of a few texts."""
    ordered = sorted(texts)
    how: dict[str, Any] = {"values": ordered}
    because = f"{len(texts)} values that at least {LEAST} rows have each"
    if rest:
        how["other"] = next(text for text in ("other", "(other)", "((other))") if text not in texts)
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
