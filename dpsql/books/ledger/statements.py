"""The SQL of `sql/`, read once, with the books' schema qualified by the database that holds them.

A database file may itself be called dpsql, so `dpsql.account` alone would be ambiguous.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

import sqlglot
from sqlglot import exp

SCHEMA = "dpsql"


@lru_cache(maxsize=2048)  # some 200 statements for each of the databases that are open
def qualified(sql: str, catalog: str) -> str:
    """One statement with every table or schema `dpsql…` placed in `catalog`.

    >>> qualified("SELECT epsilon FROM dpsql.account", "bank")
    'SELECT epsilon FROM "bank".dpsql.account'
    """
    tree = sqlglot.parse_one(sql, read="duckdb")
    for table in tree.find_all(exp.Table):
        if table.db == SCHEMA or (isinstance(tree, exp.Create) and tree.kind == "SCHEMA"):
            table.set("catalog", exp.to_identifier(catalog, quoted=True))
    return tree.sql(dialect="duckdb", comments=False)


def with_constants(sql: str, constants: Mapping[str, str]) -> str:
    """A statement with its parameters `$name` replaced by text constants, for where none can be bound.

    >>> with_constants("SELECT $prefix || source AS source FROM dpsql.account", {"prefix": "bank."})
    "SELECT 'bank.' || source AS source FROM dpsql.account"
    """
    tree = _parsed(sql).copy()
    for parameter in list(tree.find_all(exp.Placeholder, exp.Parameter)):
        parameter.replace(exp.Literal.string(constants[parameter.name]))
    return tree.sql(dialect="duckdb")


@lru_cache(maxsize=64)
def _parsed(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, read="duckdb")


def read_text(name: str) -> str:
    """The text of `sql/<name>.sql`."""
    return (resources.files("dpsql.sql") / f"{name}.sql").read_text(encoding="utf-8")


@lru_cache(maxsize=16)
def read(name: str) -> tuple[str, ...]:
    """The statements of `sql/<name>.sql`."""
    text = read_text(name)
    return tuple(tree.sql(dialect="duckdb", comments=False) for tree in sqlglot.parse(text, read="duckdb") if tree)
