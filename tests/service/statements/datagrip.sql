-- DataGrip 2024: introspection.
-- Written by hand after what the program is known to ask; nothing was copied or recorded.
-- columns: a, b, c, d
select current_database() as a, current_schemas(false) as b, version() as c, current_setting('server_version_num') as d
;
-- columns: name, is_super, is_inherit
select rolname as name, rolsuper as is_super, rolinherit as is_inherit, rolcreaterole, rolcreatedb, rolcanlogin from pg_catalog.pg_roles
;
-- columns: id, name, description, is_template, allow_connections, owner
select N.oid::bigint as id, datname as name, D.description, datistemplate as is_template, datallowconn as allow_connections, pg_catalog.pg_get_userbyid(N.datdba) as "owner"
from pg_catalog.pg_database N left join pg_catalog.pg_shdescription D on N.oid = D.objoid
order by case when datname = pg_catalog.current_database() then -1::bigint else N.oid::bigint end
;
-- columns: id, state_number, name, description, owner
select N.oid::bigint as id, N.xmin as state_number, nspname as name, D.description, pg_catalog.pg_get_userbyid(N.nspowner) as "owner"
from pg_catalog.pg_namespace N left join pg_catalog.pg_description D on N.oid = D.objoid
order by case when nspname = pg_catalog.current_schema then -1::bigint else N.oid::bigint end
;
-- columns: table_kind, table_name, table_id, table_state_number, table_with_oids, tablespace_id, options, ancestors, successors, is_partition
select T.relkind as table_kind, T.relname as table_name, T.oid as table_id, T.xmin as table_state_number, false as table_with_oids, T.reltablespace as tablespace_id, T.reloptions as options,
 (select pg_catalog.array_agg(inhparent::bigint order by inhseqno)::varchar from pg_catalog.pg_inherits where T.oid = inhrelid) as ancestors,
 (select pg_catalog.array_agg(inhrelid::bigint order by inhrelid)::varchar from pg_catalog.pg_inherits where T.oid = inhparent) as successors,
 T.relispartition as is_partition
from pg_catalog.pg_class T
where relnamespace = 2200::oid and relkind in ('r', 'm', 'v', 'f', 'p')
order by table_kind, table_id
;
-- columns: table_id, column_position, column_name, type_mod, dimensions_number, type_spec, type_id, mandatory
with T as ( select T.oid as table_id, T.relname from pg_catalog.pg_class T where T.relnamespace = 2200::oid and T.relkind in ('r', 'm', 'v', 'f', 'p') )
select T.table_id, C.attnum as column_position, C.attname as column_name, C.atttypmod as type_mod, C.attndims as dimensions_number, pg_catalog.format_type(C.atttypid, C.atttypmod) as type_spec, C.atttypid as type_id, C.attnotnull as mandatory
from T join pg_catalog.pg_attribute C on T.table_id = C.attrelid where attnum > 0 and not attisdropped order by table_id, attnum
;
-- columns: transaction_isolation
select current_setting('transaction_isolation') as transaction_isolation
;
