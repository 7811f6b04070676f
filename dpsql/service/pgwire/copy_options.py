"""The options of COPY, in PostgreSQL's grammar: those in parentheses, and the older ones without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dpsql.errors import InvalidArgument
from dpsql.service.tokens import Token

_TRUE, _FALSE = ("true", "on", "1"), ("false", "off", "0")
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ALONE: Final = ("binary", "csv", "header")
"""Older options that have no value."""
_VALUED: Final = ("delimiter", "null", "quote", "escape", "encoding")
_LIKE_VALUES: Final = "\\.abcdefghijklmnopqrstuvwxyz0123456789"
"""Signs that are no delimiters of texts, because they have another meaning there."""


@dataclass(frozen=True)
class Options:
    """What a COPY says of its format.

    Attributes:
        form: `text`, `csv` or `binary`.
        delimiter: between the values.
        null: for NULL.
        header: whether names come first.
        quote: around values of csv.
        escape: before a quote in one.
        force: columns that are always quoted.
        force_all: whether all are.
    """

    form: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'
    force: frozenset[str] = field(default_factory=frozenset)
    force_all: bool = False


def options(words: Sequence[Token]) -> Options:
    """Of the words behind `TO STDOUT WITH`, without spaces.

    Raises:
        InvalidArgument: PostgreSQL has no such option, not this value of it, or not both of two.
    """
    items = _in_parentheses(words) if words and words[0][1] == "(" else _older(words)
    given: dict[str, list[Token]] = {}
    for name, value in items:
        if name in given:
            raise InvalidArgument(f"COPY's option {name[:60]} is given twice")
        given[name] = value
    form = _text("format", given.pop("format")).lower() if "format" in given else "text"
    if form not in ("text", "csv", "binary"):
        raise InvalidArgument(f"COPY's format is {form[:60]!r}: text, csv and binary are served")
    return _checked(_read(form, given), {*given})


def _read(form: str, given: dict[str, list[Token]]) -> Options:
    defaults = Options(form, ",", "") if form == "csv" else Options(form)
    values: dict[str, str] = {}
    header, force, force_all = False, frozenset[str](), False
    for name, value in given.items():
        if name == "header":
            header = _switch(name, value)
        elif name == "force_quote":
            force_all = [text for _, text in value] == ["*"]
            force = frozenset() if force_all else _columns(value)
        elif name in _VALUED:
            values[name] = _text(name, value)
        elif name != "freeze" or _switch(name, value):
            raise InvalidArgument(f"COPY … TO STDOUT has no option {name[:60]!r}")
    quote = values.get("quote", defaults.quote)
    if values.pop("encoding", "utf8").upper().replace("-", "") not in ("UTF8", "UNICODE"):
        raise InvalidArgument("COPY's encoding is another one: only UTF8 is served")
    return Options(
        form,
        values.get("delimiter", defaults.delimiter),
        values.get("null", defaults.null),
        header,
        quote,
        values.get("escape", quote),
        force,
        force_all,
    )


def _checked(read: Options, given: set[str]) -> Options:
    """The options, if they go together as PostgreSQL says."""
    wrong = ""
    csv_only = given & {"quote", "escape", "force_quote"}
    if read.form == "binary" and given & {"delimiter", "null", "header"}:
        wrong = "binary has neither delimiter, null nor header"
    elif csv_only and read.form != "csv":
        wrong = f"{min(csv_only)} is an option of csv"
    elif any(len(sign.encode()) != 1 or sign in "\r\n\0" for sign in (read.delimiter, read.quote, read.escape)):
        wrong = "delimiter, quote and escape are a single byte each, and no end of a line"
    elif any(sign in read.null for sign in "\r\n\0"):
        wrong = "null holds no end of a line"
    elif read.form == "text" and read.delimiter in _LIKE_VALUES:
        wrong = f"the delimiter of texts is not {read.delimiter!r}"
    elif read.delimiter in read.null or (read.form == "csv" and read.quote in (*read.null, read.delimiter)):
        wrong = "delimiter, quote and null exclude each other"
    if wrong:
        raise InvalidArgument(f"COPY cannot be so: {wrong}")
    return read


def _in_parentheses(words: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    if words[-1][1] != ")" or len(words) < 3:
        raise InvalidArgument("COPY's options in parentheses are name value, name value, …")
    items: list[list[Token]] = [[]]
    depth = 0
    for kind, text in words[1:-1]:
        if kind == "other":
            depth += (text == "(") - (text == ")")
        if depth == 0 and text == "," and kind == "other":
            items.append([])
        else:
            items[-1].append((kind, text))
    if depth or not all(item and item[0][0] == "word" for item in items):
        raise InvalidArgument("COPY's options in parentheses are name value, name value, …")
    return [(item[0][1].lower(), item[1:]) for item in items]


def _older(words: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    """`CSV HEADER DELIMITER AS ';'`, in any order."""
    items: list[tuple[str, list[Token]]] = []
    place = 0
    while place < len(words):
        name = words[place][1].lower()
        place += 1
        if name in _ALONE:
            items.append((name, []) if name == "header" else ("format", [("word", name)]))
        elif name in _VALUED:
            place += [text.lower() for _, text in words[place : place + 1]] == ["as"]
            items.append((name, [*words[place : place + 1]]))
            place += 1
        elif name == "force" and [text.lower() for _, text in words[place : place + 1]] == ["quote"]:
            end = place + 2
            while [text for _, text in words[end : end + 1]] == [","]:
                end += 2
            items.append(("force_quote", [*words[place + 1 : end]]))
            place = end
        else:
            raise InvalidArgument(f"COPY … TO STDOUT has no option {name[:60]!r}")
    return items


def _text(name: str, value: Sequence[Token]) -> str:
    """A value that is a text, or a word."""
    if len(value) != 1:
        raise InvalidArgument(f"COPY's option {name} has one value")
    kind, text = value[0]
    if kind == "text" and text[:1] in "eE":
        return _unescaped(text[2:-1].replace("''", "'"))
    if kind == "text" and text[:1] == "'":
        return text[1:-1].replace("''", "'")
    if kind == "quoted":
        return text[1:-1].replace('""', '"')
    if kind in ("word", "number"):
        return text.lower()
    raise InvalidArgument(f"COPY's option {name} is a text: write it as '…'")


def _unescaped(text: str) -> str:
    parts = text.split("\\")
    shown = [parts.pop(0)]
    while parts:
        part = parts.pop(0)
        if part:
            shown.append(_ESCAPES.get(part[0], part[0]) + part[1:])
        else:  # two in a row
            shown.append("\\" + (parts.pop(0) if parts else ""))
    return "".join(shown)


def _switch(name: str, value: Sequence[Token]) -> bool:
    if not value:
        return True
    word = _text(name, value).lower()
    if word not in (*_TRUE, *_FALSE):
        raise InvalidArgument(f"COPY's option {name} is {word[:60]!r}: say true or false")
    return word in _TRUE


def _columns(value: Sequence[Token]) -> frozenset[str]:
    """Names parted by commas, in parentheses or not."""
    inner = value[1:-1] if value and value[0][1] == "(" and value[-1][1] == ")" else value
    names = [(kind, text) for kind, text in inner if text != ","]
    if not names or not all(kind in ("word", "quoted") for kind, _ in names):
        raise InvalidArgument("COPY's option force_quote is (column, column) or *")
    return frozenset(_text("force_quote", [name]) for name in names)
