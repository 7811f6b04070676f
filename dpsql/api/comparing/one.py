"""One release on a copy of a table, in this process alone: `python -m dpsql.api.comparing.one`, for `compare` only.

It reads a job from standard input, and writes the figures to standard output, both as JSON. A process of its own makes
memory and seconds those of one release, with all that a first one loads and compiles.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from dpsql.errors import DpsqlError


def main() -> None:
    """Do the job."""
    job = json.load(sys.stdin)
    result: dict[str, Any]
    try:
        result = _result(job)
    except DpsqlError as error:
        result = {"error": " ".join(str(error).split())}
    except Exception as error:
        if os.environ.get("DPSQL_DEBUG"):
            raise
        result = {"error": f"internal error ({type(error).__name__}): please report it"}  # its text may hold a value
    sys.stdout.write(f"\n{json.dumps(result)}")  # on a line of its own, whatever a file that was loaded printed


def _result(job: Any) -> dict[str, Any]:
    """The figures; the mechanisms come first, because the rest of dpsql learns their options when it is loaded."""
    from dpsql.mechanisms.own import load_file

    for path in job["load"]:
        load_file(path)
    from dpsql.api.comparing.copied import Copied
    from dpsql.api.comparing.measured import figures

    return figures(Copied(**job["copied"]), job["epsilon"], job["asked"], job["measured"])


if __name__ == "__main__":
    main()
