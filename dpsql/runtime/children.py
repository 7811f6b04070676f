"""What is the same for all processes in which people's texts are run: they may see and take little."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_HANDED: Final = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "PYTHONHOME", "LANG", "TZ", "HOME")
"""Variables that such a process may see: no key, password or token is among them."""
_NEW_NETWORK, _NEW_USER = 0x40000000, 0x10000000
_SET_FLAGS, _UP = 0x8914, 1
_CAPABILITIES: Final = struct.pack("Ii", 0x20080522, 0)
"""Version 3, of this process."""


def handed(*more: str) -> dict[str, str]:
    """Those variables as they are now, and `more`."""
    names = {*_HANDED, *more}
    return {name: value for name, value in os.environ.items() if name in names or name.startswith("LC_")}


def end_first() -> None:
    """Where memory ends, Linux ends this process before all others."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def leave_network() -> bool:
    """Go to a network in which this process is alone; whether the system allowed that.

    Nobody reaches its ports from there, and it reaches nobody's. Connections that it has stay. It may have one thread.

    Raises:
        OSError: it is there, and cannot use its own address, nor go back: ask `can_leave_network` before.
    """
    if sys.platform != "linux":
        return False
    from fcntl import ioctl

    libc = ctypes.CDLL(None)
    if libc.unshare(_NEW_NETWORK):  # who is not root may do so as root of nothing but that network
        if libc.unshare(_NEW_NETWORK | _NEW_USER):
            return False
        alone = True
    else:
        alone = False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
    if alone:
        libc.capset(_CAPABILITIES, bytes(24))
    return True


def can_leave_network() -> bool:
    """Whether a process can leave the network and reach itself afterwards; tried in a process of its own.

    Some systems let who is not root make a network, and let nobody use it. SIGCHLD may not be ignored meanwhile.
    """
    process = os.fork()
    if not process:
        reached = False
        try:
            reached = leave_network() and _reaches_itself()
        finally:
            os._exit(0 if reached else 1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def _reaches_itself() -> bool:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), 5):
        return True
