"""The fault campaign: kills, damaged files, full disks, too little memory, interrupts, clocks and races."""

from __future__ import annotations

import importlib
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

import dpsql
from dpsql.errors import DpsqlError

from . import bank as banks
from .bank import QUERY, TABLE, Bank, child, kill, running, wait

Outcome = Counter[str]


@contextmanager
def fresh() -> Iterator[Bank]:
    """A bank in a folder of its own; made in a child, for DuckDB must not be open when one is forked."""
    with tempfile.TemporaryDirectory() as folder:
        found = Bank(Path(folder))
        wait(child(lambda: void(found.prepare())))
        yield found


def void(_: object) -> None:
    """Nothing."""


def judged(bank: Bank) -> str:
    """The verdict of a bank, found in a child."""
    answer = bank.folder / "verdict"
    answer.unlink(missing_ok=True)
    wait(child(lambda: void(answer.write_text(bank.verdict()))))
    return answer.read_text() if answer.exists() else "crashed"


# --- kills ------------------------------------------------------------------------------------------------------------

POINTS = {
    "before the charge": ("dpsql.books.accounts.charging.charge", False),
    "after the charge": ("dpsql.books.accounts.charging.charge", True),
    "before a count is read": ("dpsql.engines.duckdb.counting.DuckDBCounter.marginal", False),
    "after it was read": ("dpsql.engines.duckdb.counting.DuckDBCounter.marginal", True),
    "before the journal": ("dpsql.books.releases.journal.append_answers", False),
    "after the journal": ("dpsql.books.releases.journal.append_answers", True),
    "before publication": ("dpsql.books.releases.publication.store_tables", False),
    "after publication": ("dpsql.books.releases.publication.store_tables", True),
    "before the head knows the charge": ("dpsql.books.ledger.heads.write_head", False),
    "after it knows it": ("dpsql.books.ledger.heads.write_head", True),
    "before the head knows the publication": ("dpsql.books.ledger.heads.write_head", False, 2),
    "after it knows that": ("dpsql.books.ledger.heads.write_head", True, 2),
}


def die_at(where: str, *, after: bool, call: int = 1) -> None:
    """From now on, kill −9 before or after a function does its work, at that call of it."""
    owner, name = where.rsplit(".", 1)
    try:
        holder: Any = importlib.import_module(owner)
    except ModuleNotFoundError:
        module, kind = owner.rsplit(".", 1)
        holder = getattr(importlib.import_module(module), kind)
    whole = getattr(holder, name)

    calls = itertools.count(1)

    def dying(*arguments: Any, **named: Any) -> Any:
        last = next(calls) == call
        result = whole(*arguments, **named) if after or not last else None
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(holder, name, dying)


def killed_at_named_points(rounds: int) -> Outcome:
    """At each point, in a query and in a synthetic table."""
    outcome: Outcome = Counter()
    for _ in range(rounds):
        for where, after, *call in POINTS.values():
            for template in (QUERY, TABLE):
                with fresh() as bank:

                    def dies(
                        bank: Bank = bank,
                        where: str = where,
                        after: bool = after,
                        call: tuple[int, ...] = tuple(call),
                        what: str = template,
                    ) -> None:
                        with bank.open_() as db:
                            bank.ask(db, "first")
                            die_at(where, after=after, call=(*call, 1)[0])
                            bank.ask(db, "second", what)

                    ended = wait(child(dies))
                    wait(child(lambda bank=bank, what=template: goes_on(bank, "second", what)))
                    outcome[judged(bank) if ended == -signal.SIGKILL else "not killed"] += 1
    return outcome


def goes_on(bank: Bank, name: str, template: str = QUERY) -> None:
    """Ask as before the kill."""
    with bank.open_() as db:
        bank.ask(db, name, template)


def asks_on(bank: Bank, first: int = 0, count: int = 1000, began: Path | None = None) -> None:
    """Ask one thing after the other, first what was not told yet."""
    with bank.open_() as db:
        first = max(first, len(bank.told()) - 1)
        if began is not None:
            began.touch()
        for number in range(first, first + count):
            bank.ask(db, f"r{number}")


def killed_at_random_times(times: int) -> Outcome:
    """One bank after the other, each killed ten times while it works, and asked the same again each time."""
    outcome: Outcome = Counter()
    chance = random.Random(7)
    while sum(outcome.values()) < times:
        with fresh() as bank:
            for _ in range(min(10, times - sum(outcome.values()))):
                began = bank.folder / "began"
                began.unlink(missing_ok=True)
                number = child(lambda bank=bank, began=began: asks_on(bank, count=40, began=began))
                while not began.exists() and running(number):
                    time.sleep(0.005)
                time.sleep(chance.uniform(0.0, 0.5))
                kill(number)
                wait(number)
                wait(child(lambda bank=bank: asks_on(bank, count=2)))
                outcome[judged(bank)] += 1
    return outcome


