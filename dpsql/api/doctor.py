"""What dpsql runs on, for a report of a problem."""

from __future__ import annotations

import platform
from collections import Counter

import duckdb

from dpsql.api.database import connect
from dpsql.fitting.compilation import keep_programs
from dpsql.fitting.loading import jax
from dpsql.udfs.extension import PATH
from dpsql.version import __version__


def report() -> dict[str, str]:
    """Versions, the native extension, and the device of the fits.

    >>> report()["functions"]
    '10 registered'
    """
    with connect() as db:
        sql = (
            "SELECT count(DISTINCT function_name) FROM duckdb_functions() WHERE function_name LIKE 'dp\\_%' ESCAPE '\\'"
        )
        functions = db.sql(sql + " AND function_type = 'table'").fetchall()[0][0]
    kinds = Counter(device.device_kind for device in jax.devices())
    devices = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    return {
        "dpsql": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "duckdb": duckdb.__version__,
        "jax": jax.__version__,
        "device": devices,
        "compiled": str(keep_programs() or "not kept"),
        "extension": f"{PATH.name}, {PATH.stat().st_size} bytes",
        "functions": f"{functions} registered",
    }
