"""An empty database in memory, where expressions that users write run on public domains and released values.

No table, macro or file of anyone's is there, and what a function may be called is checked first, so that an expression
can neither meet a private row nor look around.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import duckdb
import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ErrorLevel, SqlglotError, UnsupportedError

from dpsql.core.functions import Trait as T
from dpsql.core.functions import callable_with, having
from dpsql.errors import DpsqlError, Interrupted, InvalidQuery
from dpsql.evaluation.workers import Died, Empty, Worker, worker_of_thread
from dpsql.language.size_bounds import LAVISH, check_levels, check_sizes, refuse_lavish
from dpsql.language.written import kept_words, own_words
from dpsql.runtime.progress import Progress, polling, should_stop

_BARE_WORDS: Final = frozenset(
    """current_date current_time current_timestamp localtime localtimestamp current_user session_user current_role
    current_schema current_catalog""".split()  # noqa: SIM905
)
_OF_TODAY: Final = _BARE_WORDS | having(T.CLOCK)
_TODAY: Final = "; write the date or the time itself, as in DATE '2024-06-30'"
_WRITTEN_ONLY: Final = frozenset({"if", "ifnull"})  # that DuckDB's parser knows
_TAKEN: Final = T.WIDTH | T.SQUARE | T.PAIRS | T.CODES | T.ZONE | T.MEMBERS | T.UNTRIED_IN_VIEWS
"""Traits of functions that are called where the process may die alone, the zone is one, and no ENUM is anybody's."""
_LONGEST_PARSED, _DEEPEST_PARSED = 20_000, 500  # characters, and parentheses
_LONGEST: Final = 30.0  # seconds that the expressions of one call may take
_BEFORE_PARENTHESES: Final = frozenset(  # words that are no functions
    """and any array as between case cast coalesce date decimal distinct else end escape extract from ilike in interval
    is like not nullif numeric or row struct then time timestamp to try_cast varchar when where select exists""".split()  # noqa: SIM905
)


class TooLong(InvalidQuery):
    """To try the expressions takes more time than a call has."""


@contextmanager
def empty_database() -> Iterator[Empty]:
    """A new empty database, so that nothing that one expression might leave behind is there for another.

    It is in a process of its own, which may die: see `dpsql.evaluation.workers`. Inside `one_empty_database` that of
    the steps before.
    """
    shared: _Shared | None = getattr(_thread, "shared", None)
    progress: Progress | None = getattr(_thread, "progress", None)
    with ExitStack() as own:
        stack = own if shared is None else shared.stack
        if shared is None or shared.empty is None:
            worker = stack.enter_context(worker_of_thread(progress))
            with _watched(worker, progress):
                empty = worker.open()
            stack.callback(_close, empty, progress)
            if shared is not None:
                shared.empty = empty
        else:
            empty = shared.empty
        with _watched(empty.worker, progress):
            yield empty


def _close(empty: Empty, progress: Progress | None) -> None:
    with _watched(empty.worker, progress):
        empty.close()


@contextmanager
def stopped_by(progress: Progress) -> Iterator[None]:
    """What this thread evaluates meanwhile ends when `progress` says so."""
    before, _thread.progress = getattr(_thread, "progress", None), progress
    try:
        yield
    finally:
        _thread.progress = before


@contextmanager
def one_limit() -> Iterator[None]:
    """All steps of what this thread looks up inside share the time of one: see `_LONGEST`."""
    if getattr(_thread, "used", None) is not None:  # inside another
        yield
        return
    _thread.used = 0.0
    try:
        yield
    finally:
        _thread.used = None


@contextmanager
def _watched(worker: Worker, progress: Progress | None) -> Iterator[None]:
    """What runs inside ends, with its process, at the user's wish, and after some time."""
    used: float | None = getattr(_thread, "used", None)
    began, interrupted = time.monotonic() - (used or 0.0), threading.Event()

    def is_late() -> bool:
        return time.monotonic() - began > _LONGEST

    def interrupt() -> None:
        interrupted.set()
        worker.kill()

    try:
        with polling(lambda: is_late() or (progress is not None and should_stop(progress)), interrupt):
            yield
    except (duckdb.Error, DpsqlError) as error:  # as a statement's error, or as what was made of it
        if interrupted.is_set() and is_late():
            raise TooLong(
                f"query: to try its expressions on all values takes more than {_LONGEST:.0f} seconds: say less, "
                "or declare coarser domains"
            ) from None
        if interrupted.is_set():
            raise Interrupted from None
        if isinstance(error, Died):
            raise InvalidQuery(f"query: {error}") from None
        raise
    finally:
        if used is not None:
            _thread.used = time.monotonic() - began


