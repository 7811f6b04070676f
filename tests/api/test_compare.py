"""Mechanisms compared on a table: from Python and from the command line."""

from __future__ import annotations

import itertools
import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsql
from dpsql.api.cli import main
from dpsql.api.comparing.axes import round_numbers
from dpsql.api.comparing.best import WARNING
from dpsql.api.comparing.comparison import Comparison
from dpsql.api.comparing.copied import copy, restore
from dpsql.api.comparing.settings import Settings
from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts
from dpsql.errors import InvalidArgument, NotOwner, NotProtected, UnknownName
from dpsql.mechanisms import base, own
from dpsql.owner.protect import account_of, domain_of
from tests.api.test_evaluate import books_of
from tests.conftest import settle

ONE = {"epsilons": [1.0], "runs": 1, "workloads": ["all 2-way"]}


@pytest.fixture
def bank(tmp_path) -> Path:
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql(
            "CREATE SCHEMA w; CREATE TABLE w.visits AS SELECT i // 3 AS person, i % 5 AS size, i % 2 = 0 AS sick, "
            "(CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END)::ENUM ('a', 'b') AS kind FROM range(3000) r(i)"
        )
        db.sql("ALTER TABLE w.visits ALTER sick SET NOT NULL")
        db.protect("w.visits", epsilon=1.0, delta=1e-9, privacy_unit="person", max_rows=2, enums=True)
        db.domain("w.visits", "size", lower=0, upper=4)
        db.constraint("w.visits", "sick OR kind = 'b'")
    return path


def test_a_copy_is_as_the_table(bank, tmp_path):
    with dpsql.connect(bank) as db, db.instance.cursor() as cursor:
        source = db._source(cursor, "w.visits")
        copied = copy(cursor, source, tmp_path, None)
        books = Books(cursor, source.catalog)
        told = domain_of(books, source), facts.constraints(books, source.key), account_of(books, source)
        rows = sorted(map(str, cursor.execute(f"FROM {bank.stem}.w.visits").fetchall()))
    with dpsql.connect() as db, db.instance.cursor() as cursor:
        source = restore(cursor, copied, 7.0)
        books = Books(cursor, source.catalog)
        domain, constraints, account = told
        assert domain_of(books, source) == domain
        assert facts.constraints(books, source.key) == constraints
        made = account_of(books, source)
        assert (made.neighbours, made.unit_column, made.delta) == (account.neighbours, account.unit_column, 1e-9)
        assert made.epsilon == 7.0
        assert sorted(map(str, cursor.execute("FROM memory.w.visits").fetchall())) == rows


@pytest.mark.medium
def test_nothing_is_charged_and_it_goes_on_where_it_was(bank, tmp_path, capsys):
    folder = tmp_path / "found"
    command = ["compare", str(bank), "w.visits", "--mechanisms", "direct", "--output", str(folder), "--runs", "1"]
    command += ["--workload", "all 2-way", "--groups", "kind", "--epsilons", "0.5"]
    with dpsql.connect(bank) as db:
        before = books_of(db)
    assert main([*command, "--seconds", "0.01"]) == 0
    assert "direct: 1 without figures: not done in 0.01 s" in capsys.readouterr().out
    assert main(command) == 0  # what did not end is tried again
    assert main([*command, "8"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Private: computed from the real rows of 'w.visits', not differentially private")
    assert "answering 0 everywhere, the largest is 0.5" in shown
    runs = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert [(run["epsilon"], "error" in run) for run in runs] == [(0.5, True), (0.5, False), (8.0, False)]
    assert runs[2]["workload_largest"] < runs[1]["workload_largest"], "a larger budget is a smaller error"
    rows = [line.split()[:2] for line in shown.splitlines() if line.startswith("direct ")]
    assert rows == [["direct", "0.5"], ["direct", "0.5"], ["direct", "8"]]
    files = [file for file in folder.rglob("*") if not file.is_dir()]
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert len(files) == 5 + 2, "and one for each run that ended well"
    whole = json.loads(next(iter((folder / "runs").glob("direct-epsilon=8-*"))).read_text())
    assert whole["warning"].startswith("Private")
    assert {name: whole[name] for name in runs[2]} == runs[2]
    assert whole["request"]["options"] == {"noise": "gaussian", "relaxed_rows": 512, "steps": 500}
    assert whole["report"]["steps"] == whole["steps"]
    assert "1e-09" in whole["guarantee"]
    assert max(answer["largest"] for answer in whole["answers"]) == whole["workload_largest"]
    assert [answer["columns"] for answer in whole["answers"]] == [["size", "sick"], ["size", "kind"], ["sick", "kind"]]
    assert 0 < whole["before_l1"] < 0.2
    with dpsql.connect(bank) as db:
        assert books_of(db) == before
        assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0.0,)]
    assert main([*command, "--groups", "sick"]) == 1
    assert "holds a comparison with another 'groups'" in capsys.readouterr().err


