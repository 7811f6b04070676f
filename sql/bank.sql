-- Simulated linked tables for `dpsql demo --linked`: clients, their accounts and the payments of each. Nobody in them
-- exists, so random() hides nothing and need not be the system's entropy.
CREATE TABLE clients (client INTEGER PRIMARY KEY, age INTEGER, region VARCHAR);
CREATE TABLE accounts (account INTEGER PRIMARY KEY, client INTEGER REFERENCES clients (client), kind VARCHAR);
CREATE TABLE payments (account INTEGER REFERENCES accounts (account), purpose VARCHAR);

INSERT INTO clients
SELECT
  i,
  CAST(18 + floor(70 * pow(random(), 1.2)) AS INTEGER),
  ['North', 'East', 'South', 'West'][CAST(floor(1 + 4 * pow(random(), 1.4)) AS INTEGER)]
FROM range(30000) r(i);

INSERT INTO accounts
WITH numbered AS (
  SELECT client, age, CAST(floor(random() * CASE WHEN age < 30 THEN 2 ELSE 4 END) AS INTEGER) AS n FROM clients
),
unnested AS (SELECT client, age, unnest(range(n)) FROM numbered)
SELECT
  row_number() OVER () - 1,
  client,
  CASE
    WHEN random() < 0.5 THEN 'current'
    WHEN random() < (CASE WHEN age > 60 THEN 0.8 ELSE 0.4 END) THEN 'savings'
    ELSE 'loan'
  END
FROM unnested;

INSERT INTO payments
WITH numbered AS (
  SELECT account, kind, CAST(floor(random() * CASE WHEN kind = 'current' THEN 6 ELSE 2 END) AS INTEGER) AS n
  FROM accounts
),
unnested AS (SELECT account, kind, unnest(range(n)) FROM numbered)
SELECT
  account,
  CASE
    WHEN random() < (CASE WHEN kind = 'loan' THEN 0.7 ELSE 0.1 END) THEN 'interest'
    WHEN random() < (CASE WHEN kind = 'savings' THEN 0.5 ELSE 0.2 END) THEN 'travel'
    ELSE 'food'
  END
FROM unnested;
