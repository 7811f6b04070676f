"""What a user of the service can do and learn: `db.for_analyst`, `db.publish`, `dpsql user`."""

from __future__ import annotations

import json
import re
import threading

import pytest
from dpsql.udfs import FUNCTIONS
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.api.cli import main
from dpsql.books.accounts import verification
from dpsql.books.ledger.store import Books
from dpsql.core.roles import SERVED
from dpsql.errors import DpsqlError, Interrupted, InvalidArgument, NotAllowed, NotOwner, UnknownName

SQL = "SELECT sick, count(*) AS n FROM t GROUP BY sick"
QUICK = {"relaxed_rows": 16, "steps": 20}


@pytest.fixture
def bank(tmp_path):
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick, i % 5 = 0 AS smoker FROM range(300) r(i)")
        db.sql("CREATE TABLE hidden AS SELECT i % 3 = 0 AS sick FROM range(300) r(i)")
        db.sql("CREATE TABLE lookup AS SELECT * FROM (VALUES (true, 'CANARY'), (false, 'CANARY')) v(sick, word)")
        db.sql("CREATE VIEW seen AS SELECT sick FROM t")
        db.protect("t", epsilon=3.0, delta=1e-6)
        db.protect("hidden", epsilon=3.0, delta=1e-6)
        db.users.add("alice", limits={"t": 1.0})
        db.users.add("bob", limits={"t": 1.0})
        db.users.add("rita", role="reader")
        yield db


def call(db, name, function, /, **arguments):
    return db.for_analyst(name).bind(function, arguments).rows().read_all()


def told(db, name, function, /, **arguments):
    """What a user learns of a call: its rows, or its error."""
    try:
        return call(db, name, function, **arguments).to_pylist()
    except DpsqlError as error:
        return type(error), str(error).replace(name, "WHO")


def ledger(db):
    return db.connection.execute("SELECT * FROM dpsql.event ORDER BY number").fetchall()


# --- roles ------------------------------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("function", sorted(function.name for function in FUNCTIONS))
def test_nobody_calls_an_owners_function_and_readers_call_two(bank, function):
    arguments = {"dp_query": {"sql": SQL, "epsilon": 0.1}, "dp_measurements": {"release": "1"}}.get(
        function, {"table": "t", "epsilon": 0.1} if function in ("dp_plan", "dp_synthesize") else {}
    )
    before = ledger(bank)
    if function not in SERVED:
        with pytest.raises(NotAllowed, match="is not served"):
            bank.for_analyst("alice").bind(function, arguments)
    if function not in ("dp_budget", "dp_releases"):
        with pytest.raises(NotAllowed):
            bank.for_analyst("rita").bind(function, arguments)
    else:
        assert call(bank, "rita", function).num_rows == 0
    assert ledger(bank) == before


@pytest.mark.medium
@pytest.mark.parametrize("name", ["nobody", "", "alice'; DROP TABLE t; --"])
def test_who_is_not_there_has_no_handle(bank, name):
    with pytest.raises(NotAllowed, match="there is no such reader"):
        bank.for_analyst(name)
    assert bank.credential(name) is None
    assert bank.user_role(name) is None


@pytest.mark.medium
def test_who_is_revoked_gets_nothing_more_at_once(bank):
    alice = bank.for_analyst("alice")
    paid = alice.bind("dp_query", {"sql": SQL, "epsilon": 0.1})
    paid.rows()
    bound = [alice.bind("dp_query", {"sql": SQL, "epsilon": 0.2}), paid, alice.bind("dp_budget", {})]
    token = bank.users.rotate("alice")
    bank.users.revoke("alice")
    before = ledger(bank)
    for one in bound:
        with pytest.raises(NotAllowed, match="'alice' may not"):
            one.rows()
    for act in (lambda: alice.bind("dp_budget", {}), alice.published, lambda: alice.read("x")):
        with pytest.raises(NotAllowed):
            act()
    assert not bank.users.check("alice", token)
    assert ledger(bank) == before
    bank.users.add("alice", role="reader")  # back, with less
    with pytest.raises(NotAllowed):
        bound[0].rows()


