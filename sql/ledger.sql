-- dp_ledger(): what happened to the accounts of one database, in order.
SELECT
  number,
  at,
  $prefix || source AS source,
  kind,
  CASE WHEN kind = 'charge' THEN number END AS release,
  mechanism,
  epsilon,
  delta,
  CAST(rho AS DOUBLE) / pow(2, 96) AS rho,
  CAST(gdp AS DOUBLE) / pow(2, 96) AS gdp
FROM dpsql.event
WHERE $source IN ('', $prefix || source)
ORDER BY number;
