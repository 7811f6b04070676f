"""Settings: what would change answers is obeyed or refused, and SHOW repeats nothing that is not obeyed."""

from __future__ import annotations

import socket

import duckdb
import psycopg
import pytest

from dpsql.errors import InvalidArgument
from dpsql.service.pgwire.commands import Settings
from dpsql.service.pgwire.failed import Failed
from dpsql.service.pgwire.messages import Channel
from dpsql.service.pgwire.zones import names

ZONES = [
    *("TIME ZONE 'UTC'", "TIME ZONE 'Etc/UTC'", "timezone = gmt", "TIME ZONE 0", "TIME ZONE '+00:00'", "TIME ZONE -0"),
    *(
        "TIME ZONE 'Europe/Berlin'",
        "SESSION TIME ZONE 'europe/berlin'",
        "TimeZone TO 'America/St_Johns'",
        "TIME ZONE 2",
    ),
    *("TIME ZONE -3", "TIME ZONE '+02'", "TIME ZONE '+02:00'", "TIME ZONE 'UTC+2'", "TIME ZONE 'GMT-02:00'"),
    *("TIME ZONE 'XYZ-2'", "TIME ZONE '<+02>-02'", "TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE"),
    *("TIME ZONE INTERVAL '5' HOUR", "TIME ZONE 'EST5EDT'", "TIME ZONE 'Etc/GMT-2'", "\"TimeZone\" = 'Asia/Kolkata'"),
]
OF_MINUTES = ["TIME ZONE 5.5", "TIME ZONE INTERVAL '-05:30' HOUR TO MINUTE", "TIME ZONE '-05:30'", "TIME ZONE '+5.75'"]
"""DuckDB 1.5 has no such zones."""
NO_ZONES = ["IST", "ACT", "", "z", "200", "Nope/Zone", "'", "SystemV/AST4"]
REFUSED = {
    "22023": [
        *("statement_timeout = 'soon'", "client_encoding = LATIN1", "NAMES 'LATIN1'", "DateStyle = 'German'"),
        *("IntervalStyle = iso_8601", "bytea_output = 'escape'", "standard_conforming_strings = off"),
        *("search_path = other", "extra_float_digits = 0", "enable_seqscan = perhaps", "work_mem = soon"),
        *("idle_session_timeout = 5000", "idle_in_transaction_session_timeout = '5min'", "idle_session_timeout = x"),
        *("transform_null_equals = on", "array_nulls = off", "TIME ZONE 'CET-1CEST'", "TIME ZONE INTERVAL '1 month'"),
    ],
    "42704": ["nothing_x = 1", "nothing_x TO DEFAULT"],
    "55P02": ["server_version = '9'", "is_superuser = on", "block_size = 3", "shared_buffers = 1"],
    "42501": ["ROLE bob", "LOCAL ROLE bob", "role = bob", "SESSION AUTHORIZATION bob", "lc_messages = 'C'"],
    "42601": ["nothing_x"],
}
MOMENTS = """
    SELECT t::text, date_trunc('day', t)::text, extract(hour FROM t)::int, t::date, to_char(t, 'YYYY-MM-DD HH24:MI'),
      (t AT TIME ZONE 'Asia/Tokyo')::text, current_setting('TimeZone')
    FROM (VALUES (timestamptz '2020-07-01 23:00:00+00'), ('2020-01-31 22:30:00.25+00'), ('2024-02-29 01:00:00'),
      ('1970-01-01 00:00:00'), ('2500-01-01 00:00:00+05:30'), ('infinity')) v(t) WHERE t < 'infinity' ORDER BY v.t
"""


@pytest.fixture
def settings() -> Settings:
    return Settings(60.0, "alice")


@pytest.mark.medium
def test_a_moment_is_shown_as_postgresql_shows_it(browsed, real):
    """In the session's zone: texts, casts, parts, and what SHOW and ParameterStatus say.

    Not prepared: PostgreSQL reads the literals of a prepared statement in the zone in which it was prepared.
    """
    for sql in [*ZONES, *(OF_MINUTES if duckdb.__version__ >= "2" else [])]:
        found = []
        for connection in (browsed, real):
            connection.execute(f"SET {sql}")
            found.append(
                (connection.execute(MOMENTS, prepare=False).fetchall(), connection.execute("SHOW timezone").fetchone())
            )
            assert connection.info.parameter_status("TimeZone") == found[-1][1][0]
        assert found[0] == found[1], sql
    browsed.execute("RESET TimeZone")
    real.execute("SET TimeZone = 'UTC'")


@pytest.mark.medium
def test_the_names_of_zones_are_those_of_postgresql(real):
    there = {row[0].lower() for row in real.execute("SELECT name FROM pg_timezone_names")}
    assert not set(names()) - there
    assert {one for one in there - set(names()) if not one.startswith(("posix", "right/"))} == {"localtime"}


