-- Whatever a protected table is called, its budget is found. Run with  dpsql sql :memory: examples/lineage.sql
CREATE SCHEMA hospital;
CREATE TABLE hospital."all stays" AS
SELECT (['A10', 'B20', 'C30'])[1 + i % 3] AS code, (i * 7 % 20)::TINYINT AS nights, i % 4 = 0 AS surgery
FROM range(9000) r(i);
CREATE TABLE codes AS FROM (VALUES ('A10', 'heart'), ('B20', 'lungs'), ('C30', 'heart')) v(code, organ);
CREATE VIEW surgeries AS SELECT code AS diagnosis, nights FROM hospital."all stays" WHERE surgery;

CALL dp_protect('hospital."all stays"', epsilon := 3.0, delta := 1e-8);
CALL dp_domain('hospital."all stays"', 'code', "values" := ['A10', 'B20', 'C30']);
CALL dp_domain('hospital."all stays"', 'nights', lower := 0, upper := 19);

-- a quoted name, a view with a filter and another name for a column, a common table expression
FROM dp_query('SELECT "code", count(*) AS n FROM hospital."ALL STAYS" GROUP BY "code"', epsilon := 0.1);
FROM dp_query('SELECT diagnosis, count(*) AS n FROM surgeries GROUP BY diagnosis', epsilon := 0.1);
FROM dp_query('
  WITH long AS (SELECT nights // 7 AS weeks, surgery FROM hospital."all stays" WHERE nights > 6)
  SELECT weeks, count(*) AS n FROM long GROUP BY weeks', epsilon := 0.1);

-- a public table of which each code has one row is part of the same source
FROM dp_query('
  SELECT organ, count(*) AS n FROM surgeries JOIN codes ON diagnosis = codes.code GROUP BY organ', epsilon := 0.1);

-- a view is also what a synthetic table should answer well
CREATE TABLE synthetic AS
FROM dp_synthesize('hospital."all stays"', epsilon := 1.0, steps := 50,
  workload := 'SELECT diagnosis, avg(nights) FROM surgeries GROUP BY diagnosis');

-- all of it was charged to one account
SELECT count(*) = 1 AND any_value(releases) = 5 AND any_value(source) = 'hospital.all stays' AS holds FROM dp_budget();
SELECT abs(n - 3000) < 1000 AS holds
FROM dp_query('SELECT "code", count(*) AS n FROM hospital."ALL STAYS" GROUP BY "code"', epsilon := 0.1) WHERE code = 'A10';
