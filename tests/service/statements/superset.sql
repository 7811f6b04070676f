-- Superset 4, by SQLAlchemy 1.4's dialect of PostgreSQL: a dataset, its columns, a first chart.
-- Written by hand after what the program is known to ask; nothing was copied or recorded.
-- columns: version
select pg_catalog.version()
;
-- columns: current_schema
select current_schema()
;
-- columns: transaction_isolation
show transaction isolation level
;
-- columns: standard_conforming_strings
show standard_conforming_strings
;
-- columns: nspname
SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname
;
-- columns: relname
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'main' AND c.relkind in ('r', 'p')
;
-- columns: relname
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'main' AND c.relkind IN ('v', 'm')
;
-- columns: oid
SELECT c.oid FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE (n.nspname = 'main') AND c.relname = 'shown' AND c.relkind in ('r', 'v', 'm', 'f', 'p')
;
-- columns: attname, format_type, default, attnotnull, table_oid, comment, generated, identity_options
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
 (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) AS DEFAULT,
 a.attnotnull, a.attrelid as table_oid, pgd.description as comment, a.attgenerated as generated,
 (SELECT json_build_object('always', a.attidentity = 'a', 'start', s.seqstart, 'increment', s.seqincrement, 'minvalue', s.seqmin, 'maxvalue', s.seqmax, 'cache', s.seqcache, 'cycle', s.seqcycle)
  FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c on s.seqrelid = c."oid" WHERE c.relkind = 'S' AND a.attidentity != '' AND s.seqrelid = pg_catalog.pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)::regclass::oid) as identity_options
FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_description pgd ON (pgd.objoid = a.attrelid AND pgd.objsubid = a.attnum)
WHERE a.attrelid = 20000 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
;
-- columns: name, visible, schema, label
SELECT t.typname as "name", pg_catalog.pg_type_is_visible(t.oid) as "visible", n.nspname as "schema", e.enumlabel as "label" FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_catalog.pg_enum e ON t.oid = e.enumtypid WHERE t.typtype = 'e' ORDER BY "schema", "name", e.oid
;
-- columns: pgd_table_comment
SELECT pgd.description as pgd_table_comment FROM pg_catalog.pg_description pgd WHERE pgd.objsubid = 0 AND pgd.objoid = 20000
;
-- columns: __timestamp, count
SELECT DATE_TRUNC('day', t) AS __timestamp, COUNT(*) AS count FROM main.shown WHERE t >= TO_TIMESTAMP('2000-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND t < TO_TIMESTAMP('2000-02-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('day', t) ORDER BY count DESC LIMIT 50000
;
