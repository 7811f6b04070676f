"""What the statements of a client's session share: channel, analyst, settings, and what is kept between messages."""

from __future__ import annotations

from dpsql.service.analyst import Analyst
from dpsql.service.options import Options

from .commands import Settings
from .failed import Failed
from .holdings import OF_A_SESSION, Holdings
from .messages import Channel, text


class SessionState:
    """See the module.

    Attributes:
        channel: to the client.
        analyst: who asks.
        holdings: bytes that the session keeps between messages.
        settings: of the session, and its transaction.
        reported_settings: settings that were reported, by name.
        subject: the statement that is being answered, as the client sent it.
    """

    def __init__(self, channel: Channel, analyst: Analyst, options: Options, of_user: Holdings) -> None:
        self.channel, self.analyst, self._most_rows = channel, analyst, options.most_rows
        self.holdings = Holdings(OF_A_SESSION, of_user)
        self.settings = Settings(options.statement_seconds, analyst.login.user)
        self.reported_settings: dict[str, str] = {}
        self.subject = ""

    def check_going_on(self) -> None:
        """Refuse all but the end of a transaction that has failed."""
        self.settings.check_going_on()

    def set_out(self) -> None:
        """A statement begins: it has the time, the time zone and the notices that the client has set."""
        self.analyst.seconds, self.analyst.zone = self.settings.seconds, self.settings.zone
        self.channel.shows_notices = self.settings.notices

    def report(self) -> None:
        """Tell the settings that changed, of those that clients hear of."""
        for name, value in self.settings.reported.items():
            if self.reported_settings.get(name) != value:
                self.channel.send(b"S", text(name) + text(value))
                self.reported_settings[name] = value

    def counted(self, count: int, more: int) -> int:
        """How many rows were sent with these; more than may be are an error."""
        if count + more > self._most_rows:
            raise Failed("54000", f"the statement has more than {self._most_rows} rows: ask for fewer with LIMIT")
        return count + more
