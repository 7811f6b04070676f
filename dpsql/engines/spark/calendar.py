"""Whether a session reads every date of a file: Spark 3 stops at one before 1582, unless it is told how to read it.

A count that stops because of a value is refused before the charge, whatever the values are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from dpsql.engines.spark.session import Session
from dpsql.engines.sql.failures import NotCounted
from dpsql.engines.sql.types import Native

_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_PARQUET: Final = ("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead")
SETTINGS: Final[Mapping[str, Sequence[str]]] = {
    "parquet": _PARQUET,
    "delta": _PARQUET,
    "avro": ("spark.sql.avro.datetimeRebaseModeInRead",),
}
"""By how rows are stored, what decides; Iceberg reads all dates as they are written."""


def check_calendar(session: Session, kind: str, natives: Iterable[Native]) -> None:
    """Refuse to read dates of files as long as some would stop a count.

    Raises:
        NotCounted: says the setting.
    """
    if not any(native.name in _TIMES for native in natives):
        return
    get = session.spark.conf.get
    stops = [name for name in SETTINGS.get(kind, ()) if session.run(partial(get, name, None)) == "EXCEPTION"]
    if stops:
        raise NotCounted(
            "this session stops at a date before 1582 or a time before 1900 in a file, so a value could stop a count: "
            f"{'; '.join(f'SET {name} = CORRECTED' for name in stops)}; or LEGACY, if Spark 2 or Hive wrote the files"
        )
