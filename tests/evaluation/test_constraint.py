"""`dp_constraint`: every synthetic row satisfies the owner's facts, exactly, through the public door."""

from __future__ import annotations

import duckdb
import pytest

import dpsql
from dpsql.evaluation import constraints


@pytest.fixture
def db():
    with dpsql.connect() as db:
        db.sql(
            """CREATE TABLE visits AS SELECT
              (['child', 'adult', 'senior'])[1 + i % 3] AS age_group,
              CASE i % 3 WHEN 0 THEN i % 18 WHEN 1 THEN 18 + i % 47 ELSE 65 + i % 35 END::INTEGER AS age,
              DATE '2024-01-01' + (i * 7 % 300)::INTEGER AS admitted,
              CASE WHEN i % 4 > 0 THEN DATE '2024-01-01' + (i * 7 % 300 + i % 20)::INTEGER END AS discharged,
              CASE WHEN i % 4 > 0 THEN i % 20 END::SMALLINT AS days,
              i % 5 = 0 AS smoker, 'note ' || i AS notes
            FROM range(3000) r(i)"""
        )
        db.protect("visits", epsilon=100.0, delta=1e-6)
        db.domain("visits", "age_group", values=["child", "adult", "senior"], nulls=False)
        db.domain("visits", "age", lower=0, upper=99, bins=12, nulls=False)
        db.domain("visits", "admitted", lower="2024-01-01", upper="2024-12-31", bins=6, nulls=False)
        db.domain("visits", "discharged", lower="2024-01-01", upper="2024-12-31", bins=6)
        db.domain("visits", "days", lower=0, upper=19)
        db.domain("visits", "notes", exclude=True)
        yield db


GROUP = "age_group = CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'senior' END"
FACTS = {
    "functional dependency through a cut bin": [GROUP],
    "order of two dates": ["admitted <= discharged"],
    "nulls together": ["(discharged IS NULL) = (days IS NULL)"],
    "all, sharing columns": [
        GROUP,
        "admitted <= discharged",
        "discharged IS NULL OR days IS NOT NULL",
        "days IS NULL OR discharged IS NOT NULL",
        "notes IS NULL OR smoker",
    ],
    "a fact that the rows hardly follow": ["smoker OR age_group = 'senior'"],
}


def broken(db, rows, facts) -> int:
    """How many rows break one of the facts, as DuckDB sees it."""
    db.connection.register("synthetic_rows", rows)
    either = " OR ".join(f"NOT ({fact})" for fact in facts)
    return db.sql(f"SELECT count(*) FROM synthetic_rows WHERE {either}").fetchall()[0][0]


@pytest.mark.medium
@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("mechanism", ["projection", "rap"])
def test_every_row_satisfies_the_facts(db, name, mechanism):
    for fact in FACTS[name]:
        db.constraint("visits", fact)
    rounds = {"rounds": 2, "queries_per_round": 3} if mechanism == "rap" else {}
    options = {"steps": 40, "relaxed_rows": 64, **rounds}
    release = db.synthesize("visits", 2.0, workload="all 2-way", mechanism=mechanism, rows=3000, **options)
    rows = release.df()
    assert len(rows) == 3000
    assert broken(db, rows, FACTS[name]) == 0
    assert rows.age.nunique() > 12
    # without the facts the same request breaks them: the test can fail
    for fact in FACTS[name]:
        db.constraint("visits", fact, remove=True)
    again = {**options, "release": "free"}
    free = db.synthesize("visits", 2.0, workload="all 2-way", mechanism=mechanism, rows=3000, **again)
    rows = free.df()
    assert broken(db, rows, FACTS[name]) > 0


@pytest.mark.medium
def test_in_sql(db):
    call = "CALL dp_constraint('visits', $$(discharged IS NULL) = (days IS NULL)$$)"
    first = db.sql(call).fetchall()
    assert first == [("visits", "(discharged IS NULL) = (days IS NULL)", ["discharged", "days"], 7 * 21, 6 * 20 + 1)]
    assert db.sql(call).fetchall() == first
    assert db.sql("SELECT count(*) FROM dpsql.constraint").fetchall() == [(1,)]
    db.sql(call.replace("$$)", "$$, remove := true)"))
    assert db.sql("SELECT count(*) FROM dpsql.constraint").fetchall() == [(0,)]
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0,)]


