"""Quack's messages as far as they are read before DuckDB reads them: HTTP, who is meant, and the password of a login.

A message is lists of fields: two bytes of a number, the least first, then the value; `ff ff` ends a list. The first is
its head: 1 the kind, 2 the session, 3 a number of the client's. What follows depends on the kind.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from dpsql.errors import DpsqlError

_LONGEST_HEAD: Final = 1 << 14
LONGEST: Final = 1 << 20
"""Bytes of a message: more than the longest statement has."""
_PIECE: Final = 1 << 16
_LOGIN, _LOGGED_IN, _STATEMENT, _ROWS, _GOODBYE, _FAILED = b"\x01", b"\x02", b"\x03", b"\x04", b"\x0b", b"\x64"
_KIND, _SESSION, _NUMBER, _PASSWORD, _END = b"\x01\0", b"\x02\0", b"\x03\0", b"\x01\0", b"\xff\xff"
_NO_NUMBER: Final = b"\xff" * 9 + b"\x01"
SESSION_BYTES: Final = 32
_HEAD: Final = (
    "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
    "Access-Control-Allow-Origin: *\r\n\r\n"
)


class NotQuack(DpsqlError):
    """What came is no message of Quack's.

    Attributes:
        answer: over HTTP.
    """

    def __init__(self, status: str, words: str) -> None:
        super().__init__(words)
        self.answer = _http(status, "text/plain", f"{words}\n".encode())


@dataclass(frozen=True)
class Request:
    """A request over HTTP.

    Attributes:
        body: the message.
    """

    body: bytes

    @classmethod
    def of(cls, connection: socket.socket) -> Request | None:
        """What a client sends; None if it is gone before that is whole.

        Raises:
            NotQuack: it is something else, or too long.
        """
        data = bytearray()
        while (end := data.find(b"\r\n\r\n", 0, _LONGEST_HEAD)) < 0:
            if len(data) > _LONGEST_HEAD:
                raise NotQuack("431 Request Header Fields Too Large", "the head of this request is too long")
            if not (piece := connection.recv(_PIECE)):
                return None
            data += piece
        length, waits = _length_of(bytes(data[:end]))
        if waits:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = data[end + 4 :]
        while len(body) < length:
            if not (piece := connection.recv(_PIECE)):
                return None
            body += piece
        return cls(bytes(body[:length]))

    @staticmethod
    def written(body: bytes) -> bytes:
        """A message as it is passed on."""
        head = f"POST /quack HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


def _length_of(head: bytes) -> tuple[int, bool]:
    """How long the message is, and whether the client waits before it sends that."""
    first, *lines = head.decode("latin-1").split("\r\n")
    if not first.startswith("POST /quack "):
        raise NotQuack("404 Not Found", "DuckDB's own protocol is spoken here: use ATTACH 'quack:…'")
    fields = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    lengths = [value for name, value in fields if name == "content-length"]
    if len(lengths) != 1 or not lengths[0].isascii() or not lengths[0].isdigit() or len(lengths[0]) > 9:
        raise NotQuack("411 Length Required", "a message needs one length")
    if int(lengths[0]) > LONGEST:
        raise NotQuack("413 Content Too Large", f"{LONGEST} bytes of a message are the most")
    return int(lengths[0]), ("expect", "100-continue") in [(name, value.lower()) for name, value in fields]


@dataclass(frozen=True)
class Head:
    """What is read of a message.

    Attributes:
        is_login: whether it is a login.
        session: which session it is of; of a login none.
        password: of a login.
        place: where the password is, with its length before it.
    """

    is_login: bool
    session: bytes = b""
    password: str = ""
    place: tuple[int, int] = (0, 0)


def head_of(body: bytes) -> Head:
    """Whom a message is for.

    Raises:
        NotQuack: it is none.
    """
    if body.startswith(_KIND + _LOGIN + _NUMBER):
        _, start = _number(body, len(_KIND + _LOGIN + _NUMBER))
        if body[start : start + 4] == _END + _PASSWORD:
            length, first = _number(body, start + 4)
            password = body[first : first + length]
            if len(password) == length:
                return Head(
                    is_login=True, password=password.decode(errors="replace"), place=(start + 4, first + length)
                )
    start = len(_KIND) + 1
    if body.startswith(_KIND) and body[start : start + 3] == _SESSION + bytes([SESSION_BYTES]):
        session = body[start + 3 : start + 3 + SESSION_BYTES]
        if len(session) == SESSION_BYTES:
            return Head(is_login=False, session=session)
    raise NotQuack("400 Bad Request", "this is no message of Quack's")


def with_password(body: bytes, head: Head, password: str) -> bytes:
    """The login with another password, which is short."""
    first, last = head.place
    return body[:first] + bytes([len(password)]) + password.encode() + body[last:]


def session_of(answer: bytes) -> bytes | None:
    """The session that an answer to a login names; None where it names none."""
    _, _, body = answer.partition(b"\r\n\r\n")
    begins = _KIND + _LOGGED_IN + _SESSION + bytes([SESSION_BYTES])
    session = body[len(begins) : len(begins) + SESSION_BYTES]
    return session if body.startswith(begins) and len(session) == SESSION_BYTES else None


def login(password: str) -> bytes:
    """A login, as DuckDB's client sends it."""
    given = password.encode()
    about = b"".join(
        place + _varint(len(text)) + text
        for place, text in ((b"\x02\0", f"v{version('duckdb')}".encode()), (b"\x03\0", b"linux_amd64"))
    )
    of_protocol = b"\x04\0\x01\x05\0\x01"
    return (
        _KIND + _LOGIN + _NUMBER + b"\x07" + _END + _PASSWORD + _varint(len(given)) + given + about + of_protocol + _END
    )


def statement(session: bytes, sql: str) -> bytes:
    """A statement of a session."""
    text = sql.encode()
    return _of_session(_STATEMENT, session) + b"\x01\0" + _varint(len(text)) + text + _END


def goodbye(session: bytes) -> bytes:
    """The end of a session."""
    return _of_session(_GOODBYE, session) + _END


def _of_session(kind: bytes, session: bytes) -> bytes:
    return _KIND + kind + _SESSION + bytes([SESSION_BYTES]) + session + _NUMBER + b"\x08" + _END


def has_rows(answer: bytes) -> bool:
    """Whether a statement was answered, and not refused."""
    return answer.partition(b"\r\n\r\n")[2].startswith(_KIND + _ROWS)


def failure(words: str) -> bytes:
    """An error, as DuckDB's server would answer it."""
    text = words.encode()
    message = _KIND + _FAILED + _NUMBER + _NO_NUMBER + _END + b"\x01\0" + _varint(len(text)) + text + _END
    return _http("200 OK", "application/vnd.duckdb", message)


def _http(status: str, kind: str, body: bytes) -> bytes:
    return _HEAD.format(status=status, kind=kind, length=len(body)).encode() + body


def _number(body: bytes, start: int) -> tuple[int, int]:
    """A number of seven bits a byte, the least first, and where it ends.

    Raises:
        NotQuack: there is none.
    """
    value = 0
    for place, byte in enumerate(body[start : start + 10]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, start + place + 1
    raise NotQuack("400 Bad Request", "this is no message of Quack's")


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
