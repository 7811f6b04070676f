"""Sums of rows' own values: an argument that is a formula of one column in every cell, and what is counted for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import duckdb
import numpy as np
from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.formula import COLUMN, Formula
from dpsql.core.linear_query import Choice, Integers, Moment
from dpsql.engines.duckdb.formulas import formula_of, numbered_case
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.source import Source
from dpsql.errors import InvalidQuery
from dpsql.evaluation.constancy import WRITTEN
from dpsql.evaluation.moments import Branch, moments_of
from dpsql.language.expressions import columns_read, sql_of

_MOST_BRANCHES: Final = 64  # formulas in one sum, each of which is counted by itself


@dataclass(frozen=True)
class Summed:
    """The argument of a sum of columns' own values: formulas of one column each, of which every cell takes one."""

    branches: tuple[tuple[str, Formula], ...]
    kind: str

    def counted(self, picks: Integers, attributes: Sequence[Attribute]) -> tuple[Integers, Fraction, Moment | Choice]:
        """What is counted for it. Its bounds are those of the values that filters and conditions leave of the columns.

        Args:
            picks: for each cell the branch that it takes, from 1 on; 0 where it does not count.
            attributes: of the part's columns.

        Returns:
            For each cell whether it counts, the step of the sum, and the moments of which it is made.
        """
        names, shape = tuple(a.name for a in attributes), [attribute.size for attribute in attributes]
        every = dict(zip(names, np.unravel_index(np.arange(math.prod(shape)), shape), strict=True))
        columns = dict(zip(names, attributes, strict=True))
        branches = []
        for branch, (name, formula) in enumerate(self.branches, start=1):
            possible = np.zeros(columns[name].size, bool)
            possible[every[name][picks == branch]] = True
            branches.append(Branch(columns[name], formula, possible))
        moments, unit, there = moments_of(branches, self.kind)
        for branch, (of_codes, (name, _)) in enumerate(zip(there, self.branches, strict=True), start=1):
            picks = np.where((picks == branch) & ~of_codes[every[name]], 0, picks)
        taken = np.unique(picks[picks > 0])
        counts = (picks > 0).astype(np.int64)
        if len(taken) > 1:
            return counts, unit, Choice(moments, names, picks.astype(np.uint8).tobytes())
        return counts, unit, moments[int(taken[0]) - 1 if len(taken) else 0]


class Arguments:
    """Reads arguments of sums as formulas of columns."""

    def __init__(self, empty: duckdb.DuckDBPyConnection, source: Source) -> None:
        """Of one source.

        Args:
            empty: a database, to ask for constants and types.
            source: whose columns they are over.
        """
        self._empty, self._source = empty, source

    def summed(
        self, argument: exp.Expr, numbers: Mapping[str, Attribute], *, plain: bool
    ) -> tuple[Summed, exp.Expr | None] | None:
        """The argument as formulas, with the number of the one that a cell takes; None if it is no such thing.

        Args:
            argument: of the sum.
            numbers: the columns of numbers.
            plain: only where it is a column itself.

        Returns:
            The formulas, and an expression of the number of a row's formula, from 1 on; None where there is only one.
        """
        branch = self._branch(argument, numbers)
        if branch is not None and (branch[1] == COLUMN or not plain):
            kind = numbers[branch[0]].type if branch[1] == COLUMN else self._kind(argument)
            return Summed((branch,), kind), None
        if plain:
            return None
        branches, pick = self._branches(argument, numbers)
        return (Summed(branches, self._kind(argument)), pick) if branches else None

    def _branch(self, tree: exp.Expr, columns: Mapping[str, Attribute]) -> tuple[str, Formula] | None:
        """An expression of one of some columns, or of none, as a formula; None if it is no such thing."""
        names = columns_read(tree) or set(itertools.islice(columns, 1))
        if len(names) != 1 or not names <= set(columns):
            return None
        attribute = columns[names.pop()]
        formula = formula_of(tree, attribute.name, partial(self._number, attribute))
        return None if formula is None else (attribute.name, formula)

    def _branches(
        self, argument: exp.Expr, columns: Mapping[str, Attribute]
    ) -> tuple[tuple[tuple[str, Formula], ...], exp.Expr | None]:
        """The formulas in the branches of a CASE, and the CASE of their numbers from 1 on; none if it is none."""
        found: dict[tuple[str, Formula], int] = {}

        def number_of(tree: exp.Expr) -> int | None:
            branch = self._branch(tree, columns)
            return None if branch is None else found.setdefault(branch, len(found) + 1)

        pick = numbered_case(argument, number_of)
        if pick is None or len(found) > _MOST_BRANCHES:
            return (), None
        pick.meta[WRITTEN] = argument
        return tuple(found), pick

    def _number(self, attribute: Attribute, tree: exp.Expr) -> float | None:
        """A constant of a formula, in the type of its column if that is FLOAT."""
        typed: exp.Expr = exp.Paren(this=tree.copy())
        for kind in (attribute.type, "DOUBLE") if attribute.is_float else ("DOUBLE",):
            typed = exp.cast(typed, kind, dialect="duckdb")
        found = self._asked(exp.select(typed))[0][0]
        return None if found is None else float(found)

    def _kind(self, argument: exp.Expr) -> str:
        """The type of an argument."""
        types = {column.name: column.type for column in self._source.columns}
        nulls = [
            exp.alias_(exp.cast(exp.null(), data_type(types[name])), name, quoted=True)
            for name in columns_read(argument)
        ]
        select = exp.select(exp.func("typeof", exp.Paren(this=argument.copy()), dialect="duckdb"))
        return str(self._asked(select.from_(exp.select(*nulls).subquery("dpsql_typed")))[0][0])

    def _asked(self, select: exp.Select) -> list[tuple[Any, ...]]:
        """The rows of a statement of constants."""
        try:
            return self._empty.execute(sql_of(select)).fetchall()
        except duckdb.Error as error:  # of public values only, so its text may be shown
            raise InvalidQuery(f"query: {str(error).splitlines()[0]}") from None
