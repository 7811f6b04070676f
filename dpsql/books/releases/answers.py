"""Answers of the curator as rows of the books, `dpsql.answer` and `dpsql.cell`, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.books.releases.questions import question_from
from dpsql.core.linear_family import QueryFamily, columns_of
from dpsql.core.marginal import Counts, Measurement
from dpsql.core.threshold import Threshold
from dpsql.privacy.journal import Answer, Choice, ChosenLinear, PublicMarginal, SignedLinear, SignedQuery, WholeMarginal
from dpsql.privacy.questions import (
    CellsQuestion,
    ForeignQuestion,
    MarginalSelection,
    Question,
    SignedSelection,
    SourceSelection,
)

_TYPES: Final[Mapping[str, str]] = {
    "number": "BIGINT",
    "question": "VARCHAR",
    "kind": "VARCHAR",
    "columns": "VARCHAR[]",
    "shape": "BIGINT[]",
    "noise": "VARCHAR",
    "variance": "VARCHAR",
    "stddev": "DOUBLE",
    "rho": "VARCHAR",
    "selection": "VARCHAR",
    "digest": "VARCHAR",
}
COLUMNS: Final = tuple(_TYPES)
"""Of `dpsql.answer`, beside its release."""
_UNNESTED: Final = ", ".join(f"unnest(CAST(${name} AS {kind}[]))" for name, kind in _TYPES.items())
INSERT: Final = f"INSERT INTO dpsql.answer (release, {', '.join(COLUMNS)}) SELECT $release, {_UNNESTED}"
"""Writes many rows, given by column: one statement, because each takes a millisecond however little it writes."""
_NO_NOISE: Final[Mapping[str, Any]] = {"noise": None, "variance": None, "stddev": None, "columns": [], "shape": []}

Cells = Mapping[str, npt.NDArray[np.int64]]
"""Rows of `dpsql.cell`: the number of the answer, the cell, its value."""


def row_of(number: int, answer: Answer) -> dict[str, Any]:
    """An answer as a row, by column."""
    measured = answer.measurement
    row: dict[str, Any] = {"number": number, "question": answer.question.text, "rho": str(answer.rho)}
    row |= {"digest": digest(answer), "selection": _selected(answer)}
    if measured is None:
        return {**row, **_NO_NOISE, "kind": "selection" if answer.values is None else "values"}
    return row | {
        "kind": "query" if not answer.question.of_cells else "marginal" if measured.cells is None else "cells",
        "columns": list(measured.clique),
        "shape": list(measured.shape),
        "noise": measured.noise,
        "variance": str(measured.variance),
        "stddev": measured.stddev,
    }


def cells_of(answers: Sequence[Answer], first: int) -> Cells:
    """The values of measurements, of answers that are numbered from `first` on; ordered as `answers_from` has them."""
    parts: dict[str, list[npt.NDArray[np.int64]]] = {"answer": [], "cell": [], "value": []}
    for number, answer in enumerate(answers, start=first):
        measured = answer.measurement
        values = np.empty(0, np.int64) if measured is None else measured.values
        cells = np.arange(len(values))
        if measured is not None and measured.cells is not None:
            cells, values = _in_order(measured.cells, values)
        parts["answer"].append(np.full(len(values), number))
        parts["cell"].append(cells)
        parts["value"].append(values)
    return {name: np.concatenate(part) for name, part in parts.items()}


def _in_order(cells: Sequence[int], values: Counts) -> tuple[Counts, Counts]:
    """Cells that were selected, and their values, by cell and value: as they are read and digested."""
    listed = np.array(cells, np.int64)
    order = np.lexsort((values, listed))
    return listed[order], values[order]


def answers_from(rows: Sequence[Mapping[str, Any]], cells: Cells) -> Iterator[Answer]:
    """The answers of rows, in order; `cells` are ordered by answer, cell and value."""
    for row in rows:
        question, rho = question_from(row["question"]), Fraction(row["rho"])
        if row["kind"] == "values":
            yield Answer(question, rho, values=tuple(json.loads(row["selection"])))
        elif row["kind"] == "selection":
            yield Answer(
                question, rho, selection=tuple(_choice(question, *entry) for entry in json.loads(row["selection"]))
            )
        else:
            part = slice(*np.searchsorted(cells["answer"], [row["number"], row["number"] + 1]))
            listed = tuple(cells["cell"][part].tolist()) if row["kind"] == "cells" else None
            noise, least = row["noise"], _least(question)
            clique, shape, variance = tuple(row["columns"]), tuple(row["shape"]), Fraction(row["variance"])
            yield Answer(
                question, rho, Measurement(clique, shape, cells["value"][part], variance, noise, rho, listed, least)
            )


def digest(answer: Answer) -> str:
    """SHA-256 of a question and all there is to its answer; cells in their order, however they were selected."""
    measured, values = answer.measurement, b""
    digested: list[Any] = [answer.question.text, str(answer.rho), _selected(answer)]
    if measured is not None:
        digested += [list(measured.clique), list(map(int, measured.shape)), measured.noise, str(measured.variance)]
        values = measured.values.astype("<i8").tobytes()
        if measured.cells is not None:
            listed, ordered = _in_order(measured.cells, measured.values)
            values = ordered.astype("<i8").tobytes()
        digested += [None if measured.cells is None else listed.tolist()]
    return hashlib.sha256(json.dumps(digested, ensure_ascii=False).encode() + b"\n" + values).hexdigest()


def _selected(answer: Answer) -> str | None:
    """What was selected or discovered, as JSON; None for a measurement."""
    if answer.values is not None:
        return json.dumps(answer.values, ensure_ascii=False)
    if answer.measurement is not None:
        return None
    return json.dumps([_entry(choice) for choice in answer.selection or ()], ensure_ascii=False)


_WHOLE: Final = -1
"""In place of a cell, where a marginal was chosen as a whole."""
_PUBLIC: Final = -2
"""In place of a cell, where a marginal was taken from a public table."""


def _entry(choice: Choice) -> list[Any]:
    """What was chosen as JSON: a cell with its number, of thresholds with the least number of matches too.

    The negation of cell or group c has the number −1 − c, a whole marginal −1, a public one −2. Linear queries have
    their digest in third place.
    """
    if isinstance(choice, ChosenLinear):
        return [choice.clique, _WHOLE if choice.group is None else int(choice.group), choice.digest]
    if isinstance(choice, SignedLinear):
        clique, place, linear = _entry(choice.chosen)
        return [clique, place if choice.sign > 0 else -1 - place, linear]
    if isinstance(choice, WholeMarginal):
        return [choice.clique, _WHOLE]
    if isinstance(choice, PublicMarginal):
        return [choice.clique, _PUBLIC]
    family: QueryFamily
    if isinstance(choice, SignedQuery):
        (family, cell), sign = choice
        cell = cell if sign > 0 else -1 - cell
    else:
        family, cell = choice
    if isinstance(family, Threshold):
        return [family.clique, int(cell), family.least]
    return [columns_of(family), int(cell)]


def _choice(question: Question, columns: Sequence[str], cell: int, least: int | str | None = None) -> Choice:
    """What was chosen, from its JSON; the question tells what the number of a cell means."""
    clique = tuple(columns)
    if isinstance(least, str):
        if isinstance(question, SignedSelection):
            return SignedLinear(ChosenLinear(clique, least, cell if cell >= 0 else -1 - cell), 1 if cell >= 0 else -1)
        return ChosenLinear(clique, least, None if cell == _WHOLE else cell)
    if isinstance(question, MarginalSelection | SourceSelection) and cell == _WHOLE:
        return WholeMarginal(clique)
    if isinstance(question, SourceSelection) and cell == _PUBLIC:
        return PublicMarginal(clique)
    family = clique if least is None else Threshold(clique, least)
    if isinstance(question, SignedSelection):
        return SignedQuery((family, cell), 1) if cell >= 0 else SignedQuery((family, -1 - cell), -1)
    return family, cell


def _least(question: Question) -> int | None:
    """How many columns must match, where a question is about thresholds."""
    if isinstance(question, ForeignQuestion):
        return question.least
    family = question.family if isinstance(question, CellsQuestion) else ()
    return family.least if isinstance(family, Threshold) else None
