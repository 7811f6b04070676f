"""What is compared: mechanisms with their options, ε, workloads, and how often."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

from dpsql.api.comparing.best import CRITERIA
from dpsql.api.comparing.varied import PRIOR_ROWS, Varied, varied_of
from dpsql.core.arguments import check_word
from dpsql.core.names import shorten
from dpsql.errors import InvalidArgument
from dpsql.mechanisms.base import registered

ALL: Final = "all"
_OR: Final = "|"
"""Between values of an option, each of which is a setting of its own."""


class Compared(TypedDict, total=False):
    """The fields of `Settings` but for the mechanisms, as keywords."""

    epsilons: Sequence[float]
    runs: int
    workloads: Sequence[str | None]
    columns: Sequence[str] | None
    prior: str | None
    target: str | None
    groups: Sequence[str]
    vary: str | None
    seconds: float
    delta: float | None
    load: Sequence[str]
    labels: Mapping[str, str]
    best_of: str | None


@dataclass(frozen=True)
class Settings:
    """What is compared.

    Attributes:
        mechanisms: each a name, or `name:option=value,option=value`; `all` stands for every name, and values between
            which a `|` stands are settings of their own.
        epsilons: of the releases.
        runs: of each, with fresh noise.
        workloads: SQL or shorthands, of which each is asked for by itself and compared; None for the default.
        columns: only these; None for all.
        prior: a public table to lean on; None for none.
        target: a column that models predict.
        groups: columns, within whose values the rows are compared.
        vary: an option and its values, such as `rounds=5,10,25`, which every mechanism gets in turn; None for none.
        seconds: after which a run is ended.
        delta: of the copy's account; None for the table's.
        load: files of mechanisms of one's own, which every process loads.
        labels: by mechanism as it is given, how the picture and the table call it.
        best_of: `largest`, `l1` or `rmse`: the best setting of each mechanism is drawn; None to draw all.
    """

    mechanisms: Sequence[str]
    epsilons: Sequence[float] = (0.1, 1.0, 10.0)
    runs: int = 3
    workloads: Sequence[str | None] = (None,)
    columns: Sequence[str] | None = None
    prior: str | None = None
    target: str | None = None
    groups: Sequence[str] = ()
    vary: str | None = None
    seconds: float = 600.0
    delta: float | None = None
    load: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    best_of: str | None = None

    def check(self) -> None:
        """Refuse what cannot be run.

        Raises:
            InvalidArgument: names it.
        """
        for name in ("mechanisms", "epsilons", "workloads"):
            if not getattr(self, name):
                raise InvalidArgument(f"{name} is empty: name at least one")
        for epsilon in self.epsilons:
            if not 0 < epsilon < float("inf"):
                raise InvalidArgument(f"epsilons has {epsilon:g}: give positive numbers")
        if self.runs < 1:
            raise InvalidArgument(f"runs is {self.runs}: give 1 or more")
        if not self.seconds > 0:
            raise InvalidArgument(f"seconds is {self.seconds:g}: give a positive number, after which a run is ended")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise InvalidArgument(f"delta is {self.delta:g}: give a number from 0, for pure epsilon, to below 1")
        name = self.varied.name
        for spec in self.listed:
            if name in arguments_of(spec):
                raise InvalidArgument(f"vary has {name}, which {shorten(spec)!r} has, too: say it once")
        if name == PRIOR_ROWS and self.prior is None:
            raise InvalidArgument(f"vary has {PRIOR_ROWS}, but there is no prior: name the public table")
        self._check_drawn()

    def _check_drawn(self) -> None:
        """Refuse labels of nothing, one label of two, and a best of nothing."""
        if self.best_of is not None:
            check_word("best_of", self.best_of, tuple(CRITERIA))
            names = [spec.partition(":")[0] for spec in self.listed]
            if len(self.varied.values) == 1 and len({*names}) == len(names):
                raise InvalidArgument(
                    "best_of has nothing to choose from: give several settings, such as mwem:rounds=5|10, or vary"
                )
        lines = {*self.listed, *(spec.partition(":")[0] for spec in self.listed if self.best_of is not None)}
        for name, label in self.labels.items():
            if name not in lines:
                raise InvalidArgument(f"labels has {shorten(name)!r}: give one of {', '.join(sorted(lines))}")
            if not label.strip() or label in {*lines, *(self.labels[other] for other in self.labels if other != name)}:
                raise InvalidArgument(f"labels calls {shorten(name)!r} {shorten(label)!r}: give words of its own")

    @property
    def listed(self) -> list[str]:
        """The mechanisms, `all` and the settings of each written out."""
        specs = [tuple(sorted(registered())) if spec == ALL else settings_of(spec) for spec in self.mechanisms]
        return list(dict.fromkeys(itertools.chain.from_iterable(specs)))

    @property
    def varied(self) -> Varied:
        """The option that is varied, and its values."""
        return varied_of(self.vary)


def settings_of(spec: str) -> list[str]:
    """The settings that `name:option=value|value` stands for.

    >>> settings_of("rap:rounds=2|5,steps=100")
    ['rap:rounds=2,steps=100', 'rap:rounds=5,steps=100']
    """
    name, colon, rest = spec.partition(":")
    options = [option.partition("=") for option in rest.split(",")]
    each = [[f"{option}{equals}{value}" for value in values.split(_OR)] for option, equals, values in options]
    return [f"{name}{colon}{','.join(chosen)}" for chosen in itertools.product(*each)]


def arguments_of(spec: str) -> dict[str, Any]:
    """The arguments of `Database.synthesize` that `name:option=value,option=value` states.

    Raises:
        InvalidArgument: an option has no value, or is none of a mechanism.

    >>> arguments_of("mwem:rounds=5,noise=gaussian")
    {'rounds': '5', 'noise': 'gaussian', 'mechanism': 'mwem'}
    """
    name, _, rest = spec.partition(":")
    if name != "auto" and name not in registered():
        raise InvalidArgument(f"mechanisms has {shorten(name)!r}: give {', '.join(['auto', *sorted(registered())])}")
    options = {}
    for part in filter(None, rest.split(",")):
        option, equals, value = part.partition("=")
        if not equals or not option:
            raise InvalidArgument(f"mechanisms has {shorten(spec)!r}: write options as {name}:rounds=5,noise=gaussian")
        options[option.strip()] = value.strip()
    return {**options, "mechanism": name}
