"""Settings: what would change answers is obeyed or refused, and SHOW repeats nothing that is not obeyed."""

from __future__ import annotations

import psycopg
import pytest

from dpsql.errors import InvalidArgument
from dpsql.service.pgwire.commands import Settings
from dpsql.service.pgwire.served_settings import is_utc

OF_UTC = [
    *("TIME ZONE 'UTC'", "TIME ZONE LOCAL", "TIME ZONE DEFAULT", "TIME ZONE 0", "TIME ZONE '+00:00'", "TIME ZONE -0"),
    *("TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE", "TIME ZONE INTERVAL '0' HOUR", "TimeZone TO 'Etc/UTC'"),
    *("TIME ZONE '<+00>-00'", "SESSION TIME ZONE 'Zulu'", "timezone = gmt"),
]
REFUSED = [
    *("TIME ZONE 'Europe/Berlin'", "TIME ZONE 2", "TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE", "TimeZone = 'EST5EDT'"),
    *("statement_timeout = 'soon'", "client_encoding = LATIN1", "NAMES 'LATIN1'", "DateStyle = 'German'"),
    *("IntervalStyle = iso_8601", "bytea_output = 'escape'", "standard_conforming_strings = off"),
    *("search_path = other", "extra_float_digits = 0", "server_version = '9'", "is_superuser = on"),
]


@pytest.fixture
def settings() -> Settings:
    return Settings(60.0)


@pytest.mark.parametrize("sql", OF_UTC)
def test_utc_has_many_spellings(settings, sql):
    assert settings.run(f"SET {sql}").tag == "SET"
    assert settings.run("SHOW TimeZone").row == ("TimeZone", "UTC")


@pytest.mark.medium
@pytest.mark.parametrize("sql", OF_UTC)
def test_postgresql_takes_these_for_utc(real, sql):
    real.execute(f"SET {sql}")
    assert real.execute("SELECT to_char('2020-01-01 10:00:00+02'::timestamptz, 'HH24')").fetchone() == ("08",)


@pytest.mark.parametrize("encoding", ["UTF8", "'utf-8'", "'Unicode'", "'UTF_8'"])
def test_utf8_has_many_spellings(settings, encoding):
    settings.run(f"SET client_encoding = {encoding}")
    settings.begin({"client_encoding": encoding})
    assert settings.run("SHOW client_encoding").row[1] == "UTF8"


@pytest.mark.parametrize("sql", REFUSED)
def test_what_would_change_answers_is_refused(settings, sql):
    with pytest.raises(InvalidArgument):
        settings.run(f"SET {sql}")


@pytest.mark.parametrize(("zone", "utc"), [("0", True), ("00:00", True), ("1", False), ("00:30", False), ("", False)])
def test_offsets(zone, utc):
    assert is_utc(zone) is utc


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


def test_reset_goes_back_to_the_beginning(settings):
    settings.begin({"options": "-c statement_timeout=9s --application-name=a\\ b", "TimeZone": "Europe/Berlin"})
    assert settings.seconds == 9
    assert settings.run("SHOW application_name").row[1] == "a b"
    for back in ("RESET statement_timeout", "RESET ALL", "SET statement_timeout TO DEFAULT"):
        settings.run("SET statement_timeout = '2s'")
        settings.run(back)
        assert settings.seconds == 9


@pytest.mark.parametrize("options", ["-c TimeZone=Europe/Berlin", "-c", "-c nothing", "-x", "endpoint=x", "--"])
def test_options_are_obeyed_or_refused(settings, options):
    with pytest.raises(InvalidArgument):
        settings.begin({"options": options})


@pytest.mark.medium
def test_the_first_message_is_obeyed_or_refused(served):
    with psycopg.connect(served.dsn(options="'-c statement_timeout=300ms'"), autocommit=True) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("300ms",)
        with pytest.raises(psycopg.errors.QueryCanceled, match=r"more than 0\.3 seconds"):
            connection.execute("SELECT count(*) FROM range(1000000) a(x), range(1000000) b(y) WHERE x * y % 7 = 3")
    for wrong in ({"options": "'-c TimeZone=Europe/Berlin'"}, {"client_encoding": "LATIN1"}):
        with pytest.raises(psycopg.OperationalError, match="is served|served is"):
            psycopg.connect(served.dsn(**wrong))
