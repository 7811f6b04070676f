"""What a table function is declared by: its parameters, its calls, and the relation that a call returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a table function.

    Attributes:
        name: as in `name := value`; a positional parameter is named in errors only.
        type: BOOLEAN, BIGINT, DOUBLE, VARCHAR, a list of one of them (`VARCHAR[]`), STRUCT, which arrives as a
            dictionary (a MAP does, too), or ANY, which arrives as the
            literal was written (lists too; dates, timestamps and the like as text).
        positional: given by place, before all named ones; positional parameters have no default.
        default: the value when the parameter is left out; REQUIRED makes leaving it out an error.
        help: one line for documentation.
        of_owner: users of the service do not have it.
    """

    name: str
    type: str
    positional: bool = False
    default: Any = REQUIRED
    help: str = ""
    of_owner: bool = False


@dataclass(frozen=True)
class Call:
    """One call as it was bound: what was given, and by whom.

    Attributes:
        function: its name.
        arguments: by name, with defaults.
        search_path: of the caller.
        by: the user of the service for whom it is made; empty for the owner.
        connection: DuckDB's number of the caller's connection; 0 for a call that does not come through DuckDB.
    """

    function: str
    arguments: Mapping[str, Any]
    search_path: str = ""
    by: str = field(default="", kw_only=True)
    connection: int = field(default=0, kw_only=True)

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]


class Relation(ABC):
    """What a call returns: a schema that costs nothing to know, and rows that `run` may have to work for."""

    schema: str
    """A SELECT with the columns of the result; it is prepared, never executed."""
    cardinality: int | None = None
    """Rows expected, for DuckDB's optimiser; None if unknown."""
    constant: ClassVar[bool] = False
    """Whether `schema` names nothing of the database, so that it cannot change after the call was bound."""
    is_stored: bool = False
    """Whether the rows are those of a release that was published. Who asks looks whether it was withdrawn since."""
    is_light: bool = True
    """Whether it takes so little memory that many may be kept."""

    @abstractmethod
    def run(self) -> str:
        """Do the work and return the SELECT to stream, with the same columns as `schema`."""


@dataclass
class Query(Relation):
    """A relation that is a query: nothing to do but stream it."""

    schema: str
    cardinality: int | None = None

    def run(self) -> str:
        """Return the query itself."""
        return self.schema


class TableFunction(ABC):
    """A table function: subclass, name it, list its parameters, write `bind`."""

    name: ClassVar[str]
    parameters: Sequence[Parameter] = ()

    @abstractmethod
    def bind(self, call: Call) -> Relation:
        """Check the arguments and return the relation; must not change anything or read private rows."""
