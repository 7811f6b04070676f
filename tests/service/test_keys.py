"""What the catalogue says of the keys of released tables is what PostgreSQL says of the same tables."""

from __future__ import annotations

import random
from types import SimpleNamespace

import duckdb
import pytest

from dpsql.core.names import quote
from dpsql.service import catalogue, keys, protected_names
from dpsql.service.respell import respelled
from dpsql.service.served import functions_served
from tests.depth import some

pytestmark = pytest.mark.medium
TYPES = ("integer", "text", "uuid", "date", "bigint")
NAMES = (
    *("id", "member no", "Kundennummer", "select", "naïve größe", 'say "ho"', "it's", "a.b", "x" * 61, "ä" * 30),
    *("t_pkey", "user", "_", "1st", "$d", "CamelCase", "line\tbreak"),
)
"""Of columns and tables: plain ones, words of the language, and what no client may stumble over."""
SEEDS = sorted({11, *some(range(14))})
"""Of trees. That of 11 has keys that lead over three levels."""
OF_SCHEMA = "WHERE n.nspname = 'made'"
STATEMENTS = {
    "constraints": f"""
        SELECT c.conname, c.contype::text, r.relname, i.relname, f.relname, c.conkey, c.confkey, c.convalidated,
            c.condeferrable, trim(c.confupdtype::text), trim(c.confdeltype::text), trim(c.confmatchtype::text),
            c.connoinherit, pg_catalog.pg_get_constraintdef(c.oid, true), pg_catalog.pg_get_constraintdef(c.oid)
        FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_class r ON r.oid = c.conrelid
        JOIN pg_catalog.pg_class i ON i.oid = c.conindid LEFT JOIN pg_catalog.pg_class f ON f.oid = c.confrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace {OF_SCHEMA}""",
    "indexes": f"""
        SELECT i.relname, i.relkind::text, m.amname, i.relnatts, r.relname, x.indisunique, x.indisprimary, x.indnatts,
            x.indisvalid, pg_catalog.pg_get_indexdef(x.indexrelid), pg_catalog.pg_get_indexdef(x.indexrelid, 0, true),
            pg_catalog.pg_get_indexdef(x.indexrelid, 1, true)
        FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
        JOIN pg_catalog.pg_class r ON r.oid = x.indrelid JOIN pg_catalog.pg_am m ON m.oid = i.relam
        JOIN pg_catalog.pg_namespace n ON n.oid = i.relnamespace {OF_SCHEMA}""",
    "columns": f"""
        SELECT r.relname, a.attname, a.attnum, a.attnotnull FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class r ON r.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
        {OF_SCHEMA} AND a.attnum > 0 AND r.relkind = 'r'""",
    "tables": f"""
        SELECT r.relname, r.relkind::text, r.relhasindex, r.relhastriggers, r.relnatts, pg_table_is_visible(r.oid)
        FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
        {OF_SCHEMA} AND r.relkind = 'r'""",
    "lists": "SELECT tablename, hasindexes, hastriggers FROM pg_catalog.pg_tables WHERE schemaname = 'made'",
    "index list": "SELECT tablename, indexname, indexdef FROM pg_catalog.pg_indexes WHERE schemaname = 'made'",
    "table_constraints": """
        SELECT constraint_schema, constraint_name, table_schema, table_name, constraint_type, is_deferrable,
            initially_deferred, enforced, nulls_distinct FROM information_schema.table_constraints
        WHERE table_schema = 'made' AND constraint_type <> 'CHECK'""",
    "key_column_usage": """
        SELECT constraint_name, table_schema, table_name, column_name, ordinal_position, position_in_unique_constraint
        FROM information_schema.key_column_usage WHERE table_schema = 'made'""",
    "referential_constraints": """
        SELECT constraint_name, unique_constraint_schema, unique_constraint_name, match_option, update_rule, delete_rule
        FROM information_schema.referential_constraints WHERE constraint_schema = 'made'""",
    "constraint_column_usage": """
        SELECT table_schema, table_name, column_name, constraint_name
        FROM information_schema.constraint_column_usage WHERE table_schema = 'made'""",
    "constraint_table_usage": """
        SELECT table_schema, table_name, constraint_name
        FROM information_schema.constraint_table_usage WHERE table_schema = 'made'""",
    "nullable": """
        SELECT table_name, column_name, is_nullable FROM information_schema.columns WHERE table_schema = 'made'""",
    "names of objects": f"""
        SELECT r.oid::regclass::text, r.relname FROM pg_catalog.pg_class r
        JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace {OF_SCHEMA} AND r.relkind IN ('r', 'i')""",
    "objects of names": f"""
        SELECT to_regclass(quote_ident(n.nspname) || '.' || quote_ident(r.relname)) = r.oid, to_regclass(quote_ident(
            r.relname)) IS NULL, r.relname FROM pg_catalog.pg_class r
        JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace {OF_SCHEMA} AND r.relkind IN ('r', 'i')""",
}