@pytest.mark.medium
def test_owners_functions_of_users_are_switched_off_with_the_others(tmp_path, bank):
    path = tmp_path / "bank.duckdb"
    bank.close()
    with dpsql.connect(path, owner=False) as db:
        calls = [
            lambda: db.users.add("eve"),
            lambda: db.users.limit("alice", "t", 3.0),
            lambda: db.users.rotate("alice"),
            lambda: db.users.revoke("alice"),
            lambda: db.share_releases(True),
            lambda: db.publish("1", "x"),
            lambda: db.unpublish("x"),
            lambda: db.sql("CALL dp_publish('1', 'x')"),
        ]
        for act in calls:
            with pytest.raises(NotOwner):
                act()


# --- names ------------------------------------------------------------------------------------------------------------

NAMES = [
    *("hidden", "lookup", "seen", "nothing", "dpsql.event", "dpsql.person", "bank.dpsql.account", "main.hidden"),
    *("information_schema.tables", "duckdb_tables", "temp.main.x", "system.main.duckdb_settings", "'/etc/passwd'"),
]


@pytest.mark.medium
@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_theirs_is_refused_as_what_is_not_there(bank, name):
    before = ledger(bank)
    plain = name.strip("'")
    for function, arguments in (
        ("dp_query", {"sql": f"SELECT count(*) AS n FROM {name}", "epsilon": 0.1}),
        ("dp_query", {"sql": f"SELECT count(*) AS n FROM {name}", "epsilon": 0.0}),
        ("dp_synthesize", {"table": plain, "epsilon": 0.1}),
        ("dp_plan", {"table": plain, "epsilon": 0.1}),
        ("dp_plan", {"table": f"SELECT count(*) AS n FROM {name}", "epsilon": 0.1}),
    ):
        kind, words = told(bank, "alice", function, **arguments)
        other = {
            k: v.replace(name, "zzz").replace(plain, "zzz") if isinstance(v, str) else v for k, v in arguments.items()
        }
        assert re.sub(r"'[^']*' that", "X that", words) == re.sub(
            r"'[^']*' that", "X that", told(bank, "alice", function, **other)[1]
        )
        assert kind is UnknownName
    assert ledger(bank) == before


@pytest.mark.medium
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT word, count(*) AS n FROM t JOIN lookup USING (sick) GROUP BY word",
        "SELECT word, count(*) AS n FROM t JOIN nothing USING (sick) GROUP BY word",
        "SELECT count(*) AS n FROM t WHERE sick IN (SELECT sick FROM lookup)",
        "WITH c AS (FROM lookup) SELECT count(*) AS n FROM c",
        "SELECT count(*) AS n FROM (SELECT * FROM lookup)",
        "SELECT count(*) AS n FROM query_table('lookup')",
        "SELECT count(*) AS n FROM read_csv('/etc/passwd')",
    ],
)
def test_no_other_table_of_the_file_is_read(bank, sql):
    before = ledger(bank)
    for function, arguments in (
        ("dp_query", {"sql": sql, "epsilon": 0.1}),
        ("dp_synthesize", {"table": "t", "epsilon": 0.1, "workload": sql, **QUICK}),
        ("dp_plan", {"table": sql, "epsilon": 0.1}),
    ):
        with pytest.raises(DpsqlError) as caught:
            call(bank, "alice", function, **arguments)
        assert "CANARY" not in str(caught.value)
    assert ledger(bank) == before


@pytest.mark.medium
@pytest.mark.parametrize("prior", ["lookup", "hidden", "seen", "t", "nothing", "dpsql.person", "1", "bobs"])
def test_a_prior_is_a_release_of_their_own(bank, prior):
    call(bank, "bob", "dp_synthesize", table="t", epsilon=0.1, rows=20, release="bobs", **QUICK)
    words = told(bank, "alice", "dp_synthesize", table="t", epsilon=0.1, prior=prior, mechanism="ide")
    same = told(bank, "alice", "dp_synthesize", table="t", epsilon=0.1, prior="zzz", mechanism="ide")
    assert words[1].replace(repr(prior), "X") == same[1].replace("'zzz'", "X")


# --- what others asked ------------------------------------------------------------------------------------------------


