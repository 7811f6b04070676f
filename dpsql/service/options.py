"""What a service is started with."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Final

from dpsql.errors import DpsqlError, InvalidArgument

_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(i?)B", re.IGNORECASE)


def bytes_of(size: str, name: str = "memory") -> int:
    """Bytes of a size as DuckDB writes it; `name` is the option's.

    Raises:
        InvalidArgument: it is none.

    >>> bytes_of("1GB"), bytes_of("1.5 GiB")
    (1000000000, 1610612736)
    """
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise InvalidArgument(f"{name} is {size!r}: give a size such as '1GB' or '512MiB'")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " "))


def address_of(place: str) -> tuple[str, int]:
    """Host and port of `host:port`.

    Raises:
        InvalidArgument: it is none.

    >>> address_of("127.0.0.1:9187"), address_of("[::1]:9187")
    (('127.0.0.1', 9187), ('::1', 9187))
    """
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InvalidArgument(f"{place!r} is no address: give HOST:PORT, such as 127.0.0.1:9187")
    return host.strip("[]"), int(port)


class Full(DpsqlError):
    """As many clients are connected as there may be."""


@dataclass(frozen=True)
class Options:
    """What keeper and front are told when they start.

    Attributes:
        path: of the private DuckDB file.
        host: to listen on.
        port: to listen on; 0 lets the system choose.
        socket: path of the Unix socket between the two, in a folder of its own; empty: in a temporary one.
        socket_group: name of the system's group that may open the socket; empty: the keeper's own user alone.
        audit_folder: of the audit log; empty: beside the database.
        metrics: `host:port` on which metrics and health are told, over HTTP; empty: nowhere.
        certificate: path of the TLS certificate.
        key: path of its key.
        startup: path of a file of SQL that the keeper runs as it starts, such as `LOAD httpfs` and `CREATE SECRET` for
            rows in a bucket; empty: none. Nothing of its text is shown or logged.
        directory: `module:function`, called with the path; returns the `Directory`.
        audit: `module:function`, called with these options and the process' name; returns the `Audit`. Empty: none.
        connections: how many clients at once.
        statement_seconds: how long a statement may take, dp_* calls apart.
        call_seconds: how long a dp_* call may take, its wait apart.
        queue: how many calls may wait for their turn.
        user_connections: how many clients of one user at once, and so how many statements.
        user_queue: how many calls of one user may wait or run.
        login_seconds: how long a login may take.
        most_rows: how many rows a statement may send.
        memory: of a user's DuckDB; see `process.most_of_user` for what their process may have.
        threads: of a user's DuckDB.
        processes: how many users at once, each of whom has a process; at each of the two doors.
        silence_seconds: after which a door is started again if no login of the front's went through there.
        audit_bytes: how much of the disk the audit log may take, such as '10GB'; empty: as much as there is.
        quack: port of DuckDB's protocol on the loopback address; 0 for none.
    """

    path: str
    host: str = "127.0.0.1"
    port: int = 5439
    socket: str = ""
    socket_group: str = ""
    audit_folder: str = ""
    metrics: str = ""
    certificate: str = ""
    key: str = ""
    startup: str = ""
    directory: str = "dpsql.service.users:open_users"
    audit: str = "dpsql.service.audit_log:open_log"
    connections: int = 100
    statement_seconds: float = 60.0
    call_seconds: float = 3600.0
    queue: int = 20
    user_connections: int = 20
    user_queue: int = 5
    login_seconds: float = 10.0
    most_rows: int = 10_000_000
    memory: str = "1GB"
    threads: int = 2
    processes: int = 100
    silence_seconds: float = 60.0
    audit_bytes: str = ""
    quack: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not 0 <= self.port <= 65535:
            raise InvalidArgument(f"port is {self.port}: give one from 1 to 65535, or 0 for any that is free")
        if not 0 <= self.quack <= 65535:
            raise InvalidArgument(f"quack is {self.quack}: give a port from 1 to 65535, or leave it out")
        for name in ("connections", "queue", "user_connections", "user_queue", "most_rows", "threads", "processes"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} is {getattr(self, name)}: give at least 1")
        if not self.silence_seconds > 0:
            raise InvalidArgument(f"silence_seconds is {self.silence_seconds}: give seconds above 0, such as 60")
        bytes_of(self.memory)
        if self.audit_bytes:
            bytes_of(self.audit_bytes, "audit_bytes")
        if self.metrics:
            address_of(self.metrics)

    def check_place(self, user: str, clients: int, own: int) -> None:
        """Refuse one more client of a user at a door.

        Args:
            user: their name.
            clients: how many are connected there.
            own: how many of these are the user's.

        Raises:
            Full: as many are as there may be.
        """
        if clients >= self.connections:
            raise Full(f"{self.connections} clients are connected already, the most that there may be")
        if own >= self.user_connections:
            raise Full(
                f"{self.user_connections} clients of {user} are connected already, the most that there may be of one "
                "user: end some, or have the owner raise user_connections"
            )

    def to_json(self) -> str:
        """As a text for a child's standard input."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """What `to_json` wrote."""
        return cls(**json.loads(text))
