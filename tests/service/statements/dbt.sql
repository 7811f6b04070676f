-- dbt 1.10 with dbt-postgres 1.11: debug, a test of a source, docs generate, show.
-- Recorded from the program, which spoke to PostgreSQL, by tests/service/recorded.py.
-- What reads is here, once, with its parameters and without comments. What PostgreSQL refused is left out.
-- The statements are dbt's, under the Apache Licence 2.0: Copyright dbt Labs, Inc.
-- columns: id
select 1 as id
;
-- columns: dependent_schema, dependent_name, referenced_schema, referenced_name
select distinct
        dependent_namespace.nspname as dependent_schema,
        dependent_class.relname as dependent_name,
        referenced_namespace.nspname as referenced_schema,
        referenced_class.relname as referenced_name
    from pg_class as dependent_class
    join pg_namespace as dependent_namespace on dependent_namespace.oid = dependent_class.relnamespace
    join pg_depend as dependent_depend on dependent_depend.refobjid = dependent_class.oid
        and dependent_depend.classid = 'pg_rewrite'::regclass
        and dependent_depend.refclassid = 'pg_class'::regclass
        and dependent_depend.deptype = 'i'
    join pg_depend as joining_depend on joining_depend.objid = dependent_depend.objid
        and joining_depend.classid = 'pg_rewrite'::regclass
        and joining_depend.refclassid = 'pg_class'::regclass
        and joining_depend.refobjid != dependent_depend.refobjid
    join pg_class as referenced_class on referenced_class.oid = joining_depend.refobjid
    join pg_namespace as referenced_namespace on referenced_namespace.oid = referenced_class.relnamespace
        and referenced_namespace.nspname != 'information_schema'
        and referenced_namespace.nspname not like 'pg\_%'
    order by
        dependent_schema, dependent_name, referenced_schema, referenced_name
;
-- columns: failures, should_warn, should_error
select
      count(*) as failures,
      count(*) != 0 as should_warn,
      count(*) != 0 as should_error
    from (
select i
from "dpsql"."main"."shown"
where i is null
    ) dbt_internal_test
;
-- columns: table_database, table_schema, table_name, table_type, table_comment, column_name, column_index, column_type, column_comment, table_owner
select
        'dpsql' as table_database,
        sch.nspname as table_schema,
        tbl.relname as table_name,
        case tbl.relkind
            when 'v' then 'VIEW'
            when 'm' then 'MATERIALIZED VIEW'
            else 'BASE TABLE'
        end as table_type,
        tbl_desc.description as table_comment,
        col.attname as column_name,
        col.attnum as column_index,
        pg_catalog.format_type(col.atttypid, col.atttypmod) as column_type,
        col_desc.description as column_comment,
        pg_get_userbyid(tbl.relowner) as table_owner
    from pg_catalog.pg_namespace sch
    join pg_catalog.pg_class tbl on tbl.relnamespace = sch.oid
    join pg_catalog.pg_attribute col on col.attrelid = tbl.oid
    left outer join pg_catalog.pg_description tbl_desc on (tbl_desc.objoid = tbl.oid and tbl_desc.objsubid = 0)
    left outer join pg_catalog.pg_description col_desc on (col_desc.objoid = tbl.oid and col_desc.objsubid = col.attnum)
    where ((upper(sch.nspname) = upper('main') and
           upper(tbl.relname) = upper('shown')))
      and not pg_is_other_temp_schema(sch.oid)
      and tbl.relpersistence in ('p', 'u')
      and tbl.relkind in ('r', 'v', 'f', 'p', 'm')
      and col.attnum > 0
      and not col.attisdropped
    order by
        sch.nspname,
        tbl.relname,
        col.attnum
;
-- columns: i, b, small, whole, x, n, t, s
select * from "dpsql"."main"."shown"
  limit 3
;
-- What follows is of other versions.
-- dbt-postgres 1.8: macros of its adapter that read. A model is made elsewhere: nothing is written here.
-- Written by hand after what the program is known to ask; nothing was copied or recorded.
-- columns: database, name, schema, type
select 'dpsql' as database, tablename as name, schemaname as schema, 'table' as type
from pg_tables where schemaname ilike 'main'
union all
select 'dpsql' as database, viewname as name, schemaname as schema, 'view' as type
from pg_views where schemaname ilike 'main'
union all
select 'dpsql' as database, matviewname as name, schemaname as schema, 'materialized_view' as type
from pg_matviews where schemaname ilike 'main'
;
-- columns: nspname
select distinct nspname from pg_namespace
;
-- columns: count
select count(*) from pg_namespace where nspname = 'main'
;
-- columns: column_name, data_type, character_maximum_length, numeric_precision, numeric_scale
select column_name, data_type, character_maximum_length, numeric_precision, numeric_scale
from "dpsql".INFORMATION_SCHEMA.columns
where table_name = 'shown' and table_schema = 'main'
order by ordinal_position
;
-- columns: table_database, table_schema, table_name, table_type, table_comment, column_name, column_index, column_type, column_comment, table_owner
select 'dpsql' as table_database, sch.nspname as table_schema, tbl.relname as table_name,
 case tbl.relkind when 'v' then 'VIEW' else 'BASE TABLE' end as table_type, tbl_desc.description as table_comment,
 col.attname as column_name, col.attnum as column_index, pg_catalog.format_type(col.atttypid, col.atttypmod) as column_type, col_desc.description as column_comment, pg_get_userbyid(tbl.relowner) as table_owner
from pg_catalog.pg_namespace sch
join pg_catalog.pg_class tbl on tbl.relnamespace = sch.oid
join pg_catalog.pg_attribute col on col.attrelid = tbl.oid
left outer join pg_catalog.pg_description tbl_desc on (tbl_desc.objoid = tbl.oid and tbl_desc.objsubid = 0)
left outer join pg_catalog.pg_description col_desc on (col_desc.objoid = tbl.oid and col_desc.objsubid = col.attnum)
where upper(sch.nspname) = upper('main') and not pg_is_other_temp_schema(sch.oid) and tbl.relpersistence in ('p', 'u') and tbl.relkind in ('r', 'v', 'f', 'p') and col.attnum > 0 and not col.attisdropped
order by sch.nspname, tbl.relname, col.attnum
;
-- columns: referenced_name, referenced_schema
with relation as (
    select pg_rewrite.ev_class as class, pg_rewrite.oid as id from pg_rewrite
), class as (
    select oid as id, relname as name, relnamespace as schema, relkind as kind from pg_class
), dependency as (
    select distinct pg_depend.objid as id, pg_depend.refobjid as ref from pg_depend
), schema as (
    select pg_namespace.oid as id, pg_namespace.nspname as name from pg_namespace where nspname != 'information_schema' and nspname not like 'pg\_%'
), referenced as (
    select relation.id AS id, referenced_class.name, referenced_class.schema, referenced_class.kind
    from relation join class as referenced_class on relation.class=referenced_class.id where referenced_class.kind in ('r', 'v', 'm')
)
select referenced.name as referenced_name, ref_schema.name as referenced_schema from referenced join schema as ref_schema on referenced.schema = ref_schema.id
;
-- columns: i, b
select * from "dpsql"."main"."shown" limit 500
;
