"""The configuration file: every option has a key, and what is wrong is named."""

from __future__ import annotations

from dataclasses import fields

import pytest

from dpsql.errors import InvalidArgument
from dpsql.service.configuration import KINDS, read_configuration
from dpsql.service.options import Options

INTERNAL = {"path", "directory", "users", "audit"}


@pytest.fixture
def stated(tmp_path):
    def state(text: str) -> dict:
        (tmp_path / "dpsql.toml").write_text(text)
        return read_configuration(tmp_path / "dpsql.toml")

    return state


def test_every_option_has_a_key_and_every_key_an_option():
    assert set(KINDS) - {"database"} == {field.name for field in fields(Options)} - INTERNAL


def test_what_it_states(stated, tmp_path):
    found = stated(
        'database = "bank.duckdb"\nport = 6000\ncall_seconds = 60\nmemory = "2GB"\nkey = "/etc/dpsql/key.pem"'
    )
    assert found == {
        "database": str(tmp_path / "bank.duckdb"), "port": 6000, "call_seconds": 60.0, "memory": "2GB", "key": "/etc/dpsql/key.pem",
    }  # fmt: skip
    assert stated("") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 6000", "'prot'.*port"),
        ('port = "6000"', "port is '6000'.*a whole number"),
        ("port = true", "a whole number"),
        ("memory = 2", "a text in quotes"),
        ("key = 2", "a path in quotes"),
        ('database = ""', "a path in quotes"),
        ("[listen]\nport = 6000", "'listen'"),
        ("port = ", "is not TOML"),
        ("users = {}", "'users'"),
    ],
)
def test_what_is_wrong_is_named(stated, text, words):
    with pytest.raises(InvalidArgument, match=words):
        stated(text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidArgument, match="No such file"):
        read_configuration(tmp_path / "none.toml")
