"""What everybody knows of a column by its name: nobody is 120 years old, a week has 168 hours, a key names a row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")


@dataclass(frozen=True)
class NameMeaning:
    """What a name says.

    Attributes:
        how: the arguments of `dp_domain`.
        because: why, in a sentence.
        sure: whether it holds in every table; else the owner confirms it.
        is_calendar: whether cells of equal width suit it, because rows are of all of it, as of the hours of a day.
        fake: what a generator of values makes in place of it, where the column is left out.
    """

    how: Mapping[str, Any]
    because: str
    sure: bool = True
    fake: str = ""
    is_calendar: bool = False


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case.

    >>> words_of("dateOfBirth"), words_of("ZIP_code"), words_of("age2")
    (('date', 'of', 'birth'), ('zip', 'code'), ('age', '2'))
    """
    return tuple(word.lower() for word in _WORDS.findall(name))


_KEYS: Final = frozenset({"id", "uuid", "guid", "ssn", "iban", "key", "pk", "rowid", "hash", "token", "passport"})
_NO_KEYS: Final = frozenset(
    {
        *("acrid", "arid", "bid", "candid", "carotid", "covid", "eyelid", "fetid", "grid", "horrid", "humid", "hybrid"),
        *("invalid", "lipid", "livid", "lucid", "lurid", "mid", "morbid", "orchid", "pallid", "placid", "pyramid"),
        *("rapid", "rigid", "solid", "splendid", "squalid", "stolid", "stupid", "tepid", "timid", "torrid", "turbid"),
        *("valid", "vivid"),
    }
)
"""Words that end as keys do, beside those of `_NO_KEY_ENDS`."""
_NO_KEY_ENDS: Final = ("aid", "oid", "quid")
_WRITTEN: Final = frozenset(
    {"comment", "comments", "note", "notes", "remark", "remarks", "description", "text", "message", "url", "title"}
)
_PERSONAL: Final = {
    "name": "name",
    "firstname": "first_name",
    "first name": "first_name",
    "given name": "first_name",
    "last name": "last_name",
    "lastname": "last_name",
    "surname": "last_name",
    "family name": "last_name",
    "full name": "name",
    "email": "email",
    "mail": "email",
    "phone": "phone_number",
    "telephone": "phone_number",
    "mobile": "phone_number",
    "address": "address",
    "street": "street_address",
}
_RANGES: Final = {
    "hour": (0, 23, "a day has 24 hours"),
    "minute": (0, 59, "an hour has 60 minutes"),
    "month": (1, 12, "a year has 12 months"),
    "quarter": (1, 4, "a year has 4 quarters"),
    "week": (1, 53, "a year has at most 53 weeks"),
    "day": (1, 31, "a month has at most 31 days"),
    "weekday": (0, 7, "a week has 7 days, counted from 0 or 1"),
    "dow": (0, 7, "a week has 7 days, counted from 0 or 1"),
}
_BIRTH: Final = frozenset({"birth", "born", "dob", "birthdate", "birthday"})


_FORMS: Final = {
    "hhmm": "HHMM",
    "hmm": "HHMM",
    "hhmmss": "HHMMSS",
    "yyyymm": "YYYYMM",
    "period": "YYYYMM",
    "yyyymmdd": "YYYYMMDD",
    "date": "YYYYMMDD",
    "yyyyddd": "YYYYDDD",
    "julian": "YYYYDDD",
    "epoch": "EPOCH",
    "unix": "EPOCH",
    "timestamp": "EPOCH",
    "ts": "EPOCH",
}
_OF_TIME: Final = ("HHMM", "EPOCH")


def forms_of(name: str) -> tuple[str, ...]:
    """The forms in which a column of numbers may write times, if its name says that it may.

    >>> forms_of("dep_time"), forms_of("yyyymm"), forms_of("amount")
    (('HHMM', 'EPOCH'), ('YYYYMM',), ())
    """
    words = words_of(name)
    forms = [_FORMS[word] for word in words if word in _FORMS]
    return tuple(dict.fromkeys(forms)) or (_OF_TIME if "time" in words else ())


