"""What `dpsql audit show` prints: who asked what when, at which ε, and what was decided; a line for each question.

The keeper's log has each dp_* call once, with the answer to it or the refusal; the others have statements, refusals and
logins. A statement that only looks into the catalogue, as programs do all the time, is left out. One that calls a dp_*
function stands for itself by its calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dpsql.api.plain_table import plain_table
from dpsql.core.roles import CHARGING

from .tables_read import reads_catalogue_alone

COLUMNS: Final = ("time", "user", "question", "epsilon", "decision")
_NOT_ASKED: Final = frozenset({"answered", "login"})
"""Events that ask nothing."""
_STOPPED: Final = "Interrupted"
"""The reason of a call that its user stopped."""
_MOST: Final = 100
"""Characters of a question and of a decision."""
_LEAST: Final = 12
"""The same in a narrow terminal."""
Event = Mapping[str, Any]


def table(events: Iterable[Event], *, charges: bool = False, width: int | None = None) -> str:
    """The events as a table, oldest first.

    Args:
        events: of the log, each process' in its order.
        charges: only calls that charge, if they were not answered before.
        width: of the terminal, into which questions and decisions are cut; None where nobody looks.
    """
    ordered = sorted(events, key=lambda logged: str(logged.get("time")))
    pairs = zip(ordered, _ends(ordered), strict=True)
    rows = [row for event, end in pairs if (row := _row(event, end, charges=charges))]
    return plain_table(COLUMNS, rows if width is None else _fitted(rows, width), "nothing was asked")


def _fitted(rows: Sequence[tuple[object, ...]], width: int) -> list[tuple[object, ...]]:
    """The rows with questions and decisions cut, so that lines fit; each has half the room where both are long."""
    fixed = len(str(plain_table(COLUMNS, [(*row[:2], "", row[3], "") for row in rows], "")).partition("\n")[0])
    left = width - fixed + len(COLUMNS[2]) + len(COLUMNS[4])
    longest = [max((len(str(row[place])) for row in rows), default=0) for place in (2, 4)]
    of_decision = min(longest[1], max(left // 2, left - longest[0], _LEAST))
    of_question = max(left - of_decision, _LEAST)
    return [(*row[:2], _short(str(row[2]), of_question), row[3], _short(str(row[4]), of_decision)) for row in rows]


def _ends(events: Sequence[Event]) -> list[Event]:
    """The end of each call, which is the next one with its number and its user; of other events an empty one.

    Logs of before have numbers that came again when the service was started again.
    """
    later: dict[tuple[str, str, str], Event] = {}
    ends: list[Event] = []
    for event in reversed(events):
        end: Event = {}
        kind = event.get("event")
        subject = "call" if "call" in event else "statement"
        key = (subject, str(event.get(subject)), str(event.get("user")))
        if kind == subject:
            end = later.pop(key, end)
        elif kind in ("answered", "refused") if subject == "call" else event.get("bound"):
            later[key] = event
        ends.append(end)
    return ends[::-1]


def _row(event: Event, end: Event, *, charges: bool) -> tuple[object, ...] | None:
    """The line of an event; None where it has none."""
    kind = str(event.get("event"))
    head = (str(event.get("time", ""))[:19].replace("T", " "), event.get("user"))
    if kind == "call" or (kind == "refused" and "function" in event and "call" not in event):
        if charges and (_function(event) not in CHARGING or event.get("stored")):
            return None
        return (*head, _short(_question(event)), _epsilon(event), _short(_decision(event, end)))
    if charges or (kind == "refused" and ("call" in event or event.get("bound"))):
        return None
    if kind == "statement":
        statement = str(event.get("statement", ""))
        is_look_up = event.get("catalogue") is True or reads_catalogue_alone(statement)
        return None if is_look_up else (*head, _short(statement), None, _short(_decision(end, end) or "run"))
    if kind == "refused":
        return (*head, _short(str(event.get("statement", ""))), None, _short(f"refused: {event.get('reason')}"))
    if kind in _NOT_ASKED:
        return None
    request_text = (
        _command(str(event["request"])) if "request" in event else str(event.get("reason", event.get("address", "")))
    )
    return (*head, _short(request_text), None, kind)


def _command(request: str) -> str:
    """What the owner did, as a call: limit(alice, visits, 1.0)."""
    try:
        fields = json.loads(request)
        given = fields["arguments"].values()
        return f"{fields['method']}({', '.join(str(value) for value in given)})"
    except (ValueError, KeyError, TypeError, AttributeError):  # a log of before
        return request


def _function(event: Event) -> str:
    return str(event.get("function"))


def _question(event: Event) -> str:
    """What a call asks: the query, or the function with the table."""
    arguments = event.get("arguments")
    given = dict(arguments) if isinstance(arguments, Mapping) else {}
    if "sql" in given:
        return str(given["sql"])
    about = given.get("table", given.get("release", ""))
    return f"{_function(event)}({about})"


def _epsilon(event: Event) -> object:
    arguments = event.get("arguments")
    return arguments.get("epsilon") if isinstance(arguments, Mapping) and _function(event) in CHARGING else None


def _decision(event: Event, end: Event) -> str:
    end = event if event.get("event") == "refused" else end
    if end.get("event") == "refused" and end.get("reason") == _STOPPED:
        return "stopped; what was charged stands" if "call" in end else "stopped before a charge"
    if end.get("event") == "refused":
        return f"refused: {end.get('reason')}"
    if end.get("event") != "answered":
        return "no answer in the log" if "call" in event else ""  # before, a log did not have the answers
    if _function(event) not in CHARGING:
        return "answered, free"
    return "answered again, free" if event.get("stored") else "answered"


def _short(text: str, most: int = _MOST) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
