"""PRIMARY, UNIQUE and FOREIGN KEYs of released tables, as PostgreSQL's catalogue has them.

No key is enforced here: the rows were released with it. Names and definitions are those that PostgreSQL gives.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from .postgres_functions import KEYWORDS

CREATE: Final = (
    "CREATE TABLE pgx.dpsql_key (schema_name VARCHAR, namespace BIGINT, table_name VARCHAR, relid BIGINT, oid BIGINT, "
    "index_oid BIGINT, name VARCHAR, kind VARCHAR, numbers SMALLINT[], columns VARCHAR[], of_table VARCHAR, "
    "frelid BIGINT, of_numbers SMALLINT[], of_columns VARCHAR[], of_positions INTEGER[], definition VARCHAR, "
    "index_definition VARCHAR)"
)
INSERT: Final = f"INSERT INTO pgx.dpsql_key VALUES ({', '.join('?' * 17)})"  # noqa: S608 - no text of anybody's
FORGET: Final = "DELETE FROM pgx.dpsql_key WHERE schema_name = ?"
_LONGEST: Final = 63
"""Bytes of a name."""
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")
_numbers = itertools.count(1 << 30)
"""Of keys and their indexes, above those of all tables."""


def quoted(name: str) -> str:
    """A name as PostgreSQL writes it.

    >>> quoted("pid"), quoted("member no"), quoted("select"), quoted('a"b')
    ('pid', '"member no"', '"select"', '"a""b"')
    """
    plain = _PLAIN.fullmatch(name) and name not in KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def rows(schema: str, tables: Mapping[str, Mapping[str, Any]], oids: Mapping[str, int]) -> Iterator[list[Any]]:
    """What `INSERT` takes for each key of the tables of a schema.

    Args:
        schema: its name.
        tables: by their names in it, as the keeper tells them: with `columns`, and `keys` that have the attributes of
            `dpsql.books.releases.keys.Key`.
        oids: the numbers of the tables, and that of the schema under an empty name.
    """
    taken, indexes = set(tables), _Indexes()
    for table, description in tables.items():
        for key in description["keys"]:
            if key["kind"] == "foreign":
                continue
            columns, oid = key["columns"], next(_numbers)
            primary = key["kind"] == "primary"
            name = _free(taken, table, "" if primary else _joined(columns), "pkey" if primary else "key")
            index = indexes.added(table, columns, next(_numbers))
            listed, where = _listed(columns), f"{quoted(schema)}.{quoted(table)}"
            own = schema, oids[""], table, oids[table], oid, index, name, "p" if primary else "u"
            words = f"{'PRIMARY KEY' if primary else 'UNIQUE'} ({listed})"
            made = f"CREATE UNIQUE INDEX {quoted(name)} ON {where} USING btree ({listed})"
            yield [*own, _places(description, columns), columns, None, 0, None, None, None, words, made]
    for table, description in tables.items():
        for key in description["keys"]:
            if key["kind"] != "foreign":
                continue
            columns, named, above = key["columns"], key["references"], key["table"]
            index, unique = indexes.of(above, named)
            name = _free(taken, table, _joined(columns), "fkey")
            own = schema, oids[""], table, oids[table], next(_numbers), index, name, "f"
            positions = [unique.index(column) + 1 for column in named]
            of = above, oids[above], _places(tables[above], named), named, positions
            leads = f"{quoted(schema)}.{quoted(above)}({_listed(named)})"
            words = f"FOREIGN KEY ({_listed(columns)}) REFERENCES {leads}"
            yield [*own, _places(description, columns), columns, *of, words, None]


class _Indexes:
    """The indexes of keys of which no two rows share values."""

    def __init__(self) -> None:
        self._of: dict[str, list[tuple[int, list[str]]]] = {}

    def added(self, table: str, columns: Sequence[str], number: int) -> int:
        """One more, with a number."""
        self._of.setdefault(table, []).append((number, list(columns)))
        return number

    def of(self, table: str, columns: Sequence[str]) -> tuple[int, list[str]]:
        """The number of that of some columns, in whatever order, and the order that it has."""
        return next(key for key in self._of[table] if {*key[1]} == {*columns})


def not_null(table: Mapping[str, Any]) -> list[str]:
    """The columns of a table that are in its primary key."""
    return [column for key in table["keys"] if key["kind"] == "primary" for column in key["columns"]]


def _places(table: Mapping[str, Any], columns: Sequence[str]) -> list[int]:
    names = [name for name, _ in table["columns"]]
    return [names.index(column) + 1 for column in columns]


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))


def _joined(columns: Sequence[str]) -> str:
    """Columns in the name of a key, of which PostgreSQL takes no more than fit."""
    text = ""
    for column in columns:
        text += ("_" if text else "") + _cut(column, _LONGEST)
        if len(text.encode()) > _LONGEST:
            break
    return text


def _free(taken: set[str], first: str, second: str, label: str) -> str:
    """A name that is not taken, which it is from now on."""
    for ending in itertools.chain([label], (f"{label}{number}" for number in itertools.count(1))):
        name = _shortened(first, second, ending)
        if name not in taken:
            taken.add(name)
            return name
    raise AssertionError


def _shortened(first: str, second: str, label: str) -> str:
    """A name of parts, of which the longer one is cut until the whole fits."""
    room = _LONGEST - len(label) - 1 - bool(second)
    most = [len(first.encode()), len(second.encode())]
    while sum(most) > room:
        most[0 if most[0] > most[1] else 1] -= 1
    parts = [_cut(first, most[0]), *([_cut(second, most[1])] if second else []), label]
    return "_".join(parts)


def _cut(text: str, most: int) -> str:
    """As many bytes of a text, and no part of a sign."""
    return text.encode()[:most].decode(errors="ignore")