@pytest.mark.medium
def test_what_a_mechanism_refuses_stands_in_the_table(people):
    for number in range(8):
        people.sql(f"ALTER TABLE people ADD COLUMN c{number} BOOLEAN")
    found = people.compare("people", ["barak", "direct"], **ONE)
    assert found.df.mechanism.tolist() == ["barak", "direct"]
    assert "barak: 1 without figures: the domain of" in str(found)
    assert found.plot().axes[0].get_title() == "largest error of an answer"


@pytest.mark.medium
def test_a_public_table_to_lean_on(people):
    people.sql("CREATE TABLE known AS FROM people")
    settle(people, "known")
    (run,) = people.compare("people", "pmwpub", prior="known", **ONE).runs
    assert run["workload_largest"] < 0.2


@pytest.mark.medium
def test_fewer_public_rows_are_a_worse_prior(people):
    """One row can be right about one kind of people only; the others of `known` are as the table."""
    people.sql("CREATE TABLE known AS FROM people")
    settle(people, "known")
    most = people.sql("SELECT count(*) FROM known").fetchall()[0][0]
    found = people.compare("people", "pmwpub", prior="known", vary=f"prior_rows=1,{most}", **ONE)
    few, all_of_them = found.df.workload_largest
    assert (few > 0.3, all_of_them < 0.2) == (True, True)
    with pytest.raises(InvalidArgument, match=rf"vary has prior_rows {most + 1}, but 'known' has {most:,} rows"):
        people.compare("people", "pmwpub", prior="known", vary=f"prior_rows={most + 1}", **ONE)


@pytest.mark.medium
def test_an_option_is_varied(people, tmp_path):
    """It stands on the axis and in the table, its cost is drawn, too, and more of its values go into the same folder."""
    folder = tmp_path / "found"
    people.compare("people", "direct", vary="rows=1", folder=folder, **ONE)
    found = people.compare("people", "direct", vary="rows=1,5000", folder=folder, **ONE)
    assert found.df[["option", "value"]].to_numpy().tolist() == [["rows", 1.0], ["rows", 5000.0]]
    few, many = found.df.workload_largest
    assert few > 0.4 > many  # a cell of one row alone is off by 1 less its part; noise of .4 has a rate below 10⁻⁶
    assert len((folder / "runs.jsonl").read_text().splitlines()) == 2
    assert str(found).splitlines()[3].split()[:3] == ["mechanism", "epsilon", "rows"]
    titles = [axes.get_title() for axes in found.plot().axes]
    assert titles == ["largest error of an answer", "mean L1 of the marginals", "CPU seconds of a release"]
    assert {axes.get_xlabel() for axes in found.plot().axes} == {"rows"}
    with pytest.raises(InvalidArgument, match="another .vary."):
        people.compare("people", "direct", vary="steps=20", folder=folder, **ONE)


@pytest.mark.medium
def test_laplace_noise_at_a_large_epsilon(people):
    """It costs an account of (ε, δ) far more than its ε, so the copy's account must be larger than twice that."""
    (run,) = people.compare("people", "direct:noise=laplace", **{**ONE, "epsilons": [10.0]}).runs
    assert "error" not in run


