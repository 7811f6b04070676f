"""A linked release beside the real tables, for their owner: marginals, joins, numbers of rows, rows beside each other."""

from __future__ import annotations

import json

import pytest

import dpsql
from dpsql.api.cli import main
from tests.linked.test_words import QUICK, TREES, bank


@pytest.mark.medium
def test_a_release_is_compared_table_by_table_and_over_joins(tmp_path, capsys):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        bank(db)
        release = db.synthesize("clients", epsilon=5.0, linked=True, **QUICK)
        number = str(release.entry.number)
        found = db.evaluate("payments", number)
        assert found.rows["payments"][0] == 15_000
        assert 2 < len(found.group_bys) <= 10
        ((real, made),) = db.sql(
            "SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM dp_synthesize('accounts', epsilon := 5.0, "
            "linked := true, steps := 5, relaxed_rows := 16))"
        ).fetchall()
        assert found.rows["accounts"] == (real, made)

        # by hand
        release.to_schema("made")
        sql = (
            "SELECT sum(abs(coalesce(a.n, 0) - coalesce(b.n, 0)))::DOUBLE / sum(a.n) FROM "
            "(SELECT region, purpose, count(*) AS n FROM payments JOIN accounts USING (aid) JOIN clients USING (cid) "
            "GROUP BY ALL) a FULL JOIN (SELECT region, purpose, count(*) AS n FROM made.payments JOIN made.accounts "
            "USING (aid) JOIN made.clients USING (cid) GROUP BY ALL) b "
            "ON a.region = b.region AND a.purpose = b.purpose"
        )
        by_hand = db.sql(sql).fetchone()[0]
        every = found.all_group_bys["payments by purpose of payments and region of clients"]
        assert every == pytest.approx(by_hand, abs=1e-9)
        text = str(found)
        assert text.startswith("Private: computed from the real rows of clients, accounts, payments")
        for what in ("numbers of payments by a column of accounts", "a column of each of two accounts of one client"):
            assert what in text
        with pytest.raises(dpsql.DpsqlError, match="leave target out"):
            db.evaluate("clients", number, target="age")
        with pytest.raises(dpsql.DpsqlError, match="leave target out"):
            release.report(private=True, target="age")
    assert main(["evaluate", str(path), "--table", "clients", "--release", number, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["l1"] == found.distances


@pytest.mark.medium
@pytest.mark.parametrize("table", ["households", "wages"])
def test_the_private_page_has_the_truth(db, table):
    TREES[table](db)
    release = db.synthesize(table, epsilon=1.0, linked=True, **QUICK)
    page = release.report(private=True)
    assert page.private
    assert "Beside the truth" in page.html
    assert "mean L1 distance" in page.html
    assert (
        f"numbers of {table if table == 'wages' else 'persons' if table == 'households' else 'accounts'}" in page.html
    )


@pytest.mark.medium
@pytest.mark.parametrize("rows", ["", "INSERT INTO payments VALUES (NULL, 1, 'a'), (99999, 2, 'b')"])
def test_a_table_without_rows_leaves_the_others_compared(db, rows):
    """It has none, or none that lead to a unit."""
    bank(db, epsilon=1000.0, clients=600)
    db.sql("CREATE TABLE cards (cid INT REFERENCES clients (cid), kind INT)")
    db.sql("CREATE OR REPLACE TABLE payments AS FROM payments LIMIT 0")
    if rows:
        db.sql(rows)
    db.link("cards", "clients", most=2)
    db.domain("cards", "kind", values=[0, 1])
    release = db.synthesize("clients", epsilon=900.0, linked=True, **QUICK)
    evaluation = db.evaluate("clients", str(release.entry.number))
    for table in ("payments", "cards"):
        assert evaluation.rows[table][0] == 0
        assert f"numbers of {table}" in evaluation.distances
        others = [what for what in evaluation.distances if table in what and not what.startswith("numbers of ")]
        assert not others  # neither shares of columns nor rows beside each other
        assert not [what for what in evaluation.all_group_bys if what.startswith(table)]
    assert evaluation.distances["columns of accounts"] < 0.5
    assert "its columns are not compared" in str(evaluation)
    assert "Beside the truth" in release.report(private=True).html


@pytest.mark.medium
def test_a_tree_without_units_is_not_compared(db):
    bank(db, epsilon=1000.0, clients=0)
    release = db.synthesize("clients", epsilon=5.0, linked=True, **QUICK)
    with pytest.raises(dpsql.DpsqlError, match="clients has no rows"):
        db.evaluate("clients", str(release.entry.number))
