"""Passes bytes between clients and the processes of their users: one thread, for all of them.

It holds a piece of what each client sends and is sent, and no more: who reads nothing, or sends without end, takes no
memory. It knows where messages end, so that it can say why a session ends in the middle of nothing.
"""

from __future__ import annotations

import json
import os
import queue
import selectors
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from . import wire
from .audit import Audit
from .pgwire.messages import error_message
from .served import PULSE
from .workers import AUDIT, BEAT, ENDED, LATE, LEAVE, TOO_LATE, Worker, Workers, too_many_audits

_PIECE: Final = 1 << 17
_ROUNDS: Final = 8
"""In which one client is served before the others are."""
_TICK_SECONDS: Final = 0.5
SEND_SECONDS: Final = 60.0
"""In which a client must take something of what it is sent: who reads nothing keeps a place that others want."""
_GOODBYE_SECONDS: Final = 1.0
_HEAD: Final = 5
_MORE, _WHOLE, _OVER = b"m", b"w", b"Z"
_BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Pair:
    """A client, and the session of theirs in the process of their user.

    Attributes:
        client: TLS; of Quack, plain.
        inner: to the process.
        number: of the session.
        worker: the process.
        gone: whether it is over.
        is_broken: whether the process has ended in the middle of it.
    """

    def __init__(self, client: socket.socket, inner: socket.socket, number: int, worker: Worker) -> None:
        self.client, self.inner, self.number, self.worker = client, inner, number, worker
        client.setblocking(False)
        inner.setblocking(False)
        self._to_client, self._to_worker = bytearray(), bytearray()
        self._head = bytearray()
        self._left, self._whole = 0, True
        self._ends = float("inf")
        self._took = time.monotonic()
        self._is_leaving = False
        self.gone = self.is_broken = False

    @property
    def wants(self) -> tuple[int, int]:
        """What to wait for: of the client, and of the process."""
        client = (0 if self._to_worker or self._is_leaving else _READ) | (_WRITE if self._to_client else 0)
        inner = (0 if self._to_client or self._is_leaving else _READ) | (_WRITE if self._to_worker else 0)
        return client, inner

    def pump(self) -> bool:
        """Pass on what can be; whether there may be more now."""
        for _ in range(_ROUNDS):
            if self.is_broken and not self._is_leaving:
                return False
            moved = self._leave() if self._is_leaving else self._upwards() | self._downwards()
            if self.gone or not moved:
                return False
        return True

    def say_goodbye(self, code: str, words: str) -> None:
        """End it, with a reason where a message may begin."""
        if self._is_leaving or self.gone:
            return
        self._is_leaving = True
        self._ends = time.monotonic() + _GOODBYE_SECONDS  # who reads nothing holds nobody up
        if self._whole:
            self._to_client += self._goodbye(code, words)

    def _goodbye(self, code: str, words: str) -> bytes:
        return error_message("FATAL", code, words)

    def look(self, now: float) -> None:
        """End it where the client takes nothing, or the goodbye takes too long."""
        if now > self._ends or (self._to_client and now - self._took > SEND_SECONDS):
            self.end()

    def end(self) -> None:
        """It is over."""
        if not self.gone:
            self.gone = True
            with suppress(OSError):  # the client hears of the end, whatever is unread
                socket.socket.shutdown(self.client, socket.SHUT_RDWR)

    def _leave(self) -> bool:
        moved = self._flush(self.client, self._to_client)
        if not self._to_client:
            if isinstance(self.client, ssl.SSLSocket):
                with suppress(OSError, ValueError):
                    self.client.unwrap()
            self.end()
        return moved

    def _upwards(self) -> bool:
        """From the client to the process."""
        moved = False
        if not self._to_worker:
            data = self._received(self.client)
            if data is None:
                self.end()
                return False
            self._to_worker += data
            moved = bool(data)
        return moved | self._flush(self.inner, self._to_worker)

    def _downwards(self) -> bool:
        """From the process to the client."""
        moved = False
        if not self._to_client and not self.gone:
            data = self._received(self.inner)
            if data is None:
                self._hear_end()
                return self._is_leaving
            moved = bool(data)
            if data:
                self._take(data)
        return moved | self._flush(self.client, self._to_client)

    def _hear_end(self) -> None:
        """The process ended without a word."""
        self.is_broken = True

    def _take(self, received: bytes) -> None:
        """Take what the process said out of its frames."""
        place, data = 0, memoryview(received)
        while place < len(data) and not self._is_leaving:
            if not self._left:
                more = min(_HEAD - len(self._head), len(data) - place)
                self._head += data[place : place + more]
                place += more
                if len(self._head) < _HEAD:
                    return
                kind, self._left = bytes(self._head[:1]), int.from_bytes(self._head[1:], "big")
                self._head.clear()
                if kind == _OVER:
                    self._is_leaving, self._ends = True, time.monotonic() + SEND_SECONDS
                    return
                self._is_last = kind == _WHOLE
                self._whole = False
            more = min(self._left, len(data) - place)
            self._to_client += data[place : place + more]
            place, self._left = place + more, self._left - more
            if not self._left:
                self._whole = self._is_last

    _is_last = True

    def _received(self, source: socket.socket) -> bytes | None:
        """What there is; nothing where there is nothing now, None where there will be no more."""
        try:
            return source.recv(_PIECE) or None
        except _BLOCKED:
            return b""
        except (OSError, ValueError):
            return None

    def _flush(self, sink: socket.socket, buffer: bytearray) -> bool:
        if not buffer or self.gone:
            return False
        try:
            sent = sink.send(buffer)
        except _BLOCKED:
            return False
        except (OSError, ValueError):
            sent = 0
            buffer.clear()
            if sink is self.client:
                self.end()
        del buffer[:sent]
        self._took = time.monotonic()
        return sent > 0


