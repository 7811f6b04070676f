"""Public domains: which values a column may take, and how values become codes 0, 1, 2, … and back.

An attribute has `values` (one code each) or `bins` (one code for each interval between two edges). After those come
the code of OTHER, if the owner declared one, the code of NULL, if the column may hold NULL, and the code of OUTSIDE. A
value outside the domain gets OTHER's code; without OTHER it gets OUTSIDE's. So every row is in one cell of every
marginal, and all marginals of a release have the same total. OUTSIDE is left out where every value that the column may
hold has a code already, and of the domain of a query, whose groups are those of the declared values. Nothing here
depends on a row.

Edges are kept as ticks: whole numbers of the type's smallest step (days for DATE, microseconds for TIMESTAMP,
hundredths for DECIMAL(9,2)), or floats for FLOAT and DOUBLE. Bin i holds ticks[i] ≤ x < ticks[i + 1]; the last bin of a
float attribute holds its upper edge too. A *point* is a bin of one value that the owner named: it cuts the bin around
it in two, so bins stay in order and without gaps, and no bin beside it holds its value.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from dpsql.core.column_types import ColumnType, column_type, public_type
from dpsql.core.names import pick
from dpsql.errors import DomainTooLarge, UnknownName

Clique = tuple[str, ...]
"""A set of attributes, in the table's column order."""

OUTSIDE: Final = "outside the domain"
"""The label of the cell for values that are not in a declared domain."""

LARGEST_INDEX: Final = 2**62  # cells of one clique that a packed 64-bit key can tell apart


