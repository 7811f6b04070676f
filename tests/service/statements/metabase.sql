-- Metabase 0.50, driver postgres: the connection's test, sync and a first chart.
-- Written by hand after what the program is known to ask; nothing was copied or recorded.
-- columns: ?column?
SELECT 1
;
-- columns: timezone
SELECT current_setting('timezone') AS timezone
;
-- columns: schema, name, type, description, estimated-row-count
SELECT n.nspname AS schema, c.relname AS name,
 CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS type,
 d.description AS description,
 NULLIF(stat.n_live_tup, 0) AS "estimated-row-count"
FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description AS d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
LEFT JOIN pg_stat_user_tables AS stat ON n.nspname = stat.schemaname AND c.relname = stat.relname
WHERE c.relnamespace = n.oid AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
 AND c.relkind IN ('r', 'p', 'v', 'f', 'm')
ORDER BY type, schema, name
;
-- columns: role, schema, table, select, update, insert, delete
with table_privileges as (
  select NULL as role, t.schemaname as schema, t.objectname as table,
   pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'update') as update,
   pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'select') as select,
   pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'insert') as insert,
   pg_catalog.has_table_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'delete') as delete
  from (
    select schemaname, tablename as objectname from pg_catalog.pg_tables
    union
    select schemaname, viewname as objectname from pg_views
    union
    select schemaname, matviewname as objectname from pg_matviews
  ) t
  where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema'
   and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')
)
select t.role, t.schema, t.table, t.select, t.update, t.insert, t.delete from table_privileges t
;
-- columns: name, database-type, database-position, table-schema, table-name, pk?, field-comment, database-required, database-is-auto-increment
SELECT c.column_name AS name,
 CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN FORMAT('%s', c.udt_name) ELSE FORMAT('"%s"."%s"', c.udt_schema, c.udt_name) END AS "database-type",
 c.ordinal_position - 1 AS "database-position", c.table_schema AS "table-schema", c.table_name AS "table-name",
 pk.column_name IS NOT NULL AS "pk?", COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST(c.table_schema AS TEXT), CAST(c.table_name AS TEXT)) AS REGCLASS) AS OID), c.ordinal_position) AS "field-comment",
 ((c.column_default IS NULL) OR (LOWER(c.column_default) = 'null')) AND (c.is_nullable = 'NO') AND NOT (((c.column_default IS NOT NULL) AND (c.column_default LIKE '%nextval(%')) OR (c.is_identity <> 'NO')) AS "database-required",
 ((c.column_default IS NOT NULL) AND (c.column_default LIKE '%nextval(%')) OR (c.is_identity <> 'NO') AS "database-is-auto-increment"
FROM information_schema.columns AS c
LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints AS tc
 INNER JOIN information_schema.key_column_usage AS kc ON (tc.constraint_name = kc.constraint_name) AND (tc.table_schema = kc.table_schema) AND (tc.table_name = kc.table_name)
 WHERE tc.constraint_type = 'PRIMARY KEY') AS pk ON (c.table_schema = pk.table_schema) AND (c.table_name = pk.table_name) AND (c.column_name = pk.column_name)
WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND (c.table_schema IN ('main')) AND (c.table_name IN ('shown'))
ORDER BY "table-schema", "table-name", "database-position"
;
-- columns: fk-table-name, fk-table-schema, fk-column-name, pk-table-name, pk-table-schema, pk-column-name
SELECT fk_table.relname AS "fk-table-name", fk_ns.nspname AS "fk-table-schema", fk_column.attname AS "fk-column-name", pk_table.relname AS "pk-table-name", pk_ns.nspname AS "pk-table-schema", pk_column.attname AS "pk-column-name"
FROM pg_constraint AS c
INNER JOIN pg_class AS fk_table ON c.conrelid = fk_table.oid
INNER JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid
INNER JOIN pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid
INNER JOIN pg_class AS pk_table ON c.confrelid = pk_table.oid
INNER JOIN pg_namespace AS pk_ns ON pk_table.relnamespace = pk_ns.oid
INNER JOIN pg_attribute AS pk_column ON c.confrelid = pk_column.attrelid
WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND c.contype = 'f'::char AND fk_column.attnum = ANY(c.conkey) AND pk_column.attnum = ANY(c.confkey)
ORDER BY fk_ns.nspname, fk_table.relname
;
-- columns: nspname, typname
SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN (SELECT DISTINCT enumtypid FROM pg_enum e)
;
-- columns: substring1, i
SELECT SUBSTRING("main"."shown"."s", 1, 1234) AS "substring1", "main"."shown"."i" AS "i" FROM "main"."shown" LIMIT 10000
;
-- columns: t, count
SELECT DATE_TRUNC('month', "main"."shown"."t") AS "t", COUNT(*) AS "count" FROM "main"."shown" GROUP BY DATE_TRUNC('month', "main"."shown"."t") ORDER BY DATE_TRUNC('month', "main"."shown"."t") ASC
;
