"""The list of planted defects fits the source: a change of the code does not silently take a defect off the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from .defects import DEFECTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.name)
def test_a_defect_has_one_place_and_tests_that_are_there(defect):
    assert (ROOT / defect.file).read_text(encoding="utf-8").count(defect.before) == 1
    assert defect.after != defect.before
    for named in defect.tests:
        assert (ROOT / named.partition("::")[0]).exists(), named


def test_no_defect_is_listed_twice():
    assert len({one.name for one in DEFECTS}) == len(DEFECTS) >= 40