# --- files ------------------------------------------------------------------------------------------------------------


def working(bank: Bank, first: int, count: int) -> None:
    """Ask, and be killed at the end: so the log is not written to the file."""
    with bank.open_() as db:
        for number in range(first, first + count):
            bank.ask(db, f"r{number}")
        os.kill(os.getpid(), signal.SIGKILL)


def damaged_logs(times: int) -> Outcome:
    """The write-ahead log cut, deleted or with a flipped byte, after three answers were told."""
    outcome: Outcome = Counter()
    chance = random.Random(11)
    with fresh() as bank:
        wait(child(lambda: working(bank, 0, 3)))
        kept = {path: path.read_bytes() for path in bank.folder.iterdir() if path.is_file()}
        log = Path(f"{bank.path}.wal")
        for number in range(times):
            for path in bank.folder.iterdir():
                path.unlink()
            for path, content in kept.items():
                path.write_bytes(content)
            content = bytearray(kept[log])
            if number % 10 == 0:
                log.unlink()
            elif number % 2:
                log.write_bytes(content[: chance.randrange(len(content))])
            else:
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
                log.write_bytes(content)
            outcome[judged(bank)] += 1
    return outcome


def restored_copies(times: int) -> Outcome:
    """An older copy of the database in place of the one that told more since: always refused."""
    outcome: Outcome = Counter()
    with fresh() as bank:
        copy = bank.folder.parent / f"{bank.folder.name}-copy"
        for number in range(times):
            wait(child(lambda number=number: asks_on(bank, number, 1)))
            shutil.copy(bank.path, copy)
            now = bank.folder / "now"
            wait(child(lambda number=number: asks_on(bank, number + 1, 1)))
            shutil.copy(bank.path, now)
            shutil.copy(copy, bank.path)
            outcome[judged(bank)] += 1
            shutil.copy(now, bank.path)
        copy.unlink()
    return outcome


def full_disks(times: int) -> Outcome:
    """A limit on the size of files, somewhere in the middle of the work; then none."""
    outcome: Outcome = Counter()
    chance = random.Random(13)
    for _ in range(times):
        with fresh() as bank:

            def limited(bank: Bank = bank) -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                room = bank.path.stat().st_size + chance.randrange(200_000)
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
                with bank.open_() as db:
                    for number in range(30):
                        with suppress(duckdb.Error):
                            bank.ask(db, f"r{number}")

            chance.random()
            wait(child(limited))
            wait(child(lambda bank=bank: asks_on(bank, count=32)))
            outcome[judged(bank)] += 1
    return outcome


def heads_that_cannot_be_written(times: int) -> Outcome:
    """A folder in the way of the head's new file: nothing is told until it is gone."""
    outcome: Outcome = Counter()
    for _ in range(times):
        with fresh() as bank:

            def blocked(bank: Bank = bank) -> None:
                with bank.open_() as db:
                    bank.ask(db, "first")
                    Path(f"{bank.path}.dpsql-head.{os.getpid()}.new").mkdir()
                    with suppress(duckdb.Error):
                        bank.ask(db, "second")

            wait(child(blocked))
            told = len(bank.told())
            outcome[judged(bank) if told == 1 else "told without a head"] += 1
    return outcome


NOBODY = 65_534


def read_only_disks(times: int) -> Outcome:
    """A folder and a database that this user cannot write: what was told can be read, and nothing else is told."""
    outcome: Outcome = Counter()
    for _ in range(times):
        with fresh() as bank:

            def locked(bank: Bank = bank) -> None:
                with bank.open_() as db:
                    bank.ask(db, "first")
                for path in (*bank.folder.iterdir(), bank.folder):
                    path.chmod(0o666 if path == bank.told_file else 0o555)
                if os.geteuid() == 0:  # who may write anything
                    os.seteuid(NOBODY)
                with suppress(duckdb.Error, DpsqlError), bank.open_() as db:
                    bank.ask(db, "second")
                with dpsql.connect(bank.path, read_only=True) as db:
                    bank.ask(db, "first")
                    with suppress(duckdb.Error):
                        bank.ask(db, "third")

            ended = wait(child(locked))
            bank.folder.chmod(0o755)
            for path in bank.folder.iterdir():
                path.chmod(0o644)
            outcome[judged(bank) if ended == 0 and len(bank.told()) == 1 else "told or not to be read"] += 1
    return outcome


# --- the work ---------------------------------------------------------------------------------------------------------