@pytest.mark.medium
def test_other_columns_of_a_release_do_not_matter(db):
    db.constraint("visits", "admitted <= discharged")
    rows = db.synthesize("visits", 1.0, columns=["admitted", "smoker"], relaxed_rows=16, steps=5).df()
    assert list(rows.columns) == ["admitted", "smoker"]


BAD = {
    "not SQL": ("age <", "not an SQL expression"),
    "empty": ("", "one expression"),
    "two": ("age > 1, age > 2", "one expression"),
    "a clause": ("age > 1 ORDER BY 1", "one expression"),
    "from": ("age FROM visits", "one expression"),
    "closing": ("age > 1) OR (TRUE", "not an SQL expression"),
    "query": ("age IN (SELECT 1)", "not about one row"),
    "another table": ("EXISTS (SELECT * FROM visits)", "not about one row"),
    "aggregate": ("age > avg(age)", "not about one row"),
    "window": ("row_number() OVER () > age", "not about one row"),
    "random": ("random() > age", "random(…) is not about one row"),
    "clock": ("admitted <= current_date", "not about one row"),
    "now": ("admitted <= now()", "not about one row"),
    "setting": ("age_group = current_setting('search_path')", "not about one row"),
    "another name of random": ("rand() > 0.5 AND age > 0", "not about one row"),
    "a clock in disguise": ("age(admitted::TIMESTAMP) > INTERVAL 1 YEAR", "age(…) is not about one row"),
    "a built-in macro": ("admitted > ago(INTERVAL 1 YEAR)", "ago(…) is not about one row"),
    "a macro of the user's": ("peek(age) > 0", "peek(…) is not about one row"),
    "a macro with a built-in's name": ("abs(age) > 0 AND leak(age) > 0", "leak(…) is not about one row"),
    "an action": ("nextval('s') > age", "nextval(…) is not about one row"),
    "quoted": ('"random"() > age', "random(…) is not about one row"),
    "another table's column": ("others.age > 1", "name columns of 'visits' alone"),
    "no column": ("1 = 1", "names no column"),
    "unknown column": ("agee > 1", "has no column 'agee'"),
    "impossible": ("age < 0", "no values of the declared domain"),
    "fails": ("age_group::INTEGER = 1", "fails on the declared domain"),
    "unknown function": ("nosuch(age) = 1", "nosuch(…) is not about one row"),
    "too many": ("hash(age, admitted, discharged, days, age_group, smoker) % 2 = 0", None),
    "huge": ("age + date_diff('day', admitted, discharged) + days + length(age_group) > 0 OR smoker", None),
}


@pytest.mark.medium
@pytest.mark.parametrize("name", BAD)
def test_bad_predicates_are_refused(db, name):
    predicate, message = BAD[name]
    if message is None:
        db.domain("visits", "age", lower=0, upper=99, nulls=False)
        db.domain("visits", "admitted", lower="2024-01-01", upper="2024-12-31", bins=100, nulls=False)
        message = "belong together and span"
    with pytest.raises(duckdb.Error, match="dp_constraint") as caught:
        db.sql("CALL dp_constraint('visits', ?)", [predicate])
    assert message in str(caught.value)
    assert db.sql("SELECT count(*) FROM dpsql.constraint").fetchall() == [(0,)]


@pytest.mark.medium
def test_a_predicate_never_meets_private_rows(db):
    """Macros that read the table, shadow built-in functions or act are not there where predicates run."""
    db.sql("CREATE SEQUENCE s; CREATE MACRO peek(x) AS (SELECT count(*) FROM visits WHERE age = x)")
    db.sql("CREATE MACRO leak(x) AS error((SELECT max(notes) FROM visits)); CREATE MACRO abs(x) AS leak(x)")
    for predicate in ("peek(age) > 0", "leak(age) IS NULL", "nextval('s') > age"):
        with pytest.raises(dpsql.DpsqlError, match="is not about one row") as caught:
            db.constraint("visits", predicate)
        assert "note " not in str(caught.value)
    db.constraint("visits", "abs(age) >= 0")  # DuckDB's own, not the macro
    assert len(db.synthesize("visits", 1.0, columns=["age"], relaxed_rows=16, steps=2, rows=5).df()) == 5


@pytest.mark.medium
@pytest.mark.parametrize("text", ["error", "now", "random", "today"])
def test_constants_may_say_anything(db, text):
    db.constraint("visits", f"age_group <> '{text}' OR smoker")


