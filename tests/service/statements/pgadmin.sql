-- pgAdmin 9.18: the tree, tables, columns, statistics, the dashboard.
-- The program was not started. The templates of its package were rendered with invented arguments and run at PostgreSQL, whose
-- log tests/service/recorded.py read. What PostgreSQL refused is left out.
-- The statements are pgAdmin's, under the PostgreSQL Licence: Copyright (C) The pgAdmin Development Team.
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_cast ca
WHERE 1=1
    AND ca.oid > 16383::OID
;
-- columns: oid, name, description
SELECT
        ca.oid,
        pg_catalog.concat(pg_catalog.format_type(st.oid,NULL),'->',pg_catalog.format_type(tt.oid,tt.typtypmod)) as name,
        des.description
    FROM pg_catalog.pg_cast ca
    JOIN pg_catalog.pg_type st ON st.oid=castsource
    JOIN pg_catalog.pg_namespace ns ON ns.oid=st.typnamespace
    JOIN pg_catalog.pg_type tt ON tt.oid=casttarget
    JOIN pg_catalog.pg_namespace nt ON nt.oid=tt.typnamespace
    LEFT JOIN pg_catalog.pg_proc pr ON pr.oid=castfunc
    LEFT JOIN pg_catalog.pg_namespace np ON np.oid=pr.pronamespace
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=ca.oid AND des.objsubid=0 AND des.classoid='pg_cast'::regclass)
            WHERE
        ca.oid > 16383::OID
    ORDER BY st.typname, tt.typname
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_event_trigger e
;
-- columns: oid, name, comment
SELECT e.oid, e.evtname AS name,
    pg_catalog.obj_description(e.oid, 'pg_event_trigger') AS comment
FROM pg_catalog.pg_event_trigger e
ORDER BY e.evtname
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_extension x
WHERE 1=1
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_foreign_data_wrapper fdw
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_language lan JOIN pg_catalog.pg_proc hp ON hp.oid=lanplcallfoid
WHERE lanispl IS TRUE
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_publication c
;
-- columns: oid, name
SELECT oid , pubname AS name
FROM pg_catalog.pg_publication
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_aggregate ag
  LEFT OUTER JOIN pg_catalog.pg_proc pr ON pr.oid = ag.aggfnoid
WHERE pronamespace = 2200::oid
;
-- columns: oid, name, owner, description
SELECT aggfnoid::oid as oid,
  proname || '(' || COALESCE(pg_catalog.pg_get_function_arguments(aggfnoid::oid), '') || ')' AS name,
  pg_catalog.pg_get_userbyid(proowner) AS owner,
  description
FROM pg_catalog.pg_aggregate ag
  LEFT OUTER JOIN pg_catalog.pg_proc pr ON pr.oid = ag.aggfnoid
  LEFT OUTER JOIN pg_catalog.pg_type tt on tt.oid=aggtranstype
  LEFT OUTER JOIN pg_catalog.pg_type tf on tf.oid=prorettype
  LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=aggfnoid::oid AND des.classoid='pg_aggregate'::regclass)
  WHERE pronamespace = 2200::oid
ORDER BY name
;
-- columns: oid, name, description
SELECT
    c.oid, c.relname as name, description
FROM
    pg_catalog.pg_class c
    LEFT OUTER JOIN pg_catalog.pg_description d
        ON d.objoid=c.oid AND d.classoid='pg_class'::regclass
WHERE relnamespace = 2200::oid
ORDER BY relname
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_collation c
WHERE c.collnamespace = 2200::oid
;
-- columns: oid, name, description
SELECT c.oid, c.collname AS name, des.description
FROM pg_catalog.pg_collation c
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=c.oid AND des.classoid='pg_collation'::regclass)
WHERE c.collnamespace = 2200::oid
ORDER BY c.collname
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_type d
JOIN
    pg_catalog.pg_type b ON b.oid = d.typbasetype
JOIN
    pg_catalog.pg_namespace bn ON bn.oid=d.typnamespace
WHERE
    d.typnamespace = 2200::oid
;
-- columns: oid
SELECT
    d.oid
FROM
    pg_catalog.pg_type d
JOIN
    pg_catalog.pg_namespace bn ON bn.oid=d.typnamespace
WHERE
    bn.nspname = ''
    AND d.typname=''
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_class c
JOIN
    pg_catalog.pg_foreign_table ft ON c.oid=ft.ftrelid
WHERE
    c.relnamespace = 2200::oid
;
-- columns: inheritedfrom, inheritedid, attoptions, atttypid, attfdwoptions, name, attndims, atttypmod, cltype, attnotnull, attstorage, attstattarget, attnum, fulltype, defaultstorage, elemoid, colconstype, genexpr, typnspname, typname, collname, defval, isdup, description
WITH INH_TABLES AS
    (SELECT
     at.attname AS name, ph.inhparent AS inheritedid, ph.inhseqno,
     pg_catalog.concat(nmsp_parent.nspname, '.',parent.relname ) AS inheritedfrom
    FROM
        pg_catalog.pg_attribute at
    JOIN
        pg_catalog.pg_inherits ph ON ph.inhparent = at.attrelid AND ph.inhrelid = 20000::oid
    JOIN
        pg_catalog.pg_class parent ON ph.inhparent  = parent.oid
    JOIN
        pg_catalog.pg_namespace nmsp_parent ON nmsp_parent.oid  = parent.relnamespace
    GROUP BY at.attname, ph.inhparent, ph.inhseqno, inheritedfrom
    ORDER BY at.attname, ph.inhparent, ph.inhseqno, inheritedfrom
    )
SELECT INH.inheritedfrom, INH.inheritedid, att.attoptions, att.atttypid, attfdwoptions,
    att.attname as name, att.attndims, att.atttypmod, pg_catalog.format_type(t.oid,NULL) AS cltype,
    att.attnotnull, att.attstorage, att.attstattarget, att.attnum, pg_catalog.format_type(t.oid, att.atttypmod) AS fulltype,
    t.typstorage AS defaultstorage,
    CASE WHEN t.typelem > 0 THEN t.typelem ELSE t.oid END as elemoid,
    (CASE WHEN (att.attidentity in ('a', 'd')) THEN 'i' WHEN (att.attgenerated in ('s')) THEN 'g' ELSE 'n' END) AS colconstype,
    (CASE WHEN (att.attgenerated in ('s')) THEN pg_catalog.pg_get_expr(def.adbin, def.adrelid) END) AS genexpr,
    (SELECT nspname FROM pg_catalog.pg_namespace WHERE oid = t.typnamespace) as typnspname,
    pg_catalog.format_type(t.oid,NULL) AS typname,
    CASE WHEN length(cn.nspname::text) > 0 AND length(cl.collname::text) > 0 THEN
    pg_catalog.concat(cn.nspname, '."', cl.collname,'"')
    ELSE '' END AS collname,
    pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS defval,
    (SELECT COUNT(1) from pg_catalog.pg_type t2 WHERE t2.typname=t.typname) > 1 AS isdup,
    des.description
