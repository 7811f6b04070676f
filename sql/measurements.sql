-- dp_measurements(release): the noisy counts of one release, each with the values of its cell and its noise.
-- at_least is NULL for cells of a marginal; else the count is of the rows that match so many of the cell's values.
-- A cell's index is row-major over its columns' codes; $labels holds a JSON object of each column's labels by code.
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
  s.at_least
FROM dpsql.cell AS c
JOIN strides AS s ON s.number = c.answer
WHERE c.release = $release;
