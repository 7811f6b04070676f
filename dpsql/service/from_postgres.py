"""What is spelled otherwise in several places of a statement at once, before its words are respelled one by one.

"pg_catalog"."pg_class"              pg_catalog.pg_class: a schema's name means the same in quotation marks
"dpsql"."main"."t"                   main.t: there is one database
x = ANY(ARRAY(SELECT …))             x = ANY(SELECT …)
FROM generate_series(1, 3) AS i      … AS i(i): the one column of a function is called as its alias
CAST(CAST(x AS REGCLASS) AS OID)     pgx.to_regclass(CAST(x AS REGCLASS))
p.oid = t.typreceive                 … t.typreceive_oid: it is a name and a number in PostgreSQL
FROM t AS at                         … AS "at": before TIME alone it is a word of the language there
substring(t FROM 'a(.)')             pgx.substring_matching(t, 'a(.)'): a pattern, and no number
date '0044-03-15 BC'                 date '0044-03-15 (BC)': DuckDB 2.0 reads the year as one after Christ
TABLESAMPLE SYSTEM (10)              … (10 PERCENT): a number alone is one of rows there
extract(second FROM t)               pgx.extract_second(t), which has parts of seconds, and other parts likewise
"""

from __future__ import annotations

import re
from typing import Final

from .tokens import Token, word_places

DATABASE: Final = "dpsql"
PROCEDURES: Final = ("typinput", "typoutput", "typreceive", "typsend")
"""Columns of pg_type that are functions."""
AS_NUMBER: Final = "_oid"
"""What the name of such a column's number ends with."""
_SCHEMAS: Final = frozenset({"pg_catalog", "information_schema"})
_PLACES: Final = _SCHEMAS | {"main"}
"""Schemas that are there always. One of released tables is known by where it stands."""
_CLAUSES: Final = frozenset(
    [
        "select",
        "from",
        "where",
        "group",
        "order",
        "having",
        "limit",
        "offset",
        "window",
        "union",
        "except",
        "intersect",
        "on",
    ]
)
_BEFORE: Final = frozenset({"from", ",", "join", "lateral"})
_ROWS: Final = frozenset({"generate_series", "string_to_array", "string_to_table", "regexp_split_to_table", "unnest"})
_KEYS: Final = frozenset({"json_object_keys", "jsonb_object_keys"})
_SECONDS: Final = frozenset({"second", "seconds", "sec", "secs", "s"})
_MILLISECONDS: Final = frozenset({"millisecond", "milliseconds", "msec", "msecs", "ms"})
"""Parts of a time, as both spell them."""
_MOMENTS: Final = frozenset({"date", "timestamp", "timestamptz"})
_BEFORE_CHRIST: Final = re.compile(r"'\s*(\d+-\d+-\d+)([ T][-+\d:.]+)?\s*BC\s*'", re.ASCII | re.IGNORECASE)
_SAMPLES: Final = frozenset({"bernoulli", "system"})
"""Ways to take a sample that both have."""
_COMPARED: Final = frozenset({"=", "!", "<", ">"})


def prepared(sql_tokens: list[Token]) -> list[Token]:
    """The tokens, with what is said above done."""
    words = word_places(sql_tokens)
    done = list(sql_tokens)
    ends = closing(sql_tokens, words)
    within = clauses(sql_tokens, words)
    texts = [sql_tokens[place][1].lower() for place in words]
    for at, place in enumerate(words):
        kind, text = sql_tokens[place]
        name = text.strip('"').lower()
        ahead, before = [*texts[at + 1 : at + 4], "", "", ""], texts[at - 1] if at else ""
        if name in _SCHEMAS and kind == "quoted" and ahead[0] == ".":
            done[place] = ("word", name)
        elif (
            name == DATABASE
            and ahead[0] == ahead[2] == "."
            and before != "."
            and (ahead[1].strip('"') in _PLACES or (within[at] == "from" and before in _BEFORE))
        ):
            done[place] = done[words[at + 1]] = ("space", "")
        elif name == "any" and ahead[:3] == ["(", "array", "("] and texts[at + 4 : at + 5] in (["select"], ["with"]):
            last = ends.get(at + 3)
            if last is not None:
                done[words[at + 2]] = done[words[at + 3]] = done[words[last]] = ("space", " ")
        elif (
            name in _ROWS | _KEYS and kind == "word" and ahead[0] == "(" and within[at] == "from" and before in _BEFORE
        ):
            _name_column(done, words, texts, ends.get(at + 1))
        elif name == "cast" and kind == "word" and _is_number_of_name(texts, at, ends):
            last = ends[at + 1]
            done[place] = ("word", "pgx.to_regclass")
            done[words[last - 2]] = done[words[last - 1]] = ("space", " ")
        elif kind == "text" and (moment := _BEFORE_CHRIST.fullmatch(text)) and _is_moment(texts, at):
            done[place] = (kind, f"'{moment[1]} (BC){moment[2] or ''}'")
        elif name == "at" and kind == "word" and ahead[0] not in ("time", "local"):
            done[place] = ("quoted", '"at"')
        elif name == "substring" and kind == "word" and ahead[0] == "(":
            _match(done, words, texts, at, ends.get(at + 1))
        elif name == "extract" and kind == "word" and ahead[0] == "(" and ahead[2] == "from":
            _extract(done, words[at : at + 4])
        elif name == "tablesample" and ahead[0] in _SAMPLES and ends.get(at + 2) == at + 4:
            done[words[at + 4]] = ("other", " PERCENT)")
        elif name in PROCEDURES and kind == "word" and _is_number(texts, at):
            done[place] = ("word", f"{name}{AS_NUMBER}")
    return done