@given(st.floats(1e-9, 1e6), st.floats(1.5, 1e6))
def test_there_are_three_round_numbers_at_least(low, factor):
    numbers = round_numbers(low, low * factor)
    assert 3 <= len(numbers) <= 9
    assert low <= numbers[0] < numbers[-1] <= low * factor


@pytest.mark.parametrize("epsilons", [[1.0], [1.0, 10.0], [0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0]])
@pytest.mark.parametrize("errors", [(0.0320, 0.0319), (0.032, 0.019), (0.9, 0.00002)])
def test_both_axes_have_three_numbers_at_least_and_none_touch(epsilons, errors):
    made = {"mechanism": "m", "workload": "w", "run": 1, "marginals": 1}
    runs = [{**made, "epsilon": e, "workload_largest": errors[n % 2]} for n, e in enumerate(epsilons)]
    drawn = Comparison("t", tuple(runs)).plot()
    drawn.canvas.draw()
    (axes,) = drawn.axes
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        shown = [
            text for place, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True) if low <= place <= high
        ]
        boxes = [text.get_window_extent() for text in shown if text.get_text()]
        assert len(boxes) >= 3
        assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def settings_made() -> tuple[dict[str, object], ...]:
    """Runs of three settings of `a`, of which another is the best at each ε, and of one of `b`."""
    errors = {("a:k=1", 1.0): 0.3, ("a:k=2", 1.0): 0.1, ("a:k=3", 1.0): None}
    errors |= {("a:k=1", 9.0): 0.01, ("a:k=2", 9.0): 0.05, ("a:k=3", 9.0): 0.04, ("b", 1.0): 0.2, ("b", 9.0): 0.2}
    return tuple(
        {"mechanism": name, "workload": "w", "epsilon": e, "run": run, "marginals": 1}
        | ({"error": "none"} if error is None else {"workload_largest": error + run / 1000})
        for (name, e), error in errors.items()
        for run in (1, 2, 3)
    )


def test_the_best_of_several_settings_says_so():
    runs = settings_made()
    found = Comparison("t", runs, {"a": "Algorithm"}, "largest")
    assert [(run["mechanism"], run["epsilon"], run.get("setting")) for run in found.best[::3]] == [
        ("a, best of 3", 1.0, "a:k=2"),
        ("a, best of 3", 9.0, "a:k=1"),
        ("b", 1.0, None),
        ("b", 9.0, None),
    ]
    text = str(found)
    assert WARNING in text
    assert [line.split()[:5] for line in text.splitlines() if line.startswith("Algorithm")] == [
        ["Algorithm,", "best", "of", "3", epsilon] for epsilon in ("1", "9")
    ]
    drawn = found.plot()
    assert "chosen on the real rows" in drawn.get_suptitle()
    assert [text.get_text() for text in drawn.legends[0].texts][1:] == ["Algorithm, best of 3", "b"]
    assert found.df.groupby(["mechanism", "epsilon"]).best.all().to_dict() == {
        (run["mechanism"], run["epsilon"]): (run["mechanism"], run["epsilon"])
        in {("a:k=2", 1.0), ("a:k=1", 9.0), ("b", 1.0), ("b", 9.0)}
        for run in runs
    }
    assert WARNING not in str(Comparison("t", runs))


@pytest.fixture
def mine(tmp_path, monkeypatch) -> Path:
    """A file of a mechanism from outside; no other test sees it."""
    monkeypatch.setattr(base, "_registry", dict(base._registry))
    monkeypatch.setattr(own, "_loaded", dict(own._loaded))
    file = tmp_path / "mine.py"
    file.write_text((Path(__file__).parents[2] / "examples" / "new_mechanism.py").read_text())
    return file


