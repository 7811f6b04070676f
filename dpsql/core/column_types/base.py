"""What a type is, and the register of all.

SQL is written here as text with placeholders, because the core knows no database: `x` is a value of the type (or its
tick, where the text makes a value of it), `y` a constant of the type, `t` the tick of that constant. It runs on private
rows, so nothing in it may fail or take longer because of a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

TEXT: Final = "CAST(x AS VARCHAR)"
TEXT_BYTES: Final = "encode(TRY_CAST(x AS VARCHAR))"
_TELLING: Final = re.compile(r"\b(ENUM|STRUCT|UNION)\(")


@dataclass(frozen=True)
class ColumnType:
    """A type of a column. Its defaults are those of a type that is not registered: values, and no bins.

    Attributes:
        name: as DuckDB writes it, such as `DECIMAL(9,2)`.
        family: in words, for the documentation.
        step: the smallest step of its values in words; empty where there are no bins.
        listable: a domain of values may be declared; false for nested and binary types.
        members: all its values, where the type lists them.
        declares_itself: its members are its domain, without a word of the owner's.
        scale: digits after the point of an exact number, 0 for whole ones; None for what is no exact number.
        is_number: a column of it with bins can be summed.
        float_type: of floats, in which edges are kept; None for types whose ticks are whole numbers.
        tick_of: the tick of a value from its text; None where DuckDB is asked, by `to_tick`.
        text_of: the text of a tick's value; None where DuckDB is asked, by `from_tick`.
        to_tick: SQL of the tick of a value.
        from_tick: SQL of the value of a tick; None where a cast makes it.
        ticks_above: SQL of how many ticks a value is above a constant that is less; None where bins are searched.
        ticks_per_second: of types with a date or a clock, whose parts (`hour(x)`) are taken by days, hours, …; 0 of
            other types.
        group_key: SQL of what to group by before values are encoded, so that all values of one group have one code;
            None where there is no such thing.
        equal_text: SQL of a text that two values share just when DuckDB's `=` calls them equal, by which listed values
            are looked up; None where no such text is known, so that DuckDB compares the values themselves.
        folded: that text, from the text of a value.
        respelled: SQL of values that DuckDB calls equal to one and that may be written otherwise. Expressions are tried
            at them too.
        unit_key: SQL of what tells privacy units apart: the bytes of their text, or the value itself where values are
            equal, by any setting, only if their bytes are.
        depends_on_session: the text and the parts of a value depend on settings of the session, which are sealed here.
        some: the text of a value of it, for expressions that ask only whether there is one; None where none is known.
    """

    name: str
    family: str = ""
    step: str = ""
    listable: bool = True
    members: tuple[str, ...] | None = None
    declares_itself: bool = False
    scale: int | None = None
    is_number: bool = False
    float_type: type[np.floating[Any]] | None = None
    tick_of: Callable[[str], int | float] | None = None
    text_of: Callable[[Any], str] | None = None
    to_tick: str | None = None
    from_tick: str | None = None
    ticks_above: str | None = None
    ticks_per_second: int = 0
    group_key: str | None = None
    equal_text: str | None = None
    folded: Callable[[str], str] = str
    respelled: tuple[str, ...] = ()
    unit_key: str = TEXT_BYTES
    depends_on_session: bool = False
    some: str | None = None

    @property
    def has_bins(self) -> bool:
        """Whether the type has an order with ticks, so that bins can be declared."""
        return bool(self.step)

    @property
    def is_float(self) -> bool:
        """Whether ticks are floats."""
        return self.float_type is not None

    @property
    def is_exact(self) -> bool:
        """Whether values are numbers with a fixed number of digits after the point."""
        return self.is_number and self.scale is not None

    def rounded(self, tick: float) -> float:
        """A float as the type holds it."""
        assert self.float_type is not None
        return float(self.float_type(tick))


Make = Callable[[re.Match[str]], ColumnType]
_named: dict[str, ColumnType] = {}
_families: dict[str, tuple[re.Pattern[str], Make, tuple[str, ...]]] = {}


def register(*types: ColumnType) -> None:
    """Make types known by their names."""
    _named.update({of_type.name: of_type for of_type in types})
    column_type.cache_clear()


def register_family(pattern: str, *examples: str) -> Callable[[Make], Make]:
    """Function decorator: it makes the types whose whole names match `pattern`, such as `examples`."""

    def decorate(make: Make) -> Make:
        _families[pattern] = (re.compile(pattern, re.DOTALL), make, examples)
        column_type.cache_clear()
        return make

    return decorate


def registered() -> tuple[ColumnType, ...]:
    """All types that are known by name, and examples of each family of types with parameters."""
    examples = [example for _, _, examples in _families.values() for example in examples]
    return (*_named.values(), *map(column_type, examples))


@lru_cache(maxsize=1024)
def column_type(name: str) -> ColumnType:
    """What a type is, from its name as DuckDB writes it.

    >>> column_type("DECIMAL(9,2)").scale, column_type("UUID").has_bins
    (2, False)
    """
    if name in _named:
        return _named[name]
    for pattern, make, _ in _families.values():
        if match := pattern.fullmatch(name):
            return make(match)
    return ColumnType(name)


def public_type(name: str) -> str:
    """The type in which a column comes out unless its owner says that the members of its own type are public.

    The members of an ENUM, the fields of a STRUCT and the tags of a UNION may have been made from the rows.

    >>> public_type("ENUM('Ann', 'Bob')"), public_type("STRUCT(ann INTEGER)[]"), public_type("DATE")
    ('VARCHAR', 'VARCHAR', 'DATE')
    """
    return "VARCHAR" if _TELLING.search(name) else name


def lists_members(name: str) -> bool:
    """Whether a type lists its values, which are public by the owner's word only.

    >>> lists_members("ENUM('no', 'yes')"), lists_members("BOOLEAN")
    (True, False)
    """
    of_type = column_type(name)
    return of_type.members is not None and not of_type.declares_itself


def kind_of(name: str) -> str:
    """A type for people, without what its own text may tell of rows.

    >>> kind_of("ENUM('Ann', 'Bob')"), kind_of("STRUCT(ann INTEGER)[]"), kind_of("DECIMAL(9,2)")
    ('ENUM', 'STRUCT', 'DECIMAL(9,2)')
    """
    match = _TELLING.search(name)
    return match[1] if match else name
