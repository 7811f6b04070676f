"""A standalone cluster of Spark on loopback: a master and two workers with one core each.

A session of it is started by dpsql, from the words in a variable, as an owner's would be. Settings are in the file
spark-defaults.conf, where an owner writes them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from dpsql.engines.spark.session import Session

from . import spark_session
from .spark_session import SETTINGS, Spark, need_spark

VARIABLE = "CLUSTER_SPARK"
"""Holds the words that lead to the cluster."""
DEADLINE = 120.0
WORKERS = 2
SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
MORE = {
    "spark.executor.extraJavaOptions": SMALL,
    "spark.executor.memory": "512m",
    "spark.python.worker.reuse": "true",
    "spark.sql.shuffle.partitions": "2",
}


class Cluster:
    """Processes on loopback, and a folder for all that they write."""

    def __init__(self, more: Mapping[str, str] | None = None) -> None:
        import pyspark

        self.folder = Path(tempfile.mkdtemp(prefix="dpsql-cluster-"))
        self._bin = Path(pyspark.__file__).parent / "bin"
        tables = {"spark.sql.warehouse.dir": str(self.folder / "tables"), "spark.local.dir": str(self.folder / "local")}
        settings = {name: value for name, value in SETTINGS.items() if "eventLog" not in name} | MORE | tables
        (self.folder / "conf").mkdir()
        lines = (f"{name} {value}\n" for name, value in (settings | dict(more or {})).items())
        (self.folder / "conf" / "spark-defaults.conf").write_text("".join(lines))
        self.environment = {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_DAEMON_JAVA_OPTS": SMALL,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self.before = {name: os.environ.get(name) for name in (*self.environment, VARIABLE)}
        os.environ.update(self.environment)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.master = self._start("master", MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.words = self._says("master", r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        self.web = self._says("master", r"Started MasterWebUI at (http://\S+)|started at (http://\S+)")
        self.start_workers()

    # --- workers and executors ----------------------------------------------------------------------------------------

    def start_workers(self) -> None:
        """Those that are not there."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        names = []
        while len(self.workers) < WORKERS:
            names.append(f"worker-{time.monotonic_ns()}")
            address = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            size = ("--cores", "1", "--memory", "2g", "--work-dir", str(self.folder / "work"))
            self.workers.append(self._start(names[-1], WORKER, *address, *size, self.words))
        for name in names:
            self._says(name, "Successfully (registered) with master")

    def kill_workers(self) -> None:
        """With kill -9; their executors end when they see it."""
        for worker in self.workers:
            worker.kill()
            worker.wait()

    def executors(self) -> list[psutil.Process]:
        """Those that run now."""
        alive = [psutil.Process(worker.pid) for worker in self.workers if worker.poll() is None]
        children = [child for worker in alive for child in worker.children()]
        return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]

    # --- sessions -----------------------------------------------------------------------------------------------------

    def session(self) -> Spark:
        """The session that dpsql starts in this process."""
        os.environ[VARIABLE] = self.words
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of JAX, where a test before loaded it: pyspark forks to start Java
            return Spark(Session({"environment": VARIABLE}).spark, self.folder)

    # --- processes ----------------------------------------------------------------------------------------------------

    def processes(self) -> list[psutil.Process]:
        """All of the cluster, those of Python that work in its executors too."""
        roots = [self.master, *self.workers]
        alive = [psutil.Process(root.pid) for root in roots if root.poll() is None]
        return [process for root in alive for process in (root, *root.children(recursive=True))]

    def remove(self) -> None:
        """End all that was started, and delete what it wrote."""
        ended = self.processes()
        for process in ended:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(ended)
        for started in (self.master, *self.workers):
            started.wait()
        for name, value in self.before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            words, environment = [self._bin / "spark-class", *command], os.environ | {"SPARK_DAEMON_MEMORY": "256m"}
            return subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder, env=environment)

    def _says(self, name: str, pattern: str) -> str:
        """What the log of a process tells, once it does."""
        path = self.folder / f"{name}.log"
        found = wait_for(lambda: re.search(pattern, path.read_text(errors="replace")), f"{name} says {pattern}")
        return next(group for group in found.groups() if group)


def wait_for(done: Callable[[], Any], what: str) -> Any:
    """What becomes true."""
    until = time.monotonic() + DEADLINE
    while not (answer := done()):
        assert time.monotonic() < until, f"not within {DEADLINE} seconds: {what}"
        time.sleep(0.05)
    return answer


@cache
def cluster() -> Cluster:
    """The cluster of this process, which has no other Spark from now on."""
    need_spark()
    spark_session.remove()
    return Cluster()


def remove() -> None:
    """End the cluster of this process, if there is one, and the session in it."""
    if cluster.cache_info().currsize:
        spark_session.end_machine()
        cluster().remove()
        cluster.cache_clear()
