"""Metrics in Prometheus' text format at `/metrics`, and health at `/health`: over HTTP, on a port of its own.

They tell how many clients there are, how often what happened, who waits, and how much of each table's ε is left.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from dpsql.errors import DpsqlError

from .audit import Audit
from .room import Room

_SECONDS: Final = 10.0
_PLACES: Final = 20
"""Requests at one time, each in a thread that was there before."""
Values = list[tuple[Mapping[str, str], float]]
"""Labels and a value each."""


class Counted:
    """An audit that counts events of each kind, too, and says later how many could not be written.

    Attributes:
        missing: how many could not be.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit, self._lock = audit, threading.Lock()
        self._events: Counter[str] = Counter()
        self.missing = self._unsaid = 0

    def __call__(self, event: dict[str, Any]) -> None:
        """See `Audit`."""
        with self._lock:
            self._events[str(event.get("event"))] += 1
        try:
            self._audit(event)
        except Exception:
            with self._lock:
                self.missing += 1
                self._unsaid += 1
            raise
        with self._lock:
            unsaid, self._unsaid = self._unsaid, 0
        if unsaid:
            self._audit({"event": "lines missing", "user": "", "count": unsaid})

    def sizes(self, which: str) -> Values:
        """`bytes` of the log or the `most` that it may have; nothing where the audit is no log of ours."""
        size: Callable[[], Mapping[str, int]] | None = getattr(self._audit, "size", None)
        return [] if size is None else [({}, float(count)) for name, count in size().items() if name == which]

    @property
    def events(self) -> Values:
        """How many of each kind."""
        with self._lock:
            return [({"event": kind}, float(count)) for kind, count in sorted(self._events.items())]


def text_of(
    clients: tuple[int, int], workers: tuple[int, int], audit: Counted, status: Callable[[], Mapping[str, Any]]
) -> str:
    """The metrics, as Prometheus reads them.

    Args:
        clients: how many have logged in, and how many are at their login.
        workers: how many processes of users there are, and how many ended by themselves.
        audit: how often what happened, and how full its disk is.
        status: asks the keeper; see `Calls.status`.
    """
    try:
        answer = status()
    except DpsqlError:
        answer = {}
    budgets = [({"table": source}, whole, left) for source, whole, left in answer.get("budgets", [])]
    waiting: Values = [({"function": name}, float(count)) for name, count in answer.get("waiting", {}).items()]
    return "".join(
        [
            _family("dpsql_up", "gauge", "1 if the keeper answers", [({}, float(bool(answer)))]),
            _family("dpsql_connections", "gauge", "clients that have logged in", [({}, float(clients[0]))]),
            _family("dpsql_logins_pending", "gauge", "clients at their login", [({}, float(clients[1]))]),
            _family("dpsql_events_total", "counter", "lines of the front's audit log since it started", audit.events),
            _family(
                "dpsql_audit_missing_total", "counter", "lines that could not be written", [({}, float(audit.missing))]
            ),
            _family("dpsql_audit_bytes", "gauge", "bytes of the audit log", audit.sizes("bytes")),
            _family("dpsql_audit_bytes_most", "gauge", "bytes that it may have", audit.sizes("most")),
            _family("dpsql_user_processes", "gauge", "processes of users", [({}, float(workers[0]))]),
            _family(
                "dpsql_user_processes_died_total", "counter", "that ended with sessions", [({}, float(workers[1]))]
            ),
            _family("dpsql_calls_waiting", "gauge", "dp_* calls that wait or run", waiting),
            _family("dpsql_epsilon", "gauge", "epsilon of a table", [(label, whole) for label, whole, _ in budgets]),
            _family("dpsql_epsilon_left", "gauge", "what is left of it", [(label, left) for label, _, left in budgets]),
        ]
    )


def _family(name: str, kind: str, words: str, values: Values) -> str:
    lines = [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
    for labels, value in values:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{shown}}} {value!r}" if shown else f"{name} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Endpoint:
    """Answers GET, to whoever reaches the address: keep it on a network of your own.

    Args:
        address: host and port.
        metrics: makes the text.
        healthy: whether the service answers.
    """

    def __init__(self, address: tuple[str, int], metrics: Callable[[], str], healthy: Callable[[], bool]) -> None:
        self.metrics, self.healthy = metrics, healthy
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listening = socket.create_server(address, family=family, backlog=128)

    def serve(self) -> None:
        """Answer until the process ends."""
        Room(_SECONDS, _PLACES).serve(self._listening, lambda connection, host: _Asking(self, connection, host))


class _Asking:
    """One connection, which is one request."""

    def __init__(self, endpoint: Endpoint, connection: socket.socket, host: str) -> None:
        self._endpoint, self._connection, self._host = endpoint, connection, host

    def run(self) -> None:
        """Answer it."""
        with self._connection, suppress(OSError):
            _Handler(self._connection, (self._host, 0), self._endpoint)  # type: ignore[arg-type] # which wants no more
            self._connection.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        """End the connection, whatever its thread is at."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    timeout = _SECONDS
    server: Endpoint  # type: ignore[assignment]
    server_version, sys_version = "dpsql", ""

    def do_GET(self) -> None:
        """Metrics, health, or nothing."""
        if self.path == "/metrics":
            self._tell(200, self.server.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        elif self.path == "/health":
            well = self.server.healthy()
            self._tell(200 if well else 503, "ok\n" if well else "no login goes through\n", "text/plain")
        else:
            self._tell(404, "there are /metrics and /health\n", "text/plain")

    def _tell(self, code: int, words: str, kind: str) -> None:
        data = words.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""
