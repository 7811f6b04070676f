"""The catalogue that processes of users copy from a file is the one that is made statement by statement."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import duckdb
import pytest

from dpsql.service import catalogue, catalogue_file, copies
from dpsql.service.catalogue import RESULTS
from dpsql.service.served import functions_served


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Iterator[tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection]]:
    """Instances with the catalogue: made, and copied from a file that has no name any more."""
    path = tmp_path_factory.mktemp("catalogue") / "file"
    catalogue_file._write(path, functions_served())  # not in a fork, as in a service: this process has threads
    file = os.open(path, os.O_RDONLY)
    path.unlink()
    try:
        with duckdb.connect() as made, duckdb.connect() as copied:
            catalogue.make(made, functions_served())
            copied.execute(f"CREATE SCHEMA {RESULTS}")
            catalogue_file.copy(copied, file)
            yield made, copied
    finally:
        os.close(file)


@pytest.mark.medium
def test_the_macros_beside_it_are_duckdbs_alone(tmp_path):
    """Ours are made after they are listed: a macro of both lists would be written out twice."""
    before = list(copies._listed)
    copies._listed.clear()
    try:
        catalogue_file._write(tmp_path / "catalogue", functions_served())
    finally:
        copies._listed[:] = before
    with duckdb.connect() as fresh:
        own = fresh.execute(copies._OF_DUCKDB).fetchall()
    beside = json.loads(catalogue_file._macros_beside(tmp_path / "catalogue").read_text())
    assert sorted(map(repr, map(tuple, beside))) == sorted(map(repr, own))
    assert len(own) > 10


LISTS = (
    "SELECT schema_name, view_name, column_count FROM duckdb_views() WHERE NOT internal",
    "SELECT schema_name, table_name, column_name, column_index, data_type FROM duckdb_columns() WHERE NOT internal",
    "SELECT schema_name, function_name, parameters, function_type FROM duckdb_functions() WHERE NOT internal",
)


@pytest.mark.medium
def test_what_is_copied_has_all_views_columns_and_macros(both):
    made, copied = ({text: set(map(repr, one.execute(text).fetchall())) for text in LISTS} for one in both)
    assert made == copied
    assert all(len(rows) > 100 for rows in made.values())
    assert copied_databases(both[1]) == {"memory"}


def copied_databases(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Of an instance, but DuckDB's own."""
    return {
        name
        for (name,) in connection.execute("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall()
    }


@pytest.mark.medium
def test_what_is_copied_answers_the_same(both):
    """Every view, whole: it has rows of types, keywords and settings before any table is there."""
    views = (
        both[0].execute("SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL").fetchall()
    )
    answers = [[one.execute(f'SELECT * FROM {schema}."{name}"').fetchall() for schema, name in views] for one in both]
    for (schema, name), made, copied in zip(views, *answers, strict=True):
        assert sorted(map(repr, made)) == sorted(map(repr, copied)), f"{schema}.{name}"
    assert sum(map(len, answers[0])) > 100