@pytest.mark.medium
@pytest.mark.parametrize("name", ["number", "frame", "c0", "t0", "dpsql_row", "visits", "row_of_values", "random"])
def test_columns_of_any_name(name):
    with dpsql.connect() as db:
        db.sql(f'CREATE TABLE visits AS SELECT (i % 40)::INTEGER AS "{name}", i % 2 = 0 AS b FROM range(800) r(i)')
        db.protect("visits", epsilon=50.0, delta=1e-6)
        db.domain("visits", name, lower=0, upper=39, bins=8, nulls=False)
        db.domain("visits", "b", values=[True, False], nulls=False)
        allowed = db.sql(
            f"""SELECT tuples, allowed FROM dp_constraint('visits', '"{name}" < 10 AND NOT b')"""
        ).fetchall()
        assert allowed == [(16, 2)]
        rows = db.synthesize("visits", 1.0, rows=200, relaxed_rows=16, steps=20).df()
        assert rows[name].max() < 10
        assert not rows.b.any()


@pytest.mark.slow
def test_facts_inside_bins_keep_their_share():
    """a < d in the same bin, and a sum: tuples that can hold are allowed, so the real rows' shares survive."""
    with dpsql.connect() as db:
        db.sql(
            "CREATE TABLE t AS SELECT DATE '2024-01-01' + (i % 340)::INTEGER AS a, "
            "DATE '2024-01-01' + (i % 340 + 1 + i % 5)::INTEGER AS d, (i % 101)::INTEGER AS x, (100 - i % 101)::INTEGER AS y "
            "FROM range(4000) r(i)"
        )
        db.protect("t", epsilon=100.0, delta=1e-6)
        for name in ("a", "d"):
            db.domain("t", name, lower="2024-01-01", upper="2024-12-31", bins=6, nulls=False)
        for name in ("x", "y"):
            db.domain("t", name, lower=0, upper=100, bins=5, nulls=False)
        assert db.sql("SELECT tuples, allowed FROM dp_constraint('t', 'a < d')").fetchall() == [(36, 21)]
        assert db.sql("SELECT allowed FROM dp_constraint('t', 'x + y = 100')").fetchall()[0][0] >= 5
        rows = db.synthesize("t", 20.0).df()
        assert (rows.a < rows.d).all()
        assert (rows.x + rows.y == 100).all()
        same = (rows.a.dt.day_of_year - 1) // 61 == (rows.d.dt.day_of_year - 1) // 61
        assert same.mean() > 0.8
        assert rows.x.nunique() > 20


@pytest.mark.medium
def test_a_fact_can_be_taken_back_when_its_columns_have_gone(db):
    db.constraint("visits", "smoker OR days > 2")
    db.domain("visits", "days", exclude=True)
    db.sql("ALTER TABLE visits DROP COLUMN smoker")
    db.constraint("visits", "smoker OR days > 2", remove=True)
    assert db.sql("SELECT count(*) FROM dpsql.constraint").fetchall() == [(0,)]


@pytest.mark.medium
def test_facts_that_contradict_each_other(db):
    db.constraint("visits", "age_group = 'senior'")
    with pytest.raises(dpsql.DpsqlError, match="no values of the declared domain"):
        db.constraint("visits", "age_group = 'child'")
    assert len(db.synthesize("visits", 1.0, rows=10, relaxed_rows=16, steps=5).df()) == 10


@pytest.mark.medium
def test_a_domain_that_leaves_nothing_is_refused_before_the_charge(db):
    db.constraint("visits", "age_group = 'senior'")
    db.domain("visits", "age_group", values=["child", "adult"], nulls=False)
    with pytest.raises(dpsql.DpsqlError, match="no values of the declared domain"):
        db.synthesize("visits", 1.0)
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0,)]


@pytest.mark.medium
def test_not_protected_or_unknown(db):
    db.sql("CREATE TABLE other (a BOOLEAN)")
    with pytest.raises(dpsql.DpsqlError, match="not protected"):
        db.constraint("other", "a")
    with pytest.raises(dpsql.DpsqlError, match="has no constraint"):
        db.constraint("visits", "smoker", remove=True)
    with pytest.raises(dpsql.DpsqlError, match="no public domain is declared"):
        db.sql("CREATE TABLE third (a INTEGER, b BOOLEAN)")
        db.protect("third", epsilon=1.0, delta=1e-6)
        db.constraint("third", "b OR a > 1")