def key_like(name: str) -> bool:
    """Whether a name is that of a key.

    >>> key_like("patient_id"), key_like("schoolid"), key_like("age"), key_like("paid")
    (True, True, False, False)
    """
    words = words_of(name)
    return bool(_KEYS & {*words}) or any(map(_ends_as_key, words))


def _ends_as_key(word: str) -> bool:
    return len(word) > len("xid") and word.endswith("id") and word not in _NO_KEYS and not word.endswith(_NO_KEY_ENDS)


def left_out(name: str) -> NameMeaning | None:
    """A column of texts that names, reaches or describes one person, so that it has no domain; None otherwise."""
    words = words_of(name)
    if key_like(name):
        return NameMeaning({"exclude": True}, "a key says whose row it is")
    if words and (words[-1] in _WRITTEN or words[0] in _WRITTEN):
        return NameMeaning({"exclude": True}, "free text may say anything of anybody")
    for ending in (" ".join(words[-2:]), words[-1] if words else ""):
        if ending in _PERSONAL and (ending != "name" or len(words) == 1):
            return NameMeaning({"exclude": True}, "it names or reaches a person", fake=_PERSONAL[ending])
    return None


def number_of(name: str, *, whole: bool) -> NameMeaning | None:
    """What a name says of a column of numbers; None where it says nothing.

    >>> number_of("age", whole=True).how
    {'lower': 0, 'upper': 119, 'bins': 24}
    """
    words, year = words_of(name), datetime.now(UTC).year
    last = words[-1] if words else ""
    if "age" in (last, words[0] if words else "") and len(words) <= 2:
        return NameMeaning({"lower": 0, "upper": 119, "bins": 24}, "nobody is 120 years old")
    if {"hours", "week"} <= {*words} or {"hour", "week"} <= {*words}:
        return NameMeaning({"lower": 0, "upper": 168, "bins": 24}, "a week has 168 hours")
    if not whole:
        return _place_of(last)
    if last in ("sex", "gender"):
        return NameMeaning({"values": [0, 1, 2, 9]}, "the codes of ISO/IEC 5218", sure=False)
    if "year" in words and _BIRTH & {*words}:
        return NameMeaning({"lower": 1900, "upper": year}, f"people were born from 1900 to {year}")
    if last in ("year", "yr") and len(words) == 1:
        return NameMeaning({"lower": 1950, "upper": year + 1}, f"it is between 1950 and {year + 1}", sure=False)
    if last in _RANGES and len(words) <= 2:
        low, high, why = _RANGES[last]
        return NameMeaning({"lower": low, "upper": high}, why, sure=len(words) == 1, is_calendar=True)
    return None


def _place_of(last: str) -> NameMeaning | None:
    """Of coordinates."""
    if last in ("latitude", "lat"):
        return NameMeaning({"lower": -90.0, "upper": 90.0, "bins": 90}, "latitudes reach from −90 to 90 degrees")
    if last in ("longitude", "lon", "lng", "long"):
        return NameMeaning({"lower": -180.0, "upper": 180.0, "bins": 90}, "longitudes reach from −180 to 180 degrees")
    return None


def date_of(name: str) -> NameMeaning | None:
    """What a name says of a column of dates: those of birth are from 1900 to this year."""
    if not _BIRTH & {*words_of(name)}:
        return None
    year = datetime.now(UTC).year
    how = {"lower": "1900-01-01", "upper": f"{year}-12-31", "bins": (year - 1899) // 2}
    return NameMeaning(how, f"people were born from 1900 to {year}")


def text_of(name: str) -> NameMeaning | None:
    """What a name says of a column of texts."""
    words = words_of(name)
    if words and words[-1] in ("sex", "gender"):
        return NameMeaning({"values": ["F", "M"]}, "this column holds exactly the codes F and M", sure=False)
    return None