FROM
    pg_catalog.pg_attribute att
LEFT JOIN
    INH_TABLES as INH ON att.attname = INH.name
JOIN
    pg_catalog.pg_type t ON t.oid=atttypid
JOIN
    pg_catalog.pg_namespace nsp ON t.typnamespace=nsp.oid
LEFT OUTER JOIN
    pg_catalog.pg_attrdef def ON adrelid=att.attrelid AND adnum=att.attnum
LEFT OUTER JOIN
    pg_catalog.pg_type b ON t.typelem=b.oid
LEFT OUTER JOIN
    pg_catalog.pg_collation cl ON att.attcollation=cl.oid
LEFT OUTER JOIN
    pg_catalog.pg_namespace cn ON cl.collnamespace=cn.oid
LEFT OUTER JOIN
	pg_catalog.pg_description des ON (des.objoid=att.attrelid AND des.classoid='pg_class'::regclass AND des.objsubid = att.attnum)
WHERE
    att.attrelid=20000::oid
    AND att.attnum>0
    ORDER BY att.attnum
;
-- columns: scid
SELECT
    c.relnamespace as scid
FROM
    pg_catalog.pg_class c
WHERE
    c.oid = 20000::oid
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_ts_config cfg
WHERE
    cfg.cfgnamespace = 2200::OID
;
-- columns: oid, name, description
SELECT
    cfg.oid, cfgname as name, des.description
FROM
    pg_catalog.pg_ts_config cfg
    LEFT OUTER JOIN pg_catalog.pg_description des
    ON (des.objoid=cfg.oid AND des.classoid='pg_ts_config'::regclass)
WHERE
    cfg.cfgnamespace = 2200::OID
ORDER BY name
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_ts_dict dict
WHERE
    dict.dictnamespace = 2200::OID
;
-- columns: oid, name, schema, description
SELECT
    dict.oid, dictname as name,
    dictnamespace as schema,
    des.description
FROM
    pg_catalog.pg_ts_dict dict
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=dict.oid AND des.classoid='pg_ts_dict'::regclass)
WHERE
    dict.dictnamespace = 2200::OID
ORDER BY name
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_ts_parser prs
WHERE
    prs.prsnamespace = 2200::OID
;
-- columns: oid, name, schema, description
SELECT
    prs.oid, prsname as name, prs.prsnamespace AS schema, des.description
FROM
    pg_catalog.pg_ts_parser prs
    LEFT OUTER JOIN pg_catalog.pg_description des
ON
    (
    des.objoid=prs.oid
    AND des.classoid='pg_ts_parser'::regclass
    )
WHERE
    prs.prsnamespace = 2200::OID
ORDER BY name
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_ts_template tmpl
WHERE
    tmpl.tmplnamespace = 2200::OID
;
-- columns: oid, name, schema, description
SELECT
    tmpl.oid, tmplname as name, tmpl.tmplnamespace AS schema, des.description
FROM
    pg_catalog.pg_ts_template tmpl
    LEFT OUTER JOIN pg_catalog.pg_description des
ON
    (
    des.objoid=tmpl.oid
    AND des.classoid='pg_ts_template'::regclass
    )
WHERE
    tmpl.tmplnamespace = 2200::OID
ORDER BY name
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_proc pr
JOIN
    pg_catalog.pg_type typ ON typ.oid=prorettype
WHERE
    pr.prokind IN ('f', 'w')
    AND typname NOT IN ('trigger', 'event_trigger')
    AND pronamespace = 2200::oid
;
-- columns: oid, name, lanname, funcowner, nsp
SELECT
    pr.oid, pr.proname || '(' || COALESCE(pg_catalog
    .pg_get_function_identity_arguments(pr.oid), '') || ')' as name,
    lanname, pg_catalog.pg_get_userbyid(proowner) as funcowner, pr.pronamespace as nsp
FROM
    pg_catalog.pg_proc pr
JOIN
    pg_catalog.pg_type typ ON typ.oid=prorettype
JOIN
    pg_catalog.pg_language lng ON lng.oid=prolang
JOIN
    pg_catalog.pg_namespace nsp ON nsp.oid=pr.pronamespace
    AND nsp.nspname='main'
WHERE
    pr.prokind IN ('f', 'w')
    AND typname NOT IN ('trigger', 'event_trigger')
    AND pr.proname = ''
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_proc pr
JOIN
    pg_catalog.pg_type typ ON typ.oid=prorettype
JOIN
    pg_catalog.pg_namespace typns ON typns.oid=typ.typnamespace
JOIN
    pg_catalog.pg_language lng ON lng.oid=prolang
WHERE
    pr.prokind = 'p'
    AND typname NOT IN ('trigger', 'event_trigger')
    AND pronamespace = 2200::oid
;
-- columns: oid, name, lanname, funcowner, nsp
SELECT
    pr.oid, pr.proname || '(' || COALESCE(pg_catalog
    .pg_get_function_identity_arguments(pr.oid), '') || ')' as name,
    lanname, pg_catalog.pg_get_userbyid(proowner) as funcowner, pr.pronamespace AS nsp
FROM
    pg_catalog.pg_proc pr
JOIN
    pg_catalog.pg_type typ ON typ.oid=prorettype
JOIN
    pg_catalog.pg_language lng ON lng.oid=prolang
JOIN
    pg_catalog.pg_namespace nsp ON nsp.oid=pr.pronamespace
    AND nsp.nspname='main'
WHERE
    pr.prokind = 'p'::char
    AND typname NOT IN ('trigger', 'event_trigger')
    AND pr.proname = ''
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_proc pr
JOIN
    pg_catalog.pg_type typ ON typ.oid=prorettype
JOIN
    pg_catalog.pg_namespace typns ON typns.oid=typ.typnamespace
JOIN
    pg_catalog.pg_language lng ON lng.oid=prolang
WHERE
    pr.prokind IN ('f', 'w')
    AND typname IN ('trigger', 'event_trigger')
    AND lanname NOT IN ('edbspl', 'sql', 'internal')
    AND pronamespace = 2200::oid
;
-- columns: oid, name, lanname, funcowner, nsp
SELECT
    pr.oid, pr.proname || '(' || COALESCE(pg_catalog
    .pg_get_function_identity_arguments(pr.oid), '') || ')' as name,
    lanname, pg_catalog.pg_get_userbyid(proowner) as funcowner, pr.pronamespace AS nsp
FROM
    pg_catalog.pg_proc pr
JOIN
    pg_catalog.pg_type typ ON typ.oid=prorettype
JOIN
    pg_catalog.pg_language lng ON lng.oid=prolang
JOIN
    pg_catalog.pg_namespace nsp ON nsp.oid=pr.pronamespace
    AND nsp.nspname='main'
WHERE
    pr.prokind IN ('f', 'w')
    AND typname IN ('trigger', 'event_trigger')
    AND lanname NOT IN ('edbspl', 'sql', 'internal')
    AND pr.proname = ''
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_operator op
  JOIN pg_catalog.pg_type et on et.oid=op.oprresult
  WHERE op.oprnamespace = 2200::oid
