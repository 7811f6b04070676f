"""The rows of a SQL function that Python calls by name, as a data frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpsql.api.arguments import arguments_of
from dpsql.api.errors import own_errors
from dpsql.udfs.bridge.declare import Call, TableFunction
from dpsql.udfs.extension import Instance
from dpsql.udfs.interrupts import pressed

if TYPE_CHECKING:
    import pandas as pd


def function_rows(
    instance: Instance, function: type[TableFunction], arguments: Mapping[str, Any], search_path: str
) -> pd.DataFrame:
    """The rows of one of the SQL functions, with the errors of Python.

    Args:
        instance: the database's part of dpsql.
        function: its class.
        arguments: its parameters by name; None for their defaults.
        search_path: where names without a schema are looked up.

    Raises:
        DpsqlError: a child with the text that is DuckDB's error in SQL.
    """
    call = Call(function.name, arguments_of(function, arguments), search_path)
    with pressed():
        rows = function(instance).bind(call).run()  # type: ignore[call-arg]
        with instance.cursor() as cursor, own_errors:
            return cursor.execute(rows).df()
