"""Look at how good a release is, beside the real rows: for the owner only, because what is found is private."""

import dpsql

with dpsql.connect() as db:
    db.sql(
        """
        CREATE TABLE clients AS
        SELECT
            (18 + i * 7 % 70)::INTEGER AS age,
            (['north', 'south'])[1 + i % 2] AS region,
            i * 7 % 70 > 40 AND i % 3 > 0 AS married
        FROM range(6000) r(i)
        """
    )
    db.protect("clients", epsilon=5.0, delta=1e-9)
    db.domain("clients", "age", lower=18, upper=87, bins=10)
    db.domain("clients", "region", values=["north", "south"])

    release = db.synthesize("clients", epsilon=2.0, workload="all 2-way")
    found = db.evaluate("clients", release)  # target="married" trains models too: pip install 'dpsql[evaluate]'
    print(found)  # begins with a warning: these figures are not differentially private
    assert found.utility.l1_pairs < 0.2

    spent = db.budget()
    db.evaluate("clients", release.entry.number)
    assert db.budget().equals(spent)  # nothing is charged, nothing is recorded

    print(release.errors)  # from released values only: this may be published
