"""What a server returns that is not to be believed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpsql.engines.checked import WrongCounts, cells_of, counts_of, number_of


def found(cells, counts) -> dict[str, pa.ChunkedArray]:
    return {"cell": pa.chunked_array([cells]), "n": pa.chunked_array([counts])}


def test_cells_and_sums_as_postgres_writes_them():
    """A sum of numbers of 64 bits comes as text."""
    cells, counts = cells_of(found([2, -1, 0], ["5", "1", "4"]), 3)
    cells, counts = counts_of(cells, counts, 10)
    assert (cells.tolist(), counts.tolist()) == ([2, 0], [5, 4])


@pytest.mark.parametrize(
    ("cells", "counts"),
    [([0, 0], [1, 1]), ([3], [1]), ([-2], [1]), ([0], ["a"]), ([0], ["1.5"]), ([None], [1]), ([0], [None]), ([0], ["9" * 30])],
)  # fmt: skip
def test_cells_that_are_none(cells, counts):
    with pytest.raises(WrongCounts):
        cells_of(found(cells, counts), 3)


@pytest.mark.parametrize("counts", [[9, 0], [11, -1], [5, 4], [5, 6]])
def test_counts_that_are_not_of_all_rows(counts):
    cells, given = cells_of(found([1, -1], counts), 3)
    with pytest.raises(WrongCounts):
        counts_of(cells, given, 10)


@pytest.mark.parametrize("numbers", [[], [1, 2], [-1], [None], ["x"]])
def test_numbers_that_are_none(numbers):
    with pytest.raises(WrongCounts):
        number_of({"n": pa.chunked_array([pa.array(numbers)])})
    with pytest.raises(WrongCounts):
        number_of({})
