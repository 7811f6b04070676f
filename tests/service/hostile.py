"""What a hostile client sends: statements that were tried by hand, and more that the catalogue of DuckDB gives."""

from __future__ import annotations

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
