-- Ibis 12.0, backend postgres: its tables, a table's schema, expressions.
-- Recorded from the program, which spoke to PostgreSQL, by tests/service/recorded.py.
-- What reads is here, once, with its parameters and without comments. What PostgreSQL refused is left out.
-- The statements are Ibis', under the Apache Licence 2.0: Copyright the contributors to Ibis.
-- columns: current_database
SELECT CURRENT_DATABASE()
;
-- columns: current_schema
SELECT CURRENT_SCHEMA
;
-- columns: table_name
SELECT DISTINCT table_name FROM information_schema.tables WHERE TRUE AND table_schema = 'main' AND table_catalog = 'dpsql'
;
-- columns: schema_name
SELECT schema_name FROM information_schema.schemata
;
-- columns: column_name, data_type, nullable
SELECT
  a.attname AS column_name,
  CASE
    WHEN EXISTS(
      SELECT 1
      FROM pg_catalog.pg_type t
      INNER JOIN pg_catalog.pg_enum e
              ON e.enumtypid = t.oid
             AND t.typname = pg_catalog.format_type(a.atttypid, a.atttypmod)
    ) THEN 'enum'
    ELSE pg_catalog.format_type(a.atttypid, a.atttypmod)
  END AS data_type,
  NOT a.attnotnull AS nullable
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c
   ON a.attrelid = c.oid
INNER JOIN pg_catalog.pg_namespace n
   ON c.relnamespace = n.oid
WHERE a.attnum > 0
  AND NOT a.attisdropped
  AND n.nspname = ANY('{main}')
  AND c.relname = 'shown'
ORDER BY a.attnum ASC
;
-- columns: b, n, s, m
SELECT * FROM (SELECT "t0"."b", COUNT(*) AS "n", SUM("t0"."i") AS "s", AVG("t0"."n") AS "m" FROM "main"."shown" AS "t0" GROUP BY 1) AS "t1" ORDER BY "t1"."b" ASC
;
-- columns: i, s
SELECT "t0"."i", "t0"."s" FROM "main"."shown" AS "t0" WHERE "t0"."i" > 5 LIMIT 3
;
-- columns: m, m_count
SELECT "t1"."m", COUNT(*) AS "m_count" FROM (SELECT DATE_TRUNC('MONTH', "t0"."t") AS "m" FROM "main"."shown" AS "t0") AS "t1" GROUP BY 1
;
-- What follows is of other versions.
-- Ibis 9, backend postgres.
-- Written by hand after what the program is known to ask; nothing was copied or recorded.
-- columns: current_database
SELECT CURRENT_DATABASE()
;
-- columns: current_schema
SELECT CURRENT_SCHEMA()
;
-- columns: version
SELECT CURRENT_SETTING('server_version') AS "version"
;
-- columns: table_name
SELECT "table_name" FROM "information_schema"."tables" WHERE "table_schema" = 'main'
;
-- columns: nspname
SELECT nspname FROM pg_catalog.pg_namespace
;
-- columns: column_name, data_type, nullable
SELECT
  a.attname AS column_name,
  CASE
    WHEN EXISTS(
      SELECT 1
      FROM pg_catalog.pg_type t
      INNER JOIN pg_catalog.pg_enum e
        ON e.enumtypid = t.oid
        AND t.typname = pg_catalog.format_type(a.atttypid, a.atttypmod)
    ) THEN 'enum'
    ELSE pg_catalog.format_type(a.atttypid, a.atttypmod)
  END AS data_type,
  NOT a.attnotnull AS nullable
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c
   ON a.attrelid = c.oid
INNER JOIN pg_catalog.pg_namespace n
   ON c.relnamespace = n.oid
WHERE a.attnum > 0
  AND NOT a.attisdropped
  AND n.nspname IN ('main')
  AND c.relname = 'shown'
ORDER BY a.attnum ASC
;
-- columns: b, n
SELECT "t1"."b", COUNT(*) AS "n" FROM "main"."shown" AS "t1" GROUP BY 1
;
