-- Pure epsilon: delta is 0, and the epsilons of all releases add up. Run with  dpsql sql :memory: examples/pure.sql
CREATE TABLE answers AS
SELECT
  (['yes', 'no', 'perhaps'])[1 + i * i % 3] AS vote,
  i % 7 < 3 AS member,
  (i * 11 % 10)::TINYINT AS years
FROM range(5000) r(i);

CALL dp_protect('answers', epsilon := 1.0, delta := 0);
CALL dp_domain('answers', 'vote', "values" := ['yes', 'no', 'perhaps']);
CALL dp_domain('answers', 'years', lower := 0, upper := 9);

-- Laplace noise, whose scale is 1/epsilon where each row is in one group
FROM dp_query('SELECT vote, count(*) AS n FROM answers GROUP BY vote', epsilon := 0.3, mechanism := 'laplace');

-- a synthetic table: 'auto' takes a mechanism of pure epsilon
FROM dp_synthesize('answers', epsilon := 0.6) LIMIT 5;

-- 0.3 + 0.6 of 1 are spent, exactly
SELECT epsilon_spent, epsilon_left, epsilon_pure FROM dp_budget();

SELECT epsilon_spent = 0.9 AND epsilon_pure = 0.9 AS holds FROM dp_budget();
