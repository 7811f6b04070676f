"""`dpsql audit show`: a line for each question, with what was decided."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.api.cli import main
from dpsql.api.plain_table import plain_table
from dpsql.service import command
from dpsql.service.allowlist import AllowList
from dpsql.service.audit_log import AuditLog
from dpsql.service.audit_table import table

ASKED = {"sql": "SELECT count(*) AS n FROM t", "epsilon": 0.1}
EVENTS = [
    {"event": "login", "user": "ann", "address": "127.0.0.1"},
    {"event": "login refused", "user": "eve", "address": "10.0.0.9"},
    {"event": "statement", "user": "ann", "statement": "SELECT * FROM pg_catalog.pg_class"},
    {"event": "statement", "user": "ann", "statement": "SELECT version()"},
    {"event": "statement", "user": "ann", "statement": "SELECT sum(x)\n  FROM made"},
    {"event": "statement", "user": "ann", "statement": "FROM dp_query('…', epsilon => 0.1)"},
    {"event": "call", "user": "ann", "function": "dp_query", "arguments": ASKED, "call": "7-1", "stored": False},
    {"event": "answered", "user": "ann", "function": "dp_query", "call": "7-1", "seconds": 0.2},
    {"event": "call", "user": "ann", "function": "dp_query", "arguments": ASKED, "call": "7-2", "stored": True},
    {"event": "answered", "user": "ann", "function": "dp_query", "call": "7-2", "seconds": 0.2},
    {"event": "call", "user": "ann", "function": "dp_plan", "arguments": {"table": "t", "epsilon": 2}, "call": "7-3"},
    {"event": "answered", "user": "ann", "function": "dp_plan", "call": "7-3", "seconds": 0.2},
    {
        "event": "refused",
        "user": "ann",
        "function": "dp_query",
        "arguments": {**ASKED, "epsilon": 9},
        "reason": "too much",
    },
    {
        "event": "call",
        "user": "bob",
        "function": "dp_synthesize",
        "arguments": {"table": "t", "epsilon": 1},
        "call": "7-4",
    },
    {"event": "refused", "user": "bob", "function": "dp_synthesize", "arguments": {}, "call": "7-4", "reason": "late"},
    {"event": "refused", "user": "eve", "statement": "DROP TABLE pg_class", "reason": "only SELECT is served"},
    {"event": "owner", "user": "", "request": "{}"},
]


@pytest.fixture
def log(tmp_path):
    keeper = AuditLog(tmp_path / "log", "keeper")
    AuditLog(tmp_path / "log", "front").close()
    for event in EVENTS:
        keeper(event)
    keeper.close()
    return str(tmp_path / "log")


def shown(capsys, *arguments):
    assert command.audit(["show", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    if "--json" not in arguments:
        assert lines.pop().startswith("next: dpsql audit verify ")
    return lines


def test_a_line_for_each_question(log, capsys):
    head, *lines = shown(capsys, log)
    assert head.split() == ["time", "user", "question", "epsilon", "decision"]
    assert [line[21:].split(maxsplit=1)[0] for line in lines[:-1]] == ["eve", *["ann"] * 5, "bob", "eve"]
    decisions = [line.rstrip()[-24:] for line in lines]
    for line, end in zip(
        lines,
        [
            "login refused",
            "run",
            "answered",
            "answered again, free",
            "answered, free",
            "refused: too much",
            "late",
            "served",
            "owner",
        ],
        strict=True,
    ):
        assert line.endswith(end), decisions
    assert sum("SELECT count(*) AS n FROM t" in line for line in lines) == 3
    assert not any("pg_catalog" in line or "version()" in line for line in lines)


def test_charges_alone_and_a_user_alone(log, capsys):
    _, *lines = shown(capsys, log, "--charges")
    assert [line.split()[2] for line in lines] == ["ann", "ann", "bob"]
    assert " 0.1 " in lines[0]
    assert "dp_synthesize(t)" in lines[2]
    assert len(shown(capsys, log, "--charges", "--user", "bob")) == 2
    assert shown(capsys, log, "--charges", "--user", "nobody") == ["nothing was asked"]


def test_programs_have_every_event(log, capsys):
    events = [json.loads(line) for line in shown(capsys, log, "--json")]
    assert [event["event"] for event in events] == [event["event"] for event in EVENTS]


def test_a_number_that_came_again_is_another_call():
    """A process's number comes again after a restart: each call has the next end of its own user."""
    call = {"event": "call", "function": "dp_query", "arguments": ASKED, "call": "7-1"}
    events = [
        {**call, "user": "bob"},
        {**call, "user": "ann"},
        {"event": "answered", "user": "ann", "call": "7-1"},
        {**call, "user": "ann"},
        {**call, "user": "ann"},
        {"event": "refused", "user": "ann", "function": "dp_query", "call": "7-1", "reason": "too much"},
    ]
    assert [line.split(ASKED["sql"])[1].split(maxsplit=1)[1] for line in table(events).splitlines()[1:]] == [
        "no answer in the log",
        "answered",
        "no answer in the log",
        "refused: too much",
    ]


