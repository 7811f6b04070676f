"""Answers of the curator as rows of the books, `dpsql.answer` and `dpsql.cell`, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.marginal import Measurement
from dpsql.core.threshold import Threshold
from dpsql.privacy.journal import Answer, Query

COLUMNS: Final = (
    *("number", "question", "kind", "columns", "shape", "noise", "variance", "stddev", "rho", "selection", "digest"),
)
"""Of `dpsql.answer`, beside its release."""
_NO_NOISE: Final[Mapping[str, Any]] = {"noise": None, "variance": None, "stddev": None, "columns": [], "shape": []}

Cells = Mapping[str, npt.NDArray[np.int64]]
"""Rows of `dpsql.cell`: the number of the answer, the cell, its value."""


def row_of(number: int, answer: Answer) -> dict[str, Any]:
    """An answer as a row, by column."""
    measured = answer.measurement
    row: dict[str, Any] = {"number": number, "question": answer.question, "rho": str(answer.rho)}
    row |= {"digest": digest(answer), "selection": _selected(answer)}
    if measured is None:
        return {**row, **_NO_NOISE, "kind": "selection" if answer.values is None else "values"}
    return row | {
        "kind": "query" if not answer.of_cells else "marginal" if measured.cells is None else "cells",
        "columns": list(measured.clique),
        "shape": list(measured.shape),
        "noise": measured.noise,
        "variance": str(measured.variance),
        "stddev": measured.stddev,
    }


def cells_of(answers: Sequence[Answer], first: int) -> Cells:
    """The values of measurements, of answers that are numbered from `first` on."""
    parts: dict[str, list[npt.NDArray[np.int64]]] = {"answer": [], "cell": [], "value": []}
    for number, answer in enumerate(answers, start=first):
        measured = answer.measurement
        values = np.empty(0, np.int64) if measured is None else measured.values
        listed = None if measured is None else measured.cells
        parts["answer"].append(np.full(len(values), number))
        parts["cell"].append(np.arange(len(values)) if listed is None else np.array(listed, np.int64))
        parts["value"].append(values)
    return {name: np.concatenate(part) for name, part in parts.items()}


def answers_from(rows: Sequence[Mapping[str, Any]], cells: Cells) -> Iterator[Answer]:
    """The answers of rows, in order; `cells` are ordered by answer, cell and value."""
    for row in rows:
        question, rho = row["question"], Fraction(row["rho"])
        if row["kind"] == "values":
            yield Answer(question, rho, values=tuple(json.loads(row["selection"])))
        elif row["kind"] == "selection":
            yield Answer(question, rho, selection=tuple(_query(*entry) for entry in json.loads(row["selection"])))
        else:
            part = slice(*np.searchsorted(cells["answer"], [row["number"], row["number"] + 1]))
            listed = tuple(cells["cell"][part].tolist()) if row["kind"] == "cells" else None
            noise, least = row["noise"], json.loads(question).get("least")
            clique, shape, variance = tuple(row["columns"]), tuple(row["shape"]), Fraction(row["variance"])
            yield Answer(
                question, rho, Measurement(clique, shape, cells["value"][part], variance, noise, rho, listed, least)
            )


def digest(answer: Answer) -> str:
    """SHA-256 of a question and all there is to its answer; cells in their order, however they were selected."""
    measured, values = answer.measurement, b""
    told: list[Any] = [answer.question, str(answer.rho), _selected(answer)]
    if measured is not None:
        told += [list(measured.clique), list(map(int, measured.shape)), measured.noise, str(measured.variance)]
        values = measured.values.astype("<i8").tobytes()
        if measured.cells is not None:
            listed = np.array(measured.cells, np.int64)
            order = np.lexsort((measured.values, listed))
            values = measured.values[order].astype("<i8").tobytes()
        told += [None if measured.cells is None else listed[order].tolist()]
    return hashlib.sha256(json.dumps(told, ensure_ascii=False).encode() + b"\n" + values).hexdigest()


def _selected(answer: Answer) -> str | None:
    """What was selected or discovered, as JSON; None for a measurement."""
    if answer.values is not None:
        return json.dumps(answer.values, ensure_ascii=False)
    if answer.measurement is not None:
        return None
    return json.dumps([_entry(query) for query in answer.selection or ()], ensure_ascii=False)


def _entry(query: Query) -> list[Any]:
    """A selected cell as JSON; of a family of thresholds with its least number of matches."""
    family, cell = query
    return [family.clique, int(cell), family.least] if isinstance(family, Threshold) else [family, int(cell)]


def _query(clique: Sequence[str], cell: int, least: int | None = None) -> Query:
    return (tuple(clique) if least is None else Threshold(tuple(clique), least)), cell