;
-- columns: oid, owner, name, lefttype, righttype, description
SELECT op.oid, pg_catalog.pg_get_userbyid(op.oprowner) as owner,
    CASE WHEN lt.typname IS NOT NULL AND rt.typname IS NOT NULL THEN
		op.oprname || ' (' || pg_catalog.format_type(lt.oid, NULL) || ', ' || pg_catalog.format_type(rt.oid, NULL) || ')'
	 WHEN lt.typname IS NULL AND rt.typname IS NOT NULL THEN
	    op.oprname || ' (' || pg_catalog.format_type(rt.oid, NULL) || ')'
	 WHEN lt.typname IS NOT NULL AND rt.typname IS NULL THEN
	    op.oprname || ' (' || pg_catalog.format_type(lt.oid, NULL) || ')'
	 ELSE op.oprname || '()'
END as name,
lt.typname as lefttype, rt.typname as righttype, description
FROM pg_catalog.pg_operator op
  LEFT OUTER JOIN pg_catalog.pg_type lt ON lt.oid=op.oprleft
  LEFT OUTER JOIN pg_catalog.pg_type rt ON rt.oid=op.oprright
  JOIN pg_catalog.pg_type et on et.oid=op.oprresult
  LEFT OUTER JOIN pg_catalog.pg_operator co ON co.oid=op.oprcom
  LEFT OUTER JOIN pg_catalog.pg_operator ne ON ne.oid=op.oprnegate
  LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=op.oid AND des.classoid='pg_operator'::regclass)
  WHERE op.oprnamespace = 2200::oid
ORDER BY op.oprname
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_class cl
WHERE
    relkind = 'S'
    AND relnamespace = '2200'::oid
;
-- columns: oid, relnamespace
SELECT cl.oid as oid, relnamespace
FROM pg_catalog.pg_class cl
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=cl.oid AND des.classoid='pg_class'::regclass)
LEFT OUTER JOIN pg_catalog.pg_namespace nsp ON (nsp.oid = cl.relnamespace)
WHERE relkind = 'S'
AND relname = ''
AND nspname = ''
;
-- columns: oid, name, schema, comment
SELECT cl.oid as oid, relname as name, relnamespace as schema, description as comment
FROM pg_catalog.pg_class cl
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=cl.oid
    AND des.classoid='pg_class'::regclass)
WHERE
    relkind = 'S'
    AND relnamespace = '2200'::oid
ORDER BY relname
;
-- columns: oid, name, convalidated
SELECT
    oid, conname as name,
    NOT convalidated as convalidated
FROM
    pg_catalog.pg_constraint
WHERE
    conrelid = 20000::oid
    AND conname=''
;
-- columns: schema, table
SELECT nsp.nspname AS schema,
    rel.relname AS table
FROM
    pg_catalog.pg_class rel
JOIN pg_catalog.pg_namespace nsp
ON rel.relnamespace = nsp.oid::oid
WHERE rel.oid = 20000::oid
;
-- columns: oid, name, convalidated, conislocal, comment
SELECT c.oid, conname as name,
    NOT convalidated as convalidated, conislocal, description as comment
    FROM pg_catalog.pg_constraint c
LEFT OUTER JOIN
    pg_catalog.pg_description des ON (des.objoid=c.oid AND
                           des.classoid='pg_constraint'::regclass)
WHERE contype = 'c'
    AND conrelid = 20000::oid
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_attribute att
WHERE
    att.attrelid = '20000'::oid
    AND att.attnum > 0
    AND att.attisdropped IS FALSE
;
-- columns: schema, table
SELECT nsp.nspname AS schema ,rel.relname AS table
FROM pg_catalog.pg_class rel
    JOIN pg_catalog.pg_namespace nsp
    ON rel.relnamespace = nsp.oid::oid
    WHERE rel.oid = 20000::oid
;
-- columns: name, oid, datatype, displaytypname, not_null, has_default_val, description, seqtypid
SELECT DISTINCT att.attname as name, att.attnum as OID, pg_catalog.format_type(ty.oid,NULL) AS datatype,
pg_catalog.format_type(ty.oid,att.atttypmod) AS displaytypname,
att.attnotnull as not_null,
CASE WHEN att.atthasdef OR att.attidentity != '' OR ty.typdefault IS NOT NULL THEN True
ELSE False END as has_default_val, des.description, seq.seqtypid
FROM pg_catalog.pg_attribute att
    JOIN pg_catalog.pg_type ty ON ty.oid=atttypid
    JOIN pg_catalog.pg_namespace tn ON tn.oid=ty.typnamespace
    JOIN pg_catalog.pg_class cl ON cl.oid=att.attrelid
    JOIN pg_catalog.pg_namespace na ON na.oid=cl.relnamespace
    LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=ty.typelem
    LEFT OUTER JOIN pg_catalog.pg_attrdef def ON adrelid=att.attrelid AND adnum=att.attnum
    LEFT OUTER JOIN (pg_catalog.pg_depend JOIN pg_catalog.pg_class cs ON classid='pg_class'::regclass AND objid=cs.oid AND cs.relkind='S') ON refobjid=att.attrelid AND refobjsubid=att.attnum
    LEFT OUTER JOIN pg_catalog.pg_namespace ns ON ns.oid=cs.relnamespace
    LEFT OUTER JOIN pg_catalog.pg_index pi ON pi.indrelid=att.attrelid AND indisprimary
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=att.attrelid AND des.objsubid=att.attnum AND des.classoid='pg_class'::regclass)
    LEFT OUTER JOIN pg_catalog.pg_sequence seq ON cs.oid=seq.seqrelid
WHERE
    att.attrelid = '20000'::oid
    AND att.attnum > 0
    AND att.attisdropped IS FALSE
ORDER BY att.attnum
;
-- columns: Null fraction, Average width, Distinct values, Most common values, Most common frequencies, Histogram bounds, Correlation, Most common elements, Most common elements frequencies, Histogram element count
SELECT
    null_frac AS "Null fraction",
    avg_width AS "Average width",
    n_distinct AS "Distinct values",
    most_common_vals AS "Most common values",
    most_common_freqs AS "Most common frequencies",
    histogram_bounds AS "Histogram bounds",
    correlation AS "Correlation",
    most_common_elems AS "Most common elements",
    most_common_elem_freqs AS "Most common elements frequencies",
    elem_count_histogram AS "Histogram element count"
FROM
    pg_catalog.pg_stats
WHERE
    schemaname = ''
    AND tablename = ''
    AND attname = ''
;
-- columns: oid
SELECT ct.conindid AS oid
FROM pg_catalog.pg_constraint ct
WHERE contype='x' AND
ct.conname = ''
;
-- columns: oid, name, convalidated, comment
SELECT conindid as oid,
    conname as name,
    NOT convalidated as convalidated,
    desp.description AS comment
