-- dp_ledger(): what happened to the accounts of one database, in order. Release is the number of the charge.
-- The events of a table are those of its periods, too, which the books call table."2026-03" (see dpsql/core/period.py).
SELECT
  number,
  CAST(content->>'$.at' AS TIMESTAMP) AS at,
  $prefix || coalesce(content->>'$.source', content->>'$.table') AS source,
  content->>'$.kind' AS kind,
  CASE WHEN (content->>'$.kind') = 'charge' THEN number ELSE CAST(content->>'$.release' AS BIGINT) END AS release,
  content->>'$.mechanism' AS mechanism,
  CAST(content->>'$.epsilon' AS DOUBLE) AS epsilon,
  CAST(content->>'$.delta' AS DOUBLE) AS delta,
  CAST(CAST(content->>'$.rho' AS HUGEINT) AS DOUBLE) / pow(2, 96) AS rho,
  CAST(CAST(content->>'$.gdp' AS HUGEINT) AS DOUBLE) / pow(2, 96) AS gdp,
  content->>'$.reason' AS reason,
  coalesce(content->>'$.by', content->>'$.user') AS username,
  hash
FROM dpsql.event
WHERE $source IN (
  '',
  $prefix || coalesce(content->>'$.source', content->>'$.table'),
  $prefix || regexp_replace(coalesce(content->>'$.source', content->>'$.table'), '\."\d{4}[-\dWQ]*"$', '')
)
ORDER BY number;