class Relay(threading.Thread):
    """The thread that passes bytes on, and hears what the processes say.

    Args:
        audit: where their events go, as those of the user whose process it is.
        over: told of each pair that is over.
    """

    def __init__(self, audit: Audit, over: Callable[[Pair], None]) -> None:
        super().__init__(daemon=True)
        self._audit, self._over = audit, over
        self._selector = selectors.DefaultSelector()
        self._pairs: set[Pair] = set()
        self._ready: set[Pair] = set()
        self._waiting: deque[Callable[[], None]] = deque()
        self._hear, self._bell = socket.socketpair()
        for end in (self._hear, self._bell):
            end.setblocking(False)
        self._selector.register(self._hear, _READ, None)
        self._events: queue.SimpleQueue[tuple[Worker, Any]] = queue.SimpleQueue()
        self.workers: Workers | None = None

    # --- from other threads -----------------------------------------------------------------------------------------

    def add(self, pair: Pair) -> None:
        """Serve a pair from now on."""
        self._call(lambda: self._begin(pair))

    def watch(self, worker: Worker) -> None:
        """Hear what a process says."""
        self._call(lambda: self._selector.register(worker.line, _READ, worker) and None)

    def dismiss(self, pair: Pair, code: str, words: str) -> None:
        """End a pair, and say why."""
        self._call(lambda: self._dismiss(pair, code, words))

    def _call(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        with suppress(BlockingIOError):
            self._bell.send(b".")

    # --- the thread -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until the process ends, which this thread's failure is."""
        threading.Thread(target=self._write_events, daemon=True).start()
        last = 0.0
        try:
            while True:
                events = self._selector.select(0 if self._ready else _TICK_SECONDS)
                ready, self._ready = self._ready, set()
                for key, _ in events:
                    if isinstance(key.data, Pair):
                        ready.add(key.data)
                    elif key.data is None:
                        self._hear.recv(4096)
                    else:
                        self._heard(key.data)
                while self._waiting:
                    self._waiting.popleft()()
                for pair in ready:
                    self._serve(pair)
                if time.monotonic() - last > _TICK_SECONDS:
                    last = time.monotonic()
                    self._look(last)
        except BaseException as error:  # without this thread nobody is served: the supervisor starts another front
            sys.stderr.write(f"dpsql: the front's relay ended: {type(error).__name__}: {error}\n")
            os._exit(1)

    def _begin(self, pair: Pair) -> None:
        self._pairs.add(pair)
        self._serve(pair)  # TLS may have read ahead

    def _serve(self, pair: Pair) -> None:
        if pair.gone:
            self._finish(pair)
            return
        if pair.pump():
            self._ready.add(pair)
        if pair.is_broken and not pair.gone:
            self._heard(pair.worker)  # it may have said why
            pair.say_goodbye(*pair.worker.reason)
            pair.pump()
        if pair.gone:
            self._finish(pair)
            return
        for end, wanted in zip((pair.client, pair.inner), pair.wants, strict=True):
            registered = self._selector.get_map().get(end.fileno())
            if wanted and registered is None:
                self._selector.register(end, wanted, pair)
            elif not wanted and registered is not None:
                self._selector.unregister(end)
            elif registered is not None and registered.events != wanted:
                self._selector.modify(end, wanted, pair)

    def _finish(self, pair: Pair) -> None:
        if pair not in self._pairs:
            return
        self._pairs.discard(pair)
        self._ready.discard(pair)
        for end in (pair.client, pair.inner):
            with suppress(KeyError, ValueError):
                self._selector.unregister(end)
            end.close()
        self._over(pair)

    def _dismiss(self, pair: Pair, code: str, words: str) -> None:
        pair.say_goodbye(code, words)
        self._serve(pair)

    def _look(self, now: float) -> None:
        for pair in list(self._pairs):
            pair.look(now)
            if pair.gone:
                self._finish(pair)
        if self.workers is not None:
            self.workers.look()

    # --- what processes say -----------------------------------------------------------------------------------------

    def _heard(self, worker: Worker) -> None:
        if worker.dead:
            return
        try:
            data = worker.line.recv(_PIECE)
            frames = worker.frames.feed(data)
        except BlockingIOError:
            return
        except (OSError, wire.Lost):
            data, frames = b"", []
        for kind, payload in frames:
            try:
                self._obey(worker, kind, json.loads(payload))
            except Exception:  # whatever it was: what a process says that was broken into ends that process alone
                data = b""
        if not data and not worker.dead:
            worker.kill()
            self._selector.unregister(worker.line)
            assert self.workers is not None
            self.workers.died(worker)

    def _obey(self, worker: Worker, kind: bytes, value: Any) -> None:
        assert self.workers is not None
        if kind == AUDIT:
            worker.audits += 1
            if too_many_audits(worker):
                raise ValueError(worker.audits)
            self._events.put((worker, {**value, "user": worker.user}))
        elif kind == BEAT:
            worker.beats(value)
        elif kind == ENDED:
            self.workers.ended(worker, int(value))
        elif kind == LATE:
            worker.reason = TOO_LATE
        elif kind == LEAVE:
            number, code, words = value
            for pair in [pair for pair in self._pairs if pair.worker is worker and pair.number == number]:
                self._dismiss(pair, str(code), str(words))

    def _write_events(self) -> None:
        """In a thread of its own, because a disk may be slow: a process waits for the answer."""
        while True:
            worker, event = self._events.get()
            try:
                if worker.user != PULSE:
                    self._audit(event)
                words = ""
            except Exception as error:
                words = str(error) or type(error).__name__
            worker.audits -= 1
            with suppress(wire.Lost):
                worker.tell(AUDIT, words)
