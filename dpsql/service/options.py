"""What a service is started with."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from dpsql.errors import InvalidArgument


@dataclass(frozen=True)
class Options:
    """What keeper and front are told when they start.

    Attributes:
        path: of the private DuckDB file.
        host: to listen on.
        port: to listen on; 0 lets the system choose.
        socket: path of the Unix socket between the two, in a folder of its own.
        certificate: path of the TLS certificate.
        key: path of its key.
        directory: `module:function`, called with the path; returns the `Directory`.
        audit: `module:function`, called with these options and the process' name; returns the `Audit`. Empty: none.
        connections: how many clients at once.
        statement_seconds: how long a statement may take, dp_* calls apart.
        call_seconds: how long a dp_* call may take, its wait apart.
        queue: how many calls may wait for their turn.
        login_seconds: how long a login may take.
        most_rows: how many rows a statement may send.
        memory: of the front's DuckDB.
        threads: of the front's DuckDB.
        quack: port of DuckDB's protocol on the loopback address; 0 for none.
    """

    path: str
    host: str = "127.0.0.1"
    port: int = 5439
    socket: str = ""
    certificate: str = ""
    key: str = ""
    directory: str = "dpsql.service.users:open_users"
    audit: str = "dpsql.service.audit_log:open_log"
    connections: int = 100
    statement_seconds: float = 60.0
    call_seconds: float = 3600.0
    queue: int = 20
    login_seconds: float = 10.0
    most_rows: int = 10_000_000
    memory: str = "1GB"
    threads: int = 2
    quack: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not 0 <= self.port <= 65535:
            raise InvalidArgument(f"port is {self.port}: give one from 1 to 65535, or 0 for any that is free")
        if not 0 <= self.quack <= 65535:
            raise InvalidArgument(f"quack is {self.quack}: give a port from 1 to 65535, or leave it out")
        for name in ("connections", "queue", "most_rows", "threads"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} is {getattr(self, name)}: give at least 1")

    def to_json(self) -> str:
        """As a text for a child's standard input."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """What `to_json` wrote."""
        return cls(**json.loads(text))