@pytest.mark.medium
def test_education_on_adult(data):
    """The dependency of the real table holds in every synthetic row, and its columns stay as accurate as they were."""
    with dpsql.connect() as db:
        db.sql(f"CREATE TABLE adult AS FROM read_csv('{data}/adult.csv.gz')")
        names = [name for (name, *_) in db.sql("DESCRIBE adult").fetchall()]
        education, number = (
            next(n for n in names if n == "education"),
            next(n for n in names if "num" in n and "edu" in n),
        )
        levels = db.sql(f'SELECT DISTINCT "{education}", "{number}" FROM adult ORDER BY 2').fetchall()
        assert len(levels) == 16
        db.protect("adult", epsilon=3.0, delta=1e-9)
        db.domain("adult", education, values=[level for level, _ in levels], nulls=False)
        db.domain("adult", number, lower=1, upper=16, nulls=False)
        listed = ", ".join(f"('{level}', {value})" for level, value in levels)
        db.constraint("adult", f'("{education}", "{number}") IN ({listed})')
        truth = db.sql(f'SELECT "{education}", count(*) FROM adult GROUP BY ALL').fetchall()
        # in 500 steps one fit in thirty is not yet there; in 2000 they are 430 ± 30 rows off
        rows = db.synthesize("adult", 0.8, columns=[education, number], steps=2000).df()
        assert set(rows.groupby([education, number]).size().index) <= set(levels)
        counts = rows[education].value_counts()
        assert sum(abs(counts.get(level, 0) - count) for level, count in truth) < 0.02 * 48842


@pytest.mark.medium
def test_a_fact_about_columns_that_are_left_out_later(db):
    """Nothing is tried of a column without a domain; its values are NULL."""
    db.constraint("visits", "days < 30 OR days IS NULL")
    db.domain("visits", "days", exclude=True)
    quick = "relaxed_rows := 16, steps := 5"
    rows = db.sql(f"SELECT count(*), count(days) FROM dp_synthesize('visits', epsilon := 1.0, {quick})").fetchall()
    assert rows[0][0] > 2000
    assert rows[0][1] == 0


@pytest.mark.medium
def test_a_fact_is_evaluated_once_in_a_domain(monkeypatch):
    """Not again when a request is bound, charged or planned; and at one place only where bins hold one value each."""
    tried = []
    holds = constraints._holds
    monkeypatch.setattr(constraints, "_holds", lambda *given: tried.append(1) or holds(*given))
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 7 AS a, i % 9 AS b FROM range(300) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=6)
        db.domain("t", "b", lower=0, upper=8)
        db.sql("CALL dp_constraint('t', 'a <= b')")
        tried.clear()
        constraints._allowed_of.cache_clear()
        for epsilon in (0.5, 1.0, 2.0):
            db.plan("t", epsilon, mechanism="direct")
        assert len(tried) == 1
        db.domain("t", "b", lower=0, upper=5)
        db.plan("t", 1.0, mechanism="direct")
        assert len(tried) == 2


@pytest.mark.medium
def test_the_fit_knows_declared_facts(db):
    """What a fact forbids has probability 0 before rows are drawn; without the fact the noisy fit gives it some."""
    from dpsql.fitting.relaxed.table import RelaxedTable
    from dpsql.models.relaxed import RelaxedModel

    drawn: list[RelaxedTable] = []
    sample = RelaxedModel.sample

    def seen(self, *arguments):
        drawn.append(self.table)
        return sample(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RelaxedModel, "sample", seen)
        options = {"relaxed_rows": 16, "steps": 30, "without": ["joints"]}
        db.synthesize("visits", 0.5, columns=["age_group", "age", "smoker"], **options)
        db.sql("CALL dp_constraint('visits', ?)", [GROUP])
        db.synthesize("visits", 0.5, columns=["age_group", "age", "smoker"], release="again", **options)
    before, after = (table.project(("age_group", "age")).reshape(3, -1) for table in drawn)
    children, oldest = 0, -1
    assert before[children, oldest] > 0
    assert after[children, oldest] == 0
    assert after.sum() == pytest.approx(1, abs=1e-4)
    reports = db.sql("SELECT report ->> 'joined' FROM dp_releases() ORDER BY 1 NULLS FIRST").fetchall()
    assert reports == [(None,), ('["age_group, age"]',)]
