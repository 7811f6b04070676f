"""The progress that fits where work is watched: a bar in a terminal, a widget in a notebook, nothing elsewhere."""

from __future__ import annotations

import os
import sys

from dpsql.runtime.notebook_bar import NotebookBar, in_notebook
from dpsql.runtime.progress import Bar, Progress, Quiet, Stop


def automatic(stop: Stop = lambda: False) -> Progress:
    """A bar where a person watches standard error (or DPSQL_PROGRESS is 1) or a notebook, else nothing."""
    wanted = os.environ.get("DPSQL_PROGRESS")
    if wanted in (None, "1") and in_notebook():
        return NotebookBar(stop)
    shown = sys.stderr.isatty() if wanted is None else wanted == "1"
    return Bar(stop) if shown else Quiet(stop)
