"""How long a cancel takes: `python -m tests.benchmarks.service_cancel [--times 20] [--shared FOLDER]`.

One user synthesizes Adult over psycopg, each time anew. The first is cancelled while it compiles. Then each stage is
cancelled as it begins, then random moments are. Printed is the time from the cancel to the error, by stage.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import psycopg

import dpsql
from tests.benchmarks.service_load import made

CALL = "SELECT count(*) FROM dp_synthesize('adult', epsilon => 0.5, steps => 60, release => '{}')"


class Fit:
    """A fit of a user's, and the stages that its notices tell."""

    def __init__(self, connection: psycopg.Connection, release: str) -> None:
        self.connection, self.release = connection, release
        self.stage, self.stages, self.began = "looking up", ["looking up"], time.monotonic()
        self.changed = threading.Condition()
        connection.add_notice_handler(self.hear)

    def hear(self, said: psycopg.errors.Diagnostic) -> None:
        words = " ".join(word for word in (said.message_primary or "").split() if not word.isdigit() and word != "of")
        with self.changed:
            if words != self.stage:
                self.stage = words
                self.stages.append(words)
                self.changed.notify_all()

    def cancelled(self, moment) -> tuple[str, float] | None:
        """Run it, and cancel when `moment` returns; the stage then and the seconds, None if it had ended."""
        self.stage, told = "looking up", []
        ended = threading.Event()

        def cancel() -> None:
            if moment(self, ended) and not ended.is_set():
                told.append((self.stage, time.monotonic()))
                self.connection.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            self.connection.execute(CALL.format(self.release))
        except psycopg.errors.QueryCanceled:
            return told[0][0], time.monotonic() - told[0][1]
        finally:
            ended.set()
            with self.changed:
                self.changed.notify_all()
            thread.join()
        return None


def at_stage(stage: str, later: float = 0.0):
    def moment(fit: Fit, ended: threading.Event) -> bool:
        with fit.changed:
            while fit.stage != stage and not ended.is_set():
                fit.changed.wait(0.1)
        return not ended.wait(later)

    return moment


def after(seconds: float):
    def moment(fit: Fit, ended: threading.Event) -> bool:
        return not ended.wait(seconds)

    return moment


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[3] / "shared")
    options = parser.parse_args()
    took, draw = defaultdict(list), random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        path, tokens = made(Path(folder), options.shared / "data")
        with dpsql.serve(str(path), port=0) as service:
            where = f"host=127.0.0.1 port={service.port} dbname=dpsql user=user0 password={tokens['user0']}"
            with psycopg.connect(f"{where} sslmode=require", autocommit=True) as connection:
                took["compiling"].append(Fit(connection, "cold").cancelled(at_stage("fitting", 1.0))[1])
                for name in ("first", "second"):  # the second is compiled
                    whole, began = Fit(connection, name), time.monotonic()
                    connection.execute(CALL.format(name))
                    seconds = time.monotonic() - began
                moments = [at_stage(stage) for stage in dict.fromkeys(whole.stages[1:])]
                moments += [after(draw.random() * seconds) for _ in range(options.times)]
                for number, moment in enumerate(moments):
                    found = Fit(connection, f"stopped{number}").cancelled(moment)
                    took["ended before" if found is None else found[0]].append(0.0 if found is None else found[1])
    print(f"a fit takes {seconds:.0f} s; stages: {', '.join(dict.fromkeys(whole.stages))}")
    print(f"{'cancelled at':40} {'times':>5} {'p50 s':>7} {'max s':>7}")
    for stage, found in took.items():
        print(f"{stage:40} {len(found):5} {sorted(found)[len(found) // 2]:7.2f} {max(found):7.2f}")
    every = [one for stage, found in took.items() if stage != "ended before" for one in found]
    print(f"all: {len(every)}, the longest {max(every):.2f} s, {sum(one > 1 for one in every)} took more than a second")


if __name__ == "__main__":
    main()
