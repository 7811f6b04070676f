"""The options of a request that leaves some out: what works, what was published, or what an earlier version took.

    recommended   the fields' defaults, changed by `Mechanism.recommended`: what errs least on the benchmarks
    faithful      with `faithful := true`, changed by `Mechanism.published` instead: the settings of the source
    before        with `faithful := true`, changed by `Mechanism.published_before`: what that meant to version 0.2.0
    first         the fields' defaults as they are: a request without options meant them before there were the others

What is given is taken in every case. A request is looked for with what it meant before, too, under the key that it had
then: who paid for it then is told the same again, free.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from dpsql.core.arguments import checked
from dpsql.errors import InvalidArgument
from dpsql.mechanisms.base import FAITHFUL, Mechanism, find, make, registered


class Meaning(Enum):
    """Which version's defaults a request is read with."""

    NOW = "now"
    BEFORE = "before"
    FIRST = "first"


def meanings(given: Mapping[str, Any]) -> tuple[Meaning, ...]:
    """What a request with these options may mean, or have meant; the newest first."""
    return tuple(Meaning) if is_faithful(given) else (Meaning.NOW, Meaning.FIRST)


def make_for(name: str, given: Mapping[str, Any], *, pure: bool, meaning: Meaning = Meaning.NOW) -> Mechanism:
    """The mechanism of a request.

    Args:
        name: of the mechanism.
        given: the options of the request.
        pure: whether the release is to promise pure ε.
        meaning: whose defaults are taken for what is not given.

    Raises:
        UnknownName: no such mechanism.
        InvalidArgument: an option of another mechanism, or a value out of range.
    """
    mechanism, faithful = find(name), is_faithful(given)
    given = own_options(given)
    first = meaning is Meaning.FIRST and has_defaults(mechanism)
    usual: Mapping[str, Any] = {} if first else mechanism.recommended(pure=pure)
    if faithful:
        published = mechanism.published() if meaning is Meaning.NOW else mechanism.published_before()
        if published is None:
            raise InvalidArgument(
                f"faithful is true, but mechanism {name!r} follows no paper in other ways than by default: leave it "
                f"out; those that do are {', '.join(having_papers())}"
            )
        usual = published
    return make(name, {**usual, **given})


def is_faithful(given: Mapping[str, Any]) -> bool:
    """Whether the options of a request ask for the algorithm of the source."""
    return checked(FAITHFUL, given.get(FAITHFUL, False), bool)


def own_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request that are a mechanism's own: all but `faithful`."""
    return {option: value for option, value in given.items() if option != FAITHFUL}


def having_papers() -> list[str]:
    """The names of the mechanisms of which `faithful` means something."""
    return [name for name, cls in sorted(registered().items()) if cls.published() is not None]


def has_defaults(mechanism: type[Mechanism]) -> bool:
    """Whether requests for a mechanism get other options than its fields' defaults, so that they mean something new.

    What it gets in a pure account only is nothing new: its own noise was refused there.
    """
    return bool(mechanism.recommended(pure=False))
