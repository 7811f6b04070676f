-- What is public already: facts about each row, and tables to lean on. Run with  dpsql sql :memory: examples/public.sql
CREATE TABLE staff AS
SELECT
  (18 + i * 13 % 50)::INTEGER AS age,
  (i * 13 % 50 > 44) AS pensioner,
  (['sales', 'works', 'office'])[1 + i * i % 5 % 3] AS unit
FROM range(4000) r(i);
CREATE TABLE census AS
SELECT (18 + i * 17 % 50)::INTEGER AS age, (i * 17 % 50 > 44) AS pensioner FROM range(1000) r(i);

CALL dp_protect('staff', epsilon := 3.0, delta := 1e-8);
CALL dp_domain('staff', 'age', lower := 18, upper := 67);
CALL dp_domain('staff', 'unit', "values" := ['sales', 'works', 'office']);

-- nobody under 60 has a pension: every synthetic row satisfies it
CALL dp_constraint('staff', 'age >= 60 OR NOT pensioner');
CREATE TABLE synthetic AS FROM dp_synthesize('staff', epsilon := 1.0, steps := 50);

-- a public table of the same columns, or some of them, helps where there is little budget
CREATE TABLE leaning AS FROM dp_synthesize('staff', epsilon := 0.2, prior := 'census', steps := 50);

SELECT count(*) = 0 AS holds FROM synthetic WHERE age < 60 AND pensioner;
SELECT count(*) > 3000 AS holds FROM leaning;