def _is_moment(texts: list[str], at: int) -> bool:
    """Whether a text is cast to a date or a moment, or stands behind such a type."""
    before, behind = texts[max(at - 6, 0) : at], texts[at + 1 : at + 4]
    casts = behind[:1] in (["::"], ["as"]) and not _MOMENTS.isdisjoint(word.strip('"') for word in behind[1:])
    return (
        casts
        or before[-1:] in (["date"], ["timestamp"], ["timestamptz"], ["zone"])
        or before[-4:-2] == ["timestamp", "("]
    )


def closing(sql_tokens: list[Token], words: list[int]) -> dict[int, int]:
    """Where each parenthesis is closed."""
    open_at: list[int] = []
    ends = {}
    for at, place in enumerate(words):
        if sql_tokens[place][1] == "(":
            open_at.append(at)
        elif sql_tokens[place][1] == ")" and open_at:
            ends[open_at.pop()] = at
    return ends


def clauses(sql_tokens: list[Token], words: list[int]) -> list[str]:
    """The clause that each word is in."""
    within, outer, now, before = [], [], "", ""
    for place in words:
        kind, text = sql_tokens[place]
        if text == "(":
            outer.append(now)
            now = ""
        elif text == ")":
            now = outer.pop() if outer else ""
        elif kind == "word" and text.lower() in _CLAUSES and before != "distinct":
            now = text.lower()
        before = text.lower()
        within.append(now)
    return within


def _name_column(done: list[Token], words: list[int], texts: list[str], end: int | None) -> None:
    """Call the column of a table function as its alias, if it has one and no names of columns."""
    if end is None:
        return
    at = end + 2 if texts[end + 1 : end + 2] == ["as"] else end + 1
    if at >= len(words) or texts[at + 1 : at + 2] == ["("]:
        return
    kind, text = done[words[at]]
    ends = (*texts[at + 1 : at + 2], "")[0]
    if kind in ("word", "quoted") and ends in ("", ",", ")", "where", "group", "order", "limit", "cross", "join", ";"):
        done[words[at]] = (kind, f"{text}({text})")


def _extract(done: list[Token], places: list[int]) -> None:
    """Call ours: its name is `extract`, too, and seconds have their parts."""
    call, _, part, following = places
    name = done[part][1].strip("'").lower()
    if not name.isalpha():
        return
    own = "second" if name in _SECONDS else "millisecond" if name in _MILLISECONDS else ""
    done[call] = ("word", f"pgx.extract_{own or 'of'}")
    done[part] = ("space", "") if own else ("text", f"'{name}'")
    done[following] = ("space", " ") if own else ("other", ",")


def _match(done: list[Token], words: list[int], texts: list[str], at: int, end: int | None) -> None:
    """Call ours where a part is said by a pattern, which is written out."""
    if end is not None and end > at + 4 and texts[end - 2] == "from" and done[words[end - 1]][0] == "text":
        done[words[at]] = ("word", "pgx.substring_matching")
        done[words[end - 2]] = ("other", ",")


def _is_number_of_name(texts: list[str], at: int, closing: dict[int, int]) -> bool:
    """Whether it is CAST(CAST(… AS REGCLASS) AS OID)."""
    inner = closing.get(at + 3, 0)
    return (
        texts[at + 1 : at + 4] == ["(", "cast", "("]
        and texts[inner - 2 : inner] == ["as", "regclass"]
        and texts[inner + 1 : inner + 4] == ["as", "oid", ")"]
        and closing.get(at + 1) == inner + 3
    )


def _is_number(texts: list[str], at: int) -> bool:
    """Whether a function's name is compared with a number, or with the number of an object."""
    start = at - 2 if at > 1 and texts[at - 1] == "." else at
    if start > 1 and texts[start - 1] in _COMPARED and (texts[start - 2] == "oid" or texts[start - 2].isdecimal()):
        return True
    following = at + 1
    while following < len(texts) and texts[following] in _COMPARED:
        following += 1
    if following == at + 1 or following >= len(texts):
        return False
    return texts[following].isdecimal() or [*texts[following + 1 : following + 3]] == [".", "oid"]
