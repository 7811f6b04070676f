"""What a hostile client sends: statements that were tried by hand, and more that the catalogue of DuckDB gives."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from dpsql.core import functions
from dpsql.service.allowed import FUNCTIONS, TABLE_FUNCTIONS

REFUSED = frozenset(functions.VALUES) - FUNCTIONS
REFUSED_TABLE_FUNCTIONS = frozenset(functions.TABLES) - TABLE_FUNCTIONS

TRIED = r"""
SELECT content FROM read_text('/etc/passwd')
SELECT * FROM read_csv('/etc/passwd', header=false, sep='~') LIMIT 1
SELECT * FROM '/etc/passwd.csv'
SELECT * FROM glob('*') LIMIT 1
SELECT size FROM read_blob('bank.duckdb')
COPY (SELECT 42) TO 'evil.csv'
EXPORT DATABASE 'loot/exp'
ATTACH 'evil.duckdb' AS evil
ATTACH 'bank.duckdb' AS stolen (READ_ONLY)
ATTACH ':memory:' AS mem2
INSTALL spatial
LOAD spatial
LOAD 'dpsql.duckdb_extension'
INSTALL quack FROM community
SET enable_external_access=true
SET lock_configuration=false
RESET lock_configuration
SET GLOBAL quack_authorization_function='quack_nop_authorization'
SET SESSION threads=1
SET search_path='information_schema'
SET VARIABLE x = 1
PRAGMA database_list
PRAGMA enable_profiling='json'
PRAGMA version
CALL pragma_version()
CREATE TABLE evil AS SELECT 1 AS a
CREATE TEMP TABLE tevil AS SELECT 1 AS a
CREATE MACRO dp_budget() AS TABLE SELECT 1 AS a
CREATE OR REPLACE FUNCTION lower(x) AS 'pwned'
CREATE VIEW vevil AS SELECT 1 AS a
CREATE SECRET (TYPE quack, TOKEN 'abcd')
CREATE SEQUENCE sevil
INSERT INTO shown VALUES (1,'x')
DELETE FROM shown WHERE i = 1
UPDATE shown SET s='pwned' WHERE i = 2
DROP TABLE shown
SELECT name, secret_string FROM duckdb_secrets()
SELECT * FROM duckdb_settings() WHERE name LIKE '%path%' LIMIT 1
SELECT database_name, path FROM duckdb_databases()
SELECT * FROM duckdb_functions() WHERE function_name='dp_query' LIMIT 1
SELECT * FROM duckdb_logs LIMIT 1
SELECT * FROM duckdb_tables()
SELECT * FROM duckdb_memory() LIMIT 1
SELECT * FROM duckdb_temporary_files()
SELECT * FROM adult LIMIT 1
SELECT * FROM q1.adult LIMIT 1
SELECT * FROM dpsql.ledger LIMIT 1
SELECT * FROM __dpsql_guard
SELECT * FROM pandas_df
FROM query('SELECT content FROM read_text(''/etc/passwd'')')
FROM query_table('shown')
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1 AS x'))
SELECT * FROM sql_auto_complete('SEL')
SELECT getenv('HOME')
SELECT current_setting('home_directory')
SELECT quack_connection_id FROM quack_active_connections() LIMIT 1
SELECT * FROM quack_server_list()
CALL quack_stop('quack:127.0.0.1:1')
CALL quack_serve('quack:127.0.0.1:9699', token='evil')
FROM quack_query('quack:127.0.0.1:9602', 'SELECT 1', token := 'alice-token')
SELECT authorise('x','SELECT 1')
SELECT authenticate('x','guess','y')
SELECT entered FROM dpsql_enter('guess')
CALL enable_logging()
SELECT write_log('forged')
CHECKPOINT
FORCE CHECKPOINT
VACUUM
USE memory
BEGIN TRANSACTION
PREPARE p AS SELECT 1
SELECT 1 AS a; SELECT 2 AS b
WITH x AS (SELECT 1) INSERT INTO shown SELECT 1, 'w'
EXPLAIN ANALYZE SELECT * FROM dp_query('SELECT sex, count(*) AS n FROM adult GROUP BY sex', epsilon := 0.01, release := 'xx')
CALL dp_protect('adult', epsilon := 99.0, delta := 0.5)
CALL dp_domain('adult', 'age', lower := 0, upper := 10, bins := 2)
SELECT * FROM dp_ledger()
SELECT * FROM dp_query('SELECT notes, count(*) AS n FROM adult GROUP BY notes', epsilon := 0.1)
SELECT * FROM dp_query('SELECT sex, count(*) AS n FROM adult; DROP TABLE adult', epsilon := 0.1)
SELECT * FROM pg_catalog.pg_settings LIMIT 1
SELECT * FROM information_schema.tables LIMIT 1
SHOW ALL TABLES
DESCRIBE shown
SUMMARIZE shown
PIVOT shown ON s USING count(*)
SELECT * FROM (VALUES (1)) v
SELECT * FROM system.main.duckdb_databases()
SELECT * FROM "main"."duckdb_tables"
SELECT * FROM sniff_csv('/etc/passwd')
SELECT * FROM parquet_schema('adult100.parquet') LIMIT 1
SELECT * FROM summary(TABLE shown)
SELECT * FROM repeat_row(1, num_rows=2)
SELECT * FROM test_all_types() LIMIT 1
SELECT * FROM seq_scan('shown')
SELECT * FROM force_checkpoint()
""".strip().splitlines()

CORNERS = [
    "SELECT bitstring('1', 1000000000)::VARCHAR",
    "SELECT bitstring_agg(1, 1, 1000000000)",
    "SELECT * FROM dpsql_results.r1",
    "SELECT * FROM memory.dpsql_results.r1",
    "DESCRIBE dpsql_results.r1",
    "SHOW dpsql_results.r1",
    "SUMMARIZE dpsql_results.r1",
    "SHOW TABLES FROM dpsql_results",
    "SHOW ALL TABLES",
    "DESCRIBE SELECT * FROM duckdb_tables()",
    "DESCRIBE duckdb_tables",
    "SUMMARIZE duckdb_tables",
    "SELECT * FROM dpsql_connection()",
    "SELECT 1 ORDER BY getenv('HOME')",
    "SELECT 1 LIMIT (SELECT count(*) FROM duckdb_settings())",
    "SELECT sum(1) FILTER (WHERE getenv('HOME') = 'x')",
    "SELECT count(*) OVER (PARTITION BY getenv('HOME'))",
    "SELECT list_transform([1], x -> getenv('HOME'))",
    "SELECT [getenv(x) FOR x IN ['HOME']]",
    "SELECT * FROM (FROM shown) AS s JOIN LATERAL (SELECT getenv('HOME')) ON true",
    "VALUES (getenv('HOME'))",
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a FROM r, duckdb_settings()) FROM r",
    "SELECT 'HOME'.getenv()",
    "SELECT system.main.getenv('HOME')",
    "FROM shown SELECT COLUMNS(c -> getenv('HOME') = c)",
    "SELECT * REPLACE (getenv('HOME') AS s) FROM shown",
    "SELECT * EXCLUDE (s) FROM '/etc/passwd'",
    "FROM 'a.csv'",
    'FROM "a.parquet"',
    "SELECT * FROM shown TABLESAMPLE 1%; DROP TABLE shown",
    "FROM shown AT (VERSION => 1)",
    "SELECT pgx.write_log() FROM (SELECT 'x' AS pgx)",
    "SELECT pgi.current_setting() FROM (SELECT 'home_directory' AS pgi)",
    "SELECT pgi.version() FROM (SELECT 1 AS pgi)",
    "SELECT pgi.repeat(2000000000) FROM (SELECT 'x' AS pgi)",
    "SELECT pgx.bitstring(2000000000) FROM (SELECT '1' AS pgx)",
    "SELECT pgx._pg_expandarray([1])",
    "SELECT * FROM pgx.read_text('/etc/passwd')",
    "SELECT * FROM pgx.duckdb_settings()",
    "SELECT * FROM pgi.pg_get_keywords()",
    "SELECT * FROM memory.pgx.pg_get_keywords()",
    "SELECT * FROM main.pg_get_keywords()",
    "EXPLAIN (ANALYZE) SELECT 1",
    "EXPLAIN EXPLAIN ANALYZE SELECT 1",
    "EXPLAIN CREATE TABLE x AS SELECT 1",
    "EXPLAIN SELECT * FROM read_text('/etc/passwd')",
    "WITH x AS (DELETE FROM shown RETURNING *) FROM x",
    "WITH x AS (INSERT INTO shown SELECT 1 RETURNING *) FROM x",
    "WITH x AS (UPDATE shown SET i = 1 RETURNING *) FROM x",
    "WITH x AS (COPY shown TO 'a.csv') FROM x",
    "SELECT (WITH x AS (DELETE FROM shown RETURNING *) SELECT count(*) FROM x)",
    "EXPLAIN WITH x AS (DELETE FROM shown RETURNING *) FROM x",
    "SELECT * FROM dp_query('SELECT 1', epsilon := 0.01 + random())",
    "SELECT * FROM dp_query('SELECT 1', epsilon := CASE WHEN random() < 0.5 THEN 0.1 ELSE 0.2 END)",
    "SELECT * FROM dp_query('SELECT ' || uuid(), epsilon := 0.1)",
    "SELECT * FROM dp_query((SELECT 'SELECT 1'), epsilon := 0.1)",
    "FROM dp_query('SELECT 1', epsilon := 0.1), (DESCRIBE FROM dp_query('SELECT 2', epsilon := 0.1))",
    "DESCRIBE FROM duckdb_settings()",
    "DESCRIBE SELECT getenv('HOME')",
    "SELECT a" + ".b" * 10000,
    "SELECT $1, a" + ".b" * 10000,
    "SELECT 1 " + "/*" * 60000,
]


def generated() -> Iterator[str]:
    """Every function that is not served, every setting, and every view of DuckDB's own catalogue, a statement each."""
    for name in sorted(REFUSED_TABLE_FUNCTIONS):
        yield f'SELECT * FROM "{name}"(1)'
    for name in sorted(REFUSED):
        yield f'SELECT "{name}"(1)'
    with duckdb.connect() as db:
        for (name,) in db.execute("SELECT name FROM duckdb_settings() ORDER BY 1").fetchall():
            yield f"SET GLOBAL {name} = 1"
            yield f"SELECT current_setting('{name}')"
        for schema, name in db.execute("SELECT schema_name, view_name FROM duckdb_views() WHERE internal").fetchall():
            yield f'SELECT * FROM system."{schema}"."{name}"'
