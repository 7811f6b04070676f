-- Noisy counts with their intervals, charged once too.
SELECT *
FROM dp_query(
    'SELECT city, diagnosis, count(*) AS patients FROM bank.patients GROUP BY city, diagnosis',
    epsilon := 0.5
)
