-- Domains from the rows themselves, paid for. Run with  dpsql sql :memory: examples/discovery.sql
CREATE TABLE claims AS
SELECT
  ['fire', 'water', 'theft', 'storm'][1 + i * i % 7 % 4] AS cause,
  CAST(exp(4 + i * 13 % 1000 / 200) AS DECIMAL(9, 2)) AS amount,
  DATE '2025-01-01' + CAST(i * 17 % 365 AS INTEGER) AS day
FROM range(20000) r(i);
INSERT INTO claims VALUES ('the claim of Mrs Someone', 1.00, DATE '2025-01-01'); -- never told: only one row has it

CALL dp_protect('claims', epsilon := 4.0, delta := 1e-9);

-- values that enough rows have; discoveries of values come first, for half of delta is kept for them from then on
CALL dp_domain('claims', 'cause', discover := true, epsilon := 0.3, other := 'something else');

-- edges between public bounds, with about as many rows in each bin
CALL dp_domain('claims', 'amount', discover := true, epsilon := 0.5, lower := 0, upper := 1000000, bins := 10);

-- some facts are public anyway
CALL dp_domain('claims', 'day', lower := DATE '2025-01-01', upper := DATE '2025-12-31', bins := 12);

-- what was paid for it
SELECT kind, mechanism, epsilon, delta FROM dp_ledger('claims');

FROM dp_query('SELECT cause, count(*) AS n, sum(amount) AS total FROM claims GROUP BY cause', epsilon := 0.5);
FROM dp_synthesize('claims', epsilon := 1.0) LIMIT 5;

-- it holds: the claim of one person is not a value, and 20,000 rows are near
SELECT count(*) = 0 AS holds FROM dp_synthesize('claims', epsilon := 1.0) WHERE cause LIKE '%Someone%';
SELECT abs(sum(n) - 20000) < 2000 AS holds
FROM dp_query('SELECT cause, count(*) AS n, sum(amount) AS total FROM claims GROUP BY cause', epsilon := 0.5);
