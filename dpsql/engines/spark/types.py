"""Types of Spark: what each is in DuckDB."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_IN_DUCKDB: Final = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
_TEXT: Final = re.compile(r"(string|varchar\(\d+\)|char\(\d+\))( collate \w+)?")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
UNKNOWN: Final = "BLOB"
"""In which type a column comes out whose type has no domain here."""


@dataclass(frozen=True)
class Native:
    """A column's type as Spark has it.

    Attributes:
        name: as Spark writes it, such as `decimal(9,2)`.
    """

    name: str

    @property
    def in_duckdb(self) -> str:
        """The DuckDB type that holds its values, as text.

        >>> [Native(name).in_duckdb for name in ("decimal(9,2)", "string collate UTF8_LCASE", "map<int,int>")]
        ['DECIMAL(9,2)', 'VARCHAR', 'BLOB']
        """
        digits = _DECIMAL.fullmatch(self.name)
        if digits:
            return f"DECIMAL({digits[1]},{digits[2]})"
        return "VARCHAR" if self.is_text else _IN_DUCKDB.get(self.name, UNKNOWN)

    @property
    def is_known(self) -> bool:
        """Whether a column of it can have a domain."""
        return self.in_duckdb != UNKNOWN

    @property
    def is_text(self) -> bool:
        """Whether values are texts, which are compared by their bytes."""
        return _TEXT.fullmatch(self.name) is not None

    @property
    def is_collated(self) -> bool:
        """Whether Spark calls texts of other bytes equal."""
        return " collate " in self.name and not self.name.endswith(" collate UTF8_BINARY")

    @property
    def is_float(self) -> bool:
        """Whether values are binary floats, which have a zero of each sign."""
        return self.name in ("float", "double")

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers."""
        return self.name in ("tinyint", "smallint", "int", "bigint")