FROM pg_catalog.pg_constraint ct
LEFT OUTER JOIN pg_catalog.pg_description desp ON (desp.objoid=ct.oid AND desp.objsubid = 0 AND desp.classoid='pg_constraint'::regclass)
WHERE contype='x' AND
    conrelid = 20000::oid
ORDER BY conname
;
-- columns: oid, convalidated
SELECT ct.oid,
    NOT convalidated as convalidated
FROM pg_catalog.pg_constraint ct
WHERE contype='f' AND
ct.conname = ''
;
-- columns: oid, name, convalidated, comment
SELECT ct.oid,
    conname as name,
    NOT convalidated as convalidated,
    description as comment
FROM pg_catalog.pg_constraint ct
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=ct.oid AND des.classoid='pg_constraint'::regclass)
WHERE contype='f' AND
    conrelid = 20000::oid
ORDER BY conname
;
-- columns: oid
SELECT ct.conindid as oid
FROM pg_catalog.pg_constraint ct
WHERE contype='' AND
ct.conname = ''
;
-- columns: oid, name, comment
SELECT cls.oid, cls.relname as name,
    CASE contype
        WHEN 'p' THEN desp.description
        WHEN 'u' THEN desp.description
        WHEN 'x' THEN desp.description
        ELSE des.description
    END AS comment
FROM pg_catalog.pg_index idx
JOIN pg_catalog.pg_class cls ON cls.oid=indexrelid
LEFT JOIN pg_catalog.pg_depend dep ON (dep.classid = cls.tableoid AND
                            dep.objid = cls.oid AND
                            dep.refobjsubid = '0' AND
                            dep.refclassid=(SELECT oid
                                            FROM pg_catalog.pg_class
                                            WHERE relname='pg_constraint') AND
                            dep.deptype='i')
LEFT OUTER JOIN pg_catalog.pg_constraint con ON (con.tableoid = dep.refclassid AND
                                      con.oid = dep.refobjid)
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=cls.oid AND des.classoid='pg_class'::regclass)
LEFT OUTER JOIN pg_catalog.pg_description desp ON (desp.objoid=con.oid AND desp.objsubid = 0 AND desp.classoid='pg_constraint'::regclass)
WHERE indrelid = 20000::oid
AND contype=''
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_index idx
    JOIN pg_catalog.pg_class cls ON cls.oid=indexrelid
    LEFT JOIN pg_catalog.pg_depend dep ON (dep.classid = cls.tableoid AND dep.objid = cls.oid AND dep.refobjsubid = '0' AND dep.refclassid=(SELECT oid FROM pg_catalog.pg_class WHERE relname='pg_constraint') AND dep.deptype='i')
    LEFT OUTER JOIN pg_catalog.pg_constraint con ON (con.tableoid = dep.refclassid AND con.oid = dep.refobjid)
WHERE indrelid = 20000::OID
    AND conname is NULL
;
-- columns: oid
SELECT DISTINCT ON(cls.relname) cls.oid
FROM pg_catalog.pg_index idx
    JOIN pg_catalog.pg_class cls ON cls.oid=indexrelid
    JOIN pg_catalog.pg_class tab ON tab.oid=indrelid
    JOIN pg_catalog.pg_namespace n ON n.oid=tab.relnamespace
WHERE indrelid = 20000::OID
    AND cls.relname = ''
;
-- columns: oid, name, is_inherited, description
SELECT DISTINCT ON(cls.relname) cls.oid, cls.relname as name,
(SELECT (CASE WHEN count(i.inhrelid) > 0 THEN true ELSE false END) FROM pg_catalog.pg_inherits i WHERE i.inhrelid = cls.oid) as is_inherited,
CASE WHEN contype IN ('p', 'u', 'x') THEN desp.description ELSE des.description END AS description
FROM pg_catalog.pg_index idx
    JOIN pg_catalog.pg_class cls ON cls.oid=indexrelid
    JOIN pg_catalog.pg_class tab ON tab.oid=indrelid
    LEFT OUTER JOIN pg_catalog.pg_tablespace ta on ta.oid=cls.reltablespace
    JOIN pg_catalog.pg_namespace n ON n.oid=tab.relnamespace
    JOIN pg_catalog.pg_am am ON am.oid=cls.relam
    LEFT JOIN pg_catalog.pg_depend dep ON (dep.classid = cls.tableoid AND dep.objid = cls.oid AND dep.refobjsubid = '0' AND dep.refclassid=(SELECT oid FROM pg_catalog.pg_class WHERE relname='pg_constraint') AND dep.deptype='i')
    LEFT OUTER JOIN pg_catalog.pg_constraint con ON (con.tableoid = dep.refclassid AND con.oid = dep.refobjid)
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=cls.oid AND des.classoid='pg_class'::regclass)
    LEFT OUTER JOIN pg_catalog.pg_description desp ON (desp.objoid=con.oid AND desp.objsubid = 0 AND desp.classoid='pg_constraint'::regclass)
WHERE indrelid = 20000::OID
    AND conname is NULL
    ORDER BY cls.relname
