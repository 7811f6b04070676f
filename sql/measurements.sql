-- dp_measurements(release): the noisy counts of one release, each with the values of its cell and its noise.
-- at_least is NULL for cells of a marginal; else the count is of the rows that match so many of the cell's values.
-- A cell's index is row-major over its columns' codes; $labels holds a JSON object of each column's labels by code.
-- Then the noisy answers of linear queries, whose cell is their group. They are stored in whole steps, without a value
-- here; $sums holds a JSON object of each family's text, step and groups by its digest.
WITH labels AS (
  SELECT CAST(CAST($labels AS JSON) AS MAP(VARCHAR, VARCHAR[])) AS of_column
),
answers AS (
  SELECT
    number,
    columns,
    shape,
    stddev,
    noise,
    CAST(json_extract(question, '$.least') AS BIGINT) AS at_least
  FROM dpsql.answer
  WHERE release = $release AND kind IN ('marginal', 'cells')
),
places AS (
  SELECT answers.*, unnest(generate_series(1, greatest(len(columns), 1))) AS place FROM answers
),
strides AS (
  SELECT
    number,
    any_value(columns) AS columns,
    any_value(stddev) AS stddev,
    any_value(noise) AS noise,
    any_value(at_least) AS at_least,
    list(coalesce(shape[place], 1) ORDER BY place) AS sizes,
    list(CAST(coalesce(list_product(shape[place + 1:]), 1) AS BIGINT) ORDER BY place) AS strides,
    list(of_column[columns[place]] ORDER BY place) AS texts
  FROM places, labels
  GROUP BY number
),
families AS (
  SELECT CAST(
    CAST($sums AS JSON) AS MAP(VARCHAR, STRUCT(query VARCHAR, step DOUBLE, "count" BIGINT, "groups" VARCHAR[]))
  ) AS of_digest
),
asked AS (
  SELECT *, json_extract_string(question, '$.detail') AS detail
  FROM dpsql.answer
  WHERE release = $release AND kind = 'query' AND json_extract_string(question, '$.ask') = 'linear'
),
sums AS (
  SELECT
    number,
    columns,
    stddev,
    noise,
    of_digest[split_part(detail, ':', 1)] AS family,
    nullif(regexp_extract(detail, ' in groups ([0-9,]+)', 1), '') AS chosen
  FROM asked, families
),
answered AS (
  SELECT
    s.*,
    c.value,
    CASE WHEN s.chosen IS NULL THEN c.cell ELSE CAST(string_split(s.chosen, ',')[c.cell + 1] AS BIGINT) END AS place
  FROM dpsql.cell AS c
  JOIN sums AS s ON s.number = c.answer
  WHERE c.release = $release AND s.family IS NOT NULL
)
SELECT
  s.number AS measurement,
  s.columns,
  CASE len(s.columns)
    WHEN 0 THEN CAST([] AS VARCHAR[])
    WHEN 1 THEN [s.texts[1][c.cell + 1]]
    WHEN 2 THEN [s.texts[1][c.cell // s.strides[1] + 1], s.texts[2][c.cell % s.strides[1] + 1]]
    ELSE list_transform(
      generate_series(1, len(s.columns)), lambda i : s.texts[i][c.cell // s.strides[i] % s.sizes[i] + 1]
    )
  END AS cell,
  c.value,
  s.stddev,
  s.noise,
  s.at_least,
  CAST(c.value AS DOUBLE) AS answer,
  CAST(NULL AS VARCHAR) AS query
FROM dpsql.cell AS c
JOIN strides AS s ON s.number = c.answer
WHERE c.release = $release
UNION ALL
SELECT
  number,
  columns,
  CASE
    WHEN family['count'] = 1 THEN CAST([] AS VARCHAR[])
    ELSE [coalesce(family['groups'][place + 1], CAST(place AS VARCHAR))]
  END,
  NULL,
  stddev * family['step'],
  noise,
  NULL,
  value * family['step'],
  family['query']
FROM answered;