def everything(db, name):
    """All that a user can look at, and the errors of what they may guess of others."""
    looks = [("dp_budget", {}), ("dp_releases", {}), ("dp_query", {"sql": SQL, "epsilon": 0.0})]
    looks += [("dp_measurements", {"release": text}) for text in ("1", "2", "9", "secret", "14")]
    looks += [("dp_plan", {"table": "t", "epsilon": 0.1}), ("dp_plan", {"table": SQL, "epsilon": 0.1})]
    looks += [("dp_synthesize", {"table": "t", "epsilon": 0.1, "prior": "secret", "mechanism": "ide"})]
    looks += [("dp_query", {"sql": SQL, "epsilon": 7.0}), ("dp_synthesize", {"table": "t", "epsilon": 7.0})]
    return json.dumps([told(db, name, function, **arguments) for function, arguments in looks], default=str)


@pytest.mark.medium
def test_nothing_tells_what_another_asked(bank):
    """Each look of bob's is to the letter what it was before alice asked; his own releases are as if she had not."""
    call(bank, "bob", "dp_query", sql=SQL, epsilon=0.1, release="mine")
    before = everything(bank, "bob")
    key = (
        call(bank, "alice", "dp_query", sql=SQL, epsilon=0.2, release="secret")
        and bank.sql("SELECT key FROM dp_releases() ORDER BY release DESC LIMIT 1").fetchall()[0][0]
    )
    call(bank, "alice", "dp_synthesize", table="t", epsilon=0.2, rows=20, release="secret", **QUICK)
    assert everything(bank, "bob") == before
    assert told(bank, "bob", "dp_measurements", release=key)[0] is UnknownName
    call(bank, "bob", "dp_synthesize", table="t", epsilon=0.1, rows=20, release="later", **QUICK)
    mine = [row for row in call(bank, "bob", "dp_releases").to_pylist() if "later" in row["request"]]
    assert mine[0]["release"] == 2
    assert json.loads(mine[0]["report"]).get("reused", 0) == 0  # his own earlier one measured no marginal
    assert "alice" not in everything(bank, "bob")
    bank.users.add("carol", limits={"t": 1.0})
    call(bank, "carol", "dp_synthesize", table="t", epsilon=0.1, rows=20, **QUICK)
    (first,) = call(bank, "carol", "dp_releases").to_pylist()
    assert "earlier releases" not in first["guarantee"]
    assert json.loads(first["report"]).get("reused", 0) == 0


@pytest.mark.medium
def test_the_same_question_of_two_users_is_two_releases_unless_they_share(bank):
    first = call(bank, "alice", "dp_query", sql=SQL, epsilon=0.1)
    assert call(bank, "bob", "dp_query", sql=SQL, epsilon=0.1) != first
    bank.share_releases(True)
    shared = call(bank, "alice", "dp_query", sql=SQL, epsilon=0.1)  # a new one, for all
    before = ledger(bank)
    assert call(bank, "bob", "dp_query", sql=SQL, epsilon=0.1) == shared
    assert ledger(bank) == before
    assert call(bank, "bob", "dp_measurements", release="1") is not None
    bank.share_releases(False)
    assert call(bank, "alice", "dp_query", sql=SQL, epsilon=0.1) == first


@pytest.mark.medium
def test_the_owner_has_keys_as_before_and_sees_who_asked(bank):
    assert "for" not in json.loads(bank.synthesize("t", epsilon=0.1, rows=5, **QUICK).entry.request)
    call(bank, "alice", "dp_query", sql=SQL, epsilon=0.1)
    assert bank.ledger().query("kind == 'charge'").username.tolist()[-1] == "alice"
    row = bank.users.list().query("name == 'alice'").iloc[0]
    assert (row.source, row.releases) == ("t", 1)
    assert 0.099 < row.epsilon_spent < 0.101


# --- rows, progress ---------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_bound_calls_tell_their_columns_and_charge_nothing(bank):
    before = ledger(bank)
    alice = bank.for_analyst("alice")
    assert alice.bind("dp_query", {"sql": SQL, "epsilon": 0.1}).columns[:2] == (("sick", "BOOLEAN"), ("n", "BIGINT"))
    assert alice.bind("dp_synthesize", {"table": "t", "epsilon": 0.1}).columns == (
        ("sick", "BOOLEAN"),
        ("smoker", "BOOLEAN"),
    )
    for arguments in ({"sql": SQL}, {"sql": SQL, "epsilon": "x"}, {"sql": SQL, "epsilon": 0.1, "by": "bob"}):
        with pytest.raises(InvalidArgument):
            alice.bind("dp_query", arguments)
    assert ledger(bank) == before


