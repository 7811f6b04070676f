"""Protect a table, synthesize it, and judge the release by its own measurements."""

import dpsql

with dpsql.connect() as db:
    db.sql(
        """
        CREATE TABLE clients AS
        SELECT (18 + i * 7 % 70)::INTEGER AS age, (['north', 'south'])[1 + i % 2] AS region, i % 11 = 0 AS defaulted
        FROM range(3000) r(i)
        """
    )
    db.protect("clients", epsilon=2.0, delta=1e-7)
    db.domain("clients", "age", lower=18, upper=87, bins=10)
    db.domain("clients", "region", values=["north", "south"])

    release = db.synthesize("clients", epsilon=1.0)
    print(release)
    print(release.df().head())
    print(release.errors)
    print(db.budget())
