"""The points at which expressions are tried: several in a cell, where an expression must have one value for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.linear_query import Integers
from dpsql.evaluation.bins import TriedColumn, all_tried
from dpsql.evaluation.components import check_points
from dpsql.evaluation.constancy import Varies, known_from_ends


class Points:
    """Every combination of the tried values of some columns.

    Attributes:
        attributes: of the columns.
        names: of the columns.
        frame: the points, as columns of numbers: `point`, and for column number i its code `c<i>` and, if it has bins,
            its tick `t<i>`, or of a type with several spellings which one it is.
        cells: how many cells the columns have.
    """

    def __init__(self, columns: Sequence[TriedColumn], prefix: str) -> None:
        """The points of some columns.

        Args:
            columns: with their tried values.
            prefix: of the names in `frame`.

        Raises:
            DomainTooLarge: there are too many.
        """
        self.attributes = tuple(column.attribute for column in columns)
        self.names = tuple(attribute.name for attribute in self.attributes)
        shape = [attribute.size for attribute in self.attributes]
        points = math.prod(len(column.codes) for column in columns)
        check_points(self.names, points)
        picked = np.unravel_index(np.arange(points), [len(c.codes) for c in columns]) if columns else ()
        codes = [column.codes[pick] for column, pick in zip(columns, picked, strict=True)]
        self.frame: dict[str, Any] = {f"{prefix}point": np.arange(points)}
        for number, (column, pick) in enumerate(zip(columns, picked, strict=True)):
            self.frame[f"{prefix}c{number}"] = codes[number]
            if column.attribute.kind == "bins" or column.attribute.of_type.respelled:
                self.frame[f"{prefix}t{number}"] = column.ticks[pick]
        cells = np.ravel_multi_index(codes, shape) if codes else np.zeros(points, np.int64)
        self.cells = math.prod(shape)
        self._order = np.argsort(cells, kind="stable")
        self._starts = np.searchsorted(cells[self._order], np.arange(self.cells))

    def firsts(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The value at the first point of each cell."""
        return values[self._order][self._starts] if self.cells else values

    def constant(self, values: npt.NDArray[Any], tree: exp.Expr, *, summed: bool = False) -> Integers:
        """The value in each cell, of the values at its points.

        Args:
            values: at all points.
            tree: what they are of.
            summed: whether it is the argument of a sum.
        """
        if len(values) == self.cells:
            return values[self._order]
        ordered = values[self._order]
        low, high = np.minimum.reduceat(ordered, self._starts), np.maximum.reduceat(ordered, self._starts)
        differs = low != high
        if differs.any():
            raise Varies(tree, self.attributes, int(np.flatnonzero(differs)[0]), summed=summed)
        for attribute in self.attributes:
            if not all_tried(attribute) and not known_from_ends(tree, attribute):
                raise Varies(tree, self.attributes, None, summed=summed)
        return low