def test_a_zone_is_one_of_postgresqls(settings):
    for value in NO_ZONES:
        with pytest.raises(InvalidArgument, match='invalid value for parameter "TimeZone"'):
            settings.run(f"SET TIME ZONE '{value.replace(chr(39), 2 * chr(39))}'")


def test_a_zone_is_told_when_it_changes(settings):
    settings.begin({"options": "-c timezone=Asia/Tokyo"})
    assert settings.zone.engine == settings.reported["TimeZone"] == "Asia/Tokyo"
    for sql, zone in (
        ("SET TIME ZONE 'UTC'", "UTC"),
        ("SET TIME ZONE LOCAL", "Asia/Tokyo"),
        ("SET timezone = 3", "<+03>-03"),
        ("SET TIME ZONE DEFAULT", "Asia/Tokyo"),
        ("BEGIN", "Asia/Tokyo"),
        ("SET LOCAL TIME ZONE 'Europe/Berlin'", "Europe/Berlin"),
        ("COMMIT", "Asia/Tokyo"),
        ("BEGIN", "Asia/Tokyo"),
        ("SET timezone = 'UTC'", "UTC"),
        ("ROLLBACK", "Asia/Tokyo"),
        ("SET timezone = 'UTC'", "UTC"),
        ("RESET ALL", "Asia/Tokyo"),
    ):
        settings.run(sql)
        assert settings.reported["TimeZone"] == zone, sql
        assert settings.run("SHOW TIME ZONE").row == ("TimeZone", zone)


@pytest.mark.parametrize(
    "role", ["ROLE alice", "ROLE NONE", "SESSION AUTHORIZATION DEFAULT", 'ROLE "alice"', "role = none"]
)
def test_one_may_be_oneself(settings, role):
    assert settings.run(f"SET {role}").tag == "SET"
    assert settings.run("SHOW role").row == ("role", "none")
    assert settings.run("RESET ROLE").tag == "RESET"


def test_a_setting_of_a_clients_own_is_kept(settings):
    settings.run("SET myapp.user TO 'a b'")
    assert settings.run("SHOW myapp.user").row == ("myapp.user", "a b")
    settings.run("RESET myapp.user")
    with pytest.raises(Failed, match="unrecognized configuration parameter"):
        settings.run("SHOW myapp.user")


def test_a_failed_transaction_takes_no_settings(settings):
    settings.transaction = "E"
    for sql in ("SET TIME ZONE 2", "SHOW TimeZone", "BEGIN", "RESET ALL"):
        with pytest.raises(Failed, match="current transaction is aborted"):
            settings.run(sql)
    assert settings.run("ROLLBACK").tag == "ROLLBACK"


@pytest.mark.parametrize("encoding", ["UTF8", "'utf-8'", "'Unicode'", "'UTF_8'"])
def test_utf8_has_many_spellings(settings, encoding):
    settings.run(f"SET client_encoding = {encoding}")
    settings.begin({"client_encoding": encoding})
    assert settings.run("SHOW client_encoding").row[1] == "UTF8"


@pytest.mark.parametrize(("code", "sql"), [(code, sql) for code, some in REFUSED.items() for sql in some])
def test_what_would_change_answers_is_refused(settings, code, sql):
    with pytest.raises((InvalidArgument, Failed)) as caught:
        settings.run(f"SET {sql}")
    assert getattr(caught.value, "code", "22023") == code


def test_show_repeats_only_what_is_obeyed(settings):
    for sql in ("DateStyle = 'ISO, DMY'", "default_transaction_read_only = off", "search_path = public", "jit = on"):
        settings.run(f"SET {sql}")
    for name, value in {"DateStyle": "ISO, MDY", "default_transaction_read_only": "on", "search_path": "main"}.items():
        assert settings.run(f"SHOW {name}").row == (name, value)
    settings.run("SET statement_timeout = '7s'")
    assert settings.seconds == 7
    settings.run("SET statement_timeout TO DEFAULT")
    assert (settings.seconds, settings.run("SHOW statement_timeout").row[1]) == (60, "0")


def test_a_setting_of_a_transaction_ends_with_it(settings):
    settings.run("SET LOCAL statement_timeout = '1s'")
    assert settings.seconds == 60, "outside of one it ends at once"
    for sql, inside, end, after in (
        ("SET LOCAL statement_timeout = '5s'", 5, "COMMIT", 60),
        ("SET statement_timeout = '6s'", 6, "ROLLBACK", 60),
        ("SET statement_timeout = '7s'", 7, "COMMIT", 7),
    ):
        settings.run("BEGIN")
        settings.run(sql)
        assert settings.seconds == inside
        settings.run(end)
        assert settings.seconds == after


def test_a_channel_sends_notices_if_they_are_wanted(settings):
    here, there = socket.socketpair()
    with here, there:
        channel = Channel(here)
        for level, sent in (("warning", b""), ("error", b""), ("notice", b"N"), ("debug1", b"N")):
            settings.run(f"SET client_min_messages = {level}")
            channel.shows_notices = settings.notices
            channel.notice("half is done")
            channel.send(b"I")
            channel.flush()
            assert there.recv(1000).removesuffix(b"I\0\0\0\4")[:1] == sent