@pytest.mark.medium
def test_a_mechanism_of_a_file_is_compared(bank, tmp_path, mine, capsys):
    """Every process loads it; a changed file is another mechanism, whose runs are made anew, and only these."""
    folder = tmp_path / "found"
    command = ["compare", str(bank), "w.visits", "--mechanisms", "independent", "--load", str(mine), "--runs", "1"]
    command += ["--workload", "all 2-way", "--epsilons", "0.5", "--output", str(folder), "--delta", "1e-7"]
    command += ["--label", "independent", "Columns by themselves"]
    for _ in range(2):
        assert main(command) == 0
        shown = capsys.readouterr().out
        assert "Columns by themselves" in shown
        assert "without figures" not in shown
    (run,) = (json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines())
    assert run["workload_l1"] > 0.1
    whole = json.loads(next(iter((folder / "runs").iterdir())).read_text())
    assert whole["request"]["delta"] == "1e-07"
    mine.write_text(mine.read_text() + "\n# changed\n")
    assert main([*command, "--seconds", "0.01"]) == 0
    assert "1 without figures: not done" in capsys.readouterr().out
    assert main(command[:-3]) == 0
    assert main([*command, "--delta", "1e-6"]) == 1
    assert "holds a comparison with another 'delta'" in capsys.readouterr().err


@pytest.mark.medium
def test_a_file_that_changes_while_it_is_compared_ends_the_comparison(people, tmp_path, mine):
    """The file changes itself when a process of a run loads it; what ran before the change stays."""
    folder = tmp_path / "found"
    changes = "\nimport sys\nif sys.argv[0].endswith('one.py'):\n    open(__file__, 'a').write('# more')\n"
    mine.write_text(mine.read_text() + changes)
    with pytest.raises(InvalidArgument, match="has changed since it was loaded: its run is not kept; begin again"):
        people.compare("people", ["independent"], load=[str(mine)], folder=folder, **ONE)
    assert not (folder / "runs.jsonl").exists()


@pytest.mark.medium
def test_pictures_and_tables_say_that_they_are_private(people, tmp_path):
    """Whoever gets one file alone is told, too."""
    folder = tmp_path / "found"
    found = people.compare("people", "direct", folder=folder, **ONE)
    for name in ("comparison.csv", "comparison.svg", "comparison.png"):
        assert found.warning.encode() in (folder / name).read_bytes().replace(b"&apos;", b"'"), name
    assert found.plot().get_suptitle().endswith("private: errors against the real rows")


@pytest.mark.medium
def test_a_mechanism_of_a_file_is_called_in_sql(bank, mine, capsys):
    statement = (
        "SELECT count(*) > 0 AS there FROM dp_synthesize('w.visits', epsilon := 0.5, mechanism := 'independent')"
    )
    assert main(["sql", str(bank), statement, "--load", str(mine)]) == 0
    assert "true" in capsys.readouterr().out


def test_a_mechanism_of_this_process_only_is_refused(people, mine):
    exec(mine.read_text(), {"__name__": __name__})
    with pytest.raises(InvalidArgument, match="mechanism 'independent' is of this process only: name its file, load="):
        people.compare("people", "independent", **ONE)


@pytest.mark.medium
def test_errors_before_rounding_are_those_of_the_model(people, tmp_path):
    """Rows of 50 can be right to a fiftieth only, and the model is not made of rows."""
    (run,) = people.compare("people", "mwem:rows=50", folder=tmp_path / "f", **{**ONE, "epsilons": [100.0]}).runs
    assert run["before_l1"] < run["workload_l1"] / 2


@pytest.mark.parametrize("epsilons", [[1.0], [0.1, 1.0]])
def test_the_line_of_answering_0_is_seen_at_one_epsilon_too(epsilons):
    """Of one point a dashed line would be nothing; it goes over the whole width there."""
    kept = {"mechanism": "m", "workload": "w", "run": 1, "marginals": 1, "workload_largest": 0.1, "workload_zeros": 0.4}
    drawn = Comparison("t", tuple({**kept, "epsilon": e} for e in epsilons)).plot()
    (zero,) = (line for line in drawn.axes[0].lines if line.get_label() == "every answer 0")
    assert len(set(zero.get_xdata())) == 2


