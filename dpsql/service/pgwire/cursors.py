"""Cursors of SQL: DECLARE, FETCH, MOVE and CLOSE. With SCROLL they go back, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dpsql.service.directory import Columns
from dpsql.service.tokens import first_word, tokens

from .cursor_words import Declared, Fetched, ahead, name_of
from .failed import Failed
from .messages import text
from .portals import Portal, Prepared
from .results import Formats
from .scrolling import Scroll
from .session_state import SessionState

if TYPE_CHECKING:
    from .commands import Values

_MOST: Final = 100
"""Cursors of a session: each may hold rows that were read."""
_MOST_SAVEPOINTS: Final = 1000


class Cursors:
    """The cursors of a session. A cursor's query runs at its first FETCH, which chooses the format of its rows."""

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self._open: dict[str, tuple[Declared, Portal]] = {}
        self._scrolls: dict[str, Scroll] = {}
        self._new: set[str] = set()
        self._savepoints: list[tuple[str, frozenset[str], Values]] = []
        """Their names, and the cursors that were open at each, and the settings."""

    def declare(self, declared: Declared, prepared: Prepared, parameters: list[object]) -> None:
        """Make one."""
        session = self._session
        session.check_going_on()
        if session.settings.transaction != "T" and not declared.hold:
            raise Failed(
                "25P01", "DECLARE CURSOR can only be used in transaction blocks: say BEGIN first, or WITH HOLD"
            )
        if declared.name in self._open:
            raise Failed("42P03", f'cursor "{declared.name}" already exists')
        if len(self._open) >= _MOST:
            raise Failed("54000", f"{_MOST} cursors are open: CLOSE some")
        session.set_out()
        session.analyst.columns(session.analyst.check(prepared.sql), parameters or None)  # what is wrong is told now
        session.holdings.keep(("cursor", declared.name), declared.name, declared.query, prepared.sql, parameters)
        portal = Portal(prepared, parameters, Formats())
        self._open[declared.name] = declared, portal
        if declared.scrolls:
            self._scrolls[declared.name] = Scroll(portal, ("rows", declared.name))
        if session.settings.transaction == "T":
            self._new.add(declared.name)
        session.channel.send(b"C", text("DECLARE CURSOR"))

    def columns(self, name: str) -> Columns | None:
        """The columns of a cursor, which does not run for that; None if there is none of the name."""
        if name not in self._open:
            return None
        portal = self._open[name][1]
        if portal.execution is not None:
            return portal.columns
        analyst = self._session.analyst
        return analyst.columns(analyst.check(portal.prepared.sql), portal.parameters or None)

    def fetch(self, fetched: Fetched, formats: Formats, *, describes: bool) -> None:
        """Send rows of a cursor.

        Args:
            fetched: how many, and of which.
            formats: of the rows.
            describes: whether the description of the rows comes first.
        """
        session, portal = self._session, self._portal(fetched.name)
        if portal.execution is None:
            portal.formats = formats
        portal.start(session)
        codes = [forms.of(n, kind) for forms in (portal.formats, formats) for n, (_, kind) in enumerate(portal.columns)]
        if not fetched.moves and codes[: len(portal.columns)] != codes[len(portal.columns) :]:
            raise Failed("0A000", "a cursor keeps the format of its first FETCH: declare another one")
        if describes and not fetched.moves:
            session.channel.send(b"T", formats.description(portal.columns))
        scroll = self._scrolls.get(fetched.name)
        if scroll is not None:
            count = scroll.fetch(session, fetched)
        else:
            over, most = ahead(fetched, portal.sent)
            portal.send(session, over, shown=False)
            count, _ = portal.send(session, most, shown=not fetched.moves)
        session.channel.send(b"C", text(f"{'MOVE' if fetched.moves else 'FETCH'} {count}"))

    def _portal(self, name: str) -> Portal:
        if name not in self._open:
            raise Failed("34000", f'cursor "{name}" does not exist')
        return self._open[name][1]

    def end(self, sql: str) -> bool:
        """Obey a CLOSE; whether it was one."""
        words = [word for kind, word in tokens(sql) if kind != "space"] if first_word(sql) == "CLOSE" else []
        if len(words) != 2:
            return False
        if words[1].upper() == "ALL":
            self.close()
        else:
            self._portal(name_of(words[1]))
            self._end(name_of(words[1]))
        self._session.channel.send(b"C", text("CLOSE CURSOR"))
        return True

    def savepoint(self, tag: str, name: str) -> None:
        """Make one, release one, or go back to one: what failed since then is over, and cursors since then end.

        Raises:
            Failed: there is none of the name, no transaction, or it has failed.
        """
        session = self._session
        if session.settings.transaction == "I":
            raise Failed("25P01", f"{tag} can only be used in transaction blocks: say BEGIN first")
        if tag != "ROLLBACK":
            session.check_going_on()
        if tag == "SAVEPOINT":
            if len(self._savepoints) >= _MOST_SAVEPOINTS:
                raise Failed("54000", f"{_MOST_SAVEPOINTS} savepoints are there: RELEASE some")
            self._savepoints.append((name, frozenset(self._open), session.settings.of_now()))
            return
        places = [place for place, (other, *_) in enumerate(self._savepoints) if other == name]
        if not places:
            raise Failed("3B001", f'savepoint "{name[:60]}" does not exist')
        if tag == "RELEASE":
            del self._savepoints[places[-1] :]
            return
        del self._savepoints[places[-1] + 1 :]
        for cursor in [open_name for open_name in self._open if open_name not in self._savepoints[-1][1]]:
            self._end(cursor)
            self._new.discard(cursor)
        session.settings.transaction = "T"
        session.settings.back_to(self._savepoints[-1][2])

    def discard(self) -> None:
        """End all that a session has, for the next client of a pool.

        Raises:
            Failed: a transaction is open.
        """
        self._session.check_going_on()
        if self._session.settings.transaction != "I":
            raise Failed("25001", "DISCARD ALL cannot run inside a transaction block")
        self._session.settings.reset()
        self.close()

    def ended(self, *, committed: bool) -> None:
        """A transaction ended: so do its cursors, but those WITH HOLD if it was `committed`."""
        for name, (declared, _) in list(self._open.items()):
            if not declared.hold or (not committed and name in self._new):
                self._end(name)
        self._new.clear()
        self._savepoints.clear()

    def close(self) -> None:
        """End all."""
        for name in list(self._open):
            self._end(name)

    def _end(self, name: str) -> None:
        self._session.holdings.drop(("cursor", name))
        self._session.holdings.drop(("rows", name))
        self._scrolls.pop(name, None)
        self._open.pop(name)[1].close()
