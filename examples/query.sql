-- Noisy answers of single queries, with errors and intervals. Run with  dpsql sql :memory: examples/query.sql
CREATE TABLE visits AS
SELECT
  (i * 7 % 90)::INTEGER AS age,
  (['north', 'south', 'east'])[1 + i % 3] AS ward,
  i % 5 = 0 AS readmitted,
  (i * 13 % 9000 / 100)::DECIMAL(6, 2) AS cost,
  DATE '2025-01-01' + (i % 365)::INTEGER AS day
FROM range(20000) r(i);
CALL dp_protect('visits', epsilon := 5.0, delta := 1e-9);
CALL dp_domain('visits', 'age', lower := 0, upper := 89);
CALL dp_domain('visits', 'ward', "values" := ['north', 'south', 'east']);
CALL dp_domain('visits', 'cost', lower := 0, upper := 90, bins := 9);
CALL dp_domain('visits', 'day', lower := DATE '2025-01-01', upper := DATE '2025-12-31', bins := 12);

-- a marginal
FROM dp_query('SELECT ward, count(*) AS n FROM visits GROUP BY ward', epsilon := 0.1);

-- expressions as keys, conditions, several aggregates
FROM dp_query('
  SELECT age // 20 * 20 AS age, count(*) AS n, avg(cost) AS cost, sum(CASE WHEN readmitted THEN 1 ELSE 0 END) AS again
  FROM visits WHERE ward <> ''east'' GROUP BY ALL ORDER BY age', epsilon := 0.3);

-- several marginals at once
FROM dp_query('SELECT ward, readmitted, count(*) AS n FROM visits GROUP BY CUBE (ward, readmitted)', epsilon := 0.2);

-- dates, HAVING, LIMIT: the three months with the most visits
FROM dp_query('
  SELECT date_trunc(''month'', day) AS month, count(*) AS n FROM visits
  GROUP BY month HAVING n > 100 ORDER BY n DESC LIMIT 3', epsilon := 0.2);

-- at least two of three conditions
FROM dp_query('
  SELECT count(*) AS n FROM visits
  WHERE (age >= 65)::INT + readmitted::INT + (ward = ''north'')::INT >= 2', epsilon := 0.1);

-- a public table beside it
CREATE TABLE wards AS FROM (VALUES ('north', 'old'), ('south', 'new'), ('east', 'new')) v(ward, building);
FROM dp_query('SELECT building, count(*) AS n FROM visits JOIN wards USING (ward) GROUP BY building', epsilon := 0.1);

-- pure epsilon
FROM dp_query('SELECT count(*) AS n FROM visits WHERE readmitted', epsilon := 0.1, mechanism := 'laplace');

-- arithmetic goes around; the answers are a table like any other
SELECT ward, round(100 * again / n, 1) AS percent
FROM dp_query('SELECT ward, count_if(readmitted) AS again, count(*) AS n FROM visits GROUP BY ward', epsilon := 0.3);

FROM dp_budget();

-- the same query again is free, and its intervals are honest: far off the raw count is no answer
SELECT bool_and(abs(noisy.n - raw.n) < 1000) AS holds
FROM dp_query('SELECT ward, count(*) AS n FROM visits GROUP BY ward', epsilon := 0.1) AS noisy
  JOIN (SELECT ward, count(*) AS n FROM visits GROUP BY ward) AS raw USING (ward);
SELECT releases = 8 AS holds FROM dp_budget();