;
-- columns: oid, name, triggercount, has_enable_triggers, partition_value, schema_id, schema_name, is_partitioned, is_sub_partitioned, partition_scheme, sub_partition_scheme, relpersistence, spcname, fillfactor, autovacuum_enabled, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor, autovacuum_analyze_threshold, autovacuum_analyze_scale_factor, autovacuum_vacuum_cost_delay, autovacuum_vacuum_cost_limit, autovacuum_freeze_min_age, autovacuum_freeze_max_age, autovacuum_freeze_table_age, toast_autovacuum_enabled, toast_autovacuum_vacuum_threshold, toast_autovacuum_vacuum_scale_factor, toast_autovacuum_analyze_threshold, toast_autovacuum_analyze_scale_factor, toast_autovacuum_vacuum_cost_delay, toast_autovacuum_vacuum_cost_limit, toast_autovacuum_freeze_min_age, toast_autovacuum_freeze_max_age, toast_autovacuum_freeze_table_age, reloptions, toast_reloptions, reloftype, typname, typoid, description, relowner, inhdetachpending, amname
SELECT rel.oid, rel.relname AS name,
    (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid=rel.oid AND tgisinternal = FALSE) AS triggercount,
    (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid=rel.oid AND tgisinternal = FALSE AND tgenabled = 'O') AS has_enable_triggers,
    pg_catalog.pg_get_expr(rel.relpartbound, rel.oid) AS partition_value,
    rel.relnamespace AS schema_id,
    nsp.nspname AS schema_name,
    (CASE WHEN rel.relkind = 'p' THEN true ELSE false END) AS is_partitioned,
    (CASE WHEN rel.relkind = 'p' THEN true ELSE false END) AS is_sub_partitioned,
    (CASE WHEN rel.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(rel.oid::oid) ELSE '' END) AS partition_scheme,
    (CASE WHEN rel.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(rel.oid::oid) ELSE '' END) AS sub_partition_scheme,
    (CASE WHEN rel.relpersistence = 'u' THEN true ELSE false END) AS relpersistence,
    (CASE WHEN length(spc.spcname::text) > 0 THEN spc.spcname ELSE
    (SELECT sp.spcname FROM pg_catalog.pg_database dtb
    JOIN pg_catalog.pg_tablespace sp ON dtb.dattablespace=sp.oid
    WHERE dtb.oid = 5::oid)
  	END) as spcname,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'fillfactor=([0-9]*)') AS fillfactor,
	(substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_enabled=([a-z|0-9]*)'))::BOOL AS autovacuum_enabled,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_vacuum_threshold=([0-9]*)') AS autovacuum_vacuum_threshold,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_vacuum_scale_factor=([0-9]*[.]?[0-9]*)') AS autovacuum_vacuum_scale_factor,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_analyze_threshold=([0-9]*)') AS autovacuum_analyze_threshold,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_analyze_scale_factor=([0-9]*[.]?[0-9]*)') AS autovacuum_analyze_scale_factor,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_vacuum_cost_delay=([0-9]*)') AS autovacuum_vacuum_cost_delay,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_vacuum_cost_limit=([0-9]*)') AS autovacuum_vacuum_cost_limit,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_freeze_min_age=([0-9]*)') AS autovacuum_freeze_min_age,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_freeze_max_age=([0-9]*)') AS autovacuum_freeze_max_age,
	substring(pg_catalog.array_to_string(rel.reloptions, ',') FROM 'autovacuum_freeze_table_age=([0-9]*)') AS autovacuum_freeze_table_age,
	(substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_enabled=([a-z|0-9]*)'))::BOOL AS toast_autovacuum_enabled,
	substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_vacuum_threshold=([0-9]*)') AS toast_autovacuum_vacuum_threshold,
	substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_vacuum_scale_factor=([0-9]*[.]?[0-9]*)') AS toast_autovacuum_vacuum_scale_factor,
	substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_analyze_threshold=([0-9]*)') AS toast_autovacuum_analyze_threshold,
	substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_analyze_scale_factor=([0-9]*[.]?[0-9]*)') AS toast_autovacuum_analyze_scale_factor,
	substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_vacuum_cost_delay=([0-9]*)') AS toast_autovacuum_vacuum_cost_delay,
	substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_vacuum_cost_limit=([0-9]*)') AS toast_autovacuum_vacuum_cost_limit,
	substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_freeze_min_age=([0-9]*)') AS toast_autovacuum_freeze_min_age,
	substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_freeze_max_age=([0-9]*)') AS toast_autovacuum_freeze_max_age,
	substring(pg_catalog.array_to_string(tst.reloptions, ',') FROM 'autovacuum_freeze_table_age=([0-9]*)') AS toast_autovacuum_freeze_table_age,
	rel.reloptions AS reloptions, tst.reloptions AS toast_reloptions, rel.reloftype, typ.typname,
	typ.typrelid AS typoid, des.description, pg_catalog.pg_get_userbyid(rel.relowner) AS relowner, inh.inhdetachpending, am.amname
FROM
    (SELECT * FROM pg_catalog.pg_inherits WHERE inhparent = 20000::oid) inh
    LEFT JOIN pg_catalog.pg_class rel ON inh.inhrelid = rel.oid
    LEFT JOIN pg_catalog.pg_namespace nsp ON rel.relnamespace = nsp.oid
    LEFT OUTER JOIN pg_catalog.pg_class tst ON tst.oid = rel.reltoastrelid
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=rel.oid AND des.objsubid=0 AND des.classoid='pg_class'::regclass)
    LEFT OUTER JOIN pg_catalog.pg_tablespace spc on spc.oid=rel.reltablespace
    LEFT OUTER JOIN pg_catalog.pg_am am ON am.oid = rel.relam
    LEFT JOIN pg_catalog.pg_type typ ON rel.reloftype=typ.oid
    WHERE rel.relispartition
    ORDER BY rel.relname
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_policy pl
WHERE
    pl.polrelid	 = 20000
;
-- columns: oid, name
SELECT
    pl.oid AS oid,
    pl.polname AS name
FROM
    pg_catalog.pg_policy pl
WHERE
    pl.polrelid	 = 20000
ORDER BY
    pl.polname
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_rewrite rw
WHERE
    rw.ev_class = 20000
;
-- columns: oid, name, enabled, is_enable_rule, comment
SELECT
    rw.oid AS oid,
    rw.rulename AS name,
    CASE WHEN rw.ev_enabled != 'D' THEN True ELSE False END AS enabled,
    rw.ev_enabled AS is_enable_rule,
    description AS comment
FROM
    pg_catalog.pg_rewrite rw
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=rw.oid AND des.classoid='pg_rewrite'::regclass)
WHERE
    rw.ev_class = 20000
ORDER BY
    rw.rulename
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_class rel
    WHERE rel.relkind IN ('r','s','t','p') AND rel.relnamespace = 2200::oid
    AND NOT rel.relispartition
;
-- columns: name, cltype, defval, clidentity, inheritedfrom, inheritedid
SELECT
    a.attname AS name, pg_catalog.format_type(a.atttypid, NULL) AS cltype,
    pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS defval, a.attidentity as clidentity,
    pg_catalog.quote_ident(n.nspname)||'.'||pg_catalog.quote_ident(c.relname) as inheritedfrom,
    c.oid as inheritedid
FROM
    pg_catalog.pg_class c
JOIN
    pg_catalog.pg_namespace n ON c.relnamespace=n.oid
JOIN
    pg_catalog.pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped AND a.attnum > 0
LEFT OUTER JOIN
    pg_catalog.pg_attrdef def ON adrelid=a.attrelid AND adnum=a.attnum
WHERE
    c.oid = 20000::OID
;
-- columns: tid
SELECT rel.oid as tid
FROM pg_catalog.pg_class rel
WHERE rel.relkind IN ('r','s','t','p')
AND rel.relnamespace = 2200::oid
AND rel.relname = ''
;
-- columns: oid, like_relation
SELECT c.oid, pg_catalog.quote_ident(n.nspname)||'.'||pg_catalog.quote_ident(c.relname) AS like_relation
FROM pg_catalog.pg_class c, pg_catalog.pg_namespace n
WHERE c.relnamespace=n.oid
    AND c.relkind IN ('r', 'v', 'f')
AND n.nspname NOT LIKE 'pg\_%'
AND n.nspname NOT IN ('information_schema')
ORDER BY 1
;
-- columns: pid, locktype, datname, relation, page, tuple, transactionid, classid, objid, objsubid, virtualtransaction, mode, granted, fastpath
SELECT
    pid,
    locktype,
    datname,
    relation::regclass,
    page,
    tuple,
    virtualxid
    transactionid,
    classid::regclass,
    objid,
    objsubid,
    virtualtransaction,
    mode,
    granted,
    fastpath
FROM
    pg_catalog.pg_locks l
    LEFT OUTER JOIN pg_catalog.pg_database d ON (l.database = d.oid)
