-- dpsql in one file: run it with  dpsql sql bank.duckdb examples/quickstart.sql
CREATE TABLE clients AS
SELECT
  (18 + i * 7 % 70)::INTEGER AS age,
  (['north', 'south', 'west'])[1 + i % 3] AS region,
  i % 11 = 0 AS defaulted
FROM range(3000) r(i);

CALL dp_protect('clients', epsilon := 2.0, delta := 1e-7);
CALL dp_domain('clients', 'age', lower := 18, upper := 87, bins := 10);
CALL dp_domain('clients', 'region', "values" := ['north', 'south', 'west']);

FROM dp_plan('clients', epsilon := 1.0, assume_rows := 3000);
CREATE TABLE synthetic AS FROM dp_synthesize('clients', epsilon := 1.0);
SELECT region, count(*), avg(defaulted::INTEGER) FROM synthetic GROUP BY ALL;
FROM dp_budget();

SELECT abs(count(*) - 3000) < 500 AND bool_and(region IN ('north', 'south', 'west')) AS holds FROM synthetic;
