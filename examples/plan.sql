-- What an answer would cost before it is asked for, and what is free. Run with  dpsql sql :memory: examples/plan.sql
CREATE TABLE people AS
SELECT (['F', 'M'])[1 + i % 2] AS sex, i % 7 = 0 AS sick, (18 + i % 60)::INTEGER AS age FROM range(30000) r(i);
CALL dp_protect('people', epsilon := 2.0, delta := 1e-9);
CALL dp_domain('people', 'sex', "values" := ['F', 'M']);
CALL dp_domain('people', 'age', lower := 18, upper := 77, bins := 12);

-- how noisy a query is at an epsilon, and what is left afterwards
SELECT note, epsilon_left FROM dp_plan('SELECT sex, count(*) FROM people WHERE sick GROUP BY sex', epsilon := 0.1);

-- the smallest epsilon at which each count is known to ± 50 rows
SELECT epsilon, stddev FROM dp_plan('SELECT sex, count(*) FROM people WHERE sick GROUP BY sex', max_error := 50);

-- the same for a synthetic table: predicted error of its marginals
SELECT DISTINCT epsilon, round(overall_l1, 3) AS l1
FROM dp_plan('people', max_error := 0.1, assume_rows := 30000);

-- a synthetic table measures marginals; queries about their columns are then free
CREATE TABLE synthetic AS FROM dp_synthesize('people', epsilon := 1.0, steps := 50);
FROM dp_query('SELECT sex, sick, count(*) AS n FROM people GROUP BY ALL', epsilon := 0);

-- what was planned is what is spent: 1.0 of 2 by the synthetic table, nothing by the rest
SELECT abs(epsilon_spent - 1.0) < 0.01 AND releases = 1 AS holds FROM dp_budget();
SELECT stddev < 50 AS holds FROM dp_plan('SELECT sex, count(*) FROM people WHERE sick GROUP BY sex', max_error := 50);
