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