class Stopping:
    """A progress that says stop at a stage, and keeps what it was told."""

    def __init__(self, at=None):
        self.at, self.stages, self.stopped = at, [], False

    def stage(self, name, steps=None):
        self.stages.append(name)
        self.stopped = self.stopped or (self.at is not None and name.startswith(self.at))
        self.check()

    def advance(self, steps=1, note=""):
        self.check()

    def check(self):
        if self.stopped:
            raise Interrupted

    def close(self):
        pass


@pytest.mark.medium
def test_one_call_is_stopped_and_no_other(bank):
    asked = {"table": "t", "epsilon": 0.1, "rows": 20, **QUICK}
    alice, bob = bank.for_analyst("alice"), bank.for_analyst("bob")
    found = {}

    def work():
        found["bob"] = bob.bind("dp_synthesize", asked).rows(Stopping()).read_all().num_rows

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(Interrupted):
        alice.bind("dp_synthesize", asked).rows(Stopping("storing"))
    thread.join()
    assert found == {"bob": 20}
    charged = len(bank.ledger().query("kind == 'charge'"))
    progress = Stopping()
    assert alice.bind("dp_synthesize", asked).rows(progress).read_all().num_rows == 20
    assert "storing" in progress.stages
    assert len(bank.ledger().query("kind == 'charge'")) == charged


# --- published tables -------------------------------------------------------------------------------------------------


@pytest.fixture
def typed(bank):
    bank.sql(
        "CREATE TABLE visits AS SELECT (i % 5)::DECIMAL(9, 2) AS paid, DATE '2024-01-01' + (i % 9)::INTEGER AS day, "
        "(['a', 'b'])[i % 2 + 1] AS ward FROM range(300) r(i)"
    )
    bank.protect("visits", epsilon=3.0, delta=1e-6)
    bank.domain("visits", "paid", lower=0, upper=4, bins=4)
    bank.domain("visits", "day", lower="2024-01-01", upper="2024-01-09", bins=3)
    bank.domain("visits", "ward", values=["a", "b"])
    bank.synthesize("visits", epsilon=1.0, rows=50, release="spring", **QUICK)
    return bank


@pytest.mark.medium
def test_a_published_table_keeps_its_types_and_words(typed):
    shown = typed.sql(
        "CALL dp_publish('spring', 'visits_synth', audience := 'everyone', comment := 'Visits of spring')"
    ).fetchall()
    assert shown[0][0] == "visits_synth"
    for name in ("rita", "alice"):
        (one,) = typed.for_analyst(name).published()
        assert one.columns == (("paid", "DECIMAL(9,2)"), ("day", "DATE"), ("ward", "VARCHAR"))
        assert (one.name, one.rows, one.comment) == ("visits_synth", 50, "Visits of spring")
        assert "-DP" in one.guarantee
        read = typed.for_analyst(name).read("visits_synth").read_all()
        assert read.num_rows == 50
        assert read.equals(typed.sql(f"FROM dpsql.release_{shown[0][1]}").to_arrow_table())
        (row,) = call(typed, name, "dp_releases").to_pylist()
        assert (row["published"], row["release"], row["key"]) == ("visits_synth", None, None)
        assert "spring" not in row["request"]


@pytest.mark.medium
@pytest.mark.parametrize(
    ("audience", "readers"),
    [("analysts", {"alice", "bob"}), ("everyone", {"alice", "bob", "rita"}), (["rita"], {"rita"})],
)
def test_only_the_audience_reads_a_published_table(typed, audience, readers):
    typed.publish("spring", "synth", audience)
    for name in ("alice", "bob", "rita"):
        analyst = typed.for_analyst(name)
        assert [one.name for one in analyst.published()] == (["synth"] if name in readers else [])
        if name in readers:
            assert analyst.read("synth").read_all().num_rows == 50
        else:
            with pytest.raises(UnknownName) as refused:
                analyst.read("synth")
            with pytest.raises(UnknownName) as absent:
                analyst.read("other")
            assert str(refused.value).replace("synth", "other") == str(absent.value)
    assert typed.sql("CALL dp_publish('spring', 'synth', audience := ['rita'])").fetchall()[0][3] == ["rita"]
    typed.unpublish("synth")
    for name in readers:
        with pytest.raises(UnknownName):
            typed.for_analyst(name).read("synth")


