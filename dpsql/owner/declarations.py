"""The domains of many columns, declared at once: all or none, and everything that is wrong is said in one error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts
from dpsql.core.domain import Attribute
from dpsql.core.names import pick
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.source import Source
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.owner.protect import account_of, declaration

Declarations = Mapping[str, Mapping[str, Any]]
"""For each column the arguments of its declaration, as `dp_domain` has them."""

_OF_DISCOVERY: Final = ("discover", "heavy", "epsilon", "delta")
_LISTS: Final = frozenset({"values", "edges", "nulls_as", "points"})
_MOST_SHOWN: Final = 50  # columns of which an error says what is wrong


@dataclass(frozen=True)
class Arguments:
    """What `dp_domain` takes, so that a declaration of many columns takes the same, whatever is added to it.

    Attributes:
        types: the DuckDB type of each argument of a declaration, by name; ANY is a value of the column's or a list.
    """

    types: Mapping[str, str]

    def find(self, name: str) -> str | None:
        """The argument of that name, whatever its case; None if there is none."""
        return pick(name, self.types)

    def is_switch(self, name: str) -> bool:
        """Whether it is true or false."""
        return self.types[name] == "BOOLEAN"

    def is_list(self, name: str) -> bool:
        """Whether it is a list, and nothing else."""
        return name in _LISTS

    def __str__(self) -> str:
        return ", ".join(self.types)


def declare_all(
    cursor: Cursor, source: Source, declarations: Declarations, arguments: Arguments, search_path: str = ""
) -> list[Attribute]:
    """Declare the public domains of many columns in one transaction.

    Args:
        cursor: of the owner.
        source: the protected table.
        declarations: for each column the arguments of `dp_domain`, by name.
        arguments: which those may be.
        search_path: of the caller, in which references are looked up.

    Returns:
        The domains, in the order of the columns that were given.

    Raises:
        NotProtected: the table has no account yet.
        InvalidArgument: nothing is declared, because something of it is wrong; the text names each column with it.
    """
    books = Books(cursor, source.catalog)
    account_of(books, source)
    if not declarations:
        raise InvalidArgument("no column is declared: name at least one, such as {'age': {'lower': 0, 'upper': 119}}")
    attributes: dict[str, Attribute] = {}
    wrong: dict[str, DpsqlError] = {}
    for name, how in declarations.items():
        try:
            attribute = _declared(cursor, source, name, checked_arguments(how, arguments), search_path)
            if attribute.name in attributes:
                raise InvalidArgument(f"column {attribute.name!r} is declared twice: name it once")
            attributes[attribute.name] = attribute
        except DpsqlError as error:
            wrong[name] = error
    if wrong:
        raise _all_wrong(source, wrong, len(declarations))
    facts.declare_all(books, source.key, attributes.values())
    return list(attributes.values())


def _declared(cursor: Cursor, source: Source, name: str, how: Mapping[str, Any], search_path: str) -> Attribute:
    if not isinstance(name, str):
        raise InvalidArgument(f"{name!r} is no name of a column: give a text")
    source.column(name)
    return declaration(cursor, source, name, search_path=search_path, **how)


def checked_arguments(how: Mapping[str, Any], arguments: Arguments) -> dict[str, Any]:
    """The arguments of one declaration, of the right kinds and without those that are None.

    Raises:
        InvalidArgument: one is unknown, belongs to a discovery, or is of another kind.
    """
    if not isinstance(how, Mapping):
        raise InvalidArgument(f"{how!r} declares nothing: give arguments by name, such as {{'lower': 0, 'upper': 119}}")
    given = {}
    for name, value in how.items():
        if name in _OF_DISCOVERY:
            raise InvalidArgument(
                f"{name} belongs to a discovery, which reads private rows and is charged: call "
                "dp_domain(…, discover := true, epsilon := …) for that column alone"
            )
        argument = arguments.find(str(name))
        if argument is None:
            raise InvalidArgument(f"{name!r} is no argument of a declaration; there are {arguments}")
        if value is None:
            continue
        _check_kind(arguments, argument, value)
        given[argument] = value
    return given


def _check_kind(arguments: Arguments, name: str, value: Any) -> None:
    wanted, kind = None, arguments.types[name]
    if kind == "BOOLEAN":
        wanted = None if isinstance(value, bool) else "true or false"
    elif arguments.is_list(name):
        wanted = None if isinstance(value, list | tuple) else f"a list, such as [{value!r}]"
    elif kind == "BIGINT":
        wanted = None if isinstance(value, int) and not isinstance(value, bool) else "a whole number"
    elif kind == "VARCHAR":
        wanted = None if isinstance(value, str) else "a text"
    if wanted is not None:
        raise InvalidArgument(f"{name} is {value!r}: give {wanted}")


def _all_wrong(source: Source, wrong: Mapping[str, DpsqlError], count: int) -> DpsqlError:
    """One error for all: of the kind of each, if that is one kind."""
    kinds = {type(error) for error in wrong.values()}
    kind = kinds.pop() if len(kinds) == 1 else InvalidArgument
    lines = [f"{name}: {error}" for name, error in list(wrong.items())[:_MOST_SHOWN]]
    lines += [f"and {len(wrong) - _MOST_SHOWN} more"] if len(wrong) > _MOST_SHOWN else []
    listed = "".join(f"\n  {line}" for line in lines)
    return kind(f"nothing of {source.name!r} is declared, because of {len(wrong)} of {count} columns:{listed}")
