-- A simulated census for `dpsql demo`: 12 columns of all types, with NULLs and strong correlations. Nobody in it exists,
-- so random() hides nothing and need not be the system's entropy.
CREATE TYPE sex AS ENUM ('female', 'male');
CREATE TYPE education AS ENUM ('none', 'school', 'vocational', 'bachelor', 'master');

CREATE TABLE census AS
WITH people AS (
  SELECT
    CAST(floor(100 * pow(random(), 1.3)) AS INTEGER) AS age,
    CAST(CASE WHEN random() < 0.51 THEN 'female' ELSE 'male' END AS sex) AS sex,
    ['North', 'East', 'South', 'West', 'Capital'][CAST(floor(1 + 5 * pow(random(), 1.5)) AS INTEGER)] AS region,
    random() AS talent,
    random() AS luck,
    random() AS body
  FROM range(50000)
),
educated AS (
  SELECT
    *,
    CASE
      WHEN age < 6 THEN CAST('none' AS education)
      WHEN age < 19 OR talent < 0.3 THEN CAST('school' AS education)
      WHEN age < 22 OR talent < 0.65 THEN CAST('vocational' AS education)
      WHEN age < 25 OR talent < 0.88 THEN CAST('bachelor' AS education)
      ELSE CAST('master' AS education)
    END AS education
  FROM people
),
employed AS (
  SELECT
    *,
    CASE
      WHEN age < 15 THEN 'child'
      WHEN age < 25 AND talent + 0.3 * luck > 0.5 THEN 'student'
      WHEN age >= 66 THEN 'retired'
      WHEN luck < 0.06 + (CASE WHEN education <= 'school' THEN 0.1 ELSE 0 END) THEN 'unemployed'
      ELSE 'employed'
    END AS employment
  FROM educated
)
SELECT
  age,
  sex,
  region,
  education,
  employment,
  CASE
    WHEN employment = 'child' THEN NULL
    WHEN employment = 'employed' THEN
      CAST(least(49999, exp(7.1 + 0.9 * talent + 0.5 * luck + (CASE WHEN region = 'Capital' THEN 0.25 ELSE 0 END)
        - (CASE WHEN sex = 'female' THEN 0.12 ELSE 0 END) + 0.4 * random())) AS DECIMAL(9, 2))
    ELSE CAST(exp(6.2 + 0.6 * talent + 0.6 * random()) AS DECIMAL(9, 2))
  END AS income,
  CASE WHEN employment = 'employed' THEN CAST(least(80, 20 + 25 * sqrt(luck) + 8 * random()) AS SMALLINT) END AS hours,
  round(CASE WHEN age < 18 THEN 50 + 6.6 * age ELSE 165 END + (CASE WHEN sex = 'male' AND age > 13 THEN 12 ELSE 0 END)
    + 14 * (body - 0.5), 1) AS height,
  CASE WHEN age < 14 THEN NULL ELSE body + 0.3 * talent < 0.3 END AS smoker,
  DATE '2026-06-30' - CAST(365.2425 * (age + random()) AS INTEGER) AS born,
  CASE WHEN random() < 0.9 - 0.4 * luck * (CASE WHEN age < 50 THEN 1 ELSE 0 END)
    THEN TIMESTAMP '2025-01-01 07:00:00' + to_seconds(CAST(364 * 86400 * random() AS BIGINT)) END AS last_visit,
  CAST(CASE WHEN age < 18 THEN 0 ELSE least(8, floor(least(age - 16, 25) / 9.0 * (0.3 + random()))) END AS TINYINT)
    AS children
FROM employed;