@dataclass
class _Shared:
    """The database that the steps of one query share.

    Attributes:
        stack: what ends with the query.
        empty: the database, once a step needed it.
    """

    stack: ExitStack
    empty: Empty | None = None


@contextmanager
def one_empty_database() -> Iterator[None]:
    """The steps of one query share an empty database, opened by the first that needs it: it takes 10 milliseconds."""
    if getattr(_thread, "shared", None) is not None:  # inside another
        yield
        return
    with ExitStack() as stack:
        _thread.shared = _Shared(stack)
        try:
            yield
        finally:
            _thread.shared = None


_thread: Final = threading.local()


def _forget() -> None:
    """In a process that was forked: a database that its parent had open is not its own."""
    _thread.shared = _thread.used = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def check_syntax(text: str, what: str = "query", error_of: type[DpsqlError] = InvalidQuery, instead: str = "") -> None:
    """Refuse a text that DuckDB cannot parse, in DuckDB's words, which point to the place. It is parsed, never run.

    Args:
        text: SQL.
        what: it is.
        error_of: the error's class.
        instead: what is said below DuckDB's words.

    Raises:
        DpsqlError: of that class, with the message of DuckDB's parser.
    """
    if len(text) > _LONGEST_PARSED or text.count("(") > _DEEPEST_PARSED:  # so that no parser runs out of room
        return
    with empty_database() as empty:
        try:
            empty.parse(text)
        except Died:
            raise error_of(f"{what}: nested too deeply") from None
        except duckdb.ParserException as error:
            deep = "expression depth" in str(error)  # whose advice is a setting, which dpsql does not follow
            reason = "nested too deeply" if deep else "\n\n".join(filter(None, (str(error).rstrip(), instead)))
            raise error_of(f"{what}: {reason}") from None


@lru_cache(maxsize=1)
def plain_functions() -> frozenset[str]:
    """The names, in lower case, of DuckDB's own functions that depend on their arguments alone.

    Both DuckDB and a list of ours say so: a function that nobody has looked at is none.
    Since DuckDB 2.0.1 those of zoned times say that they depend on a setting, the time zone, which is one for all
    evaluations. So do those that give a time a zone.
    """
    sql = (
        "SELECT lower(function_name) FROM duckdb_functions() GROUP BY 1 "
        "HAVING bool_and(internal AND function_type = 'scalar' AND (stability = 'CONSISTENT' OR stability = "
        "'CONSISTENT_WITHIN_QUERY' AND (list_contains($zoned, lower(function_name)) OR list_has_any(parameter_types, "
        "['TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ_NS', 'TIME WITH TIME ZONE']))))"
    )
    with duckdb.connect() as connection:  # no text of anyone's is in it
        rows = connection.execute(sql, {"zoned": sorted(having(T.ZONE))}).fetchall()
    return frozenset(name for (name,) in rows) & callable_with(_TAKEN)


@lru_cache(maxsize=1)
def _plain_macros() -> frozenset[str]:
    """DuckDB's other names for expressions of plain functions: `nvl(x, y)` is `coalesce(x, y)`.

    They are called by what people wrote only, to compare it with what is evaluated.
    """
    sql = (
        "SELECT lower(function_name), string_agg(macro_definition, ' ') FROM duckdb_functions() "
        "WHERE internal AND function_type = 'macro' GROUP BY 1"
    )
    with duckdb.connect() as connection:
        definitions = dict(connection.execute(sql).fetchall())
    plain_words, before = _WRITTEN_ONLY | plain_functions(), 0
    while len(plain_words) > before:
        before = len(plain_words)
        plain = (name for name, words in definitions.items() if _calls_only(words, plain_words))
        plain_words = plain_words.union(plain)
    return plain_words & callable_with(_TAKEN | T.SYNTAX | T.UNTRIED_IN_EXPRESSIONS) - plain_functions()


def _calls_only(definition: str, plain_words: frozenset[str]) -> bool:
    return foreign_word(sqlglot.tokenize(definition, read="duckdb"), plain_words) is None