@dataclass(frozen=True)
class Attribute:
    """The public domain of one column.

    Attributes:
        name: the column's name.
        type: the DuckDB type in which its values come out: the column's, or VARCHAR for a type that tells values. With
            `text` or `reading` the type as which they are read.
        kind: `values`, `bins`, or `excluded` (no domain: the column is NULL in every synthetic row).
        values: for `values`, each as DuckDB writes it (`CAST(value AS VARCHAR)`), in the order of the codes.
        ticks: for `bins`, the edges, one more than there are bins.
        edges: for `bins`, the lower edge of each bin and the largest value of the last one, as DuckDB writes them.
        nullable: NULL has a code of its own.
        other: the value, as DuckDB writes it, that stands for all others; None without OTHER.
        origin: how the domain became known: `declared`, `type` (BOOLEAN; ENUM by the owner's word), `reference`,
            `discovered`.
        outside: values that have no other code have one of their own.
        nulls_as: values that stand for a missing one and have NULL's code, as DuckDB writes them in the column's type.
        text: the column holds texts that are read as `type`; what cannot be read has the code of what is outside.
        suffix: of such texts, as '%': read without it, written with it.
        reading: the form of `dpsql.core.readings` in which the column writes values of `type`, such as HHMM.
        stored: of a form that is stored as a number, the column's own type.
        points: ticks of values whose bin holds no other value, because the owner said so.
        step: of numbers in bins, such as '0.01': synthetic values are multiples of it. Rows are counted as they are.
        ids: of an excluded column: synthetic rows get numbers, texts or UUIDs of their own in place of NULL.
        fake: of an excluded column: what the Faker package writes in place of NULL, such as 'name'.
        computed_as: of an excluded column: the expression by which synthetic rows get its values, in place of NULL.
        computed_from: the columns that the expression reads.
        absent: of a column of a unit's row (`dpsql.core.unit_row`): a unit without that row has a code of its own.
        looked: the owner read the domain off the rows, so it is the owner's disclosure, outside every guarantee. No
            release, and so no key of a request, depends on it: see `of_release`.
    """

    name: str
    type: str
    kind: Literal["values", "bins", "excluded"]
    values: tuple[str, ...] = ()
    ticks: tuple[int | float, ...] = ()
    edges: tuple[str, ...] = ()
    nullable: bool = False
    other: str | None = None
    origin: str = "declared"
    outside: bool = False
    nulls_as: tuple[str, ...] = ()
    text: bool = False
    suffix: str = ""
    points: tuple[int | float, ...] = ()
    ids: bool = False
    fake: str = ""
    looked: bool = False
    reading: str = ""
    stored: str = ""
    computed_as: str = ""
    computed_from: tuple[str, ...] = ()
    step: str = ""
    absent: bool = False

    @property
    def is_read(self) -> bool:
        """Whether the column stores something else than values of `type`, which are read from it."""
        return self.text or bool(self.reading)

    @property
    def stored_type(self) -> str:
        """The type of the column itself, in a source and in a synthetic table."""
        return "VARCHAR" if self.text else self.stored or self.type

    @property
    def released_type(self) -> str:
        """Its type; of books from before the owner was asked, without members that the owner did not say are public."""
        return self.type if self.origin == "type" else public_type(self.type)

    @property
    def regular(self) -> int:
        """The number of values or bins, without OTHER, NULL, no row and OUTSIDE."""
        return len(self.values) if self.kind == "values" else max(0, len(self.ticks) - 1)

    @property
    def size(self) -> int:
        """The number of codes."""
        return self.regular + (self.other is not None) + self.nullable + self.absent + self.outside

    @property
    def other_code(self) -> int | None:
        """The code of OTHER."""
        return self.regular if self.other is not None else None

    @property
    def null_code(self) -> int | None:
        """The code of NULL."""
        return self.regular + (self.other is not None) if self.nullable else None

    @property
    def absent_code(self) -> int | None:
        """The code of no row."""
        return self.regular + (self.other is not None) + self.nullable if self.absent else None

    @property
    def outside_code(self) -> int | None:
        """The code of OUTSIDE, the last one."""
        return self.size - 1 if self.outside else None

    @property
    def of_release(self) -> Attribute:
        """The attribute as a release has it: how its owner came to know of it changes no answer."""
        return replace(self, looked=False) if self.looked else self

    @property
    def counted(self) -> Attribute:
        """The attribute as far as counts depend on it."""
        return replace(self, looked=False, step="") if self.looked or self.step else self

    @property
    def known_from(self) -> str:
        """How the domain became known: its `origin`, or `looked`; an excluded column has none to be known."""
        return "looked" if self.looked and (self.kind != "excluded" or self.computed_as) else self.origin

    @property
    def shown_kind(self) -> str:
        """Its kind for people, who tell computed columns from those that are excluded."""
        return "computed" if self.computed_as else self.kind

    @property
    def inner(self) -> Attribute:
        """The attribute without OUTSIDE: the other codes are the same."""
        return replace(self, outside=False) if self.outside else self

    def closed(self, *, never_null: bool) -> Attribute:
        """The attribute with OUTSIDE, where a value of the column could have no other code.

        Args:
            never_null: whether the column itself refuses NULL.
        """
        whole = self.of_type.declares_itself and {*self.values} == {*(self.of_type.members or ())}
        every_value = self.origin == "type" or whole
        covered = self.kind == "excluded" or self.other is not None or (every_value and (self.nullable or never_null))
        return self if covered else replace(self, outside=True)

    @property
    def of_type(self) -> ColumnType:
        """What its type is."""
        return column_type(self.type)

    @property
    def has_single_values(self) -> bool:
        """Whether each bin holds one value of the type."""
        return not self.is_float and self.ticks[-1] - self.ticks[0] == self.regular

    @property
    def is_ordered(self) -> bool:
        """Whether the codes of its values have an order that means something: those of bins do."""
        return self.kind == "bins"

    @property
    def point_codes(self) -> frozenset[int]:
        """The codes of points."""
        points = {*self.points}
        return frozenset(n for n, tick in enumerate(self.ticks[:-1]) if tick in points) if points else frozenset()

    @property
    def runs(self) -> tuple[range, ...]:
        """The codes of values or bins, cut where a point stands: inside a run neighbours may be alike.

        >>> Attribute("gain", "INTEGER", "bins", ticks=(0, 1, 50, 99), points=(0,)).runs
        (range(1, 3),)
        """
        ends = [-1, *sorted(self.point_codes), self.regular]
        return tuple(range(a + 1, b) for a, b in itertools.pairwise(ends) if b - a > 1)

    @property
    def is_number(self) -> bool:
        """Whether values can be summed."""
        return self.of_type.is_number

    @property
    def is_float(self) -> bool:
        """Whether ticks are floats."""
        return self.of_type.is_float

    def labels(self) -> list[str]:
        """One text for each code, for people: the value, the interval, or NULL.

        >>> Attribute("age", "INTEGER", "bins", ticks=(0, 18, 65), edges=("0", "18", "64"), nullable=True).labels()
        ['[0, 18)', '[18, 64]', 'NULL']
        """
        whole = self.kind == "values"
        labels = list(self.values) if whole else [self._interval(index) for index in range(self.regular)]
        if self.other is not None:
            labels.append(f"OTHER ({self.other})")
        return labels + ["NULL"] * self.nullable + ["no row"] * self.absent + [OUTSIDE] * self.outside

    def _interval(self, index: int) -> str:
        low, high = self.ticks[index], self.ticks[index + 1]
        if (not self.is_float and high - low == 1) or low in self.points:
            return self.edges[index]
        closing = "]" if index == self.regular - 1 else ")"
        if self.is_float and index and self.ticks[index - 1] in self.points:  # the next float has a long text
            return f"({self.edges[index - 1]}, {self.edges[index + 1]}{closing}"
        return f"[{self.edges[index]}, {self.edges[index + 1]}{closing}"

    def draw_ticks(
        self, codes: npt.NDArray[np.int64], uniform: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
        """A tick inside each code's bin, uniform over it; codes of OTHER, NULL and OUTSIDE give any tick.

        Args:
            codes: shape (rows,).
            uniform: shape (rows,), in [0, 1).
        """
        bins = np.minimum(codes, self.regular - 1)
        if self.is_float:
            edges = np.array(self.ticks, dtype=self.of_type.float_type)
            low, high = edges[bins], edges[bins + 1]
            drawn = (low + uniform * (high.astype(np.float64) - low)).astype(edges.dtype)
            return np.asarray(np.clip(drawn, low, np.nextafter(high, low)), np.float64)
        whole = np.array(self.ticks, dtype=np.int64)
        width = whole[bins + 1] - whole[bins]
        return np.asarray(whole[bins] + np.minimum((uniform * width).astype(np.int64), width - 1))


def equal_width(lower: int | float, upper: int | float, bins: int, *, is_float: bool) -> tuple[int | float, ...]:
    """Edges of `bins` intervals that cover lower … upper; whole-number intervals differ by at most one tick.

    Args:
        lower: the smallest value (tick).
        upper: the largest value (tick), inside the last bin.
        bins: how many, positive; at most one for each tick if those are whole numbers.
        is_float: whether ticks are floats.

    >>> equal_width(17, 90, 4, is_float=False)
    (17, 36, 54, 73, 91)
    """
    if is_float:
        width = upper - lower
        steps = [width * i / bins if width * bins < math.inf else width * (i / bins) for i in range(bins)]
        return (*(lower + step for step in steps), float(upper))
    count = int(upper) - int(lower) + 1
    return tuple(int(lower) + -(-i * count // bins) for i in range(bins + 1))


@dataclass(frozen=True)
class Domain:
    """The public domain of a table: its attributes in column order, the excluded ones set apart.

    >>> domain = Domain((Attribute("a", "BOOLEAN", "values", ("false", "true")),))
    >>> domain.size(("a",))
    2
    """

    attributes: tuple[Attribute, ...]
    excluded: tuple[Attribute, ...] = field(default=())

    @cached_property
    def by_name(self) -> Mapping[str, Attribute]:
        """The attributes by name."""
        return {attribute.name: attribute for attribute in self.attributes}

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        return {attribute.name: attribute.size for attribute in self.attributes}

    @cached_property
    def inner(self) -> Domain:
        """The domain without the codes of OUTSIDE."""
        return Domain(tuple(attribute.inner for attribute in self.attributes), self.excluded)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names in column order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def width(self) -> int:
        """The one-hot width: the sum of the attributes' sizes."""
        return sum(attribute.size for attribute in self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def all_ordered(self, clique: Clique) -> bool:
        """Whether every attribute of a clique is ordered."""
        return all(self.by_name[name].is_ordered for name in clique)

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Sizes of a clique's attributes."""
        return tuple(map(self._sizes.__getitem__, clique))

    def size(self, clique: Clique) -> int:
        """Cells of a clique's marginal (a Python integer, which does not overflow)."""
        return math.prod(map(self._sizes.__getitem__, clique))  # thousands are asked for at once

    def find(self, name: str) -> str:
        """The attribute's own spelling of `name`, which may differ in case as in DuckDB.

        Raises:
            UnknownName: no such attribute; an excluded one says so.
        """
        spelling = pick(name, self.names)
        if spelling is not None:
            return spelling
        computed = {excluded.name: excluded for excluded in self.excluded if excluded.computed_as}
        if (own := pick(name, computed)) is not None:
            bases = ", ".join(computed[own].computed_from)
            raise UnknownName(f"column {own!r} is computed from {bases}, so it is not measured: name those instead")
        if pick(name, (attribute.name for attribute in self.excluded)) is not None:
            raise UnknownName(f"column {name!r} is excluded: declare its domain with dp_domain to use it")
        raise UnknownName(f"there is no column {name!r}; the columns are {', '.join(self.names)}")

    def clique(self, names: Iterable[str]) -> Clique:
        """The clique of some columns, in column order and without repetition."""
        wanted = {self.find(name) for name in names}
        return tuple(name for name in self.names if name in wanted)

    def check_countable(self, clique: Clique, limit: int = LARGEST_INDEX) -> None:
        """Refuse a clique of more cells than `limit`.

        Raises:
            DomainTooLarge: with the clique and its number of cells.
        """
        cells = self.size(clique)
        if cells > limit:
            raise DomainTooLarge(
                f"the marginal of {', '.join(clique)} has {cells:.3g} cells, more than {limit:.3g}: group by fewer "
                "columns, or declare coarser domains with dp_domain"
            )

    def to_json(self) -> str:
        """As text, for the books."""
        return json.dumps(
            {"attributes": list(map(fields_of, self.attributes)), "excluded": list(map(fields_of, self.excluded))}
        )

    @staticmethod
    def from_json(text: str) -> Domain:
        """From the books."""
        data = json.loads(text)
        return Domain(tuple(map(attribute_from, data["attributes"])), tuple(map(attribute_from, data["excluded"])))


_LATER: Final = frozenset(
    {
        *("outside", "nulls_as", "text", "suffix", "points", "ids", "fake", "looked", "reading", "stored"),
        *("computed_as", "computed_from", "step", "absent"),
    }
)


def fields_of(attribute: Attribute) -> dict[str, Any]:
    """An attribute as a JSON object; without what later versions added where it is the default, so that keys stay."""
    return {name: value for name, value in vars(attribute).items() if name not in _LATER or value}


def attribute_from(data: Mapping[str, Any]) -> Attribute:
    """An attribute from its JSON object, where tuples are lists."""
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    return Attribute(**fields)
