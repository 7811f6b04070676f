"""A server process that speaks S3 on a loopback port: moto's, with faults that a test asks for.

python tests/engines/s3_server.py      writes its port, and ends with its standard input
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote
from urllib.request import Request, urlopen

import duckdb

MISSING = (
    f"no package duckdb-extension-httpfs of this DuckDB, {duckdb.__version__}, so no bucket can be read; the newest "
    "one is for 1.5.5"
)
FAULTS = "/-/faults"
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=owner/20260101/us-east-1/s3/aws4_request",
    "Content-Type": "application/octet-stream",
}
"""What moto takes for the owner of a bucket."""
KEY, SECRET, TOKEN = "AKCANARYKEY", "canary-of-the-secret-key", "canary-of-the-session-token"
"""What is written nowhere but in a secret of DuckDB's."""


def httpfs() -> Path | None:
    """The file of the extension, for this version of DuckDB; None if there is none."""
    package = find_spec("duckdb_extension_httpfs")
    folders = [] if package is None else package.submodule_search_locations or []
    files = [file for folder in folders for file in Path(folder).rglob(f"v{duckdb.__version__}/*.duckdb_extension")]
    return files[0] if files else None


@dataclass
class Server:
    """The process, as tests see it."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = Request(f"http://{self.endpoint}{path}", body, SIGNED, method=method)
        with urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def make(self, bucket: str) -> None:
        """A new bucket."""
        self._call("PUT", f"/{bucket}")

    def put(self, path: str, body: bytes) -> None:
        """Write an object, from its bucket and key."""
        self._call("PUT", f"/{path}", body)

    def get(self, path: str) -> bytes:
        return self._call("GET", f"/{path}")

    def put_folder(self, path: str, folder: Path) -> None:
        """Write all files of a folder, below a bucket and a key."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(quote(f"{path}/{file.relative_to(folder)}"), file.read_bytes())

    def for_pyiceberg(self) -> dict[str, str]:
        """Settings with which pyiceberg writes tables."""
        keys = {"s3.access-key-id": "owner", "s3.secret-access-key": "of the tests", "s3.region": "us-east-1"}
        return {"s3.endpoint": f"http://{self.endpoint}", **keys}

    def delete(self, path: str) -> None:
        self._call("DELETE", f"/{path}")

    @contextmanager
    def fault(
        self, after: int = 0, *, status: int = 0, swap: str = "", by: str = "", token: str = ""
    ) -> Iterator[None]:
        """While inside, of requests for objects those after so many fail; or an object is replaced by a copy then.

        With a token those fail that are signed with it.
        """
        self._call("PUT", f"{FAULTS}?after={after}&status={status}&swap={swap}&by={by}&token={token}")
        try:
            yield
        finally:
            self._call("DELETE", FAULTS)

    def requests(self) -> int:
        """How many requests for objects there were since the last fault began."""
        return int(json.loads(self._call("GET", FAULTS)))

    def secret(self, *, token: str = TOKEN) -> str:
        """A statement for DuckDB."""
        return (
            f"CREATE OR REPLACE SECRET lake (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', SESSION_TOKEN '{token}', "
            f"ENDPOINT '{self.endpoint}', USE_SSL false, URL_STYLE 'path')"
        )


_running: list[tuple[subprocess.Popen[str], Server]] = []


def s3_server() -> Server:
    """The server of this process of tests, which starts it when it is first asked for."""
    if not _running:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, __file__], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        _running.append((process, Server(int(process.stdout.readline()))))
    return _running[0][1]


def remove() -> None:
    """Stop it, if it was started."""
    while _running:
        process, _ = _running.pop()
        process.communicate()  # its input ends, and so does it


# --- in the process of the server -------------------------------------------------------------------------------------


@dataclass
class Faulty:
    """A WSGI application before moto's, which it asks unless a fault is due."""

    app: Any
    fault: dict[str, str] = field(default_factory=dict)
    seen: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def __call__(self, environment: dict[str, Any], start: Any) -> Any:
        path, method = environment["PATH_INFO"], environment["REQUEST_METHOD"]
        if path == FAULTS:
            if method != "GET":
                said = parse_qs(environment["QUERY_STRING"])
                self.seen, self.fault = 0, {name: values[0] for name, values in said.items()}
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(self.seen).encode()]
        if method in ("GET", "HEAD") and self.fault:
            with self.lock:
                self.seen += 1
                due = self.seen > int(self.fault["after"])
                if due and "swap" in self.fault:
                    self._replace(self.fault.pop("swap"), self.fault["by"])
            token = self.fault.get("token")
            if token is not None and environment.get("HTTP_X_AMZ_SECURITY_TOKEN") != token:
                due = False
            if due and int(self.fault["status"]):
                start(f"{self.fault['status']} Fault", [("Content-Type", "application/xml")])
                return [b"<Error><Code>Fault</Code><Message>of a test</Message></Error>"]
        return self.app(environment, start)

    def _replace(self, key: str, other: str) -> None:
        from werkzeug.test import Client

        Client(self.app).put(f"/{key}", headers={"x-amz-copy-source": f"/{other}", **SIGNED})


def main() -> None:
    """Serve until the standard input ends."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    app = Faulty(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