WHERE
    datname = (SELECT datname FROM pg_catalog.pg_database WHERE oid = 5)
ORDER BY
    pid, locktype
;
-- columns: oid, name, triggercount, has_enable_triggers, is_partitioned, is_inherits, is_inherited, description
SELECT rel.oid, rel.relname AS name,
    (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid=rel.oid AND tgisinternal = FALSE) AS triggercount,
    (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid=rel.oid AND tgisinternal = FALSE AND tgenabled = 'O') AS has_enable_triggers,
    (CASE WHEN rel.relkind = 'p' THEN true ELSE false END) AS is_partitioned,
    (SELECT count(1) FROM pg_catalog.pg_inherits WHERE inhrelid=rel.oid LIMIT 1) as is_inherits,
    (SELECT count(1) FROM pg_catalog.pg_inherits WHERE inhparent=rel.oid LIMIT 1) as is_inherited,
    des.description
FROM pg_catalog.pg_class rel
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=rel.oid AND des.objsubid=0 AND des.classoid='pg_class'::regclass)
    WHERE rel.relkind IN ('r','s','t','p') AND rel.relnamespace = 2200::oid
    AND NOT rel.relispartition
     AND rel.oid = 20000::OID
    ORDER BY rel.relname
;
-- columns: Sequential scans, Sequential tuples read, Index scans, Index tuples fetched, Tuples inserted, Tuples updated, Tuples deleted, Tuples HOT updated, Live tuples, Dead tuples, Heap blocks read, Heap blocks hit, Index blocks read, Index blocks hit, Toast blocks read, Toast blocks hit, Toast index blocks read, Toast index blocks hit, Last vacuum, Last autovacuum, Last analyze, Last autoanalyze, Table size, Toast table size, Indexes size
SELECT
    seq_scan AS "Sequential scans",
    seq_tup_read AS "Sequential tuples read",
    idx_scan AS "Index scans",
    idx_tup_fetch AS "Index tuples fetched",
    n_tup_ins AS "Tuples inserted",
    n_tup_upd AS "Tuples updated",
    n_tup_del AS "Tuples deleted",
    n_tup_hot_upd AS "Tuples HOT updated",
    n_live_tup AS "Live tuples",
    n_dead_tup AS "Dead tuples",
    heap_blks_read AS "Heap blocks read",
    heap_blks_hit AS "Heap blocks hit",
    idx_blks_read AS "Index blocks read",
    idx_blks_hit AS "Index blocks hit",
    toast_blks_read AS "Toast blocks read",
    toast_blks_hit AS "Toast blocks hit",
    tidx_blks_read AS "Toast index blocks read",
    tidx_blks_hit AS "Toast index blocks hit",
    last_vacuum AS "Last vacuum",
    last_autovacuum AS "Last autovacuum",
    last_analyze AS "Last analyze",
    last_autoanalyze AS "Last autoanalyze",
    pg_catalog.pg_relation_size(stat.relid) AS "Table size",
    CASE WHEN cl.reltoastrelid = 0 THEN NULL ELSE pg_catalog.pg_size_pretty(pg_catalog.pg_relation_size(cl.reltoastrelid)
        + COALESCE((SELECT SUM(pg_catalog.pg_relation_size(indexrelid))
                        FROM pg_catalog.pg_index WHERE indrelid=cl.reltoastrelid)::int8, 0))
        END AS "Toast table size",
    COALESCE((SELECT SUM(pg_catalog.pg_relation_size(indexrelid))
                                FROM pg_catalog.pg_index WHERE indrelid=stat.relid)::int8, 0)
        AS "Indexes size"
FROM
    pg_catalog.pg_stat_all_tables stat
JOIN
    pg_catalog.pg_statio_all_tables statio ON stat.relid = statio.relid
JOIN
    pg_catalog.pg_class cl ON cl.oid=stat.relid
WHERE
    stat.relid = 20000::oid
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_trigger t
WHERE NOT tgisinternal
    AND tgrelid = 20000::OID
;
-- columns: oid
SELECT t.oid
FROM pg_catalog.pg_trigger t
    WHERE NOT tgisinternal
    AND tgrelid = 20000::OID
    AND tgname = ''
;
-- columns: oid, name, is_enable_trigger, description
SELECT t.oid, t.tgname as name, t.tgenabled AS is_enable_trigger, des.description
FROM pg_catalog.pg_trigger t
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=t.oid AND des.classoid='pg_trigger'::regclass)
WHERE NOT tgisinternal
    AND tgrelid = 20000::OID
    ORDER BY tgname
;
-- columns: nspname
SELECT nsp.nspname FROM pg_catalog.pg_namespace nsp WHERE nsp.oid = '2200'
;
-- columns: schema_name, is_catalog, db_support
SELECT
    nsp.nspname as schema_name,
    (nsp.nspname = 'pg_catalog' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pg_class' AND
            relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'pgagent' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pga_job' AND
            relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'information_schema' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tables' AND
            relnamespace = nsp.oid LIMIT 1)) AS is_catalog,
    CASE
    WHEN nsp.nspname = ANY('{information_schema}')
        THEN false
    ELSE true END AS db_support
FROM
    pg_catalog.pg_namespace nsp
WHERE
    nsp.oid = '2200'::OID
;
-- columns: oid, name, can_create, has_usage, description
SELECT
    nsp.oid,
CASE nsp.nspname
    WHEN 'pg_catalog' THEN 'PostgreSQL Catalog (pg_catalog)'
    WHEN 'pgagent' THEN 'pgAgent Job Scheduler (pgagent)'
    WHEN 'information_schema' THEN 'ANSI (information_schema)'
    ELSE nsp.nspname
    END AS name,
    pg_catalog.has_schema_privilege(nsp.oid, 'CREATE') as can_create,
    pg_catalog.has_schema_privilege(nsp.oid, 'USAGE') as has_usage,
    des.description
FROM
    pg_catalog.pg_namespace nsp
    LEFT OUTER JOIN pg_catalog.pg_description des ON
        (des.objoid=nsp.oid AND des.classoid='pg_namespace'::regclass)
WHERE
    nsp.oid=2200::oid AND
    (
(nsp.nspname = 'pg_catalog' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pg_class' AND
            relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'pgagent' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pga_job' AND
            relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'information_schema' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tables' AND
            relnamespace = nsp.oid LIMIT 1))
    )
ORDER BY 2
;
-- columns: count
SELECT COUNT(*)
FROM
    pg_catalog.pg_namespace nsp
WHERE
     nspname NOT LIKE E'pg\\_%' AND
    NOT (
(nsp.nspname = 'pg_catalog' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pg_class' AND
            relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'pgagent' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pga_job' AND
            relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'information_schema' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tables' AND
            relnamespace = nsp.oid LIMIT 1))
    )
;
-- columns: oid, name, can_create, has_usage, description
SELECT
    nsp.oid,
    nsp.nspname as name,
    pg_catalog.has_schema_privilege(nsp.oid, 'CREATE') as can_create,
    pg_catalog.has_schema_privilege(nsp.oid, 'USAGE') as has_usage,
    des.description
