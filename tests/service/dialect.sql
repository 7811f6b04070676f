-- Statements that mean the same here and at PostgreSQL: each line is run on both, and their texts are compared.
SELECT left('hello', -2), right('hello', -2), substr('hello', 0, 3), substring('hello' from 2 for 2)
SELECT position('l' in 'hello'), strpos('hello', 'z'), overlay('abcdef' placing 'XX' from 2 for 3)
SELECT translate('12345', '143', 'ax'), reverse('abc'), ascii('é'), chr(233)
SELECT split_part('a,b,c', ',', 2), split_part('a,b,c', ',', -1), split_part('a,b', ',', 5)
SELECT concat('a', NULL, 1), concat_ws(',', 'a', NULL, 'b'), 'a' || NULL
SELECT btrim('  x '), ltrim('xxyx', 'x'), trim(both 'x' from 'xax'), trim(leading from '  a')
SELECT md5('a'), length('é😀'), char_length('abc'), bit_length('a')
SELECT 'abc' < 'ABC', 'a' < 'B', 'Z' < 'a', 'é' > 'z'
SELECT lower('ÀÉ'), upper('ı')
SELECT regexp_replace('foobarbaz', 'b..', 'X'), regexp_replace('foobarbaz', 'b..', 'X', 'g'), regexp_replace('foobar', '(o+)', '<\1>')
SELECT 'abc' ~ '^a', 'ABC' ~* 'b', 'abc' !~ 'z', 'abc' !~* 'B', 'abc' ~ 'b'
SELECT regexp_split_to_array('a1b2c', '[0-9]')
SELECT starts_with('abc', 'ab'), 'abc' ^@ 'ab'
SELECT 'a_b' LIKE 'a\_b', 'a%b' LIKE 'a!%b' ESCAPE '!', 'abc' LIKE 'A%', 'abc' ILIKE 'A%', 'abc' NOT LIKE '_b_'
SELECT 'a' = 'a ', 'a'::char(3) = 'a'
SELECT quote_nullable(NULL), quote_literal('a''b'), quote_ident('A b')
SELECT round(0.5), round(1.5), round(2.5), round(-0.5), round(-2.5), round(2.45, 1), round(125, -1)
SELECT round(1.5::float8), round(-1.5::float8)
SELECT 0.5::int, 1.5::int, 2.5::int, -2.5::int, 2.5::float8::int, 3.5::float8::int, '2'::int
SELECT 7 / 2, -7 / 2, 7 % -3, -7 % 3, mod(-7, 3), 2 ^ 3, @ -5
SELECT ceil(-1.5), floor(-1.5), trunc(-1.7), trunc(1.789, 2), sign(-2), abs(-3), ceiling(1.1)
SELECT power(2, 10), sqrt(2), exp(1), ln(2), log(100), cbrt(27), pi()
SELECT 'NaN'::float8 = 'NaN'::float8, 'NaN'::float8 > 1, 'inf'::float8
SELECT 1e10::float8, 1e16::float8, 1e20::float8, 0.1::float8, 1e-5::float8, 123456789.123::float8, 1e-7::float8
SELECT 1.5::real, 0.1::real, 0.1::real::float8
SELECT 1.0::float8, 100::float8, 0::float8, -0.0::float8
SELECT 1.5e3, 1e3, 12345678901234567890, 0.1 + 0.2, 1.10, 1.1 * 1.10
SELECT sum(x), min(x), max(x), count(*) FROM (VALUES (1), (2), (NULL)) t(x)
SELECT avg(x) FROM (VALUES (1::float8), (2)) t(x)
SELECT sum(x) FROM (VALUES (1)) t(x) WHERE false
SELECT count(*) FILTER (WHERE x > 1), sum(x) FILTER (WHERE x > 5), array_agg(x) FILTER (WHERE x > 1) FROM (VALUES (1), (2), (3)) t(x)
SELECT bool_and(x > 0), bool_or(x > 2), every(x > 1) FROM (VALUES (1), (2)) t(x)
SELECT array_agg(x ORDER BY x DESC NULLS LAST) FROM (VALUES (1), (NULL), (2)) t(x)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), percentile_disc(0.5) WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (2), (2), (4)) t(x)
SELECT corr(x, y), covar_pop(x, y), regr_slope(y, x), regr_r2(y, x), regr_count(y, x) FROM (VALUES (1, 2), (2, 4.5), (3, 5)) t(x, y)
SELECT bit_and(x), bit_or(x), 5 & 3, 5 | 3, ~5, 1 << 4, -8 >> 1 FROM (VALUES (6), (3)) t(x)
SELECT x, row_number() OVER w, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w, ntile(2) OVER w FROM (VALUES (1), (1), (2), (3)) t(x) WINDOW w AS (ORDER BY x) ORDER BY 2
SELECT x, lag(x) OVER (ORDER BY x), lead(x, 1, 0) OVER (ORDER BY x), nth_value(x, 2) OVER (ORDER BY x) FROM (VALUES (1), (2), (3)) t(x) ORDER BY x
SELECT x, sum(x) OVER (ORDER BY x), sum(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), last_value(x) OVER (ORDER BY x) FROM (VALUES (1), (2), (2)) t(x) ORDER BY x
SELECT x, sum(x) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM (VALUES (1), (2), (4)) t(x) ORDER BY x
SELECT date '2020-01-31' + interval '1 month', date '2020-01-31' + 1, date '2020-03-01' - date '2020-02-01', date '2020-01-01' - 1
SELECT timestamp '2020-01-31 10:00' - timestamp '2020-01-01', timestamp '2020-01-31 10:00' - interval '1 hour', age(timestamp '2020-03-01', timestamp '2019-01-31')
SELECT timestamp '2021-01-01' - timestamp '2020-01-01 12:00'
SELECT interval '1 day' * 2, interval '1 month 2 days' * 1.5
SELECT interval '1 year 2 months 3 days 04:05:06.789', interval '-1 day', interval '1.5 hours', interval '90 minutes', interval '1' hour
SELECT interval '1 month' = interval '30 days', interval '24 hours' = interval '1 day', interval '1 month' > interval '29 days'
SELECT extract(year from date '2020-05-05'), extract(dow from date '2020-05-03'), extract(isodow from date '2020-05-03'), extract(week from date '2020-12-31'), extract(doy from date '2020-12-31'), extract(quarter from date '2020-05-05')
SELECT extract(second from timestamp '2020-01-01 00:00:01.5'), extract(milliseconds from time '00:00:01.5'), extract(century from date '2000-01-01'), extract(decade from date '2009-01-01')
SELECT date_part('month', timestamp '2020-05-05'), date_part('epoch', interval '1 day'), extract(day from interval '40 days'), extract(hour from interval '27 hours')
SELECT extract(year from interval '14 months')
SELECT date_trunc('month', timestamp '2020-05-05 10:00'), date_trunc('week', timestamp '2020-05-05'), date_trunc('hour', timestamptz '2020-05-05 10:30+02')
SELECT date_trunc('day', interval '1 day 3 hours'), date_trunc('decade', timestamp '2019-05-05')
SELECT make_date(2020, 2, 29), make_timestamp(2020, 1, 1, 10, 0, 0.5), make_time(10, 0, 1.5)
SELECT to_char(timestamp '2020-05-05 13:04:05', 'YYYY-MM-DD HH24:MI:SS'), to_char(timestamp '2020-05-05 13:04:05', 'HH12:MI AM')
SELECT to_date('2020-05-05', 'YYYY-MM-DD'), to_timestamp('2020-05-05 10', 'YYYY-MM-DD HH24'), to_timestamp(1.5)
SELECT '2020-01-01'::timestamp, '2020-01-01 10:00+02'::timestamptz, '10:00'::time, 'epoch'::timestamp
SELECT timestamp '2020-01-01 10:00' at time zone 'Europe/Berlin', timestamptz '2020-01-01 10:00+00' at time zone 'America/New_York'
SELECT date '2020-01-01' < timestamp '2020-01-01 00:00:01'
SELECT isfinite(date 'infinity'), date 'infinity' > date '2020-01-01', timestamp '-infinity'
SELECT time '10:00' + interval '15 hours', date '2020-01-01' + time '10:00'
SELECT generate_series FROM generate_series(1, 3)
SELECT * FROM generate_series(timestamp '2020-01-01', timestamp '2020-01-03', interval '1 day') g
SELECT * FROM generate_series(3, 1, -1)
SELECT * FROM generate_series(1, 0)
SELECT (array[1, 2, 3])[2:3], (array[1,2,3])[5], array_length(array[1, 2], 1), cardinality(array[1, 2]), array_length(array[]::int[], 1)
SELECT array[1] || array[2], array_append(array[1], 2), array_prepend(0, array[1]), array_cat(array[1], array[2])
SELECT array[1, 2] @> array[1], array[1] <@ array[1, 2], array[1, 2] && array[2, 3], array[1, 2] = array[1, 2], array[1] < array[2]
SELECT array_position(array['a', 'b'], 'b'), array_position(array['a'], 'z'), array_to_string(array[1, NULL, 3], ',')
SELECT 1 = ANY(array[1, 2]), 3 > ALL(array[1, 2]), 1 = ANY(array[NULL, 2]::int[])
SELECT unnest(array[1, 2]) AS u, 5
SELECT * FROM unnest(array['a', 'b']) WITH ORDINALITY
SELECT string_to_array('a,b,,c', ','), string_to_array('a,b', NULL), string_to_array('', ',')
SELECT array_agg(x) FROM (VALUES (1)) t(x) WHERE false
SELECT '{"a": {"b": [1, 2]}}'::json -> 'a' -> 'b' -> 0, '{"a": "x"}'::json ->> 'a', '[1, 2]'::json ->> 1
SELECT json_array_length('[1, 2, 3]'), json_typeof('{"a": 1}'), json_typeof('1'), json_typeof('"s"'), json_typeof('null'), json_typeof('[]')
SELECT '{"a": null}'::json ->> 'a', '{"a": null}'::json -> 'a', '{"a": 1}'::json ->> 'b', '{"a": true}'::json ->> 'a'
SELECT to_json('a'::text), to_json(1)
SELECT row_to_json(t) FROM (SELECT 1 AS a, 'x' AS b) t
SELECT a, b, sum(x), grouping(a), grouping(a, b) FROM (VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3)) t(a, b, x) GROUP BY GROUPING SETS ((a, b), (a), ()) ORDER BY 1, 2
SELECT a, b, sum(x) FROM (VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3)) t(a, b, x) GROUP BY ROLLUP (a, b) ORDER BY 1, 2
SELECT a, b, count(*) FROM (VALUES (1, 1), (1, 2)) t(a, b) GROUP BY CUBE (a, b) ORDER BY a, b
SELECT t.x, l.y FROM (VALUES (1), (2)) t(x), LATERAL (SELECT t.x * 10 AS y) l ORDER BY 1
SELECT t.x, l.y FROM (VALUES (1), (2)) t(x) LEFT JOIN LATERAL (SELECT g AS y FROM generate_series(1, t.x) g) l ON true ORDER BY 1, 2
SELECT DISTINCT ON (a) a, b FROM (VALUES (1, 2), (1, 1), (2, 3)) t(a, b) ORDER BY a, b
SELECT x FROM (VALUES (1), (2), (3)) t(x) ORDER BY x OFFSET 1 ROWS FETCH FIRST 1 ROWS ONLY
SELECT x FROM (VALUES (1), (2), (2)) t(x) INTERSECT ALL SELECT 2
SELECT CASE 1 WHEN 1 THEN 'a' END, CASE WHEN false THEN 1 END, coalesce(NULL, 1.5, 2)
SELECT nullif(1, 1), greatest(1, NULL, 3), least(NULL, 2), greatest('a', 'b'), coalesce(NULL, 'x')
SELECT 1 = '1', 'a' || 1, 1 || 'a'
SELECT '5' * 2, 3 - '1', 1 + 2.5, 2.5::int
SELECT ' 12 '::int, '+5'::int
SELECT true::int, 0::bool, 1::bool, 't'::bool, 'yes'::bool, '1'::bool, true::text, false::text
SELECT true > false, true AND NULL, NULL OR true, NOT NULL::bool, NULL IS NULL, 1 IS DISTINCT FROM NULL, true IS TRUE, NULL IS UNKNOWN
SELECT 5 BETWEEN 1 AND 10, 5 BETWEEN 10 AND 1, 'b' BETWEEN 'a' AND 'c', NULL IN (1), 1 IN (NULL, 1), 2 NOT IN (1, NULL), 1 IN (1)
SELECT (1, 2) < (1, 3), (1, 2) = (1, 2), ROW(1, 2) IN (ROW(1, 2)), (1, NULL) IS NULL
SELECT 1::text, 1.50::text, 1.5::float8::text, date '2020-01-01'::text, timestamp '2020-01-01 10:00'::text, interval '1 day'::text, time '10:00'::text
SELECT timestamptz '2020-01-01 10:00+00'::text, '\x00'::bytea::text, null::text
SELECT 'a'::varchar(1), 'abc'::bpchar, 'ab'::name
SELECT cast('1.25' as numeric(3,1)), cast(1.35 as numeric(3,1)), cast(-1.25 as numeric(3,1)), 1.005::numeric(10,2)
SELECT 1.15::float8::numeric(3,1), 2.675::float8::numeric(10,2)
SELECT round(1.005, 2), round(2.675, 2), round(-1.5), round(1e10), round(1234.5678, -2), trunc(-1234.5678, -2), round(0.15, 1), round(0.25, 1)
SELECT 1::smallint / 2::smallint, 5::bigint % 3, 5.5 % 2, -5.5 % 2, mod(5.5, 2)
SELECT gcd(12, 18), lcm(4, 6), factorial(5), degrees(pi()), radians(180), atan2(1, 1), cot(1), sinh(1)
SELECT pg_typeof(x) FROM (VALUES (1), (2.5)) t(x)
SELECT pg_typeof(1), pg_typeof(1.5), pg_typeof(1 + 1.5) FROM (VALUES (1)) t(x)
SELECT pg_typeof(1 / 2), pg_typeof(now()), pg_typeof(current_date), pg_typeof(date '2020-01-01' + 1), pg_typeof(interval '1 day'), pg_typeof(array[1])
SELECT pg_typeof(round(1.5)), pg_typeof(round(1.5::float8)), pg_typeof(ceil(1.5)), pg_typeof(date_part('year', now()))
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT n, sum(n) OVER () FROM t
SELECT a.x, b.x FROM (VALUES (1), (2)) a(x) FULL JOIN (VALUES (2), (3)) b(x) ON a.x = b.x ORDER BY 1, 2
SELECT * FROM (VALUES (1, 2)) a(x, y) NATURAL JOIN (VALUES (1, 3)) b(x, z)
SELECT * FROM (VALUES (1, 2)) a(x, y) JOIN (VALUES (1, 3)) b(x, z) USING (x)
SELECT count(DISTINCT x), count(x), sum(DISTINCT x) FROM (VALUES (1), (1), (NULL)) t(x)
SELECT count(DISTINCT (a, b)) FROM (VALUES (1, NULL), (1, NULL), (2, 1)) t(a, b)
SELECT x FROM (VALUES ('b'), ('A'), ('a'), ('B'), (NULL)) t(x) ORDER BY x
SELECT x FROM (VALUES ('b'), ('A'), ('a'), ('B'), (NULL)) t(x) ORDER BY x DESC
SELECT x FROM (VALUES (1.0::float8), ('NaN'), (NULL), ('-inf')) t(x) ORDER BY x
SELECT x, count(*) FROM (VALUES (1), (NULL), (NULL)) t(x) GROUP BY x ORDER BY x
SELECT x FROM (VALUES (1), (2)) t(x) WHERE x = '1'
SELECT x FROM (VALUES (1), (2)) t(x) GROUP BY 1 HAVING count(*) > 0 ORDER BY -x
SELECT a || ' ' || b FROM (VALUES ('x', NULL), ('y', 'z')) t(a, b) ORDER BY 1
SELECT sum(x), sum(y), avg(y) FROM (VALUES (1::smallint, 1.5::real), (2::smallint, 2.25::real)) t(x, y)
SELECT sum(x) FROM (VALUES (9223372036854775807), (1)) t(x)
SELECT max(x), min(x) FROM (VALUES ('a'), ('B')) t(x)
SELECT string_agg(x, '') FROM (VALUES (NULL), (NULL)) t(x)
SELECT width_bucket(5.35, 0.024, 10.06, 5), width_bucket(5, 1, 5, 4)
SELECT exists(SELECT 1 WHERE false), (SELECT 1 WHERE false), array(SELECT 1 UNION SELECT 2 ORDER BY 1)
SELECT '\x41'::bytea || '\x42'::bytea
SELECT 1 AS "A b", 2 AS C, 3 "select"
SELECT bit_length('abc'), chr(65), to_hex(255), sha256('abc'::bytea)
SELECT 'abc' SIMILAR TO 'a(b|x)c'
SELECT extract(second from timestamp '2020-01-01 00:00:01.5'), extract(milliseconds from time '00:00:01.5004'), extract(seconds from interval '1 minute 2.25 seconds'), extract('second' from timestamp '2020-01-01 10:00:59.999999')
SELECT extract(year from date '2020-05-05'), extract( dow from timestamp '2020-01-01'), EXTRACT(Hour FROM time '10:00'), extract(year from '2020-01-01'::date + 1) + 1
SELECT date_part('second', timestamp '2020-01-01 00:00:01.5'), date_part('year', date '2020-01-01'), date_part('ms', time '00:00:01.5'), date_part('epoch', interval '1 day')
SELECT extract(year from x) y, extract(second from x) FROM (VALUES (timestamp '2020-01-01 10:00:01.25')) t(x)
SELECT extract(isoyear from date '2021-01-01'), extract(millennium from date '2001-01-01'), extract(timezone from timestamptz '2020-01-01 10:00+00'), extract(microseconds from time '00:00:01.5'), extract(julian from date '2020-01-01')
SELECT to_hex(255), to_hex(-1), to_hex(-1::bigint), to_hex(x) FROM (VALUES (10)) t(x)
SELECT sha256('abc'::bytea), sha256('abc')
SELECT array_length(array[]::int[], 1), array_length(array[1,2], 1), array_upper(array[]::int[], 1), array_lower(array[1], 1), array_length(NULL::int[], 1)
SELECT btrim('  x '), btrim('xxax', 'x'), quote_nullable(NULL), quote_nullable('a'), json_typeof('{"a": 1}'), json_typeof('1'), json_typeof('"s"'), json_typeof('null'), json_typeof('[]'), json_typeof('true')
SELECT every(x > 1), every(x > 0) FROM (VALUES (1), (2)) t(x)
SELECT count(*) FILTER (WHERE extract(year from d) = 2020) FROM (VALUES (date '2020-01-01')) t(d)
SELECT extract(year from d), count(*) FROM (VALUES (date '2020-01-01'), (date '2021-01-01')) t(d) GROUP BY extract(year from d) ORDER BY 1
SELECT extract(year from d), count(*) FROM (VALUES (date '2020-01-01'), (date '2021-01-01')) t(d) GROUP BY 1 ORDER BY extract(year from d)
SELECT date_part('month', d), count(*) FROM (VALUES (date '2020-01-01'), (date '2021-01-01')) t(d) GROUP BY date_part('month', d)
SELECT substring('foobar' from 'o(.)b'), substring('foobar' from 'o.b'), substring('foobar' from 'x'), substring('foobar' from 2), substring('foobar' from 2 for 3), substring('f(b' from '\(b'), substring('foobar' from '(?:o)b')
SELECT x.at, at.at FROM (VALUES (1)) x(at), (VALUES (2)) at(at)
SELECT format_type(1043, 14), format_type(1114, 3), format_type(1184, 0), format_type(1083,2), format_type(1042,9), format_type(1700, 327686), format_type(20, NULL), format_type(1114, -1), format_type(1114, NULL)
SELECT substring('a(c' FROM '[(]'), substring('x)y' FROM '[])](y)'), substring('a1(' FROM '[[:digit:](]+'), substring('a\b' FROM '\\(b)')
SELECT substring('ab' FROM '(a)?b'), substring('aaa' FROM 'a(b*)'), substring('a' || chr(10) || 'b' FROM 'a.b'), substring('a?' FROM '[?]?')
SELECT array_upper('{}'::int[], 1), array_lower('{}'::int[], 1), array_upper(array[1, 2], 1), array_lower(array['a'], 1)
SELECT '0044-03-15 10:00:00.5 BC'::timestamp, date '0044-03-15 BC', CAST('0044-03-15 BC' AS date), '0044-03-15 10:00:00+00 BC'::timestamptz, timestamp(0) '0044-03-15 10:00:00.5 BC', '0044-03-15 BC'
SELECT 'abc'::varchar(2), 'abc'::char(5), '2020-01-01 10:00:00.567'::timestamp(2), 'a'::char(3) = 'a', interval '90' minute, 1::float
SELECT jsonb_array_elements_text('["a", "b"]')
SELECT array_to_string('{}'::int[], ','), array_to_string(ARRAY[true, false], ','), array_to_string(ARRAY[1.5, 2]::float8[], ','), array_to_string(NULL::int[], ','), array_to_string(ARRAY[1, NULL, 2], ',', '*')
SELECT regexp_matches('a1b2', '[0-9]', 'g')
SELECT regexp_matches('a1b2', '[0-9]', 'i')
SELECT regexp_matches('abc', 'z')
SELECT json_extract_path_text('{"a": {"b": 2}}'::json, 'a', 'b'), json_extract_path_text('{"a": 5}', 'a')
SELECT regexp_instr('abc', 'c'), regexp_substr('abc', 'z'), regexp_count('', 'a'), regexp_like('abc', NULL)
SELECT regexp_substr('number of your street', '[^ ]+', 1, 3)
SELECT DISTINCT generate_series(1, 2) ORDER BY 1
SELECT count(*) FROM (SELECT generate_series(1, 5)) t
SELECT array_length(ARRAY(SELECT generate_series(1, 5)), 1)
SELECT generate_series(1, 3) + 1
SELECT 'on'::boolean, 'OFF'::bool, CAST('on' AS boolean)
SELECT '{"a": 1}'::jsonb -> 'a', '{"a": 1}'::jsonb = '{"a": 1}'::jsonb
SELECT to_char(1234.5, '9999.99'), to_char(1234.5, '9,999.99'), to_char(-5, '999'), to_char(5, '000'), to_char(0.5, '0.99')
SELECT to_char(125, 'FM0000'), to_char(12, 'RN'), to_char(485, 'FMRN'), to_char(-12, '99MI'), to_char(-12, '99PR'), to_char(12, 'S99')
SELECT regexp_match('foobarbequebaz', '(bar)(beque)'), regexp_match('abc', 'b'), regexp_match('abc', 'z')
SELECT regexp_count('ABCABCAXYaxy', 'A.'), regexp_count('abab', 'b', 3), regexp_count('ABCABC', 'a', 1, 'i')
SELECT * FROM regexp_split_to_table('the quick brown fox', '\s+')
SELECT i, t FROM generate_series(1, 2) i, string_to_table('a-' || i, '-') t ORDER BY 1, 2
SELECT e FROM json_array_elements_text('[1, "x", null]'::json) e
SELECT key, value FROM jsonb_each_text('{"a": 1, "b": "x", "c": null}'::jsonb) ORDER BY key
SELECT 7 BETWEEN SYMMETRIC 10 AND 5, 7 NOT BETWEEN SYMMETRIC NULL AND 5, date '2023-02-02' BETWEEN SYMMETRIC '2023-03-01' AND '2023-02-01'
SELECT (date '2020-01-01', date '2020-12-31') OVERLAPS (date '2020-06-01', date '2021-06-01'), (date '2020-01-01', interval '100 days') OVERLAPS (date '2020-10-30', date '2020-10-31')
SELECT jsonb_typeof('{"a": 1}'::jsonb), jsonb_array_length('[1, 2]'), jsonb_extract_path_text('{"a": {"b": 2}}', 'a', 'b'), jsonb_object_keys('{"b": 1}')
