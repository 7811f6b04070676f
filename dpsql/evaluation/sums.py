"""Sums of rows' own values: an argument that is a formula of one column in every cell, and what is counted for it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import duckdb
from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.formula import COLUMN, Formula
from dpsql.engines.duckdb.formulas import formula_of, numbered_case
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.source import Source
from dpsql.evaluation.constancy import WRITTEN
from dpsql.evaluation.products import ScaledSum, SummedProduct, product_of
from dpsql.evaluation.refused import refused
from dpsql.evaluation.summed import Summed
from dpsql.evaluation.workers import Empty
from dpsql.language.expressions import columns_read, sql_of

Sums = Summed | SummedProduct | ScaledSum
_MOST_BRANCHES: Final = 64  # formulas in one sum, each of which is counted by itself


class Arguments:
    """Reads arguments of sums as formulas of columns."""

    def __init__(self, empty: Empty, source: Source) -> None:
        """Of one source.

        Args:
            empty: a database, to ask for constants and types.
            source: whose columns they are over.
        """
        self._empty, self._source = empty, source

    def summed(
        self, argument: exp.Expr, numbers: Mapping[str, Attribute], *, plain: bool
    ) -> tuple[Sums, exp.Expr | None] | None:
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
        if branches:
            return Summed(branches, self._kind(argument)), pick
        wide = {name for name, attribute in numbers.items() if not attribute.has_single_values}
        return product_of(argument, wide, lambda tree: self._branch(tree, numbers), self._kind)

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
        numbers: dict[tuple[str, Formula], int] = {}

        def number_of(tree: exp.Expr) -> int | None:
            branch = self._branch(tree, columns)
            return None if branch is None else numbers.setdefault(branch, len(numbers) + 1)

        pick = numbered_case(argument, number_of)
        if pick is None or len(numbers) > _MOST_BRANCHES:
            return (), None
        pick.meta[WRITTEN] = argument
        return tuple(numbers), pick

    def _number(self, attribute: Attribute, tree: exp.Expr) -> float | None:
        """A constant of a formula, in the type of its column if that is FLOAT."""
        typed: exp.Expr = exp.Paren(this=tree.copy())
        for kind in (attribute.type, "DOUBLE") if attribute.is_float else ("DOUBLE",):
            typed = exp.cast(typed, kind, dialect="duckdb")
        answer = self._rows_of(exp.select(typed))[0][0]
        return None if answer is None else float(answer)

    def _kind(self, argument: exp.Expr) -> str:
        """The type of an argument."""
        types = {column.name: column.type for column in self._source.columns}
        nulls = [
            exp.alias_(exp.cast(exp.null(), data_type(types[name])), name, quoted=True)
            for name in columns_read(argument)
        ]
        select = exp.select(exp.func("typeof", exp.Paren(this=argument.copy()), dialect="duckdb"))
        return str(self._rows_of(select.from_(exp.select(*nulls).subquery("dpsql_typed")))[0][0])

    def _rows_of(self, select: exp.Select) -> list[tuple[Any, ...]]:
        """The rows of a statement of constants."""
        try:
            return self._empty.execute(sql_of(select)).fetchall()
        except duckdb.Error as error:  # of public values only, so its text may be shown
            raise refused(error) from None
