-- dp_releases(): every release of one database. Anyone may see it: it depends on requests and released values only.
SELECT
  r.number AS release,
  $prefix || r.source AS source,
  r.state,
  r.mechanism,
  e.epsilon,
  e.delta,
  CAST(e.rho AS DOUBLE) / pow(2, 96) AS rho,
  r.rows,
  r.guarantee,
  r.request,
  r.report,
  r.key
FROM dpsql.release AS r
JOIN dpsql.event AS e ON e.number = r.number
ORDER BY r.number;
