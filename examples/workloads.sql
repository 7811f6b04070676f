-- What a synthetic table should answer well, in SQL. Run with  dpsql sql :memory: examples/workloads.sql
CREATE TABLE people AS
SELECT
  (['F', 'M'])[1 + i % 2] AS sex,
  (['a', 'b', 'c'])[1 + i * i % 7 % 3] AS region,
  i % 7 = 0 AS sick,
  (18 + i % 60)::INTEGER AS age
FROM range(5000) r(i);
CREATE VIEW women AS SELECT region, age FROM people WHERE sex = 'F';
CALL dp_protect('people', epsilon := 9.0, delta := 1e-9);
CALL dp_domain('people', 'sex', "values" := ['F', 'M']);
CALL dp_domain('people', 'region', "values" := ['a', 'b', 'c']);
CALL dp_domain('people', 'age', lower := 18, upper := 77, bins := 12);

-- marginals; all of an order; drawn ones
FROM dp_synthesize('people', epsilon := 1.0, steps := 50,
  workload := 'SELECT sex, region, count(*) FROM people GROUP BY ALL; SELECT age, sick, count(*) FROM people GROUP BY 1, 2') LIMIT 1;
FROM dp_synthesize('people', epsilon := 1.0, steps := 50, workload := 'all 2-way') LIMIT 1;
FROM dp_synthesize('people', epsilon := 1.0, steps := 50, workload := '3 random 2-way seed 0') LIMIT 1;

-- several marginals in one statement
FROM dp_synthesize('people', epsilon := 1.0, steps := 50,
  workload := 'SELECT sex, region, sick, count(*) FROM people GROUP BY GROUPING SETS ((sex, region), (region, sick))') LIMIT 1;

-- any query stands for the joint distribution of the columns that it reads, also through a view
FROM dp_synthesize('people', epsilon := 1.0, steps := 50,
  workload := 'SELECT region, avg(age) FROM women GROUP BY region') LIMIT 1;

-- some count more than others
FROM dp_synthesize('people', epsilon := 1.0, steps := 50,
  workload := 'SELECT /*+ weight 5 */ sex, sick, count(*) FROM people GROUP BY ALL; SELECT region, age, count(*) FROM people GROUP BY ALL') LIMIT 1;

-- thresholds: for all values at once, how many rows match at least 2 of the 3
FROM dp_synthesize('people', epsilon := 1.0, steps := 50,
  workload := 'SELECT count(*) FROM people GROUP BY at_least(2, sex, region, sick)') LIMIT 1;

-- one release for each request
SELECT releases = 7 AS holds FROM dp_budget();
