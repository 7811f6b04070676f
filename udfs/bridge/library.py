"""The native extension file: loaded into an instance of DuckDB, which calls back with the instance's handle."""

from __future__ import annotations

import ctypes as C
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb

from dpsql.errors import DpsqlError, InternalError

from . import capi

PATH: Final = Path(__file__).parents[1] / "native" / "dpsql.duckdb_extension"
lock: Final = threading.RLock()
"""The shim has room for one callback, so whoever loads holds it."""
_shim: Any = None


def shim() -> Any:
    """The extension file as a ctypes library, for the functions that are ours."""
    global _shim
    if _shim is None:
        library = C.CDLL(str(PATH))
        library.dpsql_set_callback.argtypes = [capi.LOAD_CALLBACK]
        library.dpsql_set_callback.restype = None
        library.dpsql_interrupts.restype = C.c_long
        _shim = library
    return _shim


def load(connection: duckdb.DuckDBPyConnection, register: Callable[[Any], None]) -> None:
    """Run LOAD, and `register` with the handle of the instance of `connection` while DuckDB loads.

    Raises:
        DpsqlError: DuckDB could not load the extension; or what `register` raised.
    """
    failure: list[BaseException] = []
    done: list[bool] = []

    @capi.load_callback
    def on_load(database: int) -> int:
        try:
            register(C.cast(database, C.POINTER(C.c_void_p))[0])
        except BaseException as error:
            failure.append(error)
            return 1
        done.append(True)
        return 0

    with lock:
        shim().dpsql_set_callback(on_load)
        try:
            connection.load_extension(str(PATH))
        except duckdb.Error as error:
            raise failure[0] if failure else _load_error(error) from None
        finally:
            shim().dpsql_set_callback(capi.LOAD_CALLBACK())
    if not done:
        raise InternalError("the dpsql extension is loaded here already, but not by this process' dpsql")


def _load_error(error: duckdb.Error) -> DpsqlError:
    return DpsqlError(f"DuckDB {duckdb.__version__} could not load the dpsql extension: {str(error).splitlines()[0]}")