@pytest.mark.medium
@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing", "x"),
        ("spring", "a b"),
        ("spring", ""),
        ("spring", "x", "nobody"),
        ("spring", "x", []),
        ("spring", "x", ["nobody"]),
        ("spring", "x", "analysts", "x" * 3000),
        ("answers", "x"),
    ],
)
def test_what_cannot_be_published_is_refused_and_records_nothing(typed, arguments):
    typed.query("SELECT ward, count(*) AS n FROM visits GROUP BY ward", epsilon=0.1, release="answers")
    before = ledger(typed)
    with pytest.raises(DpsqlError):
        typed.publish(*arguments)
    assert ledger(typed) == before


@pytest.mark.medium
def test_what_is_published_can_be_a_prior_and_answers_free(typed):
    typed.users.limit("alice", "visits", 1.0)
    typed.publish("spring", "synth")
    sql = "SELECT ward, count(*) AS n FROM visits GROUP BY ward"
    before = ledger(typed)
    assert call(typed, "alice", "dp_query", sql=sql, epsilon=0.0).num_rows == 2
    assert ledger(typed) == before
    asked = {"table": "visits", "epsilon": 0.1, "prior": "synth", "rows": 10, "mechanism": "ide"}
    assert call(typed, "alice", "dp_plan", **asked).num_rows


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_users_on_the_command_line(tmp_path, bank, capsys):
    path = str(tmp_path / "bank.duckdb")
    bank.close()
    assert main(["user", "add", path, "carol", "--role", "analyst", "--limit", "t=0.5", "--per", "day"]) == 0
    out, err = capsys.readouterr()
    token = out.strip()
    assert re.fullmatch(r"dpsql_[\w-]{32}", token)
    assert err == ""  # no person watches standard error
    assert main(["user", "limit", path, "carol", "t=0.75"]) == 0
    assert main(["user", "rotate", path, "carol"]) == 0
    other = capsys.readouterr().out.split()[-1]
    with dpsql.connect(path) as db:
        assert db.users.check("carol", other)
        assert not db.users.check("carol", token)
    assert main(["user", "list", path]) == 0
    assert capsys.readouterr().out.count("carol") == 2
    assert main(["user", "limit", path, "carol", "t=none"]) == 0
    assert main(["user", "revoke", path, "carol"]) == 0
    assert main(["user", "revoke", path, "carol"]) == 1
    assert "no active user 'carol'" in capsys.readouterr().err
    for wrong in ("t", "t=much", "=1", "nothing=1"):
        assert main(["user", "add", path, "dan", "--limit", wrong]) == 1
    assert main(["ledger", "verify", path]) == 0


# --- who is who -------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_users_share_nothing_of_the_owners(bank):
    """Neither what the owner asked, nor what users asked of a table that another user has no limit on."""
    bank.synthesize("hidden", 0.5, release="payroll", **QUICK)
    owners = bank.query(SQL, epsilon=0.2).n.tolist()
    bank.share_releases(True)
    bank.users.limit("alice", "hidden", 1.0)
    call(bank, "alice", "dp_query", sql=SQL.replace("FROM t", "FROM hidden"), epsilon=0.1, release="of alice")
    assert [row["source"] for row in told(bank, "alice", "dp_releases")] == ["hidden"]
    assert told(bank, "bob", "dp_releases") == []
    for name in ("payroll", "of alice", *map(str, range(1, 20))):
        assert told(bank, "bob", "dp_measurements", release=name)[0] is UnknownName
    before = len(ledger(bank))
    assert call(bank, "bob", "dp_query", sql=SQL, epsilon=0.2)["n"].to_pylist() != owners
    assert len(ledger(bank)) > before  # charged to bob


@pytest.mark.medium
def test_a_place_means_the_same_prior_in_the_key(bank):
    """Each user's first release is another one, so a request that leans on it is another request."""
    bank.share_releases(True)
    bank.users.limit("bob", "hidden", 1.0)
    fit = {"table": "t", "epsilon": 0.1, "prior": "1", **QUICK}
    for name, source in (("alice", "t"), ("bob", "hidden")):
        call(bank, name, "dp_synthesize", table=source, epsilon=0.2, release=f"of {name}", **QUICK)
    bank.share_releases(False)
    call(bank, "alice", "dp_synthesize", **fit)
    before = len(ledger(bank))
    call(bank, "bob", "dp_synthesize", **fit)
    assert len(ledger(bank)) > before


