"""What a mechanism says that it asks, and what that costs: here, and nowhere else, a promise comes from.

A mechanism is not trusted. It declares its `Questions`, which state no guarantee; `price` derives ε, δ, ρ and g from
them, for the plan, the charge and the curator alike. The curator then answers questions of the declared kinds only, and
only within what was charged (see `dpsql.privacy.purse`), so a mechanism that asks otherwise is stopped.

    by ρ      an (ε, δ) promise; the questions share ρ as they like. Where each of them costs g = ρ, as Gaussian noise
              does, g is converted, else ρ of zCDP (see `dpsql.privacy.accounting`)
    by ε      a pure promise, δ = 0: each question takes a part p of ε, Σp ≤ 1. Laplace noise of pε costs (pε)²/2 of
              zCDP, a selection of range pε costs (pε)²/8 (see `dpsql.privacy.distributions`)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeVar, get_args

from dpsql.errors import InvalidArgument
from dpsql.privacy.accounting import Budget, check_epsilon, exact, make_budget, plain_fraction, pure_budget
from dpsql.privacy.distributions import Kind, find_kind, kinds

Conversion = Literal["gdp", "tight", "simple"]
Word = TypeVar("Word", bound=str)


@dataclass(frozen=True)
class Part:
    """Questions of one kind that each take the same part of ε.

    Attributes:
        kind: one that proves a pure ε.
        count: how many.
        share: p, of each one.
    """

    kind: Kind | str
    count: int
    share: Fraction


@dataclass(frozen=True)
class Questions:
    """Which questions a mechanism asks; made by `of` or `pure`.

    Attributes:
        kinds: of which kinds they are.
        parts: of ε, for a pure promise; empty where the questions share ρ.
        conversion: of ε and δ to ρ, a key of `accounting.CONVERSIONS`.
    """

    kinds: tuple[Kind, ...]
    parts: tuple[Part, ...] = ()
    conversion: Conversion = "tight"

    @classmethod
    def of(cls, *kinds: Kind | str, conversion: Conversion | None = None) -> Questions:
        """Questions of these kinds, which share ρ as they like.

        Args:
            kinds: at least one, each by its value or by its name.
            conversion: None for the one that gives the most ρ.

        >>> from dpsql.privacy.distributions import GAUSSIAN, SELECTION
        >>> Questions.of(GAUSSIAN).conversion, Questions.of(GAUSSIAN, SELECTION).conversion
        ('gdp', 'tight')
        """
        checked_kinds = tuple(find_kind(kind, "a kind of the questions") for kind in kinds)
        return cls(checked_kinds, (), conversion or ("gdp" if _by_gdp(checked_kinds) else "tight"))

    @classmethod
    def pure(cls, *parts: Part) -> Questions:
        """Questions that share ε, for a promise with δ = 0; parts of no question are left out.

        >>> from dpsql.privacy.distributions import LAPLACE, SELECTION
        >>> Questions.pure(Part(SELECTION, 3, Fraction(1, 6)), Part(LAPLACE, 3, Fraction(1, 6))).kinds
        ('selection', 'laplace')
        """
        parts_with_count = tuple(part for part in parts if part.count)
        part_kinds = (find_kind(part.kind, "the kind of a part of the questions") for part in parts_with_count)
        return cls(tuple(dict.fromkeys(part_kinds)), parts_with_count)


def declared(questions: object) -> Questions:
    """A copy of what a mechanism declares, of plain numbers and words; nothing of the mechanism is called.

    Raises:
        InvalidArgument: it is no `Questions`, or says what none can be.
    """
    if type(questions) is not Questions:
        raise InvalidArgument(f"questions(…) of a mechanism is a {type(questions).__name__}: give a Questions")
    kinds_checked = tuple(find_kind(kind, "a kind of the questions") for kind in _listed("kinds", questions.kinds))
    if not kinds_checked:
        raise InvalidArgument(f"kinds of the questions is empty: say some of {', '.join(map(repr, kinds()))}")
    parts = tuple(map(_plain_part, _listed("parts", questions.parts)))
    conversion = _word("conversion", questions.conversion, get_args(Conversion))
    if parts and set(kinds_checked) != {part.kind for part in parts}:
        raise InvalidArgument(
            f"kinds of the questions is {kinds_checked}, its parts are of others: make it by Questions.pure"
        )
    if sum(part.count * part.share for part in parts) > 1:
        raise InvalidArgument("the parts of epsilon of the questions add up to more than 1: give smaller shares")
    if conversion == "gdp" and not _by_gdp(kinds_checked):
        raise InvalidArgument(f"conversion of the questions is 'gdp', but kinds is {kinds_checked}: leave it out")
    return Questions(kinds_checked, tuple(parts), conversion)


def price(questions: Questions, epsilon: float, delta: float) -> Budget:
    """What a release at ε and δ costs that asks these questions; pure, (ε, 0)-DP, where they share ε.

    Raises:
        InvalidArgument: ε, δ or the questions.

    >>> from dpsql.privacy.distributions import LAPLACE
    >>> price(Questions.pure(Part(LAPLACE, 2, Fraction(1, 2))), 1.0, 1e-9).rho
    Fraction(1, 4)
    """
    copy = declared(questions)
    if not copy.parts:
        return make_budget(epsilon, delta, copy.conversion)
    whole = exact(check_epsilon(epsilon))
    costs = (part.count * find_kind(part.kind, "a kind").rho(part.share * whole) for part in copy.parts)
    return pure_budget(epsilon, sum(costs, Fraction(0)))


def _by_gdp(kinds: tuple[Kind, ...]) -> bool:
    """Whether each question costs as much g as ρ, so that g, which is converted tighter, may stand for both."""
    return all(kind.gdp == 1 for kind in kinds)


def _listed(name: str, values: object) -> Iterable[object]:
    if type(values) is not tuple:
        raise InvalidArgument(f"{name} of the questions is a {type(values).__name__}: give a tuple")
    return values


def _word(name: str, value: object, words: tuple[Word, ...]) -> Word:
    if type(value) is str:
        for word in words:
            if word == value:
                return word
    raise InvalidArgument(f"{name} of the questions has {value!r}: say one of {', '.join(map(repr, words))}")


def _plain_part(part: object) -> Part:
    if type(part) is not Part:
        raise InvalidArgument(f"parts of the questions has a {type(part).__name__}: give a Part")
    kind = find_kind(part.kind, "the kind of a part of the questions")
    if not kind.pure:
        raise InvalidArgument(f"a part of the questions is of kind {kind}, which proves no pure epsilon: say Laplace")
    if type(part.count) is not int or part.count < 1:
        raise InvalidArgument(f"count of a part of the questions is {part.count!r}: give 1 or more")
    share = plain_fraction("share of a part of the questions", part.share)
    return Part(kind, part.count, share)
