"""What dpsql runs on, for a report of a problem."""

from __future__ import annotations

import platform
from collections import Counter
from importlib.util import find_spec

import duckdb

import dpsql.mechanisms  # noqa: F401 - registers them
from dpsql.api.database import connect
from dpsql.core.column_types import registered as column_types
from dpsql.engines.duckdb import versions
from dpsql.fitting.compilation import keep_programs
from dpsql.fitting.loading import jax
from dpsql.mechanisms.base import registered as mechanisms
from dpsql.udfs import FUNCTIONS
from dpsql.udfs.bridge.library import PATH
from dpsql.version import __version__


def report() -> dict[str, str]:
    """Versions, the native extension, the device of the fits, and how much of each register is there.

    >>> report()["functions"] == f"{len(FUNCTIONS)} of {len(FUNCTIONS)} registered"
    True
    """
    kinds = Counter(device.device_kind for device in jax.devices())
    devices = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    return {
        "dpsql": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "duckdb": _duckdb(),
        "jax": jax.__version__,
        "device": devices,
        "compiled": str(keep_programs() or "not kept"),
        "extension": f"{PATH.name}, {PATH.stat().st_size} bytes",
        "functions": _functions(),
        "mechanisms": _mechanisms(),
        "types": f"{sum(of_type.has_bins for of_type in column_types())} types of columns with bins",
    }


def _duckdb() -> str:
    """Its version, and whether somebody looked at it."""
    if duckdb.__version__ in versions.LOOKED_AT:
        return duckdb.__version__
    taken = f"taken by {versions.OVERRIDE}" if versions.is_taken() else "refused"
    return f"{duckdb.__version__}, which nobody has looked at: {taken}; looked at were {', '.join(versions.LOOKED_AT)}"


def _functions() -> str:
    """How many of the SQL functions DuckDB has."""
    with connect() as db:
        listed = db.sql(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table'"
        ).fetchall()
    present = {name for (name,) in listed} & {function.name for function in FUNCTIONS}
    return f"{len(present)} of {len(FUNCTIONS)} registered"


def _mechanisms() -> str:
    """How many mechanisms there are, and which lack their package."""
    classes = mechanisms()
    lacking = [f"{name} needs {m.package}" for name, m in classes.items() if m.package and find_spec(m.package) is None]
    return ", ".join([f"{len(classes) - len(lacking)} of {len(classes)} ready", *lacking])
