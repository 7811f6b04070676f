"""Quack's messages as its door reads them: their head, and nothing longer than a message may be."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.service.quack_messages import LONGEST, NotQuack, Request, failure, head_of, session_of, with_password

LOGIN = (
    b"\x01\0\x01\x03\0\x07\xff\xff\x01\0\x07alice:x\x02\0\x06v1.5.5\x03\0\x0blinux_amd64\x04\0\x01\x05\0\x01\xff\xff"
)
STATEMENT = b"\x01\0\x03\x02\0 1584D98310EEF1B4B03D0885C85F018D\x03\0\x08\xff\xff\x01\0\rSELECT 1 AS a\xff\xff"


@given(st.binary(max_size=80) | st.builds(lambda cut, more: LOGIN[:cut] + more, st.integers(0, 80), st.binary()))
def test_whatever_is_sent_is_a_message_or_none(body):
    with suppress(NotQuack):
        head = head_of(body)
        assert head.is_login or len(head.session) == 32
    session_of(body)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_a_password_is_taken_out_of_a_login(password):
    given_one = password.encode()
    length = (
        bytes([len(given_one)]) if len(given_one) < 128 else bytes([len(given_one) & 127 | 128, len(given_one) >> 7])
    )
    body = LOGIN[:10] + length + given_one + LOGIN[18:]
    head = head_of(body)
    assert (head.is_login, head.password) == (True, password)
    assert with_password(body, head, "alice:x") == LOGIN
    assert head_of(with_password(body, head, "0" * 32)).password == "0" * 32


def test_a_statement_is_of_its_session():
    assert head_of(STATEMENT).session == b"1584D98310EEF1B4B03D0885C85F018D"
    words = "ä" * 150
    assert words.encode() in failure(words)


def requested(data):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        return Request.of(ours)


def test_a_request_is_one_message():
    assert requested(Request.written(STATEMENT) + b"more").body == STATEMENT
    assert requested(Request.written(STATEMENT)[:-1]) is None, "the client has gone"


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"POST /quack HTTP/1.1\r\nContent-Length: %d" % (LONGEST + 1), "are the most"),
        (b"POST /quack HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2", "one length"),
        (b"POST /quack HTTP/1.1\r\nTransfer-Encoding: chunked", "one length"),
        (b"POST /quack HTTP/1.1\r\nContent-Length: -1", "one length"),
        (b"POST /quack HTTP/1.1\r\nContent-Length: " + "²".encode("latin-1"), "one length"),
        (b"POST /quack HTTP/1.1\r\nContent-Length: " + b"9" * 5000, "one length"),
        (b"GET / HTTP/1.1", "ATTACH"),
        (b"POST /quack HTTP/1.1\r\nx: " + b"a" * 20_000, "too long"),
    ],
)
def test_what_is_long_or_another_is_refused_before_it_is_read(head, words):
    with pytest.raises(NotQuack, match=words) as refused:
        requested(head + b"\r\n\r\n")
    assert refused.value.answer.startswith(b"HTTP/1.1 4")
