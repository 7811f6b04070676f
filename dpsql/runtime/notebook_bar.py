"""Progress in a notebook: tqdm's widget, which goes away when the work has ended."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from dpsql.runtime.progress import Quiet, Stop

_DELAY: Final = 0.5  # seconds after which a stage is shown


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel that can show widgets."""
    return hasattr(ipython_shell(), "kernel") and find_spec("ipywidgets") is not None


def ipython_shell() -> Any:
    """IPython's shell, where this process has one."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _to_cell() -> None:
    """What this thread displays belongs to the cell that runs: a thread of DuckDB's does not know it."""
    shell = ipython_shell()
    shell.display_pub.set_parent(shell.kernel.get_parent())


class NotebookBar(Quiet):
    """Progress as a widget below the cell, one bar for each stage.

    A closed widget leaves its text in the notebook, and an error where the notebook is opened again. So all bars are
    shown in one place of the output, which is emptied at the end.
    """

    def __init__(self, stop: Stop = lambda: False) -> None:
        super().__init__(stop)
        self._bar: Any = None
        self._place: Any = None
        self._shown, self._begun, self._in_rounds = False, 0.0, False

    def rounds(self, name: str, count: int) -> None:
        """See `Progress.rounds`."""
        self._in_rounds = False
        self.stage(name, count)
        self._in_rounds = True

    def round_done(self) -> None:
        """See `Progress.round_done`."""
        if self._in_rounds and self._bar is not None:
            self._in_rounds = False
            self.advance(1)
            self._in_rounds = self._bar.n < (self._bar.total or 0)
        self.check()

    def stage(self, name: str, steps: int | None = None) -> None:
        """See `Progress.stage`."""
        if self._in_rounds:
            self._bar.set_postfix_str(name, refresh=False)
            self.check()
            return
        from tqdm.notebook import tqdm

        self._end()
        bar_format = None if steps else "{desc}: {elapsed}"
        self._bar = tqdm(total=steps, desc=f"dpsql {name}", leave=False, display=False, bar_format=bar_format)
        self._shown, self._begun = False, time.monotonic()
        self.check()

    def advance(self, steps: int = 1, note: str = "") -> None:
        """See `Progress.advance`."""
        if self._bar is not None and not self._in_rounds:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(steps)
            if not self._shown and time.monotonic() - self._begun > _DELAY:
                self._show()
        self.check()

    def close(self) -> None:
        """See `Progress.close`."""
        self._in_rounds = False
        self._end()
        if self._place is not None:
            _to_cell()
            self._place.update({"text/plain": ""}, raw=True)
            self._place = None

    def _show(self) -> None:
        self._shown = True
        _to_cell()
        if self._place is None:
            display: Any = import_module("IPython.display").display
            self._place = display(self._bar.container, display_id=True)
        else:
            self._place.update(self._bar.container)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.disable = True  # else it would say that it failed where steps are left
            self._bar.container.close()
            self._bar = None
