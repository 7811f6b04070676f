"""Make a file of `statements` from the log of a real PostgreSQL, to which a program spoke.

    python -m tests.service.recorded LOG 'Ibis 12.0, backend postgres' LOGIN > tests/service/statements/ibis.sql

LOGIN connects to that server, such as `host=localhost dbname=postgres`. It logs all statements
(`log_statement = 'all'`), as the one of the tests does. It has a table `main.shown` with some of the columns of the
tests' own. Its database is called `dpsql` in the file, and parameters are written into their statements.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg

_ENTRY = re.compile(r"^\d{4}-\d\d-\d\d \S+ \w+ \[\d+\] (LOG|DETAIL|ERROR|STATEMENT):  ")
_STATEMENT = re.compile(r"(?:statement|execute [^:]+): (.*)", re.DOTALL)
_PARAMETER = re.compile(r"\$(\d+) = ('(?:[^']|'')*'|NULL)")
_READS = ("select", "with", "show", "(select")
_COMMENT = re.compile(r"/\*.*?\*/|(?:^|(?<=\s))--(?=\s).*?$", re.DOTALL | re.MULTILINE)


def entries(log: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each entry; lines after its first begin with a tab."""
    kind, lines = "", []
    for line in log.splitlines():
        if begin := _ENTRY.match(line):
            yield kind, "\n".join(lines)
            kind, lines = begin[1], [line[begin.end() :]]
        elif not line.startswith("2"):
            lines.append(line.removeprefix("\t"))
    yield kind, "\n".join(lines)


def statements(log: str) -> list[str]:
    """What reads, once each, in its order."""
    made: list[str] = []
    for kind, text in entries(log):
        if kind == "LOG" and (statement := _STATEMENT.match(text)):
            made.append(_COMMENT.sub("", statement[1]).strip().rstrip(";").strip())
        elif kind == "DETAIL" and text.startswith("parameters: ") and made:
            made[-1] = _with_values(made[-1], dict(_PARAMETER.findall(text)))
    return list(dict.fromkeys(one for one in made if one.lower().startswith(_READS)))


def _with_values(sql: str, values: dict[str, str]) -> str:
    return re.sub(r"\$(\d+)", lambda number: values[number[1]], sql)


def main(log: str, title: str, login: str) -> None:
    """Print the file; the columns are those that PostgreSQL gives."""
    print(f"-- {title}.\n-- Recorded from the program, which spoke to PostgreSQL, by tests/service/recorded.py.")
    print("-- What reads is here, once, with its parameters and without comments. What PostgreSQL refused is left out.")
    with psycopg.connect(login, autocommit=True) as connection:
        for sql in statements(Path(log).read_text(encoding="utf-8")):
            try:
                columns = [column.name for column in connection.execute(sql.encode()).description or ()]
            except psycopg.Error:  # the program asks for what this PostgreSQL has not
                continue
            named = re.sub(r"(['\"])postgres\1", r"\1dpsql\1", sql)
            lines = (line.rstrip() for line in named.splitlines() if line.strip())
            print(f"-- columns: {', '.join(columns)}", *lines, ";", sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
