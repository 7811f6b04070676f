"""What PostgreSQL's catalogue says of keys: views and macros of the table that `keys` fills."""

from __future__ import annotations

from typing import Final

_OF_INDEX: Final = "FROM pgx.dpsql_key k WHERE k.kind <> 'f'"
_PLACE: Final = "'dpsql' AS table_catalog, schema_name AS table_schema"
_NAMED: Final = "'dpsql' AS constraint_catalog, schema_name AS constraint_schema, name AS constraint_name"
_REFERRED: Final = "CASE kind WHEN 'f' THEN of_table ELSE table_name END AS table_name"
VIEWS: Final = {
    "pg_constraint": "SELECT 2606 AS tableoid, oid, name AS conname, namespace AS connamespace, kind AS contype, "
    "false AS condeferrable, false AS condeferred, true AS convalidated, relid AS conrelid, 0 AS contypid, "
    "index_oid AS conindid, 0 AS conparentid, frelid AS confrelid, CASE kind WHEN 'f' THEN 'a' ELSE ' ' END AS "
    "confupdtype, CASE kind WHEN 'f' THEN 'a' ELSE ' ' END AS confdeltype, CASE kind WHEN 'f' THEN 's' ELSE ' ' END AS "
    "confmatchtype, true AS conislocal, 0 AS coninhcount, true AS connoinherit, numbers AS conkey, of_numbers AS "
    "confkey FROM pgx.dpsql_key",
    "pg_index": "SELECT index_oid AS indexrelid, relid AS indrelid, len(numbers) AS indnatts, len(numbers) AS "
    "indnkeyatts, true AS indisunique, false AS indnullsnotdistinct, kind = 'p' AS indisprimary, false AS "
    "indisexclusion, true AS indimmediate, false AS indisclustered, true AS indisvalid, false AS indcheckxmin, true AS "
    "indisready, true AS indislive, false AS indisreplident, numbers AS indkey, list_transform(numbers, lambda x: "
    "0::BIGINT) AS indcollation, list_transform(numbers, lambda x: 0::BIGINT) AS indclass, list_transform(numbers, "
    f"lambda x: 0::SMALLINT) AS indoption {_OF_INDEX}",
    "pg_indexes": "SELECT schema_name AS schemaname, table_name AS tablename, name AS indexname, index_definition AS "
    f"indexdef {_OF_INDEX}",
}
"""Of `pg_catalog`."""
SCHEMA_VIEWS: Final = {
    "table_constraints": f"SELECT {_NAMED}, {_PLACE}, table_name, CASE kind WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN "
    "'UNIQUE' ELSE 'FOREIGN KEY' END AS constraint_type, 'NO' AS is_deferrable, 'NO' AS initially_deferred, "
    "'YES' AS enforced, CASE kind WHEN 'u' THEN 'YES' END AS nulls_distinct FROM pgx.dpsql_key",
    "key_column_usage": f"SELECT {_NAMED}, {_PLACE}, table_name, unnest(columns) AS column_name, "
    "unnest(range(1, len(columns) + 1)) AS ordinal_position, CASE kind WHEN 'f' THEN unnest(of_positions) END AS "
    "position_in_unique_constraint FROM pgx.dpsql_key",
    "referential_constraints": "SELECT 'dpsql' AS constraint_catalog, k.schema_name AS constraint_schema, k.name AS "
    "constraint_name, 'dpsql' AS unique_constraint_catalog, u.schema_name AS unique_constraint_schema, u.name AS "
    "unique_constraint_name, 'NONE' AS match_option, 'NO ACTION' AS update_rule, 'NO ACTION' AS delete_rule "
    "FROM pgx.dpsql_key k JOIN pgx.dpsql_key u ON u.index_oid = k.index_oid AND u.kind <> 'f' WHERE k.kind = 'f'",
    "constraint_column_usage": f"SELECT {_PLACE}, {_REFERRED}, unnest(CASE kind WHEN 'f' THEN of_columns ELSE columns "
    f"END) AS column_name, {_NAMED} FROM pgx.dpsql_key",
    "constraint_table_usage": f"SELECT {_PLACE}, {_REFERRED}, {_NAMED} FROM pgx.dpsql_key",
}
"""Of `information_schema`."""
_DEFINITION: Final = "(SELECT any_value(dpsql_f.definition) FROM pgx.dpsql_key dpsql_f WHERE dpsql_f.oid = a)"
_INDEX: Final = "(SELECT any_value({}) FROM pgx.dpsql_key dpsql_f WHERE dpsql_f.kind <> 'f' AND dpsql_f.index_oid = a)"
_INDEX_PART: Final = _INDEX.format(
    "CASE WHEN b = 0 THEN dpsql_f.index_definition ELSE pgx.quote_ident(dpsql_f.columns[b]) END"
)
MACROS: Final = (
    f"pg_get_constraintdef(a) AS {_DEFINITION}, (a, b) AS {_DEFINITION}",
    f"pg_get_indexdef(a) AS {_INDEX.format('dpsql_f.index_definition')}, (a, b, c) AS {_INDEX_PART}",
)
"""Made after `quote_ident`."""
