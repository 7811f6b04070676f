"""Connections to a Unix socket, at which a place is waited for.

Where the queue of such a socket is full, the system refuses at once who set a timeout, with EAGAIN. Nobody has ended
there: many came at the same time.
"""

from __future__ import annotations

import socket
import time
from typing import Final

_PAUSE_SECONDS: Final = 0.02


def connect(path: str, seconds: float) -> socket.socket:
    """Connect to a Unix socket.

    Args:
        path: where it is.
        seconds: how long a place in its queue is waited for; the timeout of the connection too.

    Raises:
        OSError: nobody listens there, or no place became free.
    """
    ends = time.monotonic() + seconds
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        while True:
            try:
                connection.connect(path)
                return connection
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise TimeoutError(f"the queue of {path} is full") from None
                time.sleep(_PAUSE_SECONDS)
    except BaseException:
        connection.close()
        raise