@pytest.mark.medium
def test_only_the_payer_goes_on_with_what_was_stopped(bank, monkeypatch):
    """Else another user could stop it until it fails, at the payer's cost."""
    bank.share_releases(True)
    asked = {"table": "t", "epsilon": 0.3, **QUICK}
    from dpsql.release import synthesis

    def stopped(*_, **__):
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(synthesis, "coded", stopped)
        assert told(bank, "alice", "dp_synthesize", **asked)[0] is Interrupted
    before = ledger(bank)
    for _ in range(5):
        kind, words = told(bank, "bob", "dp_synthesize", **asked)
        assert kind is DpsqlError
        assert "another user's request" in words
    assert ledger(bank) == before
    assert call(bank, "alice", "dp_synthesize", **asked) == call(bank, "bob", "dp_synthesize", **asked)


@pytest.mark.medium
@pytest.mark.parametrize("change", ["rotate", "revoked and added"])
def test_a_handle_ends_with_its_token(bank, change):
    alice = bank.for_analyst("alice")
    bound = alice.bind("dp_query", {"sql": SQL, "epsilon": 0.1})
    if change == "rotate":
        bank.users.rotate("alice")
    else:
        bank.users.revoke("alice")
        bank.users.add("alice", limits={"t": 1.0})
    before = ledger(bank)
    for act in (bound.rows, alice.check, lambda: alice.bind("dp_budget", {})):
        with pytest.raises(NotAllowed, match="another one now"):
            act()
    assert ledger(bank) == before


@pytest.mark.medium
def test_who_is_added_again_begins_with_nothing(bank):
    """Limits and audiences end with a revocation; what was caused stays."""
    call(bank, "alice", "dp_query", sql=SQL, epsilon=0.4)
    bank.synthesize("t", 0.5, release="spring", rows=10, **QUICK)
    bank.publish("spring", "of_alice", audience=["alice"])
    bank.publish("spring", "of_both", audience=["alice", "rita"])
    bank.users.revoke("alice")
    bank.users.add("alice", "analyst")
    assert [one.name for one in bank.for_analyst("alice").published()] == []
    assert [one.name for one in bank.for_analyst("rita").published()] == ["of_both"]
    assert told(bank, "alice", "dp_query", sql=SQL, epsilon=0.1)[0] is UnknownName
    bank.users.limit("alice", "t", 1.0)
    assert 0.3 < told(bank, "alice", "dp_budget")[0]["epsilon_spent"] < 0.401
    with bank.instance.cursor() as cursor:
        verification.check(Books(cursor, "bank"))


@pytest.mark.medium
def test_names_that_users_give_mean_nothing_to_the_owner(bank):
    """A user calls a release as the owner's is numbered or called: the owner publishes the owner's."""
    own = bank.synthesize("t", 0.5, release="spring", rows=10, **QUICK)
    for name in ("spring", str(own.entry.number), "hers"):
        call(bank, "alice", "dp_synthesize", table="t", epsilon=0.05, release=name, **QUICK)
    for text in ("spring", own.entry.number):
        assert bank.publish(text, "shown").release == own.entry.number
    with pytest.raises(UnknownName, match="hers"):
        bank.publish("hers", "shown")


@pytest.mark.medium
def test_a_limit_that_is_taken_back_is_gone(bank, capsys):
    bank.users.limit("alice", "t", 0.1, per="day")
    bank.users.limit("alice", "t", None)
    assert told(bank, "alice", "dp_query", sql=SQL, epsilon=0.05)[0] is UnknownName
    before = ledger(bank)
    for per in (None, "month"):
        with pytest.raises(UnknownName, match="no such limit"):
            bank.users.limit("alice", "t", None, per=per)
    for epsilon in (True, "0.5", float("nan"), -1.0):
        with pytest.raises(InvalidArgument, match="epsilon"):
            bank.users.limit("alice", "t", epsilon)
    assert ledger(bank) == before


@pytest.mark.medium
def test_rows_end_with_a_revocation(bank, monkeypatch):
    """Also those of a reader that was handed over before."""
    monkeypatch.setattr("dpsql.api.analyst._BATCH", 2048)
    bank.synthesize("t", 0.5, release="long", rows=10_000, **QUICK)
    bank.publish("long", "long", audience="everyone")
    reader = bank.for_analyst("rita").read("long")
    assert reader.read_next_batch().num_rows > 0
    bank.users.revoke("rita")
    with pytest.raises(Exception, match="may not do this"):
        reader.read_all()