FROM
    pg_catalog.pg_namespace nsp
    LEFT OUTER JOIN pg_catalog.pg_description des ON
        (des.objoid=nsp.oid AND des.classoid='pg_namespace'::regclass)
WHERE
    nsp.oid=2200::oid AND
    NOT (
(nsp.nspname = 'pg_catalog' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pg_class' AND
            relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'pgagent' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'pga_job' AND
            relnamespace = nsp.oid LIMIT 1)) OR
    (nsp.nspname = 'information_schema' AND EXISTS
        (SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'tables' AND
            relnamespace = nsp.oid LIMIT 1))
    )
ORDER BY nspname
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_type t
    LEFT OUTER JOIN pg_catalog.pg_class ct ON ct.oid=t.typrelid AND ct.relkind <> 'c'
WHERE t.typtype != 'd' AND t.typname NOT LIKE E'\\_%' AND t.typnamespace = 2200::oid
    AND ct.oid is NULL
;
-- columns: oid
SELECT t.oid
FROM pg_catalog.pg_type t
    LEFT OUTER JOIN pg_catalog.pg_type e ON e.oid=t.typelem
    LEFT OUTER JOIN pg_catalog.pg_class ct ON ct.oid=t.typrelid AND ct.relkind <> 'c'
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=t.oid AND des.classoid='pg_type'::regclass)
WHERE t.typtype != 'd' AND t.typname NOT LIKE E'\\_%' AND t.typnamespace = 2200::oid
ORDER BY t.typname
;
-- columns: oid, name, description, rngmultirangetype
SELECT t.oid, t.typname AS name, des.description, ra.rngmultitypid as rngmultirangetype
FROM pg_catalog.pg_type t
    LEFT OUTER JOIN pg_catalog.pg_type e ON e.oid=t.typelem
    LEFT OUTER JOIN pg_catalog.pg_range ra ON ra.rngtypid=t.oid
    LEFT OUTER JOIN pg_catalog.pg_class ct ON ct.oid=t.typrelid AND ct.relkind <> 'c'
    LEFT OUTER JOIN pg_catalog.pg_namespace nsp ON nsp.oid = t.typnamespace
    LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=t.oid AND des.classoid='pg_type'::regclass)
WHERE t.typtype != 'd' AND t.typname NOT LIKE E'\\_%' AND t.typnamespace = 2200::oid
    AND t.oid = 20000::oid
    AND ct.oid is NULL
ORDER BY t.typname
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_class c
WHERE
  c.relkind = 'm'
    AND c.relnamespace = 2200::oid
;
-- columns: oid, name, comment
SELECT
    c.oid,
    c.relname AS name,
    description AS comment
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=c.oid and des.objsubid=0 AND des.classoid='pg_class'::regclass)
WHERE
  c.relkind = 'm'
    AND c.relnamespace = 2200::oid
ORDER BY
    c.relname
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_class c
WHERE
  c.relkind = 'v'
    AND c.relnamespace = 2200::oid
;
-- columns: oid, name, comment
SELECT
    c.oid,
    c.relname AS name,
    description AS comment
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=c.oid and des.objsubid=0 AND des.classoid='pg_class'::regclass)
WHERE
  c.relkind = 'v'
    AND c.relnamespace = 2200::oid
ORDER BY
    c.relname
;
-- columns: count
SELECT COUNT(*)
FROM pg_catalog.pg_subscription sub
WHERE sub.subdbid = 5
;
-- columns: oid, name
SELECT oid, sub.subname AS name FROM pg_catalog.pg_subscription sub
WHERE
    sub.subdbid = 5
;
-- columns: Subscription name, Latest end time, Latest end lsn, Last message receipt, Last message send time
SELECT
    stat.subname AS "Subscription name",
    stat.latest_end_time AS "Latest end time",
    stat.latest_end_lsn AS "Latest end lsn",
    stat.last_msg_receipt_time AS "Last message receipt",
    stat.last_msg_send_time AS "Last message send time"
FROM pg_catalog.pg_stat_subscription stat
LEFT JOIN pg_catalog.pg_subscription sub ON sub.subname = stat.subname
    WHERE sub.subdbid = 5
;
-- columns: encoding
SELECT * FROM
(SELECT pg_catalog.pg_encoding_to_char(s.i) AS encoding
FROM (SELECT pg_catalog.generate_series(0, 100, 1) as i) s) a
WHERE encoding != '' ORDER BY encoding
;
-- columns: did, name, spcname, datallowconn, is_template, cancreate, owner, description
SELECT
    db.oid as did, db.datname as name, ta.spcname as spcname, db.datallowconn,
    db.datistemplate AS is_template,
    pg_catalog.has_database_privilege(db.oid, 'CREATE') as cancreate, datdba as owner,
    descr.description
FROM
    pg_catalog.pg_database db
    LEFT OUTER JOIN pg_catalog.pg_tablespace ta ON db.dattablespace = ta.oid
    LEFT OUTER JOIN pg_catalog.pg_shdescription descr ON (
        db.oid=descr.objoid AND descr.classoid='pg_database'::regclass
    )
WHERE
db.oid = '5'::OID
ORDER BY datname
;
-- columns: Size, Backends, Xact committed, Xact rolled back, Blocks read, Blocks hit, Tuples returned, Tuples fetched, Tuples inserted, Tuples updated, Tuples deleted
SELECT
    pg_catalog.pg_database_size(db.datid) AS "Size",
    numbackends AS "Backends",
    xact_commit AS "Xact committed",
    xact_rollback AS "Xact rolled back",
    blks_read AS "Blocks read",
    blks_hit AS "Blocks hit",
    tup_returned AS "Tuples returned",
    tup_fetched AS "Tuples fetched",
    tup_inserted AS "Tuples inserted",
    tup_updated AS "Tuples updated",
    tup_deleted AS "Tuples deleted"
FROM
    pg_catalog.pg_stat_database db
WHERE
db.datid = '5'::OID
ORDER BY db.datname
;
-- columns: count
SELECT count(*)
FROM pg_catalog.pg_stat_replication
;
-- columns: pid, name
SELECT pid, 'Standby ['||COALESCE(host(client_addr), client_hostname, 'Socket')||']' as name
FROM pg_catalog.pg_stat_replication
ORDER BY pid
;
-- columns: oid, rolname, rolcanlogin, rolsuper, description
SELECT
    r.oid, r.rolname, r.rolcanlogin, r.rolsuper, d.description
FROM pg_catalog.pg_roles r
    LEFT JOIN pg_catalog.pg_shdescription d
    ON d.objoid = r.oid AND d.classoid = 'pg_catalog.pg_authid'::regclass
ORDER BY r.rolcanlogin, r.rolname
;
-- columns: oid, name, owner, description
SELECT
    ts.oid AS oid, spcname AS name, spcowner as owner,
    pg_catalog.shobj_description(oid, 'pg_tablespace') AS description
