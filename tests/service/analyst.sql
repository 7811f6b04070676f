-- What an analyst sends, of many kinds: each line is run here and at PostgreSQL, and values, names and types compared.
SELECT d::date, sum(n) OVER (ORDER BY d ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS week FROM (SELECT generate_series(date '2024-01-01', date '2024-01-10', interval '1 day') d, 3 AS n) q ORDER BY d
SELECT g::date AS day FROM generate_series('2024-01-01'::date, '2024-01-05'::date, '1 day') g
SELECT date_trunc('month', d)::date AS month, count(*) AS n FROM (VALUES (date '2024-01-05'), (date '2024-02-06')) v(d) GROUP BY 1 ORDER BY 1
WITH s AS (SELECT g AS id, g % 3 AS grp, g * 1.5 AS amount FROM generate_series(1, 12) g) SELECT grp, count(*), sum(amount), min(amount), max(amount), round(avg(amount), 2) AS mean FROM s GROUP BY grp ORDER BY grp
WITH s AS (SELECT g AS id, g % 3 AS grp, g * 1.5 AS amount FROM generate_series(1, 12) g), r AS (SELECT *, rank() OVER (PARTITION BY grp ORDER BY amount DESC) AS rk FROM s) SELECT * FROM r WHERE rk <= 2 ORDER BY grp, rk
SELECT grp, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS median, percentile_cont(array[0.25, 0.75]) WITHIN GROUP (ORDER BY x) AS q FROM (VALUES (1, 1.0::float8), (1, 2), (1, 4), (2, 5)) v(grp, x) GROUP BY grp ORDER BY grp
SELECT percentile_disc(array[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY g) FROM generate_series(1, 10) g
SELECT mode() WITHIN GROUP (ORDER BY x) FROM (VALUES ('a'), ('b'), ('b')) v(x)
SELECT coalesce(grp::text, 'all') AS grp, count(*) FROM (VALUES (1), (1), (2)) v(grp) GROUP BY ROLLUP (grp) ORDER BY grp NULLS LAST
SELECT a, b, grouping(a, b) AS g, sum(x) FROM (VALUES ('x', 'p', 1), ('x', 'q', 2), ('y', 'p', 3)) v(a, b, x) GROUP BY CUBE (a, b) ORDER BY g, a, b
SELECT count(*) FILTER (WHERE x > 2) AS big, count(*) FILTER (WHERE x <= 2) AS small, avg(x) FILTER (WHERE x > 2)::numeric(10,2) AS m FROM generate_series(1, 5) x
SELECT x, x - lag(x) OVER (ORDER BY x) AS diff, first_value(x) OVER w AS f, last_value(x) OVER w AS l FROM (VALUES (1), (4), (9)) v(x) WINDOW w AS (ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) ORDER BY x
SELECT x, ntile(4) OVER (ORDER BY x) AS q, round(percent_rank() OVER (ORDER BY x)::numeric, 3) AS pr, round(cume_dist() OVER (ORDER BY x)::numeric, 3) AS cd FROM generate_series(1, 5) x ORDER BY x
SELECT v.id, l.* FROM (VALUES (1), (2)) v(id) CROSS JOIN LATERAL (SELECT g, g * v.id AS p FROM generate_series(1, v.id) g) l ORDER BY 1, 2
SELECT u.id, t.tag FROM (VALUES (1, 'a,b'), (2, 'c')) u(id, tags) CROSS JOIN LATERAL unnest(string_to_array(u.tags, ',')) AS t(tag) ORDER BY 1, 2
SELECT u.id, t.tag, t.n FROM (VALUES (1, 'a,b'), (2, 'c')) u(id, tags), unnest(string_to_array(u.tags, ',')) WITH ORDINALITY AS t(tag, n) ORDER BY 1, 3
SELECT string_agg(x, ', ' ORDER BY x DESC) AS s, array_agg(x ORDER BY x) AS a, array_agg(DISTINCT x) FROM (VALUES ('b'), ('a'), ('b')) v(x)
SELECT json_agg(x) FILTER (WHERE x > 1) FROM (VALUES (2), (1)) v(x)
SELECT json_agg(t) FROM (SELECT 1 AS a, 'x' AS b) t
SELECT json_agg(row_to_json(t)) FROM (SELECT 1 AS a, 'x' AS b) t
SELECT to_json(array[1, 2]), to_jsonb('a'::text), array_to_json(array[1, 2])
SELECT '{"a": {"b": [1, 2, 3]}}'::jsonb #>> '{a,b,1}', '{"a": {"b": 1}}'::jsonb -> 'a' ->> 'b'
SELECT ('{"a": 1}'::jsonb ->> 'a')::int + 1 AS n
SELECT e ->> 'name' AS name, (e ->> 'n')::int AS n FROM jsonb_array_elements('[{"name": "x", "n": 1}, {"name": "y", "n": 2}]') e ORDER BY 1
SELECT key, value FROM json_each_text('{"a": 1, "b": "x"}') ORDER BY key
SELECT * FROM jsonb_each('{"a": 1}')
SELECT '{"a": 1}'::jsonb @> '{"a": 1}'
SELECT '{"a": 1}'::jsonb ? 'a', '{"a": 1}'::jsonb ?| array['b', 'a'], '{"a": 1}'::jsonb ?& array['a', 'b']
SELECT '["a", "b"]'::jsonb ? 'a', '"a"'::jsonb ? 'a'
SELECT '{"a": 1}'::jsonb <@ '{"a": 1, "b": 2}'::jsonb
SELECT jsonb_path_query('{"a": [1, 2, 3]}', '$.a[*]')
SELECT jsonb_path_exists('{"a": [1, 2, 3]}', '$.a[*] ? (@ > 2)')
SELECT array[1, 2] || 3, 0 || array[1, 2], array[1] || array[2, 3], array['a'] || 'b'::text
SELECT array_remove(array[1, 2, 1], 1), array_replace(array[1, 2], 1, 9), array_position(array[1, 2], 2)
SELECT 3 = ANY(array[1, 2, 3]), 'a' = ANY('{a,b}'), 2 <> ALL(array[1, 3])
SELECT array_agg(x)::text[] FROM (VALUES (1), (2)) v(x)
SELECT array(SELECT g FROM generate_series(1, 3) g) AS a
SELECT (array[5, 6, 7])[1:2], (array[5, 6, 7])[array_length(array[5, 6, 7], 1)]
SELECT unnest(array[1, 2]) * 2 AS x
SELECT regexp_replace('2024-01-05', '(\d+)-(\d+)-(\d+)', '\3.\2.\1'), regexp_replace('aaa', 'a', 'b', 'g'), regexp_replace('Hello', 'h', 'J', 'i')
SELECT (regexp_match('order-123-x', '-(\d+)-'))[1]::int AS n
SELECT 'foo bar' ~ '\mbar\M', 'foobar' ~ '\ybar', regexp_replace('foo bar', '\y(\w)', '<\1>', 'g')
SELECT regexp_replace('<a><b>', '<.*?>', '', 'g'), regexp_match('xaab', 'a+?'), substring('foobar' FROM 'o+?')
SELECT split_part('a@b.com', '@', 2), initcap('john doe'), lpad('7', 3, '0'), rpad('a', 3, '.') || '|', upper(left('abc', 1)) || substr('abc', 2)
SELECT to_char(1234567.891, '999,999,999.99'), to_char(0.1234, '990.99%'), to_char(-5, 'S99'), to_char(1234, 'FM9,999')
SELECT to_char(now(), 'YYYY') = extract(year from now())::text AS same
SELECT to_date('05/03/2024', 'DD/MM/YYYY'), to_timestamp('2024-03-05 14:07', 'YYYY-MM-DD HH24:MI'), to_date('20240305', 'YYYYMMDD'), to_date('5 Mar 2024', 'DD Mon YYYY')
SELECT age(date '2024-03-05', date '1990-06-15'), extract(year from age(date '2024-03-05', date '1990-06-15')) AS years
SELECT date '2024-03-05' - date '2024-01-01' AS days, date '2024-03-05' + 7 AS next_week, date '2024-03-05' - interval '1 month' AS prev
SELECT date_trunc('week', timestamp '2024-03-05 10:11:12'), date_trunc('quarter', timestamp '2024-03-05'), date_trunc('day', timestamptz '2024-03-05 10:00+00'), date_trunc('hour', timestamp '2024-03-05 10:11:12')
SELECT date_trunc('month', current_date) + interval '1 month' - interval '1 day' > current_date - 1 AS ok
SELECT (date_trunc('month', date '2024-02-10') + interval '1 month - 1 day')::date AS last_day
SELECT make_date(2024, 2, 29), make_interval(days => 10), make_timestamp(2024, 1, 2, 3, 4, 5.5), interval '1 day' * 3, interval '10 days' / 4
SELECT avg(b - a) FROM (VALUES (timestamp '2024-01-01', timestamp '2024-01-03')) v(a, b)
SELECT justify_interval(interval '35 days 30 hours'), justify_days(interval '65 days')
SELECT now() - interval '7 days' < now() AS b, current_date - 30 < current_date, now()::date = current_date, localtimestamp(0) <= now()
SELECT timestamp '2024-07-01 12:00' AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York', timezone('Europe/Berlin', timestamptz '2024-07-01 12:00+00')
SELECT greatest(1, 2, null), least('b', 'a'), nullif(0, 0), coalesce(null, null, 'z'), num_nulls(1, null, null)
SELECT CASE WHEN x < 2 THEN 'low' WHEN x < 4 THEN 'mid' ELSE 'high' END AS bucket, count(*) FROM generate_series(1, 5) x GROUP BY 1 ORDER BY 1
SELECT width_bucket(x, 0, 10, 5) AS b, count(*) FROM generate_series(0, 9) x GROUP BY b ORDER BY b
SELECT bool_and(x > 0), bool_or(x > 3), every(x > 1), bit_or(x), bit_xor(x) FROM generate_series(1, 4) x
SELECT DISTINCT ON (grp) grp, x FROM (VALUES (1, 3), (1, 5), (2, 1)) v(grp, x) ORDER BY grp, x DESC
SELECT x FROM (VALUES (1), (2), (3)) v(x) EXCEPT SELECT 2 ORDER BY x
SELECT x FROM (VALUES (1), (2), (3)) v(x) ORDER BY x DESC LIMIT 2 OFFSET 1
WITH RECURSIVE t(n, f) AS (SELECT 1, 1 UNION ALL SELECT n + 1, f * (n + 1) FROM t WHERE n < 5) SELECT * FROM t ORDER BY n
WITH RECURSIVE tree AS (SELECT 1 AS id, NULL::int AS parent, 'root' AS path UNION ALL SELECT c.id, c.parent, t.path || '/' || c.id FROM tree t JOIN (VALUES (2, 1), (3, 1), (4, 2)) c(id, parent) ON c.parent = t.id) SELECT * FROM tree ORDER BY path
WITH a AS MATERIALIZED (SELECT 1 AS x), b AS NOT MATERIALIZED (SELECT 2 AS x) SELECT * FROM a UNION ALL SELECT * FROM b ORDER BY x
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v(id, name) WHERE (id, name) IN ((1, 'a'), (3, 'c'))
SELECT * FROM (VALUES (1), (2)) v(id) WHERE EXISTS (SELECT 1 FROM (VALUES (2)) w(id) WHERE w.id = v.id)
SELECT v.id FROM (VALUES (1), (2)) v(id) WHERE v.id NOT IN (SELECT 2) AND v.id BETWEEN 0 AND 5
SELECT a.id, b.id FROM (VALUES (1), (2)) a(id) LEFT JOIN (VALUES (2)) b(id) USING (id) ORDER BY 1
SELECT a.*, b.y FROM (VALUES (1, 'x')) a(id, x) FULL OUTER JOIN (VALUES (2, 'y')) b(id, y) ON a.id = b.id ORDER BY a.id
SELECT sum(CASE WHEN x > 2 THEN 1 ELSE 0 END)::float / count(*) AS share FROM generate_series(1, 4) x
SELECT (count(*) FILTER (WHERE x > 2) * 100.0 / count(*))::numeric(5,2) AS pct FROM generate_series(1, 3) x
SELECT md5('x'), length('héllo'), octet_length('héllo'), reverse('abc'), repeat('ab', 2), replace('aXa', 'X', '-'), translate('abc', 'ac', 'xy'), strpos('abc', 'c'), position('b' in 'abc')
SELECT 'a' || x || 'b' AS n, concat('a', x, 'b'), concat_ws('-', 2024, 1, x, 'x') FROM (VALUES (NULL::text)) AS v(x)
SELECT trim('  a '), ltrim('xxa', 'x'), trim(both '"' from '"a"'), btrim('..a..', '.')
SELECT gen_random_uuid() IS NOT NULL, random() < 1, pg_typeof(gen_random_uuid()), version() LIKE 'PostgreSQL%'
SELECT overlay('abcdef' placing 'XY' from 2 for 2), left('abc', -1), right('abc', 2), substr('abcdef', 3, 2), substring('abcdef' for 2)
SELECT x, sum(x) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), count(*) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (VALUES (1), (1), (2)) v(x) ORDER BY x
SELECT d, count(*) OVER (ORDER BY d RANGE BETWEEN interval '7 days' PRECEDING AND CURRENT ROW) FROM (VALUES (date '2024-01-01'), (date '2024-01-05'), (date '2024-01-20')) v(d) ORDER BY d
SELECT date_part('year', d)::int AS y, date_part('week', d) AS w, to_char(d, 'Dy') AS dow FROM (VALUES (date '2024-01-01')) v(d)
SELECT h, coalesce(n, 0) AS n FROM generate_series(0, 3) h LEFT JOIN (VALUES (1, 5)) v(hour, n) ON v.hour = h ORDER BY h
SELECT * FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-01 06:00', interval '2 hours') AS t(ts)
SELECT date_bin('15 minutes', timestamp '2024-01-01 10:17', timestamp '2024-01-01')
SELECT x, CASE x WHEN 1 THEN 'one' WHEN 2 THEN 'two' END FROM (VALUES (1), (2), (3)) v(x)
SELECT table_name FROM information_schema.tables WHERE table_schema = 'nope'
SELECT 1 WHERE NULL = NULL
SELECT 5 IS DISTINCT FROM NULL, NULL IS NOT DISTINCT FROM NULL, true AND NULL, NOT (NULL)::bool
SELECT x FROM (VALUES ('10'), ('9')) v(x) ORDER BY x::int
SELECT max(d) - min(d) FROM (VALUES (date '2024-01-05'), (date '2024-01-01')) v(d)
SELECT sum(x) FILTER (WHERE x > 100), coalesce(sum(x) FILTER (WHERE x > 100), 0) FROM generate_series(1, 3) x
SELECT ts::date, ts::time, extract(hour from ts), date_part('minute', ts) FROM (VALUES (timestamp '2024-01-05 10:11:12.5')) v(ts)
SELECT cume_dist() OVER (PARTITION BY g ORDER BY x) FROM (VALUES (1, 1), (1, 2)) v(g, x)
SELECT ROW_NUMBER() OVER () FROM (VALUES (1), (2)) v(x)
SELECT COUNT(*), COUNT(DISTINCT x), Sum(x) AS "Total" FROM (VALUES (1), (1)) v(x)
SELECT string_agg(DISTINCT x, ',' ORDER BY x) FROM (VALUES ('b'), ('a'), ('b')) v(x)
SELECT a.x + b.y AS z FROM (VALUES (1)) a(x), (VALUES (2)) b(y) WHERE a.x < b.y
SELECT EXTRACT(ISODOW FROM date '2024-03-10'), EXTRACT(DOY FROM date '2024-03-10'), EXTRACT(microseconds FROM time '00:00:01.5')
SELECT tablename FROM pg_tables WHERE schemaname = 'nope'
SELECT 6 & 3, 6 | 1, 6 # 3, ~1, 1 << 3, 16 >> 2, 2 ^ 3 ^ 2
SELECT ARRAY[1,2] = ARRAY[1,2], ARRAY[1,2] < ARRAY[1,3], 1 IN (1,2), ROW(1,2) = ROW(1,2)
SELECT array_to_string(array_agg(x ORDER BY x), '; ') FROM (VALUES ('b'), ('a')) v(x)
SELECT x.* FROM (SELECT 1 AS a, 2 AS b) x
SELECT count(*) FROM (SELECT DISTINCT x FROM (VALUES (1), (1)) v(x)) s
SELECT xmin FROM (VALUES (1)) v(xmin)
SELECT ctid IS NULL FROM (VALUES (1)) v(ctid)
SELECT .5, 5., 1e-3
SELECT x FROM generate_series(1,3) AS x WHERE x = ANY(SELECT 2)
SELECT DATE '2024-01-31' + INTERVAL '1 month' * 2
SELECT lag(x, 1, 0) OVER (ORDER BY x) FROM (VALUES (1), (2)) v(x)
SELECT unnest(string_to_array('a b', ' ')) AS w, count(*) FROM (VALUES (1)) v GROUP BY 1 ORDER BY 1
SELECT regexp_split_to_table('a b', '\s') AS w, 1
SELECT trunc(random() * 0) AS z, floor(1.5)::int, (1.5)::numeric(3,1)::text
SELECT date '2024-01-05'::text, (now() AT TIME ZONE 'utc')::date <= current_date + 1
SELECT string_to_array('1,2', ',')::int[], '{1,2}'::int[] || 3
SELECT a, b FROM (VALUES (1, NULL), (2, 5)) v(a, b) ORDER BY b NULLS FIRST, a DESC
SELECT max(x) FILTER (WHERE y) OVER (ORDER BY x) FROM (VALUES (1, true), (2, false)) v(x, y)
SELECT '{"a": 1}'::jsonb || '{"b": 2}'::jsonb
SELECT regexp_replace('abcabc', '(b)(c)', '\2\1&')
SELECT regexp_replace('abc', 'b', '\&\&'), regexp_replace('a.b', '\.', '\\')
SELECT regexp_replace('aXbX', 'x', 'y', 'gi')
SELECT array_agg(DISTINCT x) FROM (VALUES ('b'), ('a'), (NULL)) v(x)
SELECT array_agg(DISTINCT x ORDER BY x DESC) FROM (VALUES ('b'), ('a'), ('b')) v(x)
SELECT string_agg(DISTINCT x, ',') FROM (VALUES ('b'), ('a'), ('b')) v(x)
SELECT string_agg(x::text, ',') FROM generate_series(1, 3) x
SELECT pg_size_pretty(123456789::bigint)
SELECT '{"a": 1}'::json
SELECT '{"a":1}'::jsonb->'a'
SELECT ARRAY[1,2]::text[] || 'x'::text
SELECT array_cat(array[1,2], array[3]), array_append(array[1], NULL)
SELECT '{a,b}'::text[] @> '{a}', array['a'] <@ '{a,b}', '{1,2}'::int[] && '{2}'
SELECT '{}'::int[] = array[]::int[]
SELECT extract(epoch from now() - now())::int
SELECT '-1 day'::interval, '1 mon -1 day'::interval, interval '1' day, interval '1 day ago'
SELECT age(timestamp '2024-03-31', timestamp '2024-02-29'), age(timestamp '2024-01-01', timestamp '2024-03-31')
SELECT timestamp '2024-03-31' - interval '1 month', timestamp '2024-02-29' + interval '1 year', date '2024-01-31' + interval '1 month 1 day'
SELECT timestamptz '2024-03-31 00:00+00' + interval '1 day'
SELECT sum(x) FROM (VALUES (0.1), (0.2)) v(x)
SELECT round(1.0 / 3, 4), round((1.0 / 3)::numeric, 4), trunc(7.0 / 3, 3)
SELECT round(100.0 * 1 / 3, 1), round(50.0, 1), round(12.3456::numeric, 0), round(1234.5, -2)
SELECT cast(5 as float) / 2, 5 / 2.0::real
SELECT x / 2, x % 2, x * 0.5, -x, x ^ 2 FROM (VALUES (5::smallint)) v(x)
SELECT '5'::int / 2, '7' / 2, 7 / '2'
SELECT lower(x), x || '!' FROM (VALUES (NULL::text)) v(x)
SELECT count(x), count(*), sum(x), avg(x), min(x), array_agg(x), string_agg(x::text, '') FROM (VALUES (NULL::int)) v(x)
SELECT sum(a) / nullif(sum(b), 0) FROM (VALUES (5, 2), (3, 1)) v(a, b)
SELECT timestamp '2024-01-01'::text, timestamptz '2024-01-01 00:00+00'::text, concat(timestamp '2024-01-01 10:00')
SELECT interval '1 day 2 hours'::text, concat(interval '36 hours'), '1 day'::interval::text
SELECT left('abc', 0), right('abc', -1), substr('abc', -1), substring('abc', 2, 100)
SELECT split_part('a-b-c', '-', 4), split_part('a', '', 1), string_to_array('abc', '')
SELECT strpos('abc', ''), position('' in 'abc'), replace('abc', '', 'x')
SELECT ltrim('  a'), rtrim('a  ') || '|', trim(leading 'x' from 'xxa'), trim('x' from 'xax')
SELECT to_char(0, '9'), to_char(0.5, '9.9'), to_char(1e10::float8, '99999999999'), to_char(12345, '999')
SELECT date '2024-01-05' = '2024-01-05', date '2024-01-05' > '2024-01-04', timestamp '2024-01-05' = date '2024-01-05'
SELECT d FROM (VALUES (date '2024-01-05')) v(d) WHERE d >= '2024-01-01' AND d < '2024-02-01'::date + interval '1 month'
SELECT d BETWEEN '2024-01-01' AND '2024-12-31' FROM (VALUES (date '2024-01-05')) v(d)
SELECT 1 AS x ORDER BY x LIMIT ALL
SELECT 1 LIMIT NULL
SELECT sum(x) FROM generate_series(1, 10) AS g(x) WHERE x % 2 = 0
SELECT g, g + 1 FROM generate_series(1, 2) g(g)
SELECT generate_series(1, 2), generate_series(1, 3)
SELECT random() BETWEEN 0 AND 1, floor(random())::int
SELECT count(*) FROM (SELECT 1 UNION ALL SELECT 1) t, LATERAL (SELECT 2) u
SELECT x FROM (SELECT 1 AS x) a WHERE x IN (SELECT x FROM (SELECT 1 AS x) b)
SELECT CASE WHEN NULL THEN 1 ELSE 2 END, CASE NULL WHEN NULL THEN 1 ELSE 2 END
SELECT 1::smallint + 40000
SELECT row_number() OVER (PARTITION BY x ORDER BY y DESC NULLS LAST) AS rn, x, y FROM (VALUES (1, 2), (1, NULL), (2, 3)) v(x, y) ORDER BY x, rn
SELECT dense_rank() OVER (ORDER BY x DESC) FROM (VALUES (1), (2), (NULL)) v(x) ORDER BY 1
SELECT first_value(x) OVER (ORDER BY y) FROM (VALUES (1, 2), (3, 1)) v(x, y)
SELECT sum(x) OVER (ORDER BY y ROWS 1 PRECEDING) FROM (VALUES (1, 2), (3, 1)) v(x, y)
SELECT y, sum(sum(x)) OVER (ORDER BY y) FROM (VALUES (1, 2), (3, 1)) v(x, y) GROUP BY y ORDER BY y
