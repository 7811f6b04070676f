"""Public lists of codes: countries, currencies, languages and the states of the USA, from the package pycountry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from dpsql.api.proposing.names import words_of

NEEDED: Final = "pip install 'dpsql[init]'"
"""What installs the package."""


@dataclass(frozen=True)
class CodeList:
    """A public list of codes.

    Attributes:
        name: of the standard.
        codes: all of them, sorted.
    """

    name: str
    codes: tuple[str, ...]


_COUNTRY: Final = frozenset({"country", "nationality", "citizenship", "nation"})
_ASKED: Final = {"currency": ("currency",), "language": ("language",), "lang": ("language",)}


def lists_for(name: str) -> tuple[str, ...]:
    """Which lists a column of texts might take its values from, by its name, the likeliest first.

    >>> lists_for("birth_country"), lists_for("us_state"), lists_for("colour")
    (('country2', 'country3', 'country'), ('state2', 'state'), ())
    """
    words = words_of(name)
    if _COUNTRY & {*words}:
        return ("country2", "country3", "country")
    if "state" in words and "status" not in words:
        return ("state2", "state")
    return next((lists for word, lists in _ASKED.items() if word in words), ())


def is_sure(name: str) -> str | None:
    """The list that a name itself names, as in `country_iso2`; None where the owner has to say which one it is.

    >>> is_sure("country_iso2"), is_sure("currency_code"), is_sure("country")
    ('country2', 'currency', None)
    """
    words, lists = {*words_of(name)}, lists_for(name)
    if not lists:
        return None
    if lists[0] == "country2":
        is_three = "3" in words or "iso3" in words or "alpha3" in words
        is_code = bool({"iso", "iso2", "code", "alpha2"} & words)
        return "country3" if is_three else "country2" if is_code else None
    return lists[0] if "code" in words or "iso" in words or "us" in words else None


@cache
def code_list(which: str) -> CodeList | None:
    """A list by its key; None where the package is not installed."""
    try:
        import pycountry
    except ImportError:
        return None
    states = [
        area for area in pycountry.subdivisions if area.country_code == "US" and area.type in ("State", "District")
    ]
    lists = {
        "country2": ("ISO 3166-1, two letters", [country.alpha_2 for country in pycountry.countries]),
        "country3": ("ISO 3166-1, three letters", [country.alpha_3 for country in pycountry.countries]),
        "country": ("English names of ISO 3166-1", [country.name for country in pycountry.countries]),
        "currency": ("ISO 4217", [currency.alpha_3 for currency in pycountry.currencies]),
        "language": (
            "ISO 639-1",
            [language.alpha_2 for language in pycountry.languages if hasattr(language, "alpha_2")],
        ),
        "state2": ("the states of the USA and DC, two letters", [area.code.removeprefix("US-") for area in states]),
        "state": ("the states of the USA and DC", [area.name for area in states]),
    }[which]
    return CodeList(lists[0], tuple(sorted({*lists[1]})))
