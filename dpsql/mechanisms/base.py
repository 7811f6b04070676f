"""What a mechanism is, and the register of all by name.

A mechanism is one frozen dataclass in one file. Its fields are its options, named in SQL as they are named here.
`course` says what it asks, as one value: the kernel derives the guarantee from that (`dpsql.privacy.pricing`), a plan
shows it, and `fit` walks it. A mechanism states no guarantee. It never sees a count, and is stopped where it asks
otherwise, so what it asks cannot break the guarantee; see `dpsql.privacy.curator`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar, get_args, get_origin, get_type_hints

from dpsql.core.arguments import KINDS, checked, checked_names
from dpsql.core.domain import Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument, UnknownName
from dpsql.models.model import Model
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import GAUSSIAN, LAPLACE
from dpsql.privacy.pricing import Questions
from dpsql.runtime.progress import Progress

from .costs import BASE_BYTES, JAX_BYTES, base_seconds
from .course import Course
from .facts import Facts
from .facts import PlannedMeasurement as PlannedMeasurement
from .facts import Remark as Remark
from .walk import Walk


@dataclass(frozen=True)
class Outcome:
    """What a mechanism returns.

    Attributes:
        model: from which the synthetic rows are drawn.
        report: what it says of itself, computed from released values only; JSON-able.
    """

    model: Model
    report: Mapping[str, Any]


class Mechanism(ABC):
    """A way to turn a workload and a privacy budget into a model."""

    name: ClassVar[str]
    when: ClassVar[str] = ""
    """What it is best for, in some words, for the documentation."""
    package: ClassVar[str] = ""
    """The package that it needs beside those of dpsql, as it is imported."""
    takes_prior: bool = False
    """Whether it makes use of a public prior; not a field, unless an option decides."""
    uses_earlier: bool = False
    """Whether it makes use of what earlier releases measured; a release says then how many it used, as `reused`."""
    needs_prior: bool = False
    """Whether it cannot do without a prior."""
    takes_linear: bool = False
    """Whether it answers linear queries, which a plan refuses else."""

    @classmethod
    def recommended(cls, *, pure: bool) -> Mapping[str, Any]:
        """What a request gets for options that it leaves out, where that is not the field's default.

        Args:
            pure: whether the release is to promise pure ε.
        """
        return {}

    @classmethod
    def published(cls) -> Mapping[str, Any] | None:
        """What `faithful := true` sets beside the fields' defaults; None where no published algorithm is meant."""
        return None

    @classmethod
    def published_before(cls) -> Mapping[str, Any] | None:
        """What `faithful := true` set in version 0.2.0 and before, by which its releases are looked for."""
        return cls.published()

    @abstractmethod
    def course(self, facts: Facts) -> Course:
        """What it asks, and with which shares: of ε where its noise proves a pure one, else of ρ.

        It is asked for three times: to be priced, when neither the charge nor the number of rows is known; for a plan;
        and by the run, which asks again when it has measured the number of rows (`Walk.knowing`), if that decides what
        else is asked. What is priced may depend on neither.

        Raises:
            InvalidArgument: there is nothing that it could ask.
        """

    @abstractmethod
    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """Ask what the course says, fit a model.

        Args:
            walk: the course; its curator answers within the charge.
            seed: for randomness that touches no private data; the same for a release that is completed later.
            progress: notified of each step; may raise `Interrupted`.
        """

    def remarks(self, course: Course) -> Sequence[Remark]:
        """What a plan says beside the questions."""
        return ()

    def questions(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> Questions:
        """What the kernel prices: see `dpsql.privacy.pricing`.

        Raises:
            InvalidArgument: no charge pays for the shares of its course.
        """
        course = self.course(Facts(domain, workload, neighbours))
        course.check(name_of(self))
        return course.questions

    def plan(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: float
    ) -> Sequence[PlannedMeasurement | Remark]:
        """What `run` would ask for a table of about `rows` rows; an adaptive mechanism names what it knows."""
        course = self.course(Facts(domain, workload, neighbours, rho, rows))
        return [*course.preview(), *self.remarks(course)]

    def run(self, curator: Curator, workload: Workload, rho: Fraction, seed: int, progress: Progress) -> Outcome:
        """Ask a curator, within a charge ρ, and fit a model; see `fit`."""
        facts = Facts(curator.domain, workload, curator.neighbours, rho)
        return self.fit(Walk(curator, facts, self.course), seed, progress)

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:  # noqa: B027 - may be empty
        """Refuse what cannot work, from public facts, before anything is charged."""

    def check_prior(self, *, given: bool) -> None:
        """Refuse a request that names a prior which would not be used, or none where one is needed; before a charge.

        Raises:
            InvalidArgument: it does.
        """
        if self.needs_prior and not given:
            raise InvalidArgument(f"mechanism {self.name!r} starts from a public table: give prior := 'its name'")
        if given and not self.takes_prior:
            others = ", ".join(name for name, cls in sorted(_registry.items()) if cls.takes_prior)
            raise InvalidArgument(f"mechanism {self.name!r} makes no use of a prior; those that do are {others}")

    def check_unit(self, unit: str | None) -> None:  # noqa: B027 - may be empty
        """Refuse what uses the privacy units' column in a way that it cannot be used; before a charge.

        Args:
            unit: the column that tells whose row it is; None where each row is a unit.
        """

    @property
    def draws_rows(self) -> bool:
        """Whether it asks about a sample of the rows, which not every engine can count."""
        return False

    def check_public_rows(  # noqa: B027 - may be empty
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: int
    ) -> None:
        """Refuse what a table of so many rows cannot pay for, where their number is public; before a charge."""

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """About how many bytes the work takes at most, from public facts; of the process alone where nobody says."""
        return BASE_BYTES + JAX_BYTES

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float | None:
        """About how long a release takes on two cores, for so many rows and a charge of ρ; None if it is not known."""
        return base_seconds(rows)

    def remarks_on(self, prior: Prior, domain: Domain, workload: Workload) -> Sequence[Remark]:
        """What a plan says of a public prior, where one is needed."""
        return ()


LATER: Final = MappingProxyType({"later": True})
"""Metadata of an option younger than books that are in use: at its default no part of a key, so that theirs stay."""
RESERVED: Final = ("auto", "all")
"""Names that stand for a choice of mechanisms."""
ARGUMENTS: Final = frozenset(
    (
        "table",
        "source",
        "epsilon",
        "delta",
        "workload",
        "mechanism",
        "rows",
        "columns",
        "prior",
        "reuse",
        "release",
        "linked",
        "period",
        "ordered_by",
        "chart",
        "assume_rows",
        "max_error",
    )
)
"""Arguments of a request: no option of a mechanism may be called so."""
_registry: dict[str, type[Mechanism]] = {}
Registered = TypeVar("Registered", bound=type[Mechanism])


def register(name: str, *, when: str = "", package: str = "") -> Callable[[Registered], Registered]:
    """Class decorator: make a mechanism known as `mechanism := 'name'`.

    Args:
        name: of the mechanism.
        when: what it is best for, in a few words, for the documentation.
        package: that it needs beside those of dpsql, as it is imported.

    Raises:
        InvalidArgument: the class leaves out a method that every mechanism has.
    """

    def decorate(mechanism: Registered) -> Registered:
        if missing := sorted(mechanism.__abstractmethods__):
            raise InvalidArgument(f"mechanism {name!r} has no {missing[0]}(…): define it, see dpsql.mechanisms.base")
        mechanism.name, mechanism.when, mechanism.package = name, when, package
        _registry[name] = mechanism
        return mechanism

    return decorate


@contextmanager
def registering(allowed: Collection[str] = ()) -> Iterator[list[str]]:
    """Lists, at its end, what code from outside has registered; nothing stays of code that fails.

    Args:
        allowed: names that may be registered anew.

    Raises:
        InvalidArgument: it registers the name of another mechanism, or one that means something else.
    """
    before, names = dict(_registry), list[str]()
    try:
        yield names
        names += [name for name, mechanism in _registry.items() if before.get(name) is not mechanism]
        for name in names:
            if name in RESERVED or not name.isidentifier() or (name in before and name not in allowed):
                raise InvalidArgument(f"it registers {name!r}: give the mechanism another name, of letters and digits")
            taken = ARGUMENTS & options_of(name)
            if taken:
                raise InvalidArgument(f"option {min(taken)!r} of {name!r} is an argument of every request: rename it")
    except BaseException:
        _registry.clear()
        _registry.update(before)
        raise


def forget(name: str) -> None:
    """Take a mechanism back, which its file no longer has."""
    del _registry[name]


def registered() -> Mapping[str, type[Mechanism]]:
    """All mechanisms by name."""
    return dict(_registry)


def name_of(mechanism: Mechanism) -> str:
    """The name that a mechanism is registered by, whatever it says itself; else that of its class."""
    cls = type(mechanism)
    return next((name for name, registered in _registry.items() if registered is cls), cls.__name__)


FAITHFUL: Final = "faithful"
"""The option that asks for the algorithm as it was published; see `dpsql.mechanisms.defaults`."""


def usual_noise(*, pure: bool) -> str:
    """The noise of a request that names none: what the promise of its account allows, and errs least."""
    return (LAPLACE if pure else GAUSSIAN).name


def options() -> dict[str, str]:
    """The options of all mechanisms: name to DuckDB type, text where some take numbers, others words."""
    sql_types: dict[str, str] = {FAITHFUL: "BOOLEAN"}
    for mechanism in _registry.values():
        for name, kind in _options_of(mechanism).items():
            sql_types[name] = kind if sql_types.get(name, kind) == kind else "VARCHAR"
    return sql_types


def options_of(name: str) -> set[str]:
    """The names of the options of the mechanism of that name; none of one that there is not, or no longer."""
    return {field.name for field in fields(_registry[name])} if name in _registry else set()  # type: ignore[arg-type]


@cache
def _options_of(mechanism: type[Mechanism]) -> Mapping[str, str]:
    hints = get_type_hints(mechanism)
    return {field.name: _SQL_TYPES[_kind(hints[field.name])] for field in fields(mechanism)}  # type: ignore[arg-type]


_SQL_TYPES: Final = {tuple: "ANY", bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}


def _kind(hint: Any) -> type:
    """The kind of an option from its annotation, `int` or `int | None`; text for `int | str`."""
    named = [get_origin(alternative) or alternative for alternative in _alternatives(hint)]
    kinds = [kind for kind in _SQL_TYPES if kind in named]
    return str if str in kinds else kinds[0]


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """What an annotation allows: `int` and `None` of `int | None`."""
    return (hint,) if get_origin(hint) is tuple else (hint, *get_args(hint))


def find(name: str) -> type[Mechanism]:
    """The mechanism of that name.

    Raises:
        UnknownName: no such mechanism.
    """
    if name not in _registry:
        raise UnknownName(
            f"there is no mechanism {name!r}; there are {', '.join(sorted(_registry))} and those that you load "
            "before the database is opened: --load FILE, or dpsql.mechanisms.own.load_file('FILE')"
        )
    return _registry[name]


def make(name: str, given: Mapping[str, Any]) -> Mechanism:
    """The mechanism of that name with these options.

    Raises:
        UnknownName: no such mechanism.
        InvalidArgument: an option of another mechanism, or a value out of range.
    """
    mechanism = find(name)
    own_fields = {field.name: field for field in fields(mechanism)}  # type: ignore[arg-type]
    for option in given:
        if option not in own_fields:
            owners = [other for other, cls in sorted(_registry.items()) if option in {f.name for f in fields(cls)}]  # type: ignore[arg-type]
            whose = f", it is one of {', '.join(owners)}" if owners else ""
            listed = ", ".join(own_fields) or "none"
            raise InvalidArgument(f"{option} is no option of mechanism {name!r}{whose}; its options are {listed}")
    hints = get_type_hints(mechanism)
    return mechanism(**{option: _option(option, value, hints[option]) for option, value in given.items()})


def _option(name: str, value: Any, hint: Any) -> Any:
    """An option's value in its kind; a number may come as text from SQL, where another mechanism takes a word."""
    kind = _kind(hint)
    if kind is tuple:
        return checked_names(name, value)
    number = next((k for k in (int, float) if k in _alternatives(hint)), None)
    if number is not None and not isinstance(value, bool):
        try:
            return checked(name, number(value) if isinstance(value, str) else value, number)
        except (ValueError, InvalidArgument):
            if kind is not str:
                raise InvalidArgument(f"{name} is {value!r}: give {KINDS[number]}") from None
    return checked(name, value, kind)


def explicit_options(mechanism: Mechanism) -> dict[str, Any]:
    """A mechanism's options for the request's key and the record: all, but `LATER` ones at their defaults."""
    settings = {}
    for field in fields(mechanism):  # type: ignore[arg-type]
        assert field.default is not MISSING
        value = getattr(mechanism, field.name)
        if value != field.default or not field.metadata.get("later"):
            settings[field.name] = value
    return settings
