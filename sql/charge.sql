-- Charge, only if the budget suffices: of two sessions that would together overspend, one updates no row. The first
-- charge, before any answer is seen, fixes by which of the two sums the account is held from then on. While all releases
-- are pure, the sum of their epsilon suffices, too; dpsql/privacy/account.py proves it.
UPDATE dpsql.account
SET
  rho_spent = rho_spent + $rho,
  gdp_spent = gdp_spent + $gdp,
  pure_spent = pure_spent + $pure,
  currency = coalesce(currency, $currency),
  releases = releases + 1
WHERE source = $source
  AND NOT retired
  AND (
    coalesce(pure_spent + $pure <= $pure_budget, false)
    OR CASE coalesce(currency, $currency)
      WHEN 'pure' THEN false
      WHEN 'gdp' THEN gdp_spent + $gdp <= gdp_budget
      ELSE rho_spent + $rho <= rho_budget
    END
  );