# --- what may be asked ------------------------------------------------------------------------------------------------


@st.composite
def declared_tables(draw):
    """Columns, each with the statement that declares it, where one does."""
    kinds = st.sampled_from([
        ("BOOLEAN", None),
        ("INTEGER", "lower := 0, upper := 9"),
        ("DOUBLE", "edges := [0.0, 1.5, 4.0]"),
        ("VARCHAR", "values := ['a', 'it''s'], other := 'z'"),
        ("ENUM('CANARY_1', 'CANARY_2')", None),
        ("STRUCT(canary INTEGER)", None),
        ("DATE", "exclude := true"),
        ("DECIMAL(9,2)", None),
    ])  # fmt: skip
    return draw(st.lists(kinds, min_size=1, max_size=4))


def askable_of(table, rows):
    """What a user learns of a table without asking: its catalogue entry and its domains."""
    with dpsql.connect() as db:
        for number, (kind, _) in enumerate(table):
            if kind.startswith("ENUM"):
                db.sql(f"CREATE TYPE e{number} AS {kind}")
        columns = ", ".join(
            f"c{number} {f'e{number}' if kind.startswith('ENUM') else kind}" for number, (kind, _) in enumerate(table)
        )
        db.sql(f'CREATE TABLE "it\'s" ({columns})')
        db.sql(f"COMMENT ON TABLE \"it's\" IS 'CANARY {rows}'")
        for _ in range(rows):
            db.sql(f'INSERT INTO "it\'s" VALUES ({", ".join(["NULL"] * len(table))})')
        db.protect('"it\'s"', epsilon=3.0, delta=1e-6)
        for number, (_, how) in enumerate(table):
            if how is not None:
                db.sql(f"CALL dp_domain('\"it''s\"', 'c{number}', {how})")
        db.users.add("alice", limits={'"it\'s"': 1.0})
        if rows:
            db.query('SELECT count(*) AS n FROM "it\'s"', epsilon=0.5)
        alice = db.for_analyst("alice")
        return alice.askable(), alice.bind("dp_domains", {"table": '"it\'s"'}).rows().read_all().to_pylist()


@pytest.mark.medium
@settings(max_examples=3, deadline=None, derandomize=True)
@given(declared_tables())
def test_what_may_be_asked_depends_on_declarations_alone(table):
    """Not on rows, on comments that the file has, on members of types that nobody declared, or on releases of others."""
    seen = askable_of(table, 0)
    assert seen == askable_of(table, 3)
    assert "CANARY" not in repr(seen).upper()
    assert [name for name, _, _ in seen[0][0].columns] == [f"c{number}" for number in range(len(table))]


@pytest.mark.parametrize(
    "more", [{"from_json": '{"smoker": {"exclude": true}}'}, {"from_table": "t"}, {"as_json": True}]
)
def test_who_may_ask_declares_nothing(bank, more):
    before = ledger(bank)
    with pytest.raises(InvalidArgument, match="is no parameter of dp_domains: "):
        bank.for_analyst("alice").bind("dp_domains", {"table": "t", **more})
    assert ledger(bank) == before


def test_each_user_sees_what_they_may_ask_themselves(bank):
    bank.users.limit("bob", "hidden", 1.0)
    names = {name: [one.name for one in bank.for_analyst(name).askable()] for name in ("alice", "bob", "rita")}
    assert names == {"alice": ["t"], "bob": ["hidden", "t"], "rita": []}
    bank.users.revoke("bob")
    bank.unprotect("hidden", "a trial")
    bank.users.add("bob")
    assert bank.for_analyst("bob").askable() == []


def test_who_may_ask_is_told_which_domains_were_read_off_the_rows():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t (age INTEGER, size INTEGER)")
        db.protect("t", epsilon=1.0, delta=1e-9)
        db.sql("CALL dp_domain('t', 'age', lower := 0, upper := 9, looked := true)")
        db.sql("CALL dp_domain('t', 'size', lower := 0, upper := 9)")
        db.users.add("alice", limits={"t": 1.0})
        ((_, _, age), (_, _, size)) = db.for_analyst("alice").askable()[0].columns
    assert age == "from 0 to 9 (read off the rows by the owner)"
    assert size == "from 0 to 9"
