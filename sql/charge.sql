-- Charge, only if the budget suffices: of two sessions that would together overspend, one updates no row.
UPDATE dpsql.account
SET rho_spent = rho_spent + $rho, gdp_spent = gdp_spent + $gdp, releases = releases + 1
WHERE source = $source AND (rho_spent + $rho <= rho_budget OR gdp_spent + $gdp <= gdp_budget)
RETURNING rho_spent;
