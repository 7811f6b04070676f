"""`OnServer`: the part of an external engine whose rows are on a server, and do not leave it."""

from __future__ import annotations

from typing import ClassVar, Generic, NoReturn

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.engines.costs import Rates
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.named_by_host import NamedByHost
from dpsql.engines.sessions import Sessions, SessionT
from dpsql.engines.source import Source
from dpsql.engines.sql.failures import NotCounted


class OnServer(NamedByHost, Generic[SessionT]):
    """Counts by sessions of the server, which are ended together; see `dpsql.engines.external.ExternalEngine`."""

    rates: ClassVar[Rates]

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self._sessions: Sessions[SessionT] = Sessions()

    def draw(self, source: Source, target: str, share: float, secret: str, by: str | None) -> NoReturn:
        """Not here: no row leaves."""
        raise NotCounted(
            f"sample: no row of {source.name!r} leaves {self.rates.label}, so no sample of it can be kept here"
        )

    def codes(self, source: Source, domain: Domain, most: int) -> tuple[npt.NDArray[np.int32], int]:
        """See `Engine.codes`; refused where no statement of the server fetches codes.

        Raises:
            NotCounted: it is.
        """
        raise NotCounted(
            f"the rows of {source.name!r} do not leave {self.rates.label}, so nothing is compared with them row by "
            "row: copy the table into a database of yours, and evaluate there"
        )

    def interrupt(self) -> None:
        """See `Engine.interrupt`."""
        self._sessions.interrupt()

    def close(self) -> None:
        """See `Engine.close`."""
        self._sessions.close()
