-- dp_releases(): every release of one database. Anyone may see it: it depends on requests and released values only.
-- guarantees has the promise of each release in words, made of exact numbers: what is recorded in words is for the digest.
-- known is the newest event that the head knows: what was published later is not told yet.
-- event and hash are those of the ledger when the release was charged: who keeps them can tell whether it is still there.
SELECT
  r.number AS release,
  $prefix || r.source AS source,
  CASE
    WHEN r.state = 'published' AND r.told > CAST($known AS BIGINT) THEN 'measured'
    WHEN r.state = 'reserved' AND EXISTS (SELECT 1 FROM dpsql.answer AS a WHERE a.release = r.key) THEN 'measured'
    ELSE r.state
  END AS state,
  r.mechanism,
  CAST(e.content->>'$.epsilon' AS DOUBLE) AS epsilon,
  CAST(e.content->>'$.delta' AS DOUBLE) AS delta,
  CAST(CAST(e.content->>'$.rho' AS HUGEINT) AS DOUBLE) / pow(2, 96) AS rho,
  CASE WHEN r.told <= CAST($known AS BIGINT) THEN r.rows END AS rows,
  coalesce(CAST($guarantees AS JSON)->>CAST(r.number AS VARCHAR), r.guarantee) AS guarantee,
  r.request,
  CASE WHEN r.told <= CAST($known AS BIGINT) THEN r.report END AS report,
  r.key,
  e.hash
FROM dpsql.release AS r
JOIN dpsql.event AS e ON e.number = r.number
ORDER BY r.number;
