"""Differentially private synthetic tables and queries inside DuckDB, in SQL.

db = dpsql.connect("bank.duckdb")
db.sql("CALL dp_protect('clients', epsilon := 3.0, delta := 1e-9)")
db.sql("FROM dp_synthesize('clients', epsilon := 1.0)").df()
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

# In a checkout `udfs/` and `sql/` are beside this package, in a wheel inside it.
if not (Path(__file__).parent / "udfs").is_dir():
    __path__.append(str(Path(__file__).parents[1]))

from dpsql.errors import DpsqlError
from dpsql.runtime.quiet import keep_quiet
from dpsql.version import __version__

keep_quiet()

__all__ = ["Database", "DpsqlError", "Release", "__version__", "client", "connect", "install", "serve"]

if TYPE_CHECKING:
    from dpsql.api.database import Database, connect, install
    from dpsql.api.release import Release
    from dpsql.service.client import client
    from dpsql.service.supervisor import serve
else:
    _HOMES = {
        "client": "dpsql.service.client",
        "serve": "dpsql.service.supervisor",
        "load_ipython_extension": "dpsql.notebook",
    }

    def __getattr__(name: str) -> Any:
        """The rest on first use: `dpsql --help` needs none of what it loads (DuckDB, NumPy, SciPy, sqlglot)."""
        if name not in __all__ and name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES.get(name, "dpsql.api.database")), name)

    def __dir__() -> list[str]:
        """The names that are there and those that come on first use."""
        return sorted({*globals(), *__all__})
