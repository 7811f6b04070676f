"""The columns of a query around a query of groups, and its text over the released answers: see `language.around`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpsql.core.names import fold, quote
from dpsql.evaluation.sandbox import check_around
from dpsql.language.around import GROUPS, Around

Described = Callable[[str], list[tuple[str, str]]]
"""Names and types of what a text selects, as DuckDB tells them."""


@dataclass(frozen=True)
class OuterColumn:
    """A column of a query around groups.

    Attributes:
        name: that DuckDB gives it.
        kind: its type.
        place: of it in what the text selects.
        errors: the places of its errors there; empty where nothing is known, None where it is a key.
    """

    name: str
    kind: str
    place: int
    errors: tuple[int, ...] | None


@dataclass(frozen=True)
class Outer:
    """What is shown in place of groups.

    Attributes:
        around: the query around them.
        columns: that are shown.
        width: of what its text selects, errors of the groups among them.
    """

    around: Around
    columns: tuple[OuterColumn, ...]
    width: int

    @staticmethod
    def of(
        around: Around,
        sizes: Sequence[tuple[str, int]],
        inner: Sequence[Sequence[str]],
        described: Described,
        nothing: str,
    ) -> Outer:
        """A query around groups, bound.

        Args:
            around: it.
            sizes: names of the groups' columns, and the most characters of each.
            inner: for each of these its name among all, and those of its errors if it has some.
            described: asks DuckDB.
            nothing: the groups, without rows.

        Raises:
            InvalidQuery: DuckDB cannot bind it, or it calls what is not plain.
        """
        check_around(around.words, sizes)
        groups = [name for name, _ in sizes]
        text = around.longer or around.words
        described_columns = described(f"{_with(around, groups, inner, nothing)} {text}")
        hidden = {name: number for number, names in around.hidden for name in names} if around.longer else {}
        places = {name: place for place, (name, _) in enumerate(described_columns) if name in hidden}
        own = [(place, name, kind) for place, (name, kind) in enumerate(described_columns) if name not in hidden]
        listed = tuple(name for _, name, _ in own) if around.starred else around.shown
        shown = listed if len(listed) == len(own) else (None,) * len(own)
        errors = dict(around.hidden)
        columns = []
        for (place, name, kind), of in zip(own, shown, strict=True):
            same = [n for n, group in enumerate(groups) if of is not None and fold(group) == fold(of)]
            number = same[0] if len(same) == 1 else None
            error_columns = (
                [places[error] for error in errors.get(number, ()) if error in places] if number is not None else []
            )
            is_key = number is not None and number not in errors
            columns.append(OuterColumn(name, kind, place, None if is_key else tuple(error_columns)))
        return Outer(around, tuple(columns), len(described_columns))

    def text(self, groups: Sequence[str], inner: Sequence[Sequence[str]], answers: str, names: Sequence[str]) -> str:
        """A SELECT of what is shown, as texts.

        Args:
            groups: names of their columns.
            inner: see `of`.
            answers: the groups.
            names: of what is shown, errors behind each column that has some.
        """
        listed, left = [], iter(names)
        for column in self.columns:
            places = [column.place, *([] if column.errors is None else column.errors or (None,) * 3)]
            listed += [
                f"CAST({'NULL' if place is None else f'c{place}'} AS VARCHAR) AS {quote(next(left))}"
                for place in places
            ]
        every = ", ".join(f"c{place}" for place in range(self.width))
        text = self.around.longer or self.around.words
        before = _with(self.around, groups, inner, answers)
        return f"{before} SELECT {', '.join(listed)} FROM ({text}) AS dpsql_around({every})"  # noqa: S608 - in the sandbox


def _with(around: Around, groups: Sequence[str], inner: Sequence[Sequence[str]], answers: str) -> str:
    """The groups by their name, their errors beside them where they are shown."""
    errors = dict(around.hidden) if around.longer else {}
    values = [f"{quote(own[0])} AS {quote(name)}" for name, own in zip(groups, inner, strict=True)]
    for number, own in enumerate(inner):
        values += [f"{quote(a)} AS {quote(b)}" for a, b in zip(own[1:], errors.get(number, ()), strict=False)]
    return f"WITH dpsql_all AS ({answers}), {GROUPS} AS (SELECT {', '.join(values)} FROM dpsql_all)"  # noqa: S608 - likewise
