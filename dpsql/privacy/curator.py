"""The trusted kernel: the only part that sees private counts.

A mechanism holds a `Curator` and asks it questions, each with a share of the ρ that was charged, of the kinds that it
declared (see `dpsql.privacy.pricing`). What it hands over is copied to plain numbers first, for it is not believed. The
curator debits the share, then counts, adds exact noise, writes the answer to the journal, and only then returns it. So
the privacy proof of a mechanism is the list of its questions: their ρ and their g (see `dpsql.privacy.accounting`) add
up to at most the charge.

Answers already in the journal (of a run that was interrupted or killed) are returned again, at no cost, as long as the
mechanism asks the same questions in the same order. Nothing that was not journalled has been seen by anyone, so asking
afresh what is missing spends what was charged for it.
"""

from __future__ import annotations

from dpsql.privacy.discovery import Discoveries
from dpsql.privacy.linear import LinearQueries
from dpsql.privacy.rounds import Rounds


class Curator(Rounds, LinearQueries, Discoveries):
    """Answers every kind of question about one protected table, each in a file of its own, all by one `Asking`."""
