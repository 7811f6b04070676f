"""Settings of DuckDB on the connections that count: sealed, so that nobody's SET changes what is counted.

`tests/engines/settings.csv` lists every setting and says why those that are not sealed change nothing; a test fails
for a setting that it does not know.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import duckdb

from dpsql.engines.duckdb.versions import check_version
from dpsql.errors import DpsqlError

SEALED: Final[Mapping[str, str]] = {
    # what is equal, and what comes first
    "default_collation": "''",
    "default_null_order": "'nulls_last'",
    "default_order": "'ASC'",
    "preserve_insertion_order": "true",
    # what an expression or a cast gives
    "TimeZone": "'UTC'",
    "Calendar": "'gregorian'",
    "integer_division": "false",
    "ieee_floating_point_ops": "true",
    "error_on_division_by_zero": "true",
    "old_implicit_casting": "false",
    "disable_timestamptz_casts": "false",
    "legacy_disable_null_type": "false",
    "parquet_can_have_nan": "true",  # older versions lack it, so `dpsql.engines.lake.rows` does without
    # what a text means
    "dialect_compatibility_mode": "'NONE'",
    "regex_match_operator_semantics": "'partial'",
    "scalar_subquery_error_on_multiple_rows": "true",
    "preserve_identifier_case": "true",
    "allow_parser_override_extension": "'DEFAULT'",
    "python_enable_replacements": "false",
    # when a statement fails
    "max_expression_depth": "1000",
    "max_execution_time": "0",
    "errors_as_json": "false",
    "debug_force_no_cross_product": "false",
    # the way that is tested most
    "enable_optimizer": "true",
    # the way that is quickest
    "perfect_ht_threshold": "18",  # cells of a marginal, in bits; a thread's array takes 4 MB at most
}
"""Settings by name, and what they are on a connection that counts; not every version of DuckDB has each."""


OWNED: Final = ("memory_limit", "temp_directory", "max_temp_directory_size", "block_allocator_memory", "fsync_mode")
"""What memory and disk there is for counting, and whether a charge is on the disk: for all of an instance alike.

Who sets a limit low could tell from a failure how many rows there are, so each stays what it was when dpsql was
installed.
"""
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_installed: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, Mapping[str, str]]] = WeakKeyDictionary()


def owned(cursor: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The settings of an instance that are its owner's, as they are now."""
    names = [name for name in OWNED if name in _setting_types()]
    values = cursor.execute("SELECT " + ", ".join(f"system.main.current_setting('{name}')" for name in names))
    return dict(zip(names, map(str, values.fetchall()[0]), strict=True))


def pin(cursor: duckdb.DuckDBPyConnection) -> None:
    """Give the temporary directory a size in bytes where it is a share of the disk.

    DuckDB turns the share into bytes when it writes there first, so `check_owned` would take that for a change.
    """
    sql = "SELECT system.main.current_setting('max_temp_directory_size'), system.main.current_setting('temp_directory')"
    size, folder = cursor.execute(sql).fetchall()[0]
    if str(size).endswith("of available disk space") and folder:
        try:
            place = Path(folder).absolute()
        except OSError:  # the current directory was deleted
            place = Path(os.sep)
        there = next(path for path in (place, *place.parents) if path.exists())
        free = shutil.disk_usage(there).free * int(str(size).split("%")[0]) // 100
        with suppress(duckdb.Error):  # the configuration is locked: then nobody else sets it either
            cursor.execute(f"SET GLOBAL max_temp_directory_size = '{free} bytes'")


def remember(cursor: duckdb.DuckDBPyConnection, installed: Mapping[str, str]) -> None:
    """Let `check_owned` compare with what a connection's instance had when dpsql was installed."""
    _installed[cursor] = installed


def check_owned(cursor: duckdb.DuckDBPyConnection) -> None:
    """Refuse to go on where one of the owner's settings is another by now.

    Asked before a charge, and again before each statement that reads private rows.

    Raises:
        DpsqlError: names the setting, and the statement that mends it; or nobody looked at this version of DuckDB.
    """
    check_version()
    installed = _installed.get(cursor, {})
    for name, value in owned(cursor).items() if installed else ():
        if not _alike(value, installed[name]):
            raise DpsqlError(
                f"setting {name} is {value!r}, but was {installed[name]!r} when dpsql was installed: say SET GLOBAL "
                f"{name} = '{installed[name]}'. To have another one, open the database with it, "
                f"dpsql.connect(path, config={{'{name}': …}})"
            )


def _alike(value: str, other: str) -> bool:
    """Whether two values are the same; sizes but for the last digit, for DuckDB shows "18.7 GiB" for '18.8 GiB'."""
    (size, _, unit), (other_size, _, other_unit) = value.partition(" "), other.partition(" ")
    if value == other or unit != other_unit or not (_NUMBER.fullmatch(size) and _NUMBER.fullmatch(other_size)):
        return value == other
    return abs(float(size) - float(other_size)) < 0.15


def seal(cursor: duckdb.DuckDBPyConnection) -> None:
    """Give a connection of its own the sealed settings, whatever others set for all."""
    cursor.execute(script())


@cache
def _setting_types() -> Mapping[str, str]:
    """The settings that this version of DuckDB has, and their types; a process has one version."""
    with duckdb.connect() as own:
        return dict(own.execute("SELECT name, input_type FROM duckdb_settings()").fetchall())


@cache
def script() -> str:
    """What gives a connection the sealed settings, one SET each."""
    types, values = _setting_types(), dict(SEALED)
    if types.get("preserve_identifier_case") == "VARCHAR":
        values["preserve_identifier_case"] = "'preserve_case'"
    return "; ".join(f"SET SESSION {name} = {value}" for name, value in values.items() if name in types)