def too_little_memory(times: int) -> Outcome:
    """A limit on the address space while a table is fitted; then none."""
    outcome: Outcome = Counter()
    for number in range(times):
        with fresh() as bank:

            def limited(bank: Bank = bank, number: int = number) -> None:
                with bank.open_() as db:
                    bank.ask(db, "first")
                    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                    room = used + (number + 1) * 30_000_000
                    resource.setrlimit(resource.RLIMIT_AS, (room, room))
                    with suppress(duckdb.Error, MemoryError):
                        bank.ask(db, "second", TABLE)

            wait(child(limited))
            wait(child(lambda bank=bank: goes_on(bank, "second", TABLE)))
            outcome[judged(bank)] += 1
    return outcome


def interrupted_work(times: int) -> Outcome:
    """`Database.interrupt()` at random times, which ends the work within a second (late if not), and on again."""
    outcome: Outcome = Counter()
    for number in range(times):
        with fresh() as bank:
            late = bank.path.with_suffix(".late")

            def stopped(bank: Bank = bank, number: int = number, late: Path = late) -> None:
                with bank.open_() as db:
                    timer = threading.Timer(0.2 * (number + 1), db.interrupt)
                    began = time.monotonic()
                    timer.start()
                    with suppress(duckdb.Error):
                        bank.ask(db, "table", TABLE)
                    if timer.finished.is_set() and time.monotonic() - began > timer.interval + 1:
                        late.touch()
                    timer.join()
                    bank.ask(db, "table", TABLE)

            wait(child(stopped))
            outcome["late" if late.exists() else judged(bank)] += 1
    return outcome


class Jumping(datetime):
    """A clock that jumps by years, back and forth."""

    jumps = 0

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        """Anything."""
        Jumping.jumps += 1
        return datetime(2026, 1, 1, tzinfo=tz) + timedelta(days=(-1) ** Jumping.jumps * 4000)


def jumping_clocks(times: int) -> Outcome:
    """The clock decides nothing."""
    outcome: Outcome = Counter()
    for _ in range(times):
        with fresh() as bank:

            def jumps(bank: Bank = bank) -> None:
                importlib.import_module("dpsql.books.ledger.ledger").datetime = Jumping  # type: ignore[attr-defined]
                asks_on(bank, count=5)

            wait(child(jumps))
            outcome[judged(bank) if len(bank.told()) == 5 else "stopped"] += 1
    return outcome


def races(rounds: int) -> Outcome:
    """16 threads on a budget for 5, while another process tries to open the file."""
    outcome: Outcome = Counter()
    other = "import duckdb, sys\ntry: duckdb.connect(sys.argv[1])\nexcept duckdb.IOException: sys.exit(7)"
    for number in range(rounds):
        with fresh() as bank:

            def crowd(bank: Bank = bank, number: int = number) -> None:
                with bank.open_() as db:
                    lock, share = threading.Lock(), 0.98 * banks_share(db)
                    cursors = [db.connection.cursor() for _ in range(16)]

                    def ask(place: int) -> None:
                        call = QUERY.format(epsilon=share, name=f"r{place}")
                        with suppress(duckdb.Error):
                            cursors[place].execute(call).fetchall()
                            with lock, bank.told_file.open("a") as file:
                                file.write("x\n")

                    threads = [threading.Thread(target=ask, args=(place,)) for place in range(16)]
                    for thread in threads:
                        thread.start()
                    if number % 10 == 0:
                        opened = subprocess.run([sys.executable, "-c", other, str(bank.path)], check=False)
                        assert opened.returncode == 7
                    for thread in threads:
                        thread.join()
                    assert db.budget().epsilon_spent[0] <= 3.0
                    assert db.budget().releases[0] == 5

            ended = wait(child(crowd))
            outcome["whole" if ended == 0 and bank.told_file.read_text().count("x") == 5 else "wrong"] += 1
    return outcome


def banks_share(db: Any) -> float:
    """An ε of which 5 releases fit and 6 do not."""
    accounting = importlib.import_module("dpsql.privacy.accounting")
    return float(accounting.largest_epsilon(accounting.gaussian_gdp(3.0, 1e-6) / 5, 1e-6))


CAMPAIGN: dict[str, tuple[Callable[[int], Outcome], int, int]] = {
    f"killed at {len(POINTS)} named points, in queries and tables": (killed_at_named_points, 2, 1),
    "killed at random times": (killed_at_random_times, 200, 10),
    "write-ahead log cut, deleted, flipped": (damaged_logs, 200, 20),
    "older copy restored": (restored_copies, 20, 3),
    "disk full (limit on file sizes)": (full_disks, 20, 2),
    "head cannot be written": (heads_that_cannot_be_written, 10, 1),
    "disk that is read-only": (read_only_disks, 10, 1),
    "out of memory in the fit": (too_little_memory, 10, 1),
    "interrupted": (interrupted_work, 10, 1),
    "clock that jumps": (jumping_clocks, 5, 1),
    "16 threads on a budget for 5": (races, 100, 3),
}
"""What is done, how often in the campaign, and how often in its short form."""
assert banks.EPSILON > 0
