"""`dp_plan(table, epsilon := …)`: what a release would measure, how noisily, and what it would cost."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import duckdb

from dpsql.core.unit_words import words_of
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.evaluation.sandbox import check_syntax
from dpsql.mechanisms.base import name_of
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.release.allowed import allowed_after
from dpsql.release.preview import (
    LARGEST_EPSILON,
    check_width,
    least_epsilon,
    least_epsilon_of_table,
    megabytes_of,
    plan_answers,
    preview,
    seconds_of,
)
from dpsql.release.query_answers import resolve_query
from dpsql.release.remedies import ASSUMED_ROWS, assumed_rows
from dpsql.release.request import DEFAULT_MECHANISM, QueryRequest
from dpsql.release.synthesis import resolve

from .bridge.declare import Call, Parameter, Relation
from .dp_synthesize import REQUEST_PARAMETERS, request_of
from .extension import SqlFunction
from .interrupts import looking_up
from .plan_charts import query_chart, table_chart
from .relations import Computed

COLUMNS = {
    "marginal": "VARCHAR[]",
    "cells": "BIGINT",
    "stddev": "DOUBLE",
    "noise_l1": "DOUBLE",
    "rho": "DOUBLE",
    "predicted_l1": "DOUBLE",
    "note": "VARCHAR",
    "mechanism": "VARCHAR",
    "choice": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "epsilon_left": "DOUBLE",
    "memory_mb": "DOUBLE",
    "overall_l1": "DOUBLE",
    "seconds": "DOUBLE",
}
_OF_QUERIES = frozenset({"table", "epsilon", "delta", "mechanism", "release", "period"})


_TAKEN = ", ".join(sorted({*_OF_QUERIES, "assume_rows", "max_error", "chart"} - {"table"}))
_QUERY = re.compile(r"\s*\(*\s*(select|from|with)\s", re.IGNORECASE)
_WORDS = re.compile(r"\s*\w+\s+\S")
_PARAMETERS = tuple(
    replace(p, default=None, help="what it would cost; none with max_error") if p.name == "epsilon" else p
    for p in REQUEST_PARAMETERS
)


class DpPlan(SqlFunction):
    """What a release, or the answers of a query, would measure; spends nothing and reads no private row.

    Of a table: one row for each marginal that would be measured, or left out. `stddev` is in rows, `noise_l1` the
    expected Σ|noise| of the marginal as a fraction of the rows, `predicted_l1` about the L1 error of a marginal of the
    workload in the synthetic table (a rough guide) and `overall_l1` its mean, `note` what is done with it and why,
    `choice` why `auto` chose the mechanism (NULL where the request names it), `epsilon_left` what one more release
    could ask for afterwards, `memory_mb` about how much memory the work takes, `seconds` about how long it
    takes on two cores of a processor (NULL where that is not known).

    Of a query: one row for each aggregate. `marginal` are the columns that are counted together, `cells` the groups,
    `stddev` is in the aggregate's unit, `note` says the 95 % interval. Those of an average are for groups that share
    `assume_rows` evenly; where the noise leaves it NULL, `stddev` is NULL and `note` says why.

    With `chart` the rows are the lines of a text in one column `chart`: the errors of the marginals as bars, and the
    error against ε.
    """

    name = "dp_plan"
    parameters = (
        *_PARAMETERS,
        Parameter("assume_rows", "BIGINT", default=ASSUMED_ROWS, help="about how many rows; the number is private"),
        Parameter("max_error", "DOUBLE", default=None, help="instead of epsilon: find the smallest that is enough"),
        Parameter("chart", "BOOLEAN", default=False, help="the errors as a text chart, and the error against epsilon"),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        if (call["epsilon"] is None) == (call["max_error"] is None):
            raise InvalidArgument("give epsilon := 1.0, or max_error := … to find the smallest epsilon that is enough")
        with looking_up(self._instance) as cursor:
            rows = self._of_query(cursor, call) if _QUERY.match(call["table"]) else self._of_name(cursor, call)
        columns = {"chart": "VARCHAR"} if call["chart"] else COLUMNS
        return Computed(columns, lambda: rows, len(rows))

    def _of_name(self, cursor: duckdb.DuckDBPyConnection, call: Call) -> list[tuple[Any, ...]]:
        """Of a table; where there is none of that name, the text may be a query whose first word is misspelt."""
        try:
            return self._of_table(cursor, call)
        except DpsqlError:
            if _WORDS.match(call["table"]):
                check_syntax(call["table"])
            raise

    def _of_table(self, cursor: duckdb.DuckDBPyConnection, call: Call) -> list[tuple[Any, ...]]:
        assumed, most = float(assumed_rows(call["assume_rows"])), call["max_error"]
        epsilon = LARGEST_EPSILON if most is not None else call["epsilon"]
        request = request_of(replace(call, arguments={**call.arguments, "epsilon": epsilon}))
        resolved = resolve(cursor, request, to_charge=False)
        if most is not None:
            request = replace(request, epsilon=least_epsilon_of_table(resolved, most, assumed))
            resolved = resolve(cursor, request, to_charge=False)
        prior = resolved.public_rows(cursor) if resolved.mechanism.needs_prior else None
        predicted, charged = preview(resolved, assumed, prior), resolved.charged(assumed)
        after = resolved.account if resolved.entry is not None else resolved.account.after(charged)
        chosen = name_of(resolved.mechanism), resolved.choice or None
        seconds = resolved.mechanism.duration(resolved.domain, resolved.workload, predicted.rows, charged.rho)
        cost = (
            *chosen,
            charged.epsilon,
            charged.delta,
            allowed_after(cursor, resolved, after, charged),
            predicted.memory / 1e6,
            predicted.overall,
            seconds,
        )
        unit = math.sqrt(2 / math.pi) / predicted.rows
        linked = resolved.linked
        words = {} if linked is None else words_of(linked.unit_row)
        measured = [
            (
                [words.get(name, name) for name in m.shown],
                m.cells,
                m.stddev,
                None if m.stddev is None else unit * m.stddev * m.cells,
                m.rho,
                m.predicted,
                m.note,
                *cost,
            )
            for m in predicted.measurements
        ]
        remarks = [
            ([f"({remark.topic})"], 0, None, None, 0.0, None, remark.note, *cost) for remark in predicted.remarks
        ]
        if call["chart"]:
            left = allowed_after(cursor, resolved, resolved.account)
            return [(line,) for line in table_chart(resolved, _named([*measured, *remarks]), assumed, left)]
        return [*measured, *remarks]

    def _of_query(self, cursor: duckdb.DuckDBPyConnection, call: Call) -> list[tuple[Any, ...]]:
        given = [p.name for p in _PARAMETERS if p.name not in _OF_QUERIES and call[p.name] != p.default]
        if given:
            raise InvalidArgument(f"{given[0]} is of synthetic tables: a query takes {_TAKEN}")
        most = call["max_error"]
        mechanism = GAUSSIAN.name if call["mechanism"] == DEFAULT_MECHANISM else call["mechanism"]
        request = QueryRequest(
            sql=call["table"],
            epsilon=LARGEST_EPSILON if most is not None else call["epsilon"],
            delta=call["delta"],
            mechanism=mechanism,
            release=call["release"],
            search_path=call.search_path,
            by=call.by,
            period=call["period"],
        )
        assumed = assumed_rows(call["assume_rows"])
        if most is not None:
            check_width(most)
        resolved = resolve_query(cursor, request, to_charge=False)
        if most is not None:
            request = replace(request, epsilon=least_epsilon(resolved, resolved.evaluated, most, assumed))
            resolved = resolve_query(cursor, request, to_charge=False)
        linear, budget = resolved.evaluated.linear, resolved.budget
        after = resolved.account if resolved.entry is not None else resolved.account.after(budget)
        groups = sum(int(alive.sum()) for alive in resolved.evaluated.present)
        planned = plan_answers(resolved, resolved.evaluated, assumed)
        left = allowed_after(cursor, resolved, after)
        chosen = (f"query ({mechanism})", None, budget.epsilon, budget.delta, left, megabytes_of(linear), None)
        share = float(budget.rho) / len(planned)
        rows = [
            (
                linear.clique,
                groups,
                answer.stddev,
                None,
                share,
                None,
                f"{answer.aggregate}: {answer.note}",
                *chosen,
                seconds_of(assumed),
            )
            for answer in planned
        ]
        if call["chart"]:
            left = allowed_after(cursor, resolved, resolved.account)
            return [(line,) for line in query_chart(resolved, _named(rows), assumed, left)]
        return rows


def _named(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]