def pictured(epsilons, workloads, mechanism="m"):
    """A picture of made-up runs, a run for each ε and each (workload, number of marginals)."""
    kept = {"run": 1, "workload_largest": 0.1}
    runs = [
        {**kept, "mechanism": mechanism, "workload": text, "epsilon": e, "marginals": size}
        for e in epsilons
        for text, size in workloads
    ]
    return Comparison("t", tuple(runs)).plot()


def test_the_number_of_marginals_is_on_the_axis_where_workloads_differ_in_it():
    drawn = pictured([0.05, 0.1], [("few", 4), ("some", 16), ("many", 64)])
    assert drawn.axes[0].get_xlabel() == "marginals asked for"
    assert [text.get_text() for text in drawn.legends[0].texts][1:] == ["m, ε = 0.05", "m, ε = 0.1"]
    assert pictured([0.1, 1.0, 10.0], [("few", 4), ("many", 64)]).axes[0].get_xlabel() == "ε"
    assert pictured([0.1], [("these", 4), ("those", 4)]).axes[0].get_xlabel() == "ε"


def test_a_long_legend_stays_within_the_picture():
    long = "mechanism:option=value,another=value,more=value"
    drawn = pictured([0.1, 1.0, 10.0], [("64 random 3-way seed 0", 64), ("64 random 3-way seed 1", 64)], long)
    drawn.canvas.draw()
    whole, legend = drawn.bbox, drawn.legends[0].get_window_extent()
    assert whole.x0 <= legend.x0
    assert legend.x1 <= whole.x1


def test_lines_of_one_colour_are_told_apart():
    drawn = pictured([1.0], [(f"w{number}", 4) for number in range(10)])
    looks = [(line.get_color(), line.get_linestyle()) for line in drawn.axes[0].containers for line in line.lines[:1]]
    assert len(looks) == len({*looks}) == 10


