"""What a mechanism says that it asks, and what that costs: here, and nowhere else, a promise comes from.

A mechanism is not trusted. It declares its `Questions`, which state no guarantee; `price` derives ε, δ, ρ and g from
them, for the plan, the charge and the curator alike. The curator then answers questions of the declared kinds only, and
only within what was charged (see `dpsql.privacy.purse`), so a mechanism that asks otherwise is stopped.

    by ρ      an (ε, δ) promise; the questions share ρ as they like. Where all of them have Gaussian noise g = ρ is
              converted, else ρ of zCDP (see `dpsql.privacy.accounting`)
    by ε      a pure promise, δ = 0: each question takes a part p of ε, Σp ≤ 1. Laplace noise of pε costs (pε)²/2 of
              zCDP, a selection of range pε costs (pε)²/8
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeVar, get_args

from dpsql.errors import InvalidArgument
from dpsql.privacy.accounting import Budget, check_epsilon, exact, make_budget, plain_fraction, pure_budget

Kind = Literal["gaussian", "laplace", "selection"]
Conversion = Literal["gaussian", "tight", "simple"]
Word = TypeVar("Word", bound=str)
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_SQUARES: Final[Mapping[str, Fraction]] = {"laplace": Fraction(1, 2), "selection": Fraction(1, 8)}
"""ρ of a question of ε = 1."""


@dataclass(frozen=True)
class Part:
    """Questions of one kind that each take the same part of ε.

    Attributes:
        kind: `laplace` or `selection`.
        count: how many.
        share: p, of each one.
    """

    kind: Kind
    count: int
    share: Fraction


@dataclass(frozen=True)
class Questions:
    """Which questions a mechanism asks; made by `of` or `pure`.

    Attributes:
        kinds: `gaussian` and `laplace`, counts with that noise; `selection`, choices by an exponential mechanism.
        parts: of ε, for a pure promise; empty where the questions share ρ.
        conversion: of ε and δ to ρ, a key of `accounting.CONVERSIONS`.
    """

    kinds: tuple[Kind, ...]
    parts: tuple[Part, ...] = ()
    conversion: Conversion = "tight"

    @classmethod
    def of(cls, *kinds: Kind, conversion: Conversion | None = None) -> Questions:
        """Questions of these kinds, which share ρ as they like.

        Args:
            kinds: at least one.
            conversion: None for the one that gives the most ρ.

        >>> Questions.of("gaussian").conversion, Questions.of("gaussian", "selection").conversion
        ('gaussian', 'tight')
        """
        return cls(kinds, (), conversion or ("gaussian" if kinds == ("gaussian",) else "tight"))

    @classmethod
    def pure(cls, *parts: Part) -> Questions:
        """Questions that share ε, for a promise with δ = 0; parts of no question are left out.

        >>> Questions.pure(Part("selection", 3, Fraction(1, 6)), Part("laplace", 3, Fraction(1, 6))).kinds
        ('selection', 'laplace')
        """
        asked = tuple(part for part in parts if part.count)
        return cls(tuple(dict.fromkeys(part.kind for part in asked)), asked)


def declared(questions: object) -> Questions:
    """A copy of what a mechanism declares, of plain numbers and words; nothing of the mechanism is called.

    Raises:
        InvalidArgument: it is no `Questions`, or says what none can be.
    """
    if type(questions) is not Questions:
        raise InvalidArgument(f"questions(…) of a mechanism is a {type(questions).__name__}: give a Questions")
    kinds = tuple(_word("kinds", kind, KINDS) for kind in _listed("kinds", questions.kinds))
    if not kinds:
        raise InvalidArgument(f"kinds of the questions is empty: say some of {', '.join(map(repr, KINDS))}")
    parts = tuple(map(_plain_part, _listed("parts", questions.parts)))
    conversion = _word("conversion", questions.conversion, get_args(Conversion))
    if parts and set(kinds) != {part.kind for part in parts}:
        raise InvalidArgument(f"kinds of the questions is {kinds}, its parts are of others: make it by Questions.pure")
    if sum(part.count * part.share for part in parts) > 1:
        raise InvalidArgument("the parts of epsilon of the questions add up to more than 1: give smaller shares")
    if conversion == "gaussian" and set(kinds) != {"gaussian"}:
        raise InvalidArgument(f"conversion of the questions is 'gaussian', but kinds is {kinds}: leave it out")
    return Questions(kinds, parts, conversion)


def price(questions: Questions, epsilon: float, delta: float) -> Budget:
    """What a release at ε and δ costs that asks these questions; pure, (ε, 0)-DP, where they share ε.

    Raises:
        InvalidArgument: ε, δ or the questions.

    >>> price(Questions.pure(Part("laplace", 2, Fraction(1, 2))), 1.0, 1e-9).rho
    Fraction(1, 4)
    """
    asked = declared(questions)
    if not asked.parts:
        return make_budget(epsilon, delta, asked.conversion)
    squares = sum((part.count * part.share**2 * _SQUARES[part.kind] for part in asked.parts), Fraction(0))
    return pure_budget(epsilon, squares * exact(check_epsilon(epsilon)) ** 2)


def _listed(name: str, values: object) -> Iterable[object]:
    if type(values) is not tuple:
        raise InvalidArgument(f"{name} of the questions is a {type(values).__name__}: give a tuple")
    return values


def _word(name: str, value: object, known: tuple[Word, ...]) -> Word:
    if type(value) is str:
        for word in known:
            if word == value:
                return word
    raise InvalidArgument(f"{name} of the questions has {value!r}: say one of {', '.join(map(repr, known))}")


def _plain_part(part: object) -> Part:
    if type(part) is not Part:
        raise InvalidArgument(f"parts of the questions has a {type(part).__name__}: give a Part")
    kind: Kind = _word("parts", part.kind, ("laplace", "selection"))
    if type(part.count) is not int or part.count < 1:
        raise InvalidArgument(f"count of a part of the questions is {part.count!r}: give 1 or more")
    share = plain_fraction("share of a part of the questions", part.share)
    return Part(kind, part.count, share)
