"""Messages: read with a cap on their length, written into a buffer."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Final

LONGEST: Final = 1 << 20
LONGEST_BEFORE_LOGIN: Final = 10_000
_FULL: Final = 1 << 18


class Closed(Exception):
    """The client has gone, or is sent away."""


class BadMessage(Exception):
    """A message is not as the protocol says."""


class Channel:
    """A client's connection.

    Attributes:
        socket: TLS, once that began.
        longest: how long a message may be.
        shows_notices: whether the client wants messages that are no errors.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.longest = LONGEST_BEFORE_LOGIN
        self.shows_notices = True
        self._out = bytearray()

    def exactly(self, count: int) -> bytes:
        """So many bytes."""
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(min(65536, count - len(parts)))
            except OSError:
                part = b""
            if not part:
                raise Closed
            parts += part
        return bytes(parts)

    def packet(self) -> bytes:
        """A message without a kind, as they are before the login."""
        (length,) = struct.unpack("!i", self.exactly(4))
        if not 8 <= length <= self.longest:
            raise BadMessage(f"a first message of {length} bytes is not PostgreSQL's")
        return self.exactly(length - 4)

    def message(self) -> tuple[bytes, bytes]:
        """The next message: its kind and what is in it."""
        kind = self.exactly(1)
        (length,) = struct.unpack("!i", self.exactly(4))
        if not 4 <= length <= self.longest:
            raise BadMessage(f"a message of {length} bytes is too long: {self.longest} is the most")
        return kind, self.exactly(length - 4)

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """Write a message; it goes out when many did, or at `flush`."""
        self._out += kind + struct.pack("!i", len(payload) + 4) + payload
        if len(self._out) > _FULL:
            self.flush()

    def send_raw(self, messages: bytes) -> None:
        """Write messages that are made already."""
        self._out += messages
        if len(self._out) > _FULL:
            self.flush()

    def flush(self) -> None:
        """Send what was written."""
        out, self._out = self._out, bytearray()
        if out:
            try:
                self._deliver(out)
            except OSError:
                raise Closed from None

    def _deliver(self, messages: bytearray) -> None:
        self.socket.sendall(messages)

    def error(self, code: str, message: str, *, severity: str = "ERROR", position: int = 0, hint: str = "") -> None:
        """An error, or the end of the session if it is FATAL."""
        self.send(b"E", _fields(severity, code, message, position, hint))

    def notice(self, message: str) -> None:
        """A message that is no error; it goes out at once, if it goes out."""
        if not self.shows_notices:
            return
        self.send(b"N", _fields("NOTICE", "00000", message, 0, ""))
        self.flush()


def error_message(severity: str, code: str, message: str, position: int = 0, hint: str = "") -> bytes:
    """The bytes of an error or, with the kind of one, of a notice."""
    fields = _fields(severity, code, message, position, hint)
    return (b"N" if severity == "NOTICE" else b"E") + struct.pack("!i", len(fields) + 4) + fields


def _fields(severity: str, code: str, message: str, position: int, hint: str) -> bytes:
    shown = {b"S": severity, b"V": severity, b"C": code, b"M": message, b"P": str(position or ""), b"H": hint}
    parts = (key + text.replace("\0", "").encode(errors="replace") + b"\0" for key, text in shown.items() if text)
    return b"".join(parts) + b"\0"


def text(value: str) -> bytes:
    """A text that ends with a zero."""
    return value.encode() + b"\0"


class Reader:
    """Reads the fields of one message.

    Raises:
        BadMessage: it is shorter than it says.
    """

    def __init__(self, payload: bytes) -> None:
        self._payload, self._place = payload, 0

    def take(self, count: int) -> bytes:
        """So many bytes."""
        if count < 0 or self._place + count > len(self._payload):
            raise BadMessage("a message is shorter than it says")
        self._place += count
        return self._payload[self._place - count : self._place]

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._payload) - self._place)

    def int16(self) -> int:
        """A number of two bytes."""
        return int(struct.unpack("!h", self.take(2))[0])

    def int32(self) -> int:
        """A number of four bytes."""
        return int(struct.unpack("!i", self.take(4))[0])

    def text(self) -> str:
        """A text that ends with a zero."""
        end = self._payload.find(b"\0", self._place)
        if end < 0:
            raise BadMessage("a text in a message does not end")
        try:
            decoded = self._payload[self._place : end].decode()
        except UnicodeDecodeError:
            raise BadMessage("a text in a message is not UTF-8") from None
        self._place = end + 1
        return decoded

    def int16s(self) -> list[int]:
        """A list of numbers of two bytes."""
        return [self.int16() for _ in range(self._count())]

    def int32s(self) -> list[int]:
        """A list of numbers of four bytes."""
        return [self.int32() for _ in range(self._count())]

    def values(self) -> list[bytes | None]:
        """A list of values, or None for NULL."""
        raw_values: list[bytes | None] = []
        for _ in range(self._count()):
            length = self.int32()
            raw_values.append(None if length == -1 else self.take(length))
        return raw_values

    def _count(self) -> int:
        count = self.int16()
        if count < 0:
            raise BadMessage("a message counts below zero")
        return count


def row_description(columns: Sequence[tuple[str, int, int, int, int]]) -> bytes:
    """Names, oids, lengths, modifiers and formats of columns."""
    parts = [struct.pack("!h", len(columns))]
    for name, oid, length, modifier, form in columns:
        parts.append(text(name.replace("\0", "")) + struct.pack("!ihihih", 0, 0, oid, length, modifier, form))
    return b"".join(parts)