@pytest.mark.medium
def test_ctrl_c_ends_it_and_its_process(bank, tmp_path):
    folder = tmp_path / "found"
    command = [sys.executable, "-m", "dpsql", "compare", str(bank), "w.visits", "--mechanisms", "direct"]
    command += ["--epsilons", "1", "--runs", "500", "--workload", "all 2-way", "--output", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 240
    while not (folder / "runs.jsonl").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "interrupted" in said
    listed = subprocess.run(["ps", "-s", str(process.pid), "-o", "args="], capture_output=True, text=True, check=False)
    assert "comparing.one" not in listed.stdout
    assert main([*command[3:10], "--runs", "1", *command[12:]]) == 0


@pytest.mark.parametrize(
    ("mechanisms", "settings", "words"),
    [
        ([], {}, "mechanisms is empty"),
        (["nobody"], {}, "mechanisms has 'nobody': give auto, barak, direct"),
        (["mwem:rounds"], {}, "write options as mwem:rounds=5"),
        (["direct"], {"epsilons": [0.0]}, "epsilons has 0: give positive numbers"),
        (["direct"], {"epsilons": []}, "epsilons is empty"),
        (["direct"], {"runs": 0}, "runs is 0: give 1 or more"),
        (["direct"], {"seconds": 0.0}, "seconds is 0"),
        (["direct"], {"workloads": ["SELECT nothing"]}, "nothing"),
        (["direct"], {"groups": ["nobody"]}, "nobody"),
        (["direct"], {"vary": "steps"}, "write an option and its values as rounds=5,10,25"),
        (["direct"], {"vary": "noise=gaussian"}, "its values are positive numbers"),
        (["direct"], {"vary": "steps=0"}, "its values are positive numbers"),
        (["direct:steps=5"], {"vary": "steps=5,6"}, "vary has steps, which 'direct:steps=5' has, too"),
        (["direct"], {"delta": 1.0}, "delta is 1: give a number from 0"),
        (["direct"], {"best_of": "largest"}, "best_of has nothing to choose from"),
        (["mwem:rounds=1|2"], {"best_of": "auc"}, "best_of is 'auc': say one of 'largest', 'l1', 'rmse'"),
        (["direct"], {"labels": {"mwem": "M"}}, "labels has 'mwem': give one of direct"),
        (["direct", "mwem"], {"labels": {"mwem": "direct"}}, "labels calls 'mwem' 'direct': give words of its own"),
        (["direct", "mwem"], {"labels": {"mwem": "M", "direct": "M"}}, "give words of its own"),
        (["direct"], {"load": ["nothing.py"]}, "load has 'nothing.py': No such file or directory"),
        (["direct"], {"vary": "prior_rows=5"}, "vary has prior_rows, but there is no prior"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_run(people, tmp_path, mechanisms, settings, words):
    with pytest.raises(dpsql.DpsqlError, match=words):
        people.compare("people", mechanisms, folder=tmp_path / "f", **settings)
    assert not (tmp_path / "f").exists()


def test_a_folder_of_something_else_is_left_alone(people, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidArgument, match="holds other files"):
        people.compare("people", "direct", folder=tmp_path, **ONE)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.medium
@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"rows": 301}, "rows"),
        ({"top": 5}, "domain"),
        ({"delta": 1e-8}, "delta"),
        ({"neighbours": "replace_one"}, "neighbours"),
        ({"prior_rows": 31}, "prior_rows"),
        ({"constraint": "size >= 0"}, "constraints"),
        ({}, None),
    ],
)
def test_runs_of_another_table_do_not_stand_beside_each_other(tmp_path, changed, what):
    """The same name, in another file or after a change."""
    folder = tmp_path / "found"

    def made(rows=300, top=4, delta=1e-9, neighbours="add_remove", prior_rows=30, constraint=None) -> Comparison:
        with dpsql.connect() as db:
            db.sql(f"CREATE TABLE t AS SELECT i % 5 AS size, i % 2 = 0 AS sick FROM range({rows}) r(i)")
            db.sql(f"CREATE TABLE p AS SELECT i % 5 AS size, i % 2 = 0 AS sick FROM range({prior_rows}) r(i)")
            db.protect("t", epsilon=1.0, delta=delta, neighbours=neighbours)
            db.domain("t", "size", lower=0, upper=top)
            if constraint is not None:
                db.constraint("t", constraint)
            return db.compare("t", ["direct"], folder=folder, prior="p", seconds=0.01, **ONE)

    made()
    if what is None:
        made()  # the same rows in another file
        return
    with pytest.raises(InvalidArgument, match=rf"found holds a comparison with another '{what}'"):
        made(**changed)


def test_runs_of_another_version_do_not_stand_beside_each_other(people, tmp_path):
    folder = tmp_path / "found"
    people.compare("people", ["direct"], folder=folder, **{**ONE, "seconds": 0.01})
    settings = json.loads((folder / "settings.json").read_text())
    settings["version"]["duckdb"] = "0.1"
    (folder / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(InvalidArgument, match="found holds a comparison with another 'version'"):
        people.compare("people", ["direct"], folder=folder, **{**ONE, "seconds": 0.01})


def test_it_is_the_owners(people):
    with pytest.raises(NotProtected):
        people.sql("CREATE TABLE other AS SELECT 1 AS a")
        people.compare("other", "direct", **ONE)
    with pytest.raises(UnknownName):
        people.compare("people", "direct", prior="nothing", **ONE)
    other = dpsql.connect()
    other.instance.owner = False
    with pytest.raises(NotOwner):
        other.compare("people", "direct", **ONE)
    other.close()


def test_all_stands_for_every_mechanism():
    assert Settings(("rap:rounds=2|5,steps=9|8",)).listed == [
        f"rap:rounds={rounds},steps={steps}" for rounds in (2, 5) for steps in (9, 8)
    ]
    listed = Settings(("all", "mwem", "mwem:rounds=3")).listed
    assert {"projection", "direct", "ide"} < set(listed)
    assert listed.count("mwem") == 1
    assert listed[-1] == "mwem:rounds=3"
