-- SQLAlchemy 1.4, through which Superset 4 to 6 ask: schemas, tables, columns, keys, charts.
-- Recorded from the program, which spoke to PostgreSQL, by tests/service/recorded.py.
-- What reads is here, once, with its parameters and without comments. What PostgreSQL refused is left out.
-- The statements are SQLAlchemy's, under the MIT Licence: Copyright the SQLAlchemy authors and contributors.
-- columns: oid, typarray
SELECT t.oid, typarray
FROM pg_type t JOIN pg_namespace ns
    ON typnamespace = ns.oid
WHERE typname = 'hstore'
;
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
SELECT c.oid
            FROM pg_catalog.pg_class c
            LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE (n.nspname = 'main')
            AND c.relname = 'shown' AND c.relkind in
            ('r', 'v', 'm', 'f', 'p')
;
-- columns: attname, format_type, default, attnotnull, table_oid, comment, generated, identity_options
SELECT a.attname,
              pg_catalog.format_type(a.atttypid, a.atttypmod),
              (
                SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid)
                FROM pg_catalog.pg_attrdef d
                WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum
                AND a.atthasdef
              ) AS DEFAULT,
              a.attnotnull,
              a.attrelid as table_oid,
              pgd.description as comment,
              a.attgenerated as generated,
                              (SELECT json_build_object(
                    'always', a.attidentity = 'a',
                    'start', s.seqstart,
                    'increment', s.seqincrement,
                    'minvalue', s.seqmin,
                    'maxvalue', s.seqmax,
                    'cache', s.seqcache,
                    'cycle', s.seqcycle)
                FROM pg_catalog.pg_sequence s
                JOIN pg_catalog.pg_class c on s.seqrelid = c."oid"
                WHERE c.relkind = 'S'
                AND a.attidentity != ''
                AND s.seqrelid = pg_catalog.pg_get_serial_sequence(
                    a.attrelid::regclass::text, a.attname
                )::regclass::oid
                ) as identity_options
            FROM pg_catalog.pg_attribute a
            LEFT JOIN pg_catalog.pg_description pgd ON (
                pgd.objoid = a.attrelid AND pgd.objsubid = a.attnum)
            WHERE a.attrelid = 16385
            AND a.attnum > 0 AND NOT a.attisdropped
            ORDER BY a.attnum
;
-- columns: name, attype, nullable, default, visible, schema
SELECT t.typname as "name",
               pg_catalog.format_type(t.typbasetype, t.typtypmod) as "attype",
               not t.typnotnull as "nullable",
               t.typdefault as "default",
               pg_catalog.pg_type_is_visible(t.oid) as "visible",
               n.nspname as "schema"
            FROM pg_catalog.pg_type t
               LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
            WHERE t.typtype = 'd'
;
-- columns: name, visible, schema, label
SELECT t.typname as "name",
               pg_catalog.pg_type_is_visible(t.oid) as "visible",
               n.nspname as "schema",
               e.enumlabel as "label"
            FROM pg_catalog.pg_type t
                 LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
                 LEFT JOIN pg_catalog.pg_enum e ON t.oid = e.enumtypid
            WHERE t.typtype = 'e'
        ORDER BY "schema", "name", e.oid
;
-- columns: attname
SELECT a.attname
                FROM pg_attribute a JOIN (
                    SELECT unnest(ix.indkey) attnum,
                           generate_subscripts(ix.indkey, 1) ord
                    FROM pg_index ix
                    WHERE ix.indrelid = 16385 AND ix.indisprimary
                    ) k ON a.attnum=k.attnum
                WHERE a.attrelid = 16385
                ORDER BY k.ord
;
-- columns: conname
SELECT conname
           FROM  pg_catalog.pg_constraint r
           WHERE r.conrelid = 16385 AND r.contype = 'p'
           ORDER BY 1
;
-- columns: conname, condef, conschema
SELECT r.conname,
                pg_catalog.pg_get_constraintdef(r.oid, true) as condef,
                n.nspname as conschema
          FROM  pg_catalog.pg_constraint r,
                pg_namespace n,
                pg_class c
          WHERE r.conrelid = 16385 AND
                r.contype = 'f' AND
                c.oid = confrelid AND
                n.oid = c.relnamespace
          ORDER BY 1
;
-- wants DuckDB 2: 1.5 has no such join
-- columns: relname, indisunique, indexprs, attname, attnum, conrelid, indkey, indoption, reloptions, amname, pg_get_expr, indnkeyatts
SELECT
                  i.relname as relname,
                  ix.indisunique, ix.indexprs,
                  a.attname, a.attnum, c.conrelid, ix.indkey::varchar,
                  ix.indoption::varchar, i.reloptions, am.amname,
                  pg_get_expr(ix.indpred, ix.indrelid),
                  ix.indnkeyatts as indnkeyatts
              FROM
                  pg_class t
                        join pg_index ix on t.oid = ix.indrelid
                        join pg_class i on i.oid = ix.indexrelid
                        left outer join
                            pg_attribute a
                            on t.oid = a.attrelid and a.attnum = ANY(ix.indkey)
                        left outer join
                            pg_constraint c
                            on (ix.indrelid = c.conrelid and
                                ix.indexrelid = c.conindid and
                                c.contype in ('p', 'u', 'x'))
                        left outer join
                            pg_am am
                            on i.relam = am.oid
              WHERE
                  t.relkind IN ('r', 'v', 'f', 'm', 'p')
                  and t.oid = 16385
                  and ix.indisprimary = 'f'
              ORDER BY
                  t.relname,
                  i.relname
;
-- columns: name, key, col_num, col_name
SELECT
                cons.conname as name,
                cons.conkey as key,
                a.attnum as col_num,
                a.attname as col_name
            FROM
                pg_catalog.pg_constraint cons
                join pg_attribute a
                  on cons.conrelid = a.attrelid AND
                    a.attnum = ANY(cons.conkey)
            WHERE
                cons.conrelid = 16385 AND
                cons.contype = 'u'
;
-- columns: name, src
SELECT
                cons.conname as name,
                pg_get_constraintdef(cons.oid) as src
            FROM
                pg_catalog.pg_constraint cons
            WHERE
                cons.conrelid = 16385 AND
                cons.contype = 'c'
;
-- columns: table_comment
SELECT
                pgd.description as table_comment
            FROM
                pg_catalog.pg_description pgd
            WHERE
                pgd.objsubid = 0 AND
                pgd.objoid = 16385
;
-- columns: __timestamp, count
SELECT date_trunc('day', main.shown.t) AS __timestamp, count('*') AS count
FROM main.shown GROUP BY date_trunc('day', main.shown.t) ORDER BY count DESC
 LIMIT 10
;
-- columns: b, sum__i
SELECT main.shown.b AS b, sum(main.shown.i) AS sum__i
FROM main.shown
WHERE main.shown.t >= TO_TIMESTAMP('1999-12-31 10:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY main.shown.b
 LIMIT 1000
;
-- What follows is of other versions.
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
