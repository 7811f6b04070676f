"""What is said where a database fails: constant texts, because its own may quote a row."""

from __future__ import annotations

from dpsql.engines.protocol import CountingRefused
from dpsql.errors import InvalidArgument


class CannotConnect(CountingRefused):
    """The database does not answer, or does not let the user in. Nothing was read."""

    def __init__(self, label: str, named: str, unless: str) -> None:
        super().__init__(
            f"{label} cannot be reached with {named}: see that {unless}, then make the same call; what was charged "
            "before is kept"
        )


class CannotCount(CountingRefused):
    """The warehouse does not count a snapshot of the table. No row was read."""

    def __init__(self, label: str) -> None:
        super().__init__(
            f"{label} does not count this table as it was a second ago: the user may not SELECT it; it keeps no "
            "history (Snowflake: DATA_RETENTION_TIME_IN_DAYS), or was made just now; it wants a filter on its "
            "partitions, or has row access policies (BigQuery). Mend that, or copy its rows to a table there without"
        )


class TableChanged(CountingRefused):
    """The table is not as it was, or may not be read any more."""

    def __init__(self, label: str) -> None:
        super().__init__(
            f"the table in {label} is not as dp_source registered it, or its user may not read it any more: undo that, "
            "or say dp_source again, then make the same call; what was charged before is kept"
        )


class OtherPlace(CountingRefused):
    """The words that connect lead elsewhere than when the source was registered. Nothing was read."""

    def __init__(self, named: str, place: str) -> None:
        super().__init__(
            f"{named} leads to another {place} than when dp_source registered the table: set it as it was, then make "
            "the same call; what was charged before is kept"
        )


class OtherOrder(InvalidArgument):
    """The database gives some constant another code than DuckDB does."""


class NotCounted(InvalidArgument):
    """What cannot be done with a table of an engine."""
