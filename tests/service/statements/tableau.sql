-- Tableau 2024, by psqlODBC and JDBC: the tables of a schema, a table's columns, a first view.
-- Written by hand after what the program is known to ask; nothing was copied or recorded.
-- columns: oid, nspname
select oid, nspname from pg_namespace n where nspname like '%'
;
-- columns: relname, nspname, relkind
select relname, nspname, relkind from pg_catalog.pg_class c, pg_catalog.pg_namespace n where relkind in ('r', 'v', 'm', 'f', 'p') and nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pg_temp_1') and n.oid = relnamespace order by nspname, relname
;
-- columns: nspname, relname, attname, atttypid, typname, attnum, attlen, atttypmod, attnotnull, relhasrules, relkind, oid, pg_get_expr, case, typtypmod, relhasoids, attidentity, relhassubclass
select n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull, c.relhasrules, c.relkind, c.oid, pg_get_expr(d.adbin, d.adrelid), case t.typtype when 'd' then t.typbasetype else 0 end, t.typtypmod, 0 as relhasoids, '' as attidentity, c.relhassubclass from (((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n on n.oid = c.relnamespace and c.relname = 'shown' and n.nspname = 'main') inner join pg_catalog.pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid) inner join pg_catalog.pg_type t on t.oid = a.atttypid) left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum order by n.nspname, c.relname, attnum
;
-- columns: nspname, relname, conname, contype
select n.nspname, c.relname, con.conname, con.contype from pg_catalog.pg_constraint con join pg_class c on c.oid = con.conrelid join pg_namespace n on n.oid = c.relnamespace where con.contype in ('p', 'f', 'u')
;
-- columns: sum:i:ok, b
SELECT SUM("shown"."i") AS "sum:i:ok", "shown"."b" AS "b" FROM "main"."shown" "shown" GROUP BY 2
;
-- columns: tqr:t:ok, cnt
SELECT DATE_TRUNC( 'QUARTER', CAST("shown"."t" AS DATE) ) AS "tqr:t:ok", COUNT(1) AS "cnt" FROM "main"."shown" "shown" GROUP BY 1 HAVING (COUNT(1) > 0)
;
-- columns: extract
SELECT CAST(EXTRACT(YEAR FROM "shown"."t") AS INTEGER) FROM "main"."shown" "shown" LIMIT 1
;
