"""Questions of journals read back from their texts: the only place where a text is taken apart."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dpsql.core.domain import Clique
from dpsql.core.threshold import Threshold
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.questions import (
    AggregateQuestion,
    BinsQuestion,
    CellSelection,
    CellsQuestion,
    ForeignQuestion,
    LinearQuestion,
    MarginalQuestion,
    MarginalSelection,
    Question,
    SignedSelection,
    SourceSelection,
    ValuesQuestion,
)

_CELLS: Final = re.compile(r"(?P<count>\d+) of (?P<families>\d+)")
_MARGINALS: Final = re.compile(r"(?P<count>\d+) of (?P<cliques>\d+)")
_SIGNED: Final = re.compile(_MARGINALS.pattern + r" with factor (?P<factor>\d+)(?: among (?P<sample>\d+) rows)?")
_SOURCES: Final = re.compile(r"1 of (?P<cliques>\d+) or (?P<public>\d+) public")
_NOT_OF_CELLS: Final = ("query", "bins", "linear")


@dataclass(frozen=True)
class _Written:
    """The parts of a text."""

    ask: str
    clique: Clique
    rho: Fraction
    detail: str
    least: int | None

    @property
    def column(self) -> str:
        """The only one."""
        (name,) = self.clique
        return name

    def numbers(self, pattern: re.Pattern[str]) -> dict[str, int]:
        """The numbers of the detail, by the names that the pattern gives them."""
        match = pattern.fullmatch(self.detail)
        if match is None:
            raise ValueError(self.detail)
        return {name: int(number) for name, number in match.groupdict().items() if number is not None}


def question_from(text: str) -> Question:
    """The question of a text; a `ForeignQuestion` where no question of this version has it.

    Raises:
        ValueError, TypeError, KeyError: it is no text of a question.
    """
    fields = json.loads(text)
    ask, least = fields["ask"], fields.get("least")
    try:
        written = _Written(ask, tuple(fields["clique"]), Fraction(fields["rho"]), fields["detail"], least)
        question = _READERS[ask.partition(" ")[0] if ask.startswith("cells ") else ask](written)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        question = None
    if question is not None and question.text == text:
        return question
    return ForeignQuestion(text, least, ask not in _NOT_OF_CELLS)


def _cells(w: _Written) -> Question:
    family = w.clique if w.least is None else Threshold(w.clique, w.least)
    noise = w.ask.partition(" ")[2] or GAUSSIAN.name
    return CellsQuestion(family, tuple(map(int, w.detail.split(","))), w.rho, noise)


def _aggregate(w: _Written) -> Question:
    number, digest = w.detail.split(": ")
    return AggregateQuestion(w.clique, int(number), digest, w.rho)


def _linear(w: _Written) -> Question:
    family, _, detail = w.detail.partition(": ")
    return LinearQuestion(w.clique, family, detail, w.rho)


def _values(w: _Written) -> Question:
    failure, _, least = w.detail.removeprefix("but for ").removesuffix(" units").partition(" of ")
    return ValuesQuestion(w.column, float(failure), w.rho, int(least) if least else None)


_READERS: Final[Mapping[str, Callable[[_Written], Question]]] = {
    "measure": lambda w: MarginalQuestion(w.clique, w.rho, w.detail),
    "cells": _cells,
    "select": lambda w: CellSelection(**w.numbers(_CELLS), rho=w.rho),
    "select marginals": lambda w: MarginalSelection(**w.numbers(_MARGINALS), rho=w.rho),
    "select source": lambda w: SourceSelection(**w.numbers(_SOURCES), rho=w.rho),
    "sample": lambda w: SignedSelection(**w.numbers(_SIGNED), rho=w.rho),
    "query": _aggregate,
    "linear": _linear,
    "bins": lambda w: BinsQuestion(w.column, w.detail, w.rho),
    "values": _values,
}
"""How to read a text, by its `ask`; what is read has the same text again, or it is a foreign one."""