FROM
    pg_catalog.pg_tablespace ts
ORDER BY name
;
-- columns: Name, Size
SELECT ts.spcname AS "Name",
    pg_catalog.pg_tablespace_size(ts.oid) AS "Size"
FROM
    pg_catalog.pg_tablespace ts
;
-- columns: PID, User, Database, Backend start, Client, Application, Wait event type, Wait event name, Query, Query start, Xact start
SELECT
    pid AS "PID",
    usename AS "User",
    datname AS "Database",
    backend_start AS "Backend start",
    CASE
    WHEN client_hostname IS NOT NULL AND client_hostname != '' THEN
        client_hostname || ':' || client_port
    WHEN client_addr IS NOT NULL AND client_addr::text != '' THEN
        client_addr::text || ':' || client_port
    WHEN client_port = -1 THEN
        'local pipe'
    ELSE
        'localhost:' || client_port
    END AS "Client",
    application_name AS "Application",
    wait_event_type AS "Wait event type",
    wait_event AS "Wait event name",
    query AS "Query",
    query_start AS "Query start",
    xact_start AS "Xact start"
FROM
    pg_catalog.pg_stat_activity sa
WHERE
    (SELECT r.rolsuper OR r.oid = sa.usesysid  FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
UNION
SELECT
    pid AS "PID",
    usename AS "User",
    '' AS "Database",
    backend_start AS "Backend start",
    CASE
    WHEN client_hostname IS NOT NULL AND client_hostname != '' THEN
        client_hostname || ':' || client_port
    WHEN client_addr IS NOT NULL AND client_addr::text != '' THEN
        client_addr::text || ':' || client_port
    WHEN client_port = -1 THEN
        'local pipe'
    ELSE
        'localhost:' || client_port
    END AS "Client",
    'Streaming Replication' AS "Application",
    null AS "Wait event type",
    null AS "Wait event name",
    state || ' [sync (state: ' || COALESCE(sync_state, '') || ', priority: ' || sync_priority::text || ')] (' || sent_lsn || ' sent, ' || write_lsn || ' written, ' || flush_lsn || ' flushed, ' || replay_lsn || ' applied)' AS "Query",
    null AS "Query start",
    null AS "Xact start"
FROM
    pg_catalog.pg_stat_replication sa
WHERE
    (SELECT r.rolsuper OR r.oid = sa.usesysid  FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
;
-- columns: schema
SELECT nspname AS schema FROM pg_catalog.pg_namespace ORDER BY 1
;
-- columns: attname, typname, attnum
SELECT at.attname, ty.typname, at.attnum
    FROM pg_catalog.pg_attribute at
    LEFT JOIN pg_catalog.pg_type ty ON (ty.oid = at.atttypid)
    JOIN pg_catalog.pg_class as cl ON cl.oid=at.attrelid
    JOIN pg_catalog.pg_namespace as nsp ON nsp.oid=cl.relnamespace
WHERE
at.attnum > 0
AND at.attisdropped = FALSE
;
-- What follows is of other versions.
-- pgAdmin 8: the connection, the tree.
-- Written by hand after what the program is known to ask; nothing was copied or recorded.
-- columns: version
SELECT version()
;
-- columns: name, setting
SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('server_version_num')
;
-- columns: did, datname, datallowconn, serverencoding, cancreate, datistemplate
SELECT db.oid as did, db.datname, db.datallowconn, pg_catalog.pg_encoding_to_char(db.encoding) AS serverencoding, pg_catalog.has_database_privilege(db.oid, 'CREATE') as cancreate, datistemplate FROM pg_catalog.pg_database db WHERE db.datname = current_database()
;
-- columns: gss_authenticated, encrypted
SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid()
;
-- columns: id, name, is_superuser, can_create_role, can_create_db, can_signal_backend
SELECT roles.oid as id, roles.rolname as name, roles.rolsuper as is_superuser, CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreaterole END as can_create_role, CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreatedb END as can_create_db, CASE WHEN 'pg_signal_backend'=ANY(ARRAY(WITH RECURSIVE cte AS ( SELECT pg_roles.oid,pg_roles.rolname FROM pg_roles WHERE pg_roles.oid = roles.oid UNION ALL SELECT m.roleid,pgr.rolname FROM cte cte_1 JOIN pg_auth_members m ON m.member = cte_1.oid JOIN pg_roles pgr ON pgr.oid = m.roleid) SELECT rolname FROM cte)) THEN True ELSE False END as can_signal_backend FROM pg_catalog.pg_roles as roles WHERE rolname = 'dpsql'
;
-- columns: oid, name, can_create, has_usage, description
SELECT nsp.oid, nsp.nspname as name, pg_catalog.has_schema_privilege(nsp.oid, 'CREATE') as can_create, pg_catalog.has_schema_privilege(nsp.oid, 'USAGE') as has_usage, des.description
FROM pg_catalog.pg_namespace nsp LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=nsp.oid AND des.classoid='pg_namespace'::regclass)
WHERE nspname NOT LIKE E'pg\\_%' AND NOT (nsp.nspname = 'information_schema') ORDER BY nspname
;
-- columns: oid, name, triggercount, has_enable_triggers, is_partitioned, description
SELECT rel.oid, rel.relname AS name, (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid=rel.oid AND tgisinternal = FALSE) AS triggercount, (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid=rel.oid AND tgisinternal = FALSE AND tgenabled = 'O') AS has_enable_triggers, (CASE WHEN rel.relkind = 'p' THEN true ELSE false END) AS is_partitioned, des.description
FROM pg_catalog.pg_class rel LEFT OUTER JOIN pg_catalog.pg_description des ON (des.objoid=rel.oid AND des.objsubid=0 AND des.classoid='pg_class'::regclass)
WHERE rel.relkind IN ('r','s','t','p') AND rel.relnamespace = 2200::oid AND NOT rel.relispartition ORDER BY rel.relname
;
-- columns: name, attnum, oid, displaytypname, typname, not_null, has_default_val
SELECT DISTINCT att.attname as name, att.attnum as OID, pg_catalog.format_type(ty.oid,NULL) AS displaytypname, att.attnotnull as not_null, att.atthasdef as has_default_val, ty.typname, att.attnum
FROM pg_catalog.pg_attribute att JOIN pg_catalog.pg_type ty ON ty.oid=atttypid JOIN pg_catalog.pg_namespace tn ON tn.oid=ty.typnamespace JOIN pg_catalog.pg_class cl ON cl.oid=att.attrelid JOIN pg_catalog.pg_namespace na ON na.oid=cl.relnamespace LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=ty.typelem LEFT OUTER JOIN pg_catalog.pg_attrdef def ON adrelid=att.attrelid AND adnum=att.attnum
WHERE cl.relname = 'shown' AND att.attnum > 0 AND att.attisdropped IS FALSE ORDER BY att.attnum
;
-- columns: count
SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = 'dpsql'
;
-- columns: i, b
SELECT * FROM main.shown LIMIT 1000
;
