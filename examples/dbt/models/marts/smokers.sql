-- An ordinary model of released rows: free, as often as you like.
SELECT city, age // 10 * 10 AS decade, avg(smoker::INTEGER) AS smokers, count(*) AS people
FROM {{ ref('synthetic_patients') }}
GROUP BY ALL
ORDER BY ALL
