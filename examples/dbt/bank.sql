-- The owner's part, once: a private table, what may be spent of its privacy, and what is public of its columns.
CREATE TABLE patients AS
SELECT
    20 + (i * 7919 % 60)::INTEGER AS age,
    ['Bern', 'Basel', 'Genf'][1 + i * 31 % 3] AS city,
    ['flu', 'cold', 'none'][1 + i * 17 % 7 % 3] AS diagnosis,
    i % 3 = 0 AS smoker
FROM range(5000) r(i);

CALL dp_protect('patients', epsilon := 3.0, delta := 1e-9);
CALL dp_domain('patients', 'age', lower := 20, upper := 80, bins := 12);
CALL dp_domain('patients', 'city', "values" := ['Bern', 'Basel', 'Genf']);
CALL dp_domain('patients', 'diagnosis', "values" := ['flu', 'cold', 'none']);
