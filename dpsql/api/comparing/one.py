"""One release on a copy of a table, in this process alone: `python -m dpsql.api.comparing.one`, for `compare` only.

It reads a job from standard input, and writes the figures to standard output, both as JSON. A process of its own makes
memory and seconds those of one release, with all that a first one loads and compiles.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from dpsql.api.comparing.copied import Copied, restore
from dpsql.api.database import connect
from dpsql.core.names import quote
from dpsql.errors import DpsqlError
from dpsql.owner.evaluate import evaluate

_ACCOUNT: Final = 1000.0
"""ε of the copy's account, the most there is: Laplace noise takes far more of an (ε, δ) account than its own ε."""
_MEGABYTE: Final = 1024 if sys.platform == "linux" else 1024**2
"""Of what the system counts memory in."""


def main() -> None:
    """Do the job."""
    job = json.load(sys.stdin)
    told: dict[str, Any]
    try:
        told = figures(Copied(**job["copied"]), job["epsilon"], job["asked"], job["measured"])
    except DpsqlError as error:
        told = {"error": " ".join(str(error).split())}
    except Exception as error:
        if os.environ.get("DPSQL_DEBUG"):
            raise
        told = {"error": f"internal error ({type(error).__name__}): please report it"}  # its text may hold a value
    sys.stdout.write(json.dumps(told))


def figures(
    copied: Copied, epsilon: float, asked: Mapping[str, Any], measured: Mapping[str, Any]
) -> dict[str, int | float | None]:
    """Make a release of the copy and compare it with the copy.

    Args:
        copied: the table.
        epsilon: of the release.
        asked: the other arguments of `Database.synthesize`.
        measured: the arguments of `dpsql.owner.evaluate.evaluate`.

    Returns:
        The figures of an evaluation by name, and `seconds`, `cpu_seconds` and `peak_mb` of the release.
    """
    with connect() as db:
        with db.instance.cursor() as cursor:
            source = restore(cursor, copied, _ACCOUNT)
        table = ".".join(map(quote, copied.source))
        if copied.prior is not None:
            asked = {**asked, "prior": ".".join(map(quote, copied.prior))}
        began, used = time.monotonic(), time.process_time()
        release = db.synthesize(table, epsilon, **asked)
        taken = {
            "seconds": time.monotonic() - began,
            "cpu_seconds": time.process_time() - used,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MEGABYTE,
        }
        with db.instance.cursor() as cursor:
            return {**evaluate(cursor, source, release.entry.key, **measured).figures(), **taken}


if __name__ == "__main__":
    main()
