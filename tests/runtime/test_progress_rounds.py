"""A bar of rounds stays while the stages of each round come and go, and says how much time is left."""

from __future__ import annotations

import re
import time

from dpsql.runtime.progress import Bar


def test_rounds_are_one_bar_with_the_time_that_is_left(capsys):
    bar = Bar()
    bar.rounds("weighing", 40)
    for _ in range(39):
        bar.stage("selecting", 3)
        bar.advance(3)
        time.sleep(0.02)  # the bar appears after half a second
        bar.round_done()
    shown = capsys.readouterr().err
    assert re.search(r"dpsql weighing: +\d+%.*\d+/40 \[00:0\d<00:0\d", shown)
    assert "selecting" in shown
    assert "dpsql selecting" not in shown
    bar.round_done()
    bar.stage("drawing", 2)  # what comes after the last one is a stage of its own
    assert bar._bar.desc.startswith("dpsql drawing")
    bar.close()
