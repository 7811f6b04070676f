-- Grafana 11, PostgreSQL's query builder.
-- Written by hand after what the program is known to ask; nothing was copied or recorded.
-- columns: version
SELECT current_setting('server_version_num')::int/100 as version
;
-- columns: extname
SELECT extversion as extname FROM pg_extension WHERE extname = 'timescaledb'
;
-- columns: table
SELECT
    CASE WHEN
          quote_ident(table_schema) IN (
            SELECT
              CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
            FROM
              generate_series(
                array_lower(string_to_array(current_setting('search_path'),','),1),
                array_upper(string_to_array(current_setting('search_path'),','),1)
              ) as i,
              string_to_array(current_setting('search_path'),',') s
          )
      THEN quote_ident(table_name)
      ELSE quote_ident(table_schema) || '.' || quote_ident(table_name)
    END AS "table"
    FROM information_schema.tables
    WHERE quote_ident(table_schema) NOT IN ('information_schema',
                             'pg_catalog',
                             '_timescaledb_cache')
      AND table_type NOT LIKE '%FOREIGN%'
    ORDER BY quote_ident(table_schema), quote_ident(table_name)
;
-- columns: column, type
SELECT quote_ident(column_name) AS "column", data_type AS "type"
    FROM information_schema.columns
    WHERE
      CASE WHEN array_length(parse_ident('shown'),1) = 2
      THEN quote_ident(table_schema) = (parse_ident('shown'))[1] AND quote_ident(table_name) = (parse_ident('shown'))[2]
      ELSE quote_ident(table_name) = 'shown' AND quote_ident(table_schema) IN ('main')
      END
;
-- columns: time, value
SELECT floor(extract(epoch from t)/3600)*3600 AS "time", avg(n) AS "value" FROM shown WHERE t BETWEEN '2000-01-01T00:00:00Z' AND '2000-02-01T00:00:00Z' GROUP BY 1 ORDER BY 1
;
