"""Processes that die: each is forked from one that has imported dpsql, so that none pays for the import again."""

from __future__ import annotations

import multiprocessing

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["dpsql"])


def run_and_die(script: str) -> int:
    """Run statements in another process until it ends; its exit status, negative if a signal killed it."""
    process = _FORKS.Process(target=exec, args=(script, {"__name__": "script"}))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode
