"""Postgres' catalogue of the released tables: views and macros of the schemas `pgx` and `pgi`.

They stand for `pg_catalog` and `information_schema`, whose own views in DuckDB show all of the instance, and lack much
of what clients ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import duckdb

from dpsql.core.names import quote

from . import key_views, keys, pgtypes, shown_settings
from .from_postgres import AS_NUMBER, PROCEDURES
from .postgres_functions import KEYWORDS
from .postgres_functions import MACROS as _MEANT
from .postgres_functions import TABLES as _TABLES_MEANT
from .protected_names import SCHEMA as PROTECTED
from .relations import relations
from .server_settings import VERSION

RESULTS: Final = "dpsql_results"
"""A schema of rows that were fetched for statements, which no catalogue lists."""
_LISTED: Final = f"database_name = 'memory' AND schema_name NOT IN ('pgx', 'pgi', '{RESULTS}') AND NOT internal"
_SCHEMA_NAME: Final = f"CASE schema_name WHEN '{PROTECTED}' THEN 'main' ELSE schema_name END AS schema_name"
_TABLES: Final = (
    f"SELECT table_oid, table_name, comment, schema_name = '{PROTECTED}' AS protected, {_SCHEMA_NAME}, "
    f"CASE WHEN schema_name IN ('main', '{PROTECTED}') THEN 2200 ELSE 15000 + schema_oid END AS namespace "
    f"FROM duckdb_tables() WHERE {_LISTED}"
)
OIDS: Final = (
    "SELECT table_name, 20000 + table_oid FROM duckdb_tables() WHERE database_name = 'memory' AND schema_name = $1 "
    "UNION ALL SELECT '', 15000 + oid FROM duckdb_schemas() WHERE database_name = 'memory' AND schema_name = $1"
)
"""Numbers of the tables of a schema, and of the schema itself."""
_OTHER_SCHEMAS: Final = f"SELECT DISTINCT namespace, schema_name FROM ({_TABLES}) t WHERE namespace <> 2200"
_READ: Final = "CASE WHEN protected THEN ['dpsql=/dpsql'] ELSE ['dpsql=r/dpsql', '=r/dpsql'] END"
"""The privileges on a table: everybody who is shown a released one reads it, and nobody a protected one."""
_COLUMNS: Final = f"SELECT * REPLACE ({_SCHEMA_NAME}) FROM duckdb_columns() WHERE {_LISTED}"

_OF_ARRAYS: Final = 7000
"""The number of the first function of all arrays."""
_OF_TYPES: Final = " UNION ALL ".join(
    f"SELECT min({column}{AS_NUMBER}) AS oid, {column} AS proname, {place} AS place FROM pgx.dpsql_type GROUP BY {column}"
    for place, column in enumerate(PROCEDURES)
)
"""The functions of types. Types that share one have its number."""
_CLASS: Final = (
    "SELECT 1259 AS tableoid, 20000 + table_oid AS oid, table_name AS relname, namespace AS relnamespace, 0 AS reltype, "
    "0 AS reloftype, 10 AS relowner, 2 AS relam, 0 AS reltablespace, 0 AS relpages, -1::FLOAT AS reltuples, "
    "0 AS reltoastrelid, EXISTS (SELECT 1 FROM pgx.dpsql_key k WHERE k.relid = 20000 + t.table_oid AND k.kind <> 'f') "
    "AS relhasindex, false AS relisshared, 'p' AS relpersistence, CASE WHEN protected THEN 'f' ELSE 'r' END AS relkind, "
    "(SELECT count(*) FROM duckdb_columns() c WHERE c.table_oid = t.table_oid) AS relnatts, 0 AS relchecks, "
    "false AS relhasrules, EXISTS (SELECT 1 FROM pgx.dpsql_key k WHERE k.kind = 'f' AND (k.relid = 20000 + "
    "t.table_oid OR k.frelid = 20000 + t.table_oid)) AS relhastriggers, false AS relhassubclass, false AS "
    "relrowsecurity, false AS relforcerowsecurity, true AS relispopulated, 'd' AS relreplident, false AS "
    f"relispartition, false AS relhasoids, {_READ} AS relacl, NULL::VARCHAR[] AS reloptions, NULL AS relpartbound "
    f"FROM ({_TABLES}) t"
)
_BELOW: Final = {
    "dpsql_class": _CLASS,
    "dpsql_named": f"SELECT 20000 + table_oid AS oid, table_name AS name, namespace, schema_name, protected FROM ({_TABLES}) "
    "UNION ALL SELECT index_oid, name, namespace, schema_name, false FROM pgx.dpsql_key WHERE kind <> 'f'",
}
"""Views that those of PostgreSQL's read, in the order in which they are made."""
VIEWS: Final = {
    **key_views.VIEWS,
    "pg_namespace": "SELECT * FROM (VALUES (2200, 'main', 10, NULL), (11, 'pg_catalog', 10, NULL), "
    "(13000, 'information_schema', 10, NULL)) v(oid, nspname, nspowner, nspacl) UNION ALL SELECT namespace, schema_name, "
    f"10, NULL FROM ({_OTHER_SCHEMAS})",
    "pg_roles": "SELECT 10 AS oid, 'dpsql' AS rolname, false AS rolsuper, true AS rolinherit, false AS rolcreaterole, "
    "false AS rolcreatedb, true AS rolcanlogin, -1 AS rolconnlimit, NULL AS rolvaliduntil, false AS rolreplication, "
    "false AS rolbypassrls",
    "pg_user": "SELECT 10 AS usesysid, 'dpsql' AS usename, false AS usesuper",
    "pg_database": "SELECT 1 AS oid, 'dpsql' AS datname, 10 AS datdba, 6 AS encoding, 'C' AS datcollate, "
    "'C' AS datctype, NULL AS datacl, false AS datistemplate, true AS datallowconn, -1 AS datconnlimit, "
    "1663 AS dattablespace, 'c' AS datlocprovider, NULL AS daticulocale",
    "pg_tablespace": "SELECT 1663 AS oid, 'pg_default' AS spcname, 10 AS spcowner, NULL AS spcacl",
    "pg_am": "SELECT * FROM (VALUES (2, 'heap', 't'), (403, 'btree', 'i')) v(oid, amname, amtype)",
    "pg_class": "FROM pgx.dpsql_class UNION ALL SELECT c.* REPLACE (k.index_oid AS oid, k.name AS relname, 403 AS relam, "
    "false AS relhasindex, 'i' AS relkind, len(k.numbers) AS relnatts, false AS relhastriggers, 'n' AS relreplident, "
    "NULL AS relacl) FROM pgx.dpsql_class c JOIN pgx.dpsql_key k ON k.relid = c.oid WHERE k.kind <> 'f'",
    "pg_attribute": "SELECT 20000 + table_oid AS attrelid, column_name AS attname, pgx.type_oid(data_type)::UINTEGER AS atttypid, "
    "-1 AS attstattarget, -1 AS attlen, column_index AS attnum, 0 AS attndims, pgx.type_mod(data_type) AS atttypmod, "
    "NOT is_nullable AS attnotnull, false AS atthasdef, false AS atthasmissing, '' AS attidentity, "
    "'' AS attgenerated, false AS attisdropped, true AS attislocal, 0 AS attinhcount, 0 AS attcollation, "
    "NULL AS attacl, NULL AS attoptions, NULL AS attfdwoptions, 'p' AS attstorage, '' AS attcompression "
    f"FROM ({_COLUMNS}) c",
    "pg_description": "SELECT 20000 + table_oid AS objoid, 1259 AS classoid, 0 AS objsubid, comment AS description "
    f"FROM ({_TABLES}) t WHERE comment IS NOT NULL UNION ALL SELECT 20000 + table_oid, 1259, column_index, comment "
    f"FROM ({_COLUMNS}) c WHERE comment IS NOT NULL",
    "pg_tables": "SELECT n.nspname AS schemaname, relname AS tablename, 'dpsql' AS tableowner, NULL AS tablespace, relhasindex "
    "AS hasindexes, false AS hasrules, relhastriggers AS hastriggers, false AS rowsecurity FROM pgx.dpsql_class c JOIN "
    "pgx.pg_namespace n ON n.oid = c.relnamespace WHERE relkind = 'r'",
    "pg_proc": "SELECT * FROM (VALUES {functions}) v(oid, proname, proargs, procomment, pronargs, proargtypes, "
    "proargnames), (VALUES (2200, 10, 'f', true, 2249, 'v', 's', 0, 14, false, 0, 0::SMALLINT, NULL::VARCHAR[], "
    "NULL::BIGINT[], NULL::VARCHAR[], '', '')) w(pronamespace, proowner, prokind, proretset, prorettype, provolatile, "
    "proparallel, provariadic, prolang, prosecdef, protransform, pronargdefaults, proacl, proallargtypes, "
    "proargmodes, prosrc, probin) UNION ALL BY NAME SELECT * EXCLUDE (place), 11 AS pronamespace, 10 AS proowner, 'f' AS "
    f"prokind, false AS proretset FROM ({_OF_TYPES})",
    "pg_foreign_server": "SELECT 13100 AS oid, 'dp_query' AS srvname, 10 AS srvowner, 0 AS srvfdw, NULL::VARCHAR AS "
    "srvtype, NULL::VARCHAR AS srvversion, NULL::VARCHAR[] AS srvacl, NULL::VARCHAR[] AS srvoptions",
    "pg_foreign_table": "SELECT 20000 + table_oid AS ftrelid, 13100 AS ftserver, NULL::VARCHAR[] AS ftoptions "
    f"FROM ({_TABLES}) t WHERE protected",
    "pg_language": "SELECT 14 AS oid, 'sql' AS lanname",
    "pg_settings": shown_settings.VIEW,
}
_READABLE: Final = (
    "coalesce(TRY_CAST({0}::VARCHAR AS BIGINT), pgx.to_regclass({0}::VARCHAR), 0) NOT IN "
    "(SELECT dpsql_f.oid FROM pgx.dpsql_named dpsql_f WHERE dpsql_f.protected)"
)
"""Whether a table, which has a name or a number, is none of the protected ones."""
_SPELLED: Final = "[dpsql_f.{0}, '\"' || replace(dpsql_f.{0}, '\"', '\"\"') || '\"']"
_TO_REGCLASS: Final = (
    "to_regclass(x) AS CASE WHEN replace(x, chr(34), '') IN ('pg_class', 'pg_catalog.pg_class') THEN 1259 ELSE coalesce((SELECT "
    "arg_min(dpsql_f.oid, dpsql_f.namespace) FROM pgx.dpsql_named dpsql_f WHERE list_contains(list_concat("
    f"CASE dpsql_f.namespace WHEN 2200 THEN {_SPELLED.format('name')} ELSE [] END, flatten(list_transform("
    f"{_SPELLED.format('schema_name')}, lambda dpsql_s: list_transform({_SPELLED.format('name')}, lambda dpsql_n: "
    """dpsql_s || '.' || dpsql_n)))), regexp_replace(x, '^("dpsql"|dpsql)\\.', ''))), TRY_CAST(x AS BIGINT)) END"""
)
"""The number of a name, with its schema before it or not, and each in quotation marks or not."""
_SEEN: Final = (
    *("type", "function", "operator", "opclass", "opfamily", "conversion", "collation", "statistics_obj"),
    *("ts_config", "ts_dict", "ts_parser", "ts_template"),
)
"""Kinds of objects of which PostgreSQL says whether one is found without its schema's name."""
_MACROS: Final = (
    *shown_settings.MACROS,
    _TO_REGCLASS,
    "pg_advisory_unlock_all() AS NULL::VARCHAR",
    "current_database() AS 'dpsql'",
    "current_catalog() AS 'dpsql'",
    "current_user(x) AS x",
    "current_role(x) AS x",
    "session_user(x) AS x",
    "generate_series(a, b) AS unnest(generate_series(a, b)), (a, b, c) AS unnest(generate_series(a, b, c))",
    "_pg_expandarray(l) AS unnest(list_transform(l, lambda x, n: {'x': x, 'n': n}))",
    "current_schema() AS 'main'",
    "current_schemas(x) AS CASE WHEN x THEN ['pg_catalog', 'main'] ELSE ['main'] END",
    "version() AS 'PostgreSQL " + VERSION + " (dpsql)'",
    "pg_get_userbyid(x) AS 'dpsql'",
    "pg_table_is_visible(x) AS x NOT IN (SELECT dpsql_f.oid FROM pgx.dpsql_named dpsql_f WHERE dpsql_f.namespace <> 2200)",
    *(f"pg_{kind}_is_visible(x) AS true" for kind in _SEEN),
    "getdatabaseencoding() AS 'UTF8'",
    "pg_tablespace_size(x) AS 0",
    "array_remove(a, x) AS list_filter(a, lambda y: y IS DISTINCT FROM x)",
    "pg_is_in_recovery() AS false",
    "pg_backend_pid() AS 0",
    "pg_encoding_to_char(x) AS 'UTF8'",
    "pg_get_expr(a, b) AS NULL::VARCHAR, (a, b, c) AS NULL::VARCHAR",
    "pg_partition_ancestors(x) AS unnest([]::BIGINT[])",
    "pg_get_statisticsobjdef_columns(x) AS NULL::VARCHAR",
    "pg_get_viewdef(a) AS NULL::VARCHAR, (a, b) AS NULL::VARCHAR",
    "pg_get_triggerdef(a) AS NULL::VARCHAR, (a, b) AS NULL::VARCHAR",
    "pg_get_partkeydef(a) AS NULL::VARCHAR",
    "pg_relation_is_publishable(x) AS false",
    "pg_tablespace_location(x) AS ''",
    "pg_get_function_result(x) AS 'TABLE'",
    "pg_get_function_arguments(x) AS (SELECT any_value(dpsql_f.proargs) FROM pgx.pg_proc dpsql_f WHERE dpsql_f.oid = x)",
    "pg_get_function_identity_arguments(x) AS (SELECT any_value(dpsql_f.proargs) FROM pgx.pg_proc dpsql_f WHERE dpsql_f.oid = x)",
    "pg_get_function_sqlbody(x) AS NULL::VARCHAR",
    "pg_total_relation_size(x) AS 0",
    "pg_table_size(x) AS 0",
    "pg_relation_size(x) AS 0",
    "pg_database_size(x) AS 0",
    "pg_get_serial_sequence(a, b) AS NULL::VARCHAR",
    "pg_char_to_encoding(x) AS 6",
    "has_function_privilege(a, b) AS true, (a, b, c) AS true",
    "has_column_privilege(a, b, c) AS true, (a, b, c, d) AS true",
    "has_any_column_privilege(a, b) AS true, (a, b, c) AS true",
    "has_sequence_privilege(a, b) AS false, (a, b, c) AS false",
    "has_schema_privilege(a, b) AS true, (a, b, c) AS true",
    f"has_table_privilege(a, b) AS {_READABLE.format('a')}, (a, b, c) AS {_READABLE.format('b')}",
    "has_database_privilege(a, b) AS true, (a, b, c) AS true",
    "obj_description(a) AS (SELECT any_value(dpsql_f.description) FROM pgx.pg_description dpsql_f "
    "WHERE dpsql_f.objoid = a AND dpsql_f.objsubid = 0), (a, b) AS (SELECT any_value(dpsql_f.description) FROM "
    "pgx.pg_description dpsql_f WHERE dpsql_f.objoid = a AND dpsql_f.objsubid = 0)",
    "shobj_description(a, b) AS NULL::VARCHAR",
    "col_description(a, b) AS (SELECT any_value(dpsql_f.description) FROM pgx.pg_description dpsql_f "
    "WHERE dpsql_f.objoid = a AND dpsql_f.objsubid = b AND b > 0)",
    "array_upper(a, d) AS nullif(array_length(a, d), 0)::INTEGER",
    "array_lower(a, d) AS CASE WHEN array_length(a, d) > 0 THEN 1 END",
    "quote_literal(x) AS chr(39) || replace(x, chr(39), chr(39) || chr(39)) || chr(39)",
    "to_regproc(x) AS (SELECT any_value(dpsql_f.oid) FROM pgx.pg_proc dpsql_f WHERE "
    "dpsql_f.proname = split_part(split_part(x, '(', 1), '.', -1))",
    "pg_get_functiondef(x) AS (SELECT any_value('-- ' || dpsql_f.proname || '(' || dpsql_f.proargs || '): ' || "
    "dpsql_f.procomment || chr(10)) FROM pgx.pg_proc dpsql_f WHERE dpsql_f.oid = x)",
    "to_regtype(x) AS (SELECT any_value(dpsql_f.oid) FROM pgx.pg_type dpsql_f WHERE dpsql_f.typname = x)",
    "pg_postmaster_start_time() AS NULL::TIMESTAMPTZ",
    "quote_ident(x) AS CASE WHEN regexp_full_match(x, '[a-z_][a-z0-9_$]*') AND x NOT IN "
    f"({str(sorted(KEYWORDS))[1:-1]}) THEN x ELSE '\"' || replace(x, '\"', '\"\"') || '\"' END",
    *key_views.MACROS,
    "regclass_name(x) AS coalesce((SELECT any_value(CASE dpsql_f.namespace WHEN 2200 THEN '' ELSE "
    "pgx.quote_ident(dpsql_f.schema_name) || '.' END || pgx.quote_ident(dpsql_f.name)) FROM pgx.dpsql_named dpsql_f "
    "WHERE dpsql_f.oid = x), CASE x WHEN 0 THEN '-' ELSE x::VARCHAR END)",
    "vector_text(x) AS CASE WHEN typeof(x) IN ('SMALLINT[]', 'BIGINT[]') THEN translate(x::VARCHAR, '[],', '') ELSE x::VARCHAR END",
    "format_type(a, b) AS (SELECT any_value(CASE WHEN a = 1700 AND b > 4 THEN dpsql_f.spelled || '(' || ((b - 4) >> 16) "
    "|| ',' || ((b - 4) & 65535) || ')' WHEN a IN (1042, 1043) AND b > 4 THEN dpsql_f.spelled || '(' || (b - 4) || ')' "
    "WHEN a IN (1083, 1114, 1184, 1266) AND b >= 0 THEN replace(dpsql_f.spelled, ' with', '(' || b || ') with') "
    "ELSE dpsql_f.spelled END) FROM pgx.pg_type dpsql_f WHERE dpsql_f.oid = a)",
)
_SCALARS: Final = ", ".join(f"'{name}': {kind.oid}" for name, kind in pgtypes.OF.items())
_ARRAYS: Final = ", ".join(f"{oid}: {kind.oid}" for oid, kind in pgtypes.ARRAYS.items())
_OF_TYPE: Final = (
    f"scalar_oid(t) AS coalesce(MAP {{{_SCALARS}, 'DECIMAL': 1700}}[regexp_replace(t, '^DECIMAL\\(.*\\)$', 'DECIMAL', 's')], 25)",
    # the list has the argument once, however often the value in it is used
    "type_oid(t) AS list_transform([t], lambda dpsql_t: CASE WHEN regexp_full_match(dpsql_t, '.*[^\\]]\\[\\d*\\]', 's') "
    f"THEN MAP {{{_ARRAYS}}}[pgx.scalar_oid(regexp_replace(dpsql_t, '\\[\\d*\\]$', ''))] ELSE pgx.scalar_oid(dpsql_t) "
    "END)[1]",
    "type_mod(t) AS CASE WHEN t LIKE 'DECIMAL(%)' THEN "
    "4 + (regexp_extract(t, '(\\d+),', 1)::INTEGER << 16) + regexp_extract(t, ',(\\d+)', 1)::INTEGER ELSE -1 END",
)
"""What PostgreSQL calls a type of DuckDB's, which is written as a text."""
TABLE_FUNCTIONS: Final = {
    "pg_get_keywords": "() AS TABLE SELECT keyword_name AS word, keyword_category[1] AS catcode, "
    "keyword_category AS catdesc FROM duckdb_keywords()",
    "pg_options_to_table": "(a) AS TABLE SELECT '' AS option_name, '' AS option_value WHERE false",
    "pg_partition_ancestors": "(a) AS TABLE SELECT NULL::BIGINT AS relid, 0 AS depth WHERE false",
    "pg_partition_tree": "(a) AS TABLE SELECT ''::VARCHAR AS relid, ''::VARCHAR AS parentrelid, true AS isleaf, "
    "0 AS level WHERE false",
    **_TABLES_MEANT,
}
"""Postgres' table functions of the schema `pgx`."""
FUNCTIONS: Final = frozenset({*TABLE_FUNCTIONS, *(text.partition("(")[0] for text in (*_MACROS, *_MEANT))})
"""Names of Postgres' functions, found without `pg_catalog.` before them."""
TEXTS: Final = (*_OF_TYPE, *_MACROS, *_MEANT)
"""Of all macros, as after CREATE MACRO and the schema. A table function has its argument once, or is one of them, too."""
RELATIONS: Final = frozenset(relations()["pgx"])
"""Of `pg_catalog`, found without its name before them."""
_SCHEMA: Final = {
    **key_views.SCHEMA_VIEWS,
    "tables": "SELECT 'dpsql' AS table_catalog, schema_name AS table_schema, table_name, "
    "CASE WHEN protected THEN 'FOREIGN' ELSE 'BASE TABLE' END AS table_type, "
    f"'NO' AS is_insertable_into, 'NO' AS is_typed, comment AS table_comment FROM ({_TABLES}) t",
    "columns": "SELECT 'dpsql' AS table_catalog, schema_name AS table_schema, table_name, column_name, "
    "column_index AS ordinal_position, NULL AS column_default, CASE WHEN is_nullable THEN 'YES' ELSE 'NO' END "
    "AS is_nullable, CASE typelem WHEN 0 THEN spelled ELSE 'ARRAY' END AS data_type, character_maximum_length, "
    "CASE WHEN typcategory = 'N' THEN numeric_precision END AS numeric_precision, CASE WHEN typcategory = 'N' THEN "
    "numeric_scale END AS numeric_scale, CASE WHEN typcategory IN ('D', 'T') THEN 6 END AS datetime_precision, "
    "'dpsql' AS udt_catalog, 'pg_catalog' AS udt_schema, typname AS udt_name, column_index::VARCHAR AS dtd_identifier, "
    "'NO' AS is_self_referencing, 'NO' AS is_identity, 'NO' AS identity_cycle, 'NEVER' AS is_generated, "
    "'NO' AS is_updatable, comment AS column_comment "
    f"FROM ({_COLUMNS}) c JOIN pgx.dpsql_type d ON d.oid = pgx.type_oid(c.data_type) ORDER BY table_oid, column_index",
    "schemata": "SELECT 'dpsql' AS catalog_name, nspname AS schema_name, 'dpsql' AS schema_owner FROM pgx.pg_namespace",
    "table_privileges": "SELECT 'dpsql' AS grantor, 'PUBLIC' AS grantee, 'dpsql' AS table_catalog, schema_name AS "
    "table_schema, table_name, 'SELECT' AS privilege_type, 'NO' AS is_grantable, 'NO' AS with_hierarchy "
    f"FROM ({_TABLES}) t WHERE NOT protected",
}
_JOINED: Final = "'date', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval', 'numeric', 'uuid', 'record'"
"""Types whose functions have an underscore in their names, such as date_in."""
_SYSTEM: Final = {"xmin": "BIGINT", "tableoid": "BIGINT"}
"""Columns that each table of PostgreSQL's has beside those that it lists, and programs read."""
_SPOKEN: Final = (
    ("dp_query", "sql, epsilon => …", "noisy answers of a query, with their errors"),
    ("dp_synthesize", "table, epsilon => …", "a synthetic table with the columns of its source"),
    ("dp_plan", "table, epsilon => …", "what a release would measure and cost; free"),
    ("dp_budget", "", "what is spent and left of each protected table"),
    ("dp_releases", "", "what was released"),
    ("dp_measurements", "release", "the noisy measurements of a release"),
    ("dp_domains", "table", "which columns and values of a protected table may be asked about; free"),
)


def make(connection: duckdb.DuckDBPyConnection, served: Sequence[Mapping[str, Any]]) -> None:
    """Create them, before the settings are locked.

    Args:
        connection: of the front's DuckDB.
        served: the dp_* functions with their parameters, as the keeper tells them.
    """
    for statement in _statements(served):
        connection.execute(statement)
    for below, meaning in _BELOW.items():
        connection.execute(f"CREATE VIEW pgx.{below} AS {meaning}")
    own = {"pgx": {**VIEWS, "pg_type": "FROM pgx.dpsql_type"}, "pgi": _SCHEMA}
    made = []
    for schema, columns_of in relations().items():
        for name, real in columns_of.items():
            columns = {**real, **_SYSTEM} if next(iter(real)) == "oid" else real
            text = own[schema].get(name)
            if text is None:
                empty = ", ".join(f"NULL::{kind} AS {quote(column)}" for column, kind in columns.items())
                made.append(f"CREATE VIEW {schema}.{quote(name)} AS SELECT {empty} LIMIT 0")
            else:
                text = text.replace("{functions}", _functions(served))
                connection.execute(f"CREATE VIEW {schema}.{quote(name)} AS {_whole(connection, text, columns)}")
    connection.execute(";".join(made))
    for text in (*_MACROS, *_MEANT):
        connection.execute(f"CREATE MACRO {'pgi' if text.startswith('_pg') else 'pgx'}.{text}")
    for name, text in TABLE_FUNCTIONS.items():
        connection.execute(f"CREATE MACRO pgx.{name}{text}")


def _whole(connection: duckdb.DuckDBPyConnection, text: str, columns: Mapping[str, str]) -> str:
    """A view of ours with all columns that PostgreSQL's has, in its order and types; more of ours come after.

    Numbers of objects keep the type that they have, because it shows as PostgreSQL's own in arrays of them.
    """
    ours = [str(row[0]) for row in connection.execute(f"DESCRIBE {text}").fetchall()]
    shown = []
    for column, kind in columns.items():
        if column not in ours:
            shown.append(f"NULL::{kind} AS {quote(column)}")
        else:
            same_type = kind == "BIGINT" or kind.endswith("[]")
            shown.append(quote(column) if same_type else f"CAST({quote(column)} AS {kind}) AS {quote(column)}")
    shown += [quote(column) for column in ours if column not in columns]
    return f"SELECT {', '.join(shown)} FROM ({text}) v"


def _functions(served: Sequence[Mapping[str, Any]]) -> str:
    """The rows of `pg_proc`."""
    parameters = {function["name"]: function["parameters"] for function in served}
    rows = []
    for number, (name, arguments, comment) in enumerate(_SPOKEN):
        own = parameters[name]
        types = " ".join(str(pgtypes.pg_type(parameter["type"]).oid) for parameter in own)
        names = ", ".join(f"'{parameter['name']}'" for parameter in own)
        rows.append(
            f"({9000 + number}, '{name}', '{arguments}', '{comment}', {len(own)}::SMALLINT, '{types}', "
            f"[{names}]::VARCHAR[])"
        )
    return ", ".join(rows)