def tree(seed: int) -> dict[str, dict]:
    """Tables, parents first: their columns, and keys as the keeper tells them."""
    chance = random.Random(seed)
    tables: dict[str, dict] = {}
    for table in chance.sample(NAMES, chance.randint(1, 5)):
        own = chance.sample(NAMES, chance.randint(1, 4))
        columns = [(name, chance.choice(TYPES)) for name in own]
        found = []
        if tables and chance.random() < 0.9:
            above = chance.choice(list(tables))
            unique = [key["columns"] for key in tables[above]["keys"] if key["kind"] != "foreign"]
            if unique:
                named = chance.sample(referred := chance.choice(unique), len(referred))
                kinds = dict(tables[above]["columns"])
                up = [f"{name[:20]}^" for name in named]
                if len(set(up)) == len(up):
                    columns += [(one, kinds[name]) for one, name in zip(up, named, strict=True)]
                    found.append({"kind": "foreign", "columns": up, "table": above, "references": named})
        listed = [name for name, _ in columns]
        chance.shuffle(columns)
        for kind in ("unique", "unique", "primary"):
            if chance.random() < 0.6:
                one = chance.sample(listed, chance.randint(1, min(3, len(listed))))
                others = [{*key["columns"]} for key in found if key["kind"] != "foreign"]
                if {*one} not in others:
                    found.insert(0, {"kind": kind, "columns": one, "table": "", "references": []})
        tables[table] = {"columns": columns, "keys": found}
    return tables


def long_names() -> dict[str, dict]:
    """Parts of a key's name that are equally long, so that it matters which of them is cut."""
    column, above, below = "y" * 61, "x" * 61, "z" * 61
    primary = {"kind": "primary", "columns": [column], "table": "", "references": []}
    foreign = {"kind": "foreign", "columns": [column], "table": above, "references": [column]}
    return {
        name: {"columns": [(column, "integer")], "keys": own} for name, own in ((above, [primary]), (below, [foreign]))
    }


def ddl(table: str, told: dict) -> str:
    words = {"primary": "PRIMARY KEY", "unique": "UNIQUE", "foreign": "FOREIGN KEY"}
    parts = [f"{quote(name)} {kind}" for name, kind in told["columns"]]
    for key in told["keys"]:
        text = f"{words[key['kind']]} ({', '.join(map(quote, key['columns']))})"
        if key["table"]:
            text += f" REFERENCES made.{quote(key['table'])} ({', '.join(map(quote, key['references']))})"
        parts.append(text)
    return f"CREATE TABLE made.{quote(table)} ({', '.join(parts)})"


@pytest.fixture(scope="module")
def own():
    with duckdb.connect() as connection:
        connection.execute(f"CREATE SCHEMA {catalogue.RESULTS}; CREATE SCHEMA {protected_names.SCHEMA}")
        catalogue.make(connection, functions_served())
        connection.execute(
            f"CREATE TABLE main.seen (i INTEGER); CREATE TABLE {protected_names.SCHEMA}.asked (i INTEGER)"
        )
        yield connection


def fill(own: duckdb.DuckDBPyConnection, tables: dict[str, dict]) -> None:
    """As `Analysis` does, without rows."""
    own.execute("DROP SCHEMA IF EXISTS made CASCADE; CREATE SCHEMA made")
    own.execute(keys.FORGET, ["made"])
    for table, told in tables.items():
        columns = ", ".join(f"{quote(name)} {kind}" for name, kind in told["columns"])
        own.execute(f"CREATE TABLE made.{quote(table)} ({columns})")
        for column in keys.not_null(told):
            own.execute(f"ALTER TABLE made.{quote(table)} ALTER {quote(column)} SET NOT NULL")
    for row in keys.rows("made", tables, dict(own.execute(catalogue.OIDS, ["made"]).fetchall())):
        own.execute(keys.INSERT, row)


def ordered(rows: list[tuple]) -> list[tuple]:
    return sorted((tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in rows), key=repr)


def test_it_is_what_postgresql_says_of_random_trees(own, real):
    seen = SimpleNamespace(keys=0, composite=0, levels=0)
    for seed, tables in enumerate([long_names(), *map(tree, SEEDS)]):
        fill(own, tables)
        real.execute("DROP SCHEMA IF EXISTS made CASCADE; CREATE SCHEMA made")
        for table, told in tables.items():
            real.execute(ddl(table, told).encode())
        for name, statement in STATEMENTS.items():
            theirs = ordered(real.execute(statement.encode()).fetchall())
            ours = ordered(own.execute(respelled(statement, "alice")).fetchall())
            assert ours == theirs, (seed, name, tables)
        foreign = [key for told in tables.values() for key in told["keys"] if key["kind"] == "foreign"]
        seen.keys += len(foreign)
        seen.composite += sum(len(key["columns"]) > 1 for key in foreign)
        seen.levels += any(key["kind"] == "foreign" for one in foreign for key in tables[one["table"]]["keys"])
    real.execute("DROP SCHEMA made CASCADE")
    assert min(seen.keys, seen.composite, seen.levels) > 0, seen


def test_a_name_that_is_taken_gets_a_number():
    told = {
        "columns": [("i", "integer")],
        "keys": [{"kind": "primary", "columns": ["i"], "table": "", "references": []}],
    }
    rows = list(
        keys.rows("made", {"t": told, "t_pkey": told, "t_pkey1": told}, {"": 1, "t": 2, "t_pkey": 3, "t_pkey1": 4})
    )
    assert [row[6] for row in rows] == ["t_pkey2", "t_pkey_pkey", "t_pkey1_pkey"]
