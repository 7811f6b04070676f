-- Privacy units: all visits of one patient are protected together. Run with  dpsql sql :memory: examples/units.sql
CREATE TABLE visits AS
SELECT
  'patient ' || (i * i % 4001) AS patient,
  (['north', 'south', 'east'])[1 + i % 3] AS ward,
  i % 5 = 0 AS readmitted,
  (i * 7 % 20)::TINYINT AS nights
FROM range(20000) r(i);

-- at most 8 visits of a patient count; the promise holds for all of them together
CALL dp_protect('visits', epsilon := 4.0, delta := 1e-6, privacy_unit := 'patient', max_rows := 8);
CALL dp_domain('visits', 'ward', "values" := ['north', 'south', 'east']);
CALL dp_domain('visits', 'nights', lower := 0, upper := 19);

-- patients and visits of each ward: a patient counts once in each ward, and not at all in others
FROM dp_query('
  SELECT ward, count(DISTINCT patient) AS patients, count(*) AS visits FROM visits GROUP BY ward', epsilon := 0.5);

-- how many patients were readmitted at least once
FROM dp_query('SELECT count(DISTINCT patient) AS readmitted FROM visits WHERE readmitted', epsilon := 0.2);

-- what it costs: noise grows with max_rows
SELECT marginal, stddev, note FROM dp_plan('SELECT ward, count(*) AS visits FROM visits GROUP BY ward', epsilon := 0.5);

-- synthetic visits: the patient's column is NULL, for its values are persons
FROM dp_synthesize('visits', epsilon := 2.0) LIMIT 5;

-- the patients of all wards are near what there are; no synthetic visit names one
SELECT bool_and(abs(noisy.patients - raw.patients) < 2000) AS holds
FROM dp_query('
  SELECT ward, count(DISTINCT patient) AS patients, count(*) AS visits FROM visits GROUP BY ward', epsilon := 0.5) AS noisy
  JOIN (SELECT ward, count(DISTINCT patient) AS patients FROM visits GROUP BY ward) AS raw USING (ward);
SELECT count(patient) = 0 AS holds FROM dp_synthesize('visits', epsilon := 2.0);