_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_expressions(trees: Sequence[exp.Expr]) -> None:
    """Refuse expressions that are not what they look like, call what is not plain, or hold a query.

    Some nodes are written out as they came, without quotes: they must be single words. What is written out is then
    parsed again, and must be the same expressions: so no text of a user's can break out of its place.

    Raises:
        InvalidQuery: with the reason.
    """
    check_sizes(trees)
    for tree in trees:
        for node in tree.walk():
            raw = node.name if isinstance(node, exp.Var | exp.Anonymous) else ""
            own = isinstance(node, exp.DataType) and node.is_type(exp.DataType.Type.USERDEFINED)
            if (raw and not _WORD.fullmatch(raw)) or own or isinstance(node, exp.Query | exp.Subquery | exp.Table):
                shown = node.sql(dialect="duckdb")
                raise InvalidQuery(f"query: {shown[:80]} is not supported in an expression")
    _check_words([words for tree in trees for _, words in kept_words(tree)])
    select = exp.select(exp.Literal.number(0), *(exp.Paren(this=tree.copy()) for tree in trees))
    try:
        text = select.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError:
        shown = "; ".join(own_words(tree) for tree in trees)
        raise InvalidQuery(
            f"query: {shown[:200]} has an argument that DuckDB's function does not take: leave it out"
        ) from None
    try:
        again = sqlglot.parse(text, read="duckdb")
    except (SqlglotError, RecursionError):
        again = []
    read = again[0] if len(again) == 1 else None
    same = isinstance(read, exp.Select) and len(read.expressions) == len(trees) + 1
    if not same or read is None or read.sql(dialect="duckdb") != text or read.find(exp.Table, exp.Subquery) is not None:
        raise InvalidQuery("query: an expression reads differently when it is written out again: say it more plainly")
    if {name for name, value in read.args.items() if value} != {"expressions"}:
        raise InvalidQuery("query: an expression reads differently when it is written out again: say it more plainly")
    _refuse_foreign(foreign_word(sqlglot.tokenize(text, read="duckdb")))


def _check_words(written: Sequence[str]) -> None:
    """Refuse what people wrote where it calls, under a name that sqlglot may translate, what is no plain function."""
    for words in dict.fromkeys(written):
        _refuse_foreign(foreign_word(sqlglot.tokenize(words, read="duckdb"), plain_functions() | _plain_macros()))


_WORDS_AROUND: Final = frozenset(
    "over filter by having qualify on sets rollup cube exclude rename group".split()  # noqa: SIM905
)
"""Words before parentheses in a query, beside those in an expression."""


_FUNCTIONS_AROUND: Final = "scalar functions, and aggregates of one value,"


@lru_cache(maxsize=1)
def functions_around() -> frozenset[str]:
    """What a query around released answers may call: beside plain functions aggregates that show one value."""
    aggregates = having(T.AGGREGATE) & callable_with(T.AGGREGATE | T.SYNTAX | T.UNTRIED_IN_VIEWS)
    return plain_functions() | _plain_macros() | aggregates | {"grouping"}


def check_around(words: str, groups: Sequence[tuple[str, int]]) -> None:
    """Refuse a query around released answers that calls what depends on more than its arguments, or could be too large.

    Args:
        words: the query.
        groups: names of the answers' columns, and the most characters of each.

    Raises:
        InvalidQuery: with the function, or the part.
    """
    (tree,) = sqlglot.parse(words, read="duckdb")
    assert isinstance(tree, exp.Select)
    check_levels(tree, groups)
    tokens = sqlglot.tokenize(words, read="duckdb")
    before = (TokenType.ALIAS, TokenType.R_PAREN)  # what stands there is a name, which may have columns behind it
    called = [token for place, token in enumerate(tokens) if not place or tokens[place - 1].token_type not in before]
    _refuse_foreign(foreign_word(called, functions_around() | _WORDS_AROUND), _FUNCTIONS_AROUND)


def _refuse_foreign(foreign: str | None, functions: str = "scalar functions") -> None:
    if foreign is not None and foreign.removesuffix("(…)") in LAVISH:
        refuse_lavish(foreign.removesuffix("(…)"))
    if foreign is not None:
        raise InvalidQuery(
            f"query: {foreign} cannot be used: expressions may call DuckDB's own {functions} whose result depends "
            f"on their arguments alone{_TODAY if foreign.removesuffix('(…)') in _OF_TODAY else ''}"
        )


def foreign_word(tokens: Sequence[Token], plain_words: frozenset[str] | None = None) -> str | None:
    """A word that calls what may change from one moment to the next, or is not DuckDB's own; None if there is none."""
    plain = [token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) for token in tokens]
    called = set()
    for place, token in enumerate(tokens):
        word = token.text.lower()
        calls = place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.L_PAREN
        if plain[place] and not calls and word in _BARE_WORDS:
            return word
        named = token.token_type is TokenType.IDENTIFIER or (plain[place] and word.replace("_", "a").isalnum())
        if calls and named and not word[0].isdigit() and not (plain[place] and word in _BEFORE_PARENTHESES):
            called.add(word)
    return next(
        (f"{word}(…)" for word in sorted(called - (plain_functions() if plain_words is None else plain_words))), None
    )
