"""Messages between the service's processes, as frames of a kind, a length and bytes.

To the keeper goes one call a connection: one frame of JSON, or two for a login. To close the connection is to cancel.
The keeper answers with frames: `J` a JSON answer, `P` progress, `A` a piece of an Arrow IPC stream, `E` an error, `Z`
the end. What front and workers say to each other is in `workers`.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any, Final

from dpsql.errors import DpsqlError

_HEAD: Final = struct.Struct("!cI")
_LONGEST: Final = 1 << 26
_PAUSE_SECONDS: Final = 0.05
PIECE: Final = 1 << 20
REQUEST: Final = 1 << 21
"""Bytes of what the front may ask: a statement and the arguments of a call."""


class Lost(DpsqlError):
    """The other process ended, or does not answer."""


def accepted(listening: socket.socket) -> tuple[socket.socket, str]:
    """The next connection and its host; where no descriptor is free, one is waited for."""
    while True:
        try:
            connection, address = listening.accept()
            return connection, str(address[0]) if address else ""
        except OSError:
            time.sleep(_PAUSE_SECONDS)


def send(connection: socket.socket, kind: bytes, payload: bytes = b"") -> None:
    """Send one frame."""
    try:
        connection.sendall(frame(kind, payload))
    except OSError:
        raise Lost("the connection between the service's processes ended") from None


def send_json(connection: socket.socket, value: Any, kind: bytes = b"J") -> None:
    """Send one frame of JSON."""
    send(connection, kind, json.dumps(value, ensure_ascii=False).encode())


def receive(connection: socket.socket, longest: int = _LONGEST) -> tuple[bytes, bytes]:
    """The next frame: its kind and its bytes."""
    kind, length = _HEAD.unpack(_exactly(connection, _HEAD.size))
    if length > longest:
        raise Lost("a frame between the service's processes is too long")
    return kind, _exactly(connection, length)


def receive_passed(connection: socket.socket) -> tuple[bytes, bytes, list[int]]:
    """The next frame, with the descriptors that were passed along with it."""
    try:
        kind, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    except OSError:
        kind, descriptors = b"", []
    if not kind:
        raise Lost("the connection between the service's processes ended")
    (length,) = struct.unpack("!I", _exactly(connection, 4))
    if length > _LONGEST:
        raise Lost("a frame between the service's processes is too long")
    return kind, _exactly(connection, length), descriptors


def frame(kind: bytes, payload: bytes | bytearray = b"") -> bytes:
    """The bytes of one frame."""
    return _HEAD.pack(kind, len(payload)) + payload


class Frames:
    """Takes frames apart that come in pieces, from a peer that may send anything.

    Args:
        longest: of a frame.
    """

    def __init__(self, longest: int) -> None:
        self._longest, self._buffer = longest, bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The frames that are whole now.

        Raises:
            Lost: one is too long.
        """
        self._buffer += data
        frames = []
        while len(self._buffer) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._buffer)
            if length > self._longest:
                raise Lost("a frame between the service's processes is too long")
            if len(self._buffer) < _HEAD.size + length:
                break
            frames.append((kind, bytes(self._buffer[_HEAD.size : _HEAD.size + length])))
            del self._buffer[: _HEAD.size + length]
        return frames


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = connection.recv(min(PIECE, count - len(parts)))
        except TimeoutError:
            raise
        except OSError:
            part = b""
        if not part:
            raise Lost("the connection between the service's processes ended")
        parts += part
    return bytes(parts)


class Sender:
    """A file that sends what is written to it as frames: for Arrow's writer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.closed = False

    def write(self, data: Any) -> int:
        """Send it."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PIECE):
            send(self._connection, b"A", bytes(view[start : start + PIECE]))
        return len(view)

    def writable(self) -> bool:
        """Always."""
        return True

    def readable(self) -> bool:
        """Never."""
        return False

    def seekable(self) -> bool:
        """Never."""
        return False

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """The connection stays open."""
        self.closed = True