def test_reset_goes_back_to_the_beginning(settings):
    settings.begin({"options": "-c statement_timeout=9s --application-name=a\\ b"})
    assert settings.seconds == 9
    assert settings.run("SHOW application_name").row[1] == "a b"
    for back in ("RESET statement_timeout", "RESET ALL", "SET statement_timeout TO DEFAULT"):
        settings.run("SET statement_timeout = '2s'")
        settings.run(back)
        assert settings.seconds == 9


@pytest.mark.parametrize(
    "options", ["-c TimeZone=Nope/Zone", "-c nothing_x=1", "-c role=bob", "-c", "-c nothing", "-x", "endpoint=x", "--"]
)
def test_options_are_obeyed_or_refused(settings, options):
    with pytest.raises((InvalidArgument, Failed)):
        settings.begin({"options": options})


@pytest.mark.medium
def test_the_first_message_is_obeyed_or_refused(small, monkeypatch):
    with psycopg.connect(
        small.dsn(options="'-c statement_timeout=300ms -c timezone=Asia/Tokyo'"), autocommit=True
    ) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("300ms",)
        assert connection.execute("SELECT (timestamptz '2020-07-01 23:00:00+00')::text").fetchone() == (
            "2020-07-02 08:00:00+09",
        )
        with pytest.raises(psycopg.errors.QueryCanceled, match=r"more than 0\.3 seconds"):
            connection.execute("SELECT count(*) FROM range(1000000) a(x), range(1000000) b(y) WHERE x * y % 7 = 3")
    monkeypatch.setenv("PGTZ", "Europe/Berlin")
    with psycopg.connect(small.dsn(), autocommit=True) as connection:
        assert connection.info.parameter_status("TimeZone") == "Europe/Berlin"
        assert connection.execute("SELECT extract(hour FROM timestamptz '2020-07-01 23:00:00+00')::int").fetchone() == (
            1,
        )
        with connection.cursor(binary=True) as cursor:
            (moment,) = cursor.execute("SELECT timestamptz '2020-07-01 23:00:00+00'").fetchone()
        assert moment.timestamp() == 1593644400
    monkeypatch.delenv("PGTZ")
    for wrong in (
        {"options": "'-c TimeZone=Nope/Zone'"},
        {"client_encoding": "LATIN1"},
        {"options": "'-c nothing_x=1'"},
    ):
        with pytest.raises(psycopg.OperationalError, match="invalid value|served is|unrecognized"):
            psycopg.connect(small.dsn(**wrong))


@pytest.mark.medium
def test_statements_see_settings_as_show_does(browsed):
    for name in ("server_version_num", "transaction_isolation", "search_path", "cpu_tuple_cost"):
        shown = browsed.execute(f"SHOW {name}").fetchone()
        assert browsed.execute(f"SELECT current_setting('{name}')").fetchone() == shown
        assert browsed.execute("SELECT setting FROM pg_settings WHERE name = %s", [name]).fetchone() == shown
    assert browsed.execute("SHOW work_mem").fetchone() == ("4MB",)
    assert browsed.execute("SELECT setting, unit FROM pg_settings WHERE name = 'work_mem'").fetchone() == ("4096", "kB")
    assert browsed.execute("SELECT current_setting('nothing_x', true)").fetchone() == (None,)
    assert browsed.execute(
        "SELECT set_config('search_path', '', false), set_config('jit', 'off', false)"
    ).fetchone() == ("", "off")
    with pytest.raises(psycopg.errors.UndefinedObject):
        browsed.execute("SELECT current_setting('nothing_x')")
    with pytest.raises(psycopg.Error, match="write SET"):
        browsed.execute("SELECT set_config('TimeZone', 'Asia/Tokyo', false)")


@pytest.mark.medium
def test_the_view_of_settings_has_postgresqls_numbers_and_units(browsed, real):
    """Those that PostgreSQL is compiled with, but paths; the server's own are others."""
    sql = "SELECT name, {}, unit, vartype, context FROM pg_settings WHERE unit IS NOT NULL ORDER BY name"
    there = {row[0]: row for row in real.execute(sql.format("boot_val")).fetchall()}
    here = browsed.execute(sql.format("setting")).fetchall()
    assert len(here) > 60
    assert [row for row in here if row != there[row[0]]] == []


@pytest.mark.medium
def test_notices_are_sent_to_whoever_wants_them(browsed):
    """A wish is obeyed, and SHOW repeats it."""
    browsed.execute("SET client_min_messages = warning")
    assert browsed.execute("SHOW client_min_messages").fetchone() == ("warning",)
    browsed.execute("RESET client_min_messages")
    assert browsed.execute("SHOW client_min_messages").fetchone() == ("notice",)
