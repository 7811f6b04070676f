"""What is proposed for texts that are something else: times, numbers however they are written, dates.

A CSV file is loaded with numbers in their place, because its texts are only how it writes them. In a table, and where
the text says more than the number, as of 12% or 0517, the column stays as it is and `read_as` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dpsql.api.proposing import names
from dpsql.api.proposing.calendars import clock, times_of_numbers, times_of_texts, written_in
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.csv_types import MISSING, MISSING_NUMBERS
from dpsql.api.proposing.looked_dates import dates
from dpsql.api.proposing.looked_numbers import numbers
from dpsql.api.proposing.looked_parts import LEAST, left_out
from dpsql.api.proposing.looked_steps import with_step_of_rows
from dpsql.api.proposing.profile import Profile, profile
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.api.proposing.written_dates import formats_of
from dpsql.api.proposing.written_numbers import MOST_SCALE, is_number, style_of
from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.duckdb.calls import literal
from dpsql.engines.source import Column

_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(e[+-]?\d+)?", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\d{4}|\d{6}")
_CODES: Final = frozenset({"zip", "postal", "postcode", "plz", "phone", "code", "account"})
_DECIMALS: Final = r"length(regexp_extract({0}, '\.(\d*?)0*$', 1))"
_MOMENTS: Final = {"DATE": "dates", "TIMESTAMP": "moments", "TIME": "times of day"}
_DAYS_AS_YEARS: Final = 28  # years that days would be of, were they taken for years of two digits
_MOSTLY: Final = 0.5  # of the texts, and of their signs, that are digits
_FEW: Final = 0.25  # of a text's signs, that are letters: more are in a key of hexadecimal digits


def numbers_or_times(column: Column, seen: Profile, context: Context) -> Proposal:
    """A proposal for a column of numbers, or of times that are written as numbers."""
    return times_of_numbers(column, seen, context) or numbers(column, seen, context)


def as_something_else(column: Column, seen: Profile, context: Context) -> Proposal | None:
    """A proposal for texts that are times, numbers or dates; None for other texts."""
    missing = [value for value in (*seen.values, *seen.rarer) if value.strip().lower() in MISSING_NUMBERS]
    texts = _Texts(column, seen, context, tuple(missing))
    usual = _Texts(column, seen, context, tuple(value for value in missing if value.strip().lower() in MISSING))
    return (
        times_of_texts(column, seen, usual.missing, context)
        or texts.as_clocks()
        or texts.as_numbers()
        or usual.as_dates()
        or usual.as_written_dates()
    )


@dataclass(frozen=True)
class _Texts:
    """A column of texts.

    Attributes:
        column, seen: it, and what its rows are like.
        context: of the table.
        missing: those that stand for a missing value.
    """

    column: Column
    seen: Profile
    context: Context
    missing: tuple[str, ...]

    @cached_property
    def written(self) -> list[str]:
        """The other texts: those that are most frequent, and some of each way in which rarer ones are written."""
        return [value.strip() for value in (*self.seen.values, *self.seen.rarer) if value not in self.missing]

    @property
    def text(self) -> str:
        """SQL of a text without spaces around it."""
        return f"trim({quote(self.column.name)})"

    def as_clocks(self) -> Proposal | None:
        """Of clocks with a zero before the hour, such as 0517."""
        written = self.written
        if len(written) < 2 or not all(map(_DIGITS.fullmatch, written)) or not any(text[0] == "0" for text in written):
            return None
        typed = self._typed("BIGINT", f"TRY_CAST({self.text} AS BIGINT)")
        of = Column(self.column.name, "BIGINT", nullable=True)
        clocks = None if typed is None else times_of_numbers(of, typed, self.context)
        if typed is None or clocks is None:
            return None
        return self._read(clocks, of, typed, "BIGINT", "texts of digits", keeps_text=True)

    def as_numbers(self) -> Proposal | None:
        """Of numbers, however they are written."""
        written = self.written
        is_code = bool(_CODES & {*names.words_of(self.column.name)}) or any(re.match(r"0\d", text) for text in written)
        if len(written) < 2 or is_code:  # of a code leading zeros count
            return None
        percent = all(text.endswith("%") for text in written)
        plain = [_NUMBER.fullmatch(text.removesuffix("%" * percent).strip()) for text in written]
        if None in plain:
            return self._styled()
        text = f"rtrim({self.text}, '%')" if percent else self.text
        kind = "DOUBLE" if any(match[3] for match in plain if match) else self._exact(_DECIMALS.format(text))
        typed = self._typed(kind, f"TRY_CAST({text} AS {kind})")
        if typed is None:
            return None
        of = Column(self.column.name, kind, nullable=True)
        because = f"numbers stored as text{', in percent' if percent else ''}"
        numbers = numbers_or_times(of, typed, self.context)
        return self._read(numbers, of, typed, kind + "%" * percent, because, keeps_text=percent)

    def _styled(self) -> Proposal | None:
        """Of numbers with signs of money, units or marks between thousands; a question where they are in a table."""
        style = style_of(self.written)
        if style is None or any(self._rows_with(sign) < LEAST for sign in (style.money, style.unit) if sign):
            return None
        kind = self._exact(style.decimals(self.text))
        sql = style.number(self.text, kind)
        typed = self._typed(kind, sql)
        if typed is None:
            return None
        of = Column(self.column.name, kind, nullable=True)
        because = f"numbers that are written like {style.example}"
        return self._remade(numbers(of, typed, self.context), of, typed, because)

    def _remade(self, proposal: Proposal, of: Column, typed: Profile, because: str) -> Proposal:
        """The proposal for what the texts are, as which a file loads them; a question where they are in a table."""
        if self.context.is_file:
            return self._read(proposal, of, typed, "", because)
        table, name = self.context.table, quote(self.column.name)
        remade = "numbers" if column_type(of.type).is_number else "dates"
        made = " ".join([f"CREATE TABLE {remade} AS", f"FROM {table} SELECT * REPLACE ({typed.sql} AS {name});"])
        why = f"{because}: protect a table that holds them as {of.type}, as the first line makes it. Or is it a key"
        options = (made, self.context.call(self.column.name, {"ids": True}))
        return Proposal(self.column.name, self.column.type, Ground.QUESTION, why, {"exclude": True}, options)

    def _rows_with(self, sign: str) -> int:
        if self.seen.is_whole:
            return sum(rows for text, rows in self.seen.top if sign in text)
        where = f"contains(v, {literal(sign)})"
        return int(self.seen.source.ask({"v": self.seen.sql}, "count(*)", where=where)[0][0])

    def as_dates(self) -> Proposal | None:
        """Of dates as ISO 8601 writes them."""
        written = self.written
        if len(written) < 2 or not all(re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) for value in written):
            return None
        typed = self._typed("DATE", f"TRY_CAST({self.text} AS DATE)")
        if typed is None:
            return None
        of = Column(self.column.name, "DATE", nullable=True)
        return self._read(dates(of, typed), of, typed, "DATE", "dates stored as text")

    def as_written_dates(self) -> Proposal | None:
        """Of dates, moments or times of day as people write them."""
        formats = formats_of(self.written) if len(self.written) > 1 else []
        read = ((form, self._typed(form.type, form.value(self.text))) for form in formats)
        whole = [(_years(typed), form, typed) for form, typed in read if typed is not None]
        likely = [each for each in whole if each[0] < _DAYS_AS_YEARS or not each[1].text.startswith("%y")]
        if not likely:
            return None
        _, form, typed = min(likely, key=lambda each: each[0])  # of two orders the one in which years differ least
        of = Column(self.column.name, form.type, nullable=True)
        made = clock(of) if form.type == "TIME" else dates(of, typed)
        made = with_step_of_rows(made, typed.source, typed.type, typed.sql)
        return self._remade(made, of, typed, f"{_MOMENTS[form.type]} that are written like {form.example}")

    def _exact(self, decimals: str) -> str:
        """A type that holds numbers of so many decimals, of which no row has more."""
        scale = self.seen.source.ask({"d": decimals}, "max(d)")[0][0] or 0
        if scale > MOST_SCALE:
            return "DOUBLE"
        return f"DECIMAL(18,{scale})" if scale else "BIGINT"

    def _typed(self, kind: str, sql: str) -> Profile | None:
        """The texts as `sql` reads them; None if it does not read all of them."""
        typed = profile(self.seen.source, self.column.name, kind, sql)
        lost = self.seen.filled - typed.filled - sum(self.seen.rows_of(self.missing).values())
        return None if lost else typed

    def _read(
        self, parsed: Proposal, of: Column, typed: Profile, read_as: str, because: str, *, keeps_text: bool = False
    ) -> Proposal:
        """The proposal for what the texts are, as one for the texts: loaded so from a CSV file, else read so."""
        missing = [text for text, rows in self.seen.rows_of(self.missing).items() if rows >= LEAST]
        if missing:
            because += f"; {', '.join(map(repr, missing))} mean{'s' * (len(missing) < 2)} that it is missing"
        has_bins = not any({"values", "exclude"} & {*(each.how or {"exclude"})} for each in (parsed, *parsed.coarser))
        reads = has_bins and read_as and (keeps_text or not self.context.is_csv)

        def read(proposal: Proposal) -> Proposal:
            why, how = f"{because}; {proposal.because}", dict(proposal.how or {})
            if reads:
                form, codes = how.get("read_as"), [*missing, *how.get("nulls_as", ())]
                how["read_as"] = read_as if form is None else written_in(self.written, form)
                how |= {"nulls_as": codes} if codes else {}
                return Proposal(self.column.name, self.column.type, proposal.ground, why, how)
            if self.context.is_file:
                return Proposal(
                    self.column.name, of.type, proposal.ground, why, proposal.how, load=typed.sql, codes=proposal.codes
                )
            return left_out(self.column, f"{why}; load it as a column of type {of.type} to keep it")

        return parsed.each(read)


def _years(moments: Profile) -> int:
    """How many years there are from the first moment to the last; 0 of times of day."""
    if moments.type == "TIME":
        return 0
    return int(moments.source.ask({"v": moments.sql}, "max(year(v)) - min(year(v))")[0][0] or 0)


def mostly_digits(values: Sequence[str]) -> bool:
    """Whether most texts are digits, but for signs and units, as of numbers written in a way that nobody knows."""
    return sum(map(_is_digits, values)) > _MOSTLY * len(values)


def _is_digits(text: str) -> bool:
    digits, letters = sum(map(str.isdigit, text)), sum(map(str.isalpha, text))
    return is_number(text) or (digits > _MOSTLY * len(text.strip()) and letters < _FEW * len(text))


def key_question(column: Column, context: Context) -> Proposal:
    """The question about texts of digits that nearly each row has for itself: a number is no key."""
    why = "nearly each row has a text of its own, mostly of digits: is it a key, or are they numbers or times"
    as_numbers = {"read_as": "DOUBLE", "lower": 0, "upper": 1000, "bins": 20}
    options = (context.call(column.name, {"ids": True}), context.call(column.name, as_numbers))
    return Proposal(column.name, column.type, Ground.QUESTION, why, {"exclude": True}, options)