def test_of_a_log_without_answers_nothing_is_said_of_them():
    (line,) = table([{"event": "call", "user": "ann", "function": "dp_query", "arguments": ASKED}]).splitlines()[1:]
    assert line.rstrip().endswith("0.1")


@pytest.mark.parametrize(("more", "said"), [({"call": "7-1"}, "what was charged stands"), ({}, "before a charge")])
def test_who_stops_a_call_is_not_refused(more, said):
    asked = {"user": "ann", "function": "dp_query", "arguments": ASKED, **more}
    (line,) = table([
        *([{"event": "call", **asked}] if more else []),
        {"event": "refused", **asked, "reason": "Interrupted"},
    ]).splitlines()[1:]  # fmt: skip
    assert line.endswith(f"stopped; {said}" if more else f"stopped {said}")


@pytest.mark.parametrize("width", [60, 80, 120, 400])
def test_lines_fit_the_terminal(width):
    long = [{**event, "statement": "SELECT x " * 60, "reason": "because " * 40} for event in EVENTS]
    lines = table(EVENTS + long, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum("…" in line for line in lines) > 3


def test_a_look_up_that_is_cut_is_left_out():
    """Of a long statement the log has the beginning and the end: whether it looks up is noted as it is written."""
    statement = f"SELECT '{'x' * 3000}' FROM pgx.pg_class"
    assert AllowList().check(statement).looks_up
    assert not AllowList().check(statement.replace("pgx.pg_class", "made")).looks_up
    event = {"event": "statement", "user": "ann", "statement": f"{statement[:1000]} … pgx.pg_class"}
    assert table([{**event, "catalogue": True}]) == "nothing was asked"
    assert "run" in table([event])


def test_what_the_owner_did_is_a_call():
    request = '{"method": "limit", "arguments": {"name": "ann", "table": "t", "epsilon": 1.0}}'
    assert table([{"event": "owner", "user": "", "request": request}]).split()[-4:] == [
        "limit(ann,",
        "t,",
        "1.0)",
        "owner",
    ]


words = st.text(max_size=30)


@settings(max_examples=60)
@given(st.lists(st.dictionaries(
    st.sampled_from(["event", "user", "function", "arguments", "statement", "reason", "request", "time", "call", "stored"]),
    st.one_of(words, st.sampled_from(["call", "refused", "statement", "dp_query"]), st.none(), st.dictionaries(words, words, max_size=2)),
    max_size=7,
), max_size=6))  # fmt: skip
def test_whatever_users_write_a_line_is_a_line_and_the_terminal_obeys_nothing(events):
    """Events are made of what users sent: no text of theirs adds a line, moves the cursor or turns the order around."""
    text = table(events)
    assert text.count("\n") <= len(events)
    assert all(sign.isprintable() or sign == "\n" for sign in text)


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\x9b31m", "\u202e", "\r", "\x00", "\u2028"])
def test_a_cell_hides_nothing(hidden):
    text = plain_table(["question"], [[f"a{hidden}b"]])
    assert hidden not in text
    assert len(text.splitlines()) == 2


@pytest.mark.medium
def test_who_meets_the_service_is_told_what_works(small, capsys):
    assert main(["report", str(small.path)]) == 1
    assert "beside that, dpsql user, releases, publish, budget and audit work" in capsys.readouterr().err
    assert main(["budget", str(small.path)]) == 0


def test_who_reads_a_protected_table_is_refused_and_has_one_line():
    sql, reason = "SELECT * FROM visits", "visits is protected"
    ran = {"event": "statement", "user": "ann", "statement": sql}
    refused = {"event": "refused", "user": "ann", "statement": sql, "bound": True, "reason": reason}
    other = {**ran, "user": "bob"}
    rows = str(table([{**event, "time": f"2026-01-0{day}"} for day, event in enumerate((ran, refused, other), 1)]))
    assert [line.split(sql)[1].strip() for line in rows.splitlines() if sql in line] == [f"refused: {reason}", "run"]
