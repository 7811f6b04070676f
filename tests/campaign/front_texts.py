"""What hostile users send to a service: statements, values, cursors, settings, prepared statements and questions."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import psycopg

Functions = list[tuple[str, int]]
OPENING = [
    *(("(", ")"), ("[", "]"), ("{'a': ", "}"), ("(SELECT ", ")"), ("coalesce(", ", 1)"), ("list_value(", ")")),
    *(("CASE WHEN true THEN ", " END"), ("NOT ", ""), ("- ", ""), ("CAST(", " AS VARCHAR)"), ("abs(", ")")),
    *(
        ("1 + ", ""),
        ("", " || 'a'"),
        ("", "::JSON"),
        ("", "::VARIANT"),
        ("[x FOR x IN [", "]]"),
        ("1 BETWEEN 0 AND ", ""),
    ),
    *(("(WITH c AS (SELECT ", ") SELECT 1)"), ("EXISTS (SELECT ", ")"), ("", " UNION ALL SELECT 1"), ("$1 + ", "")),
    *(("list_transform([1], lambda x: ", ")"), ("struct_pack(a := ", ")"), ("/* ", " */ 1"), ("", "[1]"), ("", ".a")),
    *(("DECLARE c CURSOR FOR SELECT ", ""), ("IF(true, ", ", 2)"), ("(VALUES (", "))"), ("array_value(", ")")),
]
BUILT = {
    "nested": "(SELECT string_agg('[', '') || string_agg(']', '') AS s FROM range({n})) t",
    "objects": "(SELECT string_agg('{{\"a\":', '') || '1' || string_agg('}}', '') AS s FROM range({n})) t",
    "long": "(SELECT string_agg('ab', '') AS s FROM range({n})) t",
    "marks": "(SELECT string_agg(chr(769), '') || string_agg(chr(790), '') AS s FROM range({n})) t",
    "keys": "(SELECT '{{' || string_agg('\"k' || i || '\":' || i, ',') || '}}' AS s FROM range({n}) r(i)) t",
    "numbers": "(SELECT list(i) AS s FROM range({n}) r(i)) t",
}
CASTS = ["s", "s", "s", "s::JSON", "s::JSON::VARIANT", "s::BLOB", "string_split(s, 'a')", "s::VARCHAR"]
RECURSIVE = [
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT max(a) FROM r",
    "WITH RECURSIVE r AS (SELECT '[' AS a UNION ALL SELECT a || a FROM r) SELECT count(*) FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a FROM r, range({n})) SELECT count(*) FROM r",
    "WITH RECURSIVE r AS (SELECT [1] AS a UNION ALL SELECT list_concat(a, a) FROM r) SELECT count(*) FROM r",
]


DEEPEST = 5.0
"""Of the logarithm of a depth: 100,000 are more than any stack holds."""


def size(draw: random.Random) -> int:
    """How deep or long something is: a few are deeper than a stack."""
    return int(10 ** (draw.uniform(3, DEEPEST) if draw.random() < 0.01 else draw.uniform(0, 2.5)))


def statement(draw: random.Random, functions: Functions) -> str:
    """One text; most are cheap, a few end the process that reads them."""
    kind = draw.random()
    depth = size(draw)
    if kind < 0.80:
        opening, closing = draw.choice(OPENING)
        other, ending = draw.choice(OPENING)
        depth = min(depth, 99_000 // (len(opening + closing + other + ending) + 1))
        closed = depth if draw.random() < 0.8 else draw.randrange(depth + 1)
        return f"SELECT {(opening + other) * depth}1{(ending + closing) * closed}"
    if kind < 0.997:
        name, count = draw.choice(functions)
        built = BUILT[draw.choice(list(BUILT))].format(n=depth * draw.choices((1, 100, 3000), (0.98, 0.01, 0.01))[0])
        called = f"{name}({', '.join(draw.choice(CASTS) for _ in range(count))})"
        return f"SELECT {draw.choice(('length', 'typeof', 'json_valid', 'hash'))}({called}::VARCHAR) FROM {built}"
    return draw.choice(RECURSIVE).format(n=depth)


def value(draw: random.Random) -> Any:
    """A value of a parameter: most are short, a few take megabytes."""
    count = size(draw) * draw.choices((1, 10), (0.98, 0.02))[0]
    whole = "[" * (count // 2) + "]" * (count // 2)
    kinds: list[Callable[[], Any]] = [
        lambda: "a" * count,
        lambda: "\u0301\u0316" * (count // 2),
        lambda: whole,
        lambda: '{"a":' * (count // 6) + "1" + "}" * (count // 6),
        lambda: b"\0\xff" * (count // 2),
        lambda: [1] * (count // 4),
        lambda: ["x" * 10] * (count // 12),
        lambda: Decimal("9" * min(count, 100_000)),
        lambda: draw.choice([float("nan"), -(2**63), True, None, ""]),
    ]
    return draw.choice(kinds)()


PLACES = ["FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE", ""]
ZONES = [
    "#",
    "-#",
    "'+#:00'",
    "'<x>#'",
    "'Europe/Berlin'",
    "INTERVAL '#:00' HOUR TO MINUTE",
    "'v#'",
    "'a''; SELECT 1; --'",
]
USES = [
    "SELECT width_bucket($1, 0, 1, 10)",
    "SELECT width_bucket(1, $1::numeric[])",
    "SELECT 1 = ANY($1)",
    "SELECT current_setting($1), set_config($1, $1, false)",
    "SELECT length($1::VARCHAR)",
    "SELECT $1",
    "SELECT $1::VARCHAR::JSON::VARIANT::VARCHAR",
    "SELECT hash($1) + $2",
]


def parameters(connection: psycopg.Connection[Any], draw: random.Random, functions: Functions) -> None:
    """Values beside a statement, as texts or in binary."""
    sql, wanted = draw.choice(USES), 1
    if draw.random() < 0.5:
        name, wanted = draw.choice(functions)
        sql = f"SELECT {name}({', '.join(f'${n + 1}' for n in range(wanted))})"
    wanted = max(wanted, sql.count("$2") + 1)
    cursor = psycopg.RawCursor(connection)
    cursor.execute(sql.encode(), [value(draw) for _ in range(wanted)], binary=draw.random() < 0.5).fetchall()


def cursors(connection: psycopg.Connection[Any], draw: random.Random, functions: Functions) -> None:
    """Cursors of a transaction, of which some are declared in others, and some never closed."""
    connection.execute("BEGIN")
    try:
        for number in range(min(size(draw), draw.choice((1, 2, 3, 20)))):
            scroll = draw.choice(("", "SCROLL ", "NO SCROLL "))
            declared = f"DECLARE c{number} {scroll}CURSOR FOR " * draw.choice((1, 1, 1, min(size(draw), 2000)))
            connection.execute((declared + statement(draw, functions)).encode())
            place = f"{draw.choice(PLACES)} {draw.choice(('', '-', '+-'))}{size(draw)}"
            where = draw.choice((place, str(size(draw)), "ALL", "LAST", "PRIOR", "BACKWARD ALL", "ABSOLUTE 9999999999"))
            verb = draw.choice(("FETCH", "MOVE"))
            connection.execute(f"{verb} {where} FROM c{draw.randrange(number + 1)}".encode())
    finally:
        for last in (draw.choice((b"ROLLBACK", b"COMMIT", b"DISCARD ALL", b"CLOSE ALL")), b"ROLLBACK"):
            with suppress(psycopg.Error):
                connection.execute(last)


def settings(connection: psycopg.Connection[Any], draw: random.Random, _: Functions) -> None:
    """Settings that are known and unknown, long and many."""
    name = draw.choice(
        [
            "application_name",
            "datestyle",
            "search_path",
            "TimeZone",
            "role",
            "session_authorization",
            "work_mem",
            f"x{size(draw)}.y{size(draw)}",
            "a" * size(draw),
        ]
    )
    zone = draw.choice(ZONES).replace("#", str(size(draw)))
    with suppress(psycopg.errors.InvalidParameterValue):  # most are no zones
        connection.execute(f"SET {draw.choice(('', 'LOCAL '))}TIME ZONE {zone}".encode())
    connection.execute(b"SELECT now()::text, current_setting('TimeZone')").fetchall()
    connection.execute(f"SET {name} = '{'v' * min(size(draw) * 30, 90_000)}'".encode())
    connection.execute(draw.choice([b"RESET ALL", b"SHOW ALL", f"SHOW {name}".encode()])).fetchall()


def prepared(connection: psycopg.Connection[Any], draw: random.Random, functions: Functions) -> None:
    """A prepared statement with a name of its own, run several times, and seldom closed."""
    name = f"s{draw.randrange(200)}".encode()
    pgconn = connection.pgconn
    with connection.lock:
        made = pgconn.prepare(name, f"{statement(draw, functions)}, $1".encode())
        for _ in range(draw.randrange(4)):
            given = value(draw)
            pgconn.exec_prepared(name, [given.encode() if isinstance(given, str) else bytes(draw.randrange(9))])
        if made.status != psycopg.pq.ExecStatus.COMMAND_OK or draw.random() < 0.3:
            pgconn.exec_(b"DEALLOCATE " + name)


def question(connection: psycopg.Connection[Any], draw: random.Random, functions: Functions) -> None:
    """A free question to the keeper, of something that is deep."""
    inner = statement(draw, functions).removeprefix("SELECT ").replace("'", "''")
    sql = f"FROM dp_plan('SELECT count(*) AS n FROM t WHERE {inner} IS NULL', epsilon => 0.1)"
    connection.execute(sql[:99_000].encode()).fetchall()


def plain(connection: psycopg.Connection[Any], draw: random.Random, functions: Functions) -> None:
    """A statement."""
    connection.execute(statement(draw, functions).encode()).fetchall()


KINDS = {plain: 70, parameters: 12, prepared: 6, settings: 6, cursors: 4, question: 2}
"""What is sent, and how often in a hundred."""


def act(connection: psycopg.Connection[Any], draw: random.Random, functions: Functions) -> None:
    """Send something.

    Raises:
        psycopg.Error: it was refused, or ended the session.
    """
    (kind,) = draw.choices(list(KINDS), list(KINDS.values()))
    kind(connection, draw, functions)
