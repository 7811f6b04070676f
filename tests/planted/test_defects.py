"""The list of planted defects fits the source: a change of the code does not silently take a defect off the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from .defects import DEFECTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", sorted({defect.file for defect in DEFECTS}))
def test_a_defect_has_one_place_and_tests_that_are_there(file):
    text, here = (ROOT / file).read_text(encoding="utf-8"), [defect for defect in DEFECTS if defect.file == file]
    assert {defect.name: text.count(defect.before) for defect in here if text.count(defect.before) != 1} == {}
    assert [defect.name for defect in here if defect.after == defect.before] == []
    tests = {named.partition("::")[0] for defect in here for named in defect.tests}
    assert [test for test in sorted(tests) if not (ROOT / test).exists()] == []


def test_no_defect_is_listed_twice():
    assert len({one.name for one in DEFECTS}) == len(DEFECTS) >= 40