def _statements(served: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "CREATE SCHEMA pgx"
    yield "CREATE SCHEMA pgi"
    yield keys.CREATE
    for text in _OF_TYPE:
        yield f"CREATE MACRO pgx.{text}"
    kinds = sorted(pgtypes.BY_OID.values(), key=lambda kind: kind.oid)
    rows = ", ".join(
        f"({k.oid}, '{k.name}', {k.length}, '{k.category}', '{k.spelled}', {k.element.oid if k.element else 0}, "
        f"{pgtypes.ARRAYS[k.oid].oid if k.oid in pgtypes.ARRAYS else 0})"
        for k in kinds
    )
    named = f"CASE WHEN typelem <> 0 THEN 'array_' WHEN typname IN ({_JOINED}) THEN typname || '_' ELSE typname END"
    ends = {"typinput": "in", "typoutput": "out", "typreceive": "recv", "typsend": "send"}
    procedures = ", ".join(f"{named} || '{end}' AS {column}" for column, end in ends.items())
    procedures += "".join(
        f", CASE typelem WHEN 0 THEN 100 * oid + {place} ELSE {_OF_ARRAYS + place} END AS {column}{AS_NUMBER}"
        for place, column in enumerate(PROCEDURES)
    )
    yield (
        "CREATE VIEW pgx.dpsql_type AS SELECT oid, typname, 11 AS typnamespace, 10 AS typowner, typlen, false AS typbyval, "
        "CASE WHEN oid = 2249 THEN 'p' ELSE 'b' END AS typtype, typcategory, false AS typispreferred, "
        "true AS typisdefined, ',' AS typdelim, 0 AS typrelid, typelem, typarray, 0 AS typbasetype, "
        "-1 AS typtypmod, false AS typnotnull, 0 AS typcollation, NULL AS typdefault, 0 AS typndims, "
        f"{procedures}, '-' AS typmodin, '-' AS typmodout, '-' AS typanalyze, 'i' AS typalign, spelled "
        f"FROM (VALUES {rows}) v(oid, typname, typlen, typcategory, spelled, typelem, typarray)"
    )
