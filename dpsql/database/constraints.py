"""Constraints in SQL: check a predicate, find the tuples that it allows, and settle values inside bins.

A predicate runs on the public domain and on synthetic rows, never on private ones:

    tuples(c1, c2, …)  =  the product of the columns' codes, decoded into the source's types at one place of each bin
    allowed            =  SELECT tuple FROM tuples WHERE coalesce(predicate, TRUE)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.constraint import ANCHORS, MOST_TUPLES, Allowed, Constraint, components
from dpsql.database.catalog import Source
from dpsql.database.encoding import decode
from dpsql.domain import Attribute, Domain
from dpsql.errors import DpsqlError, InvalidArgument

_LONGEST: Final = 100_000
_REDRAWS: Final = 20
_NOT_IN_A_ROW: Final = (exp.Query, exp.AggFunc, exp.Window, exp.Placeholder, exp.Parameter, exp.SessionParameter)


def parse_predicate(cursor: duckdb.DuckDBPyConnection, source: Source, predicate: str) -> Constraint:
    """Check that a predicate is one about the columns of one row.

    Raises:
        InvalidArgument: not SQL, a query inside, a volatile function, or no column named.
        UnknownName: a column that the source does not have.
    """
    shown = predicate if len(predicate) <= 80 else predicate[:77] + "…"
    if len(predicate) > _LONGEST:
        raise InvalidArgument(f"predicate has {len(predicate)} characters, more than {_LONGEST}")
    try:
        tree = sqlglot.parse_one(f"SELECT {predicate}", read="duckdb")
        tokens = sqlglot.tokenize(predicate, read="duckdb")
    except (SqlglotError, RecursionError):
        raise InvalidArgument(
            f"predicate is {shown!r}, which is not an SQL expression: say for example 'sick OR cost = 0'"
        ) from None
    alone = isinstance(tree, exp.Select) and len(tree.expressions) == 1
    if not alone or {key for key, value in tree.args.items() if value} != {"expressions"}:
        raise InvalidArgument(f"predicate is {shown!r}: say one expression, without SELECT or WHERE")
    expression = tree.expressions[0]
    refused = next(expression.find_all(*_NOT_IN_A_ROW), None)
    volatile = _volatile(cursor, {token.text.lower() for token in tokens})
    columns = {}
    for column in expression.find_all(exp.Column):
        columns[column.name.lower()] = source.column(column.name).name
        column.set("table", None)
    if refused is not None or volatile - set(columns):
        what = ", ".join(sorted(volatile)) if refused is None else refused.sql(dialect="duckdb")
        raise InvalidArgument(f"predicate: {what} is not about one row alone: use its columns, constants and functions")
    if not columns:
        raise InvalidArgument(f"predicate is {shown!r}, which names no column of {source.name!r}")
    ordered = tuple(column.name for column in source.columns if column.name in set(columns.values()))
    return Constraint(expression.sql(dialect="duckdb", comments=False), ordered)


def _volatile(cursor: duckdb.DuckDBPyConnection, words: set[str]) -> set[str]:
    """Those words that name functions whose result may change, or that act on something."""
    sql = "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE stability IS DISTINCT FROM 'CONSISTENT'"
    sql += " AND function_type = 'scalar' AND list_contains(?, lower(function_name))"
    found = {name for (name,) in cursor.execute(sql, [sorted(words)]).fetchall()}
    return found | (words & {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})


def find_allowed(
    cursor: duckdb.DuckDBPyConnection, source: Source, domain: Domain, constraints: Sequence[Constraint]
) -> list[Allowed]:
    """What the constraints allow in a domain; one that names a column left out of the domain does not apply.

    Raises:
        InvalidArgument: a predicate fails on the domain, nothing is allowed, or there are too many tuples to try.
    """
    known = {*domain.names, *(attribute.name for attribute in domain.excluded)}
    applicable = [constraint for constraint in constraints if known.issuperset(constraint.columns)]
    return [_allowed(cursor, source, domain, part) for part in components(applicable)]


def _allowed(cursor: duckdb.DuckDBPyConnection, source: Source, domain: Domain, part: Sequence[Constraint]) -> Allowed:
    columns = {name for constraint in part for name in constraint.columns}
    attributes = [attribute for attribute in domain if attribute.name in columns]
    excluded = [attribute for attribute in domain.excluded if attribute.name in columns]
    predicates = tuple(constraint.predicate for constraint in part)
    shape = [attribute.size for attribute in attributes]
    tuples = math.prod(shape)
    if tuples > MOST_TUPLES:
        raise InvalidArgument(
            f"the constraints on {', '.join(a.name for a in attributes)} belong together and span {tuples} tuples of "
            f"values, more than {MOST_TUPLES}: state them over fewer or coarser columns"
        )
    codes = np.stack(np.unravel_index(np.arange(tuples), shape), axis=1) if shape else np.zeros((1, 0), np.int64)
    anchors = np.full(tuples, -1)
    for number, place in enumerate(ANCHORS):
        frame = _frame(attributes, codes, np.full(tuples, place))
        holds = _holds(cursor, source, [*attributes, *excluded], predicates, frame)
        anchors[holds & (anchors < 0)] = number
    kept = anchors >= 0
    if not kept.any():
        raise InvalidArgument(
            f"no values of the declared domain satisfy {' AND '.join(predicates)!r}: correct the domain, or take the "
            f"constraint back with CALL dp_constraint('{source.name}', '…', remove := true)"
        )
    names = tuple(a.name for a in attributes)
    return Allowed(names, tuple(sorted(columns)), predicates, codes[kept].astype(np.int64), anchors[kept])


def _frame(attributes: Sequence[Attribute], codes: npt.NDArray[Any], places: npt.NDArray[np.float64]) -> pd.DataFrame:
    """Codes as `c<i>` and, for bins, ticks at a place of the bin as `t<i>`."""
    columns: dict[str, Any] = {"number": np.arange(len(codes))}
    for number, attribute in enumerate(attributes):
        columns[f"c{number}"] = codes[:, number]
        if attribute.kind == "bins":
            columns[f"t{number}"] = attribute.draw_ticks(codes[:, number], places)
    return pd.DataFrame(columns)


def _holds(
    cursor: duckdb.DuckDBPyConnection,
    source: Source,
    attributes: Sequence[Attribute],
    predicates: Sequence[str],
    frame: pd.DataFrame,
) -> npt.NDArray[np.bool_]:
    """For each row of a frame of codes, whether all predicates hold of its decoded values."""
    types = {column.name: column.type for column in source.columns}
    values: list[exp.Expr] = [exp.column("number", table="frame")]
    for number, attribute in enumerate(attributes):
        typed = exp.cast(
            decode(attribute, f"c{number}", f"t{number}"), exp.DataType.build(types[attribute.name], dialect="duckdb")
        )
        values.append(exp.alias_(typed, attribute.name, quoted=True))
    decoded = exp.select(*values).from_(exp.to_table("dpsql_tuples").as_("frame")).subquery("row_of_values")
    conditions = [f"coalesce(CAST(({predicate}) AS BOOLEAN), TRUE)" for predicate in predicates]
    query = exp.select("number").from_(decoded).sql(dialect="duckdb") + " WHERE " + " AND ".join(conditions)
    cursor.register("dpsql_tuples", frame)
    try:
        numbers = cursor.execute(query).fetchnumpy()["number"]
    except duckdb.Error as error:  # it ran on public values only, so its text may be shown
        reason, what = str(error).splitlines()[0], " AND ".join(predicates)
        raise InvalidArgument(f"predicate {what!r} fails on the declared domain: {reason}") from None
    finally:
        cursor.unregister("dpsql_tuples")
    holds = np.zeros(len(frame), bool)
    holds[np.asarray(numbers, np.int64)] = True
    return holds


def settle_bins(
    cursor: duckdb.DuckDBPyConnection,
    source: Source,
    domain: Domain,
    allowed: Sequence[Allowed],
    codes: npt.NDArray[np.int64],
    frame: pd.DataFrame,
    generator: np.random.Generator,
) -> None:
    """Redraw values inside bins where a fact does not hold yet; at last take the place where it was seen to hold.

    Args:
        cursor: a connection of one's own.
        source: whose types the values get.
        domain: of all attributes.
        allowed: facts; the rows' codes satisfy them already.
        codes: shape (rows, attributes).
        frame: of the rows, as `Books.publish` wants it; its ticks are changed.
        generator: of the draws.
    """
    for part in allowed:
        places = [domain.names.index(name) for name in part.clique]
        attributes: list[Attribute] = [domain.attributes[place] for place in places]
        excluded = [a for a in domain.excluded if a.name in part.columns]
        ticks = {f"t{number}": f"t{place}" for number, place in enumerate(places) if f"t{place}" in frame}
        if not ticks:
            continue
        left = np.arange(len(frame))
        for attempt in range(_REDRAWS + 1):
            columns = {f"c{number}": codes[left, place] for number, place in enumerate(places)}
            columns |= {mine: frame[theirs].to_numpy()[left] for mine, theirs in ticks.items()}
            tried = pd.DataFrame({"number": np.arange(len(left)), **columns})
            left = left[~_holds(cursor, source, [*attributes, *excluded], part.predicates, tried)]
            if not len(left):
                break
            drawn = _places(part, codes[left][:, places], attributes, attempt, generator)
            for number, attribute in enumerate(attributes):
                if f"t{number}" in ticks:
                    values = frame[ticks[f"t{number}"]].to_numpy(copy=True)
                    values[left] = attribute.draw_ticks(codes[left, places[number]], drawn[number])
                    frame[ticks[f"t{number}"]] = values
        else:
            raise DpsqlError("a constraint does not hold of the drawn rows: it depends on more than their values")


def _places(
    part: Allowed,
    codes: npt.NDArray[np.int64],
    attributes: Sequence[Attribute],
    attempt: int,
    generator: np.random.Generator,
) -> Mapping[int, npt.NDArray[np.float64]]:
    """Where in their bins the values go at an attempt: anywhere, the last time where the facts were seen to hold."""
    if attempt < _REDRAWS - 1:
        return {number: generator.random(len(codes)) for number in range(len(attributes))}
    shape = [attribute.size for attribute in attributes]
    known = np.ravel_multi_index(tuple(part.codes.T), shape)
    found = np.searchsorted(known, np.ravel_multi_index(tuple(codes.T), shape))
    anchored = np.array(ANCHORS)[part.anchors[found]]
    return dict.fromkeys(range(len(attributes)), anchored)
