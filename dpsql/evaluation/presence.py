"""Rules that ask whether a row with a role is there: facts about the row above, which has a column that says it.

    spouse IS NULL OR married   →   (NOT "persons.spouse") OR married,   "persons.spouse" a BOOLEAN of households

So such a rule is a constraint on one row of the table with its numbers of children (`UnitRow.extended`): the fit knows
it, and each row that is drawn or lent obeys it whole. It reads public domains and synthetic rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.constraint import Allowed, Codes, Constraint
from dpsql.core.domain import Attribute, Domain
from dpsql.core.link_rule import LinkRule
from dpsql.core.names import fold
from dpsql.core.prior import packed
from dpsql.core.tree import Role
from dpsql.core.unit_row import Below, UnitRow
from dpsql.engines.source import Column, Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.constraints import taken_back, true_of
from dpsql.evaluation.roles import role_codes_of
from dpsql.evaluation.row_expression import row_expression


def with_presence(unit_row: UnitRow, table: str, source: Source) -> tuple[Source, Domain]:
    """A table with a BOOLEAN column for each role that a row below it may have, called as in `UnitRow.extended`."""
    domain, columns, attributes = unit_row.members[table], list(source.columns), list(unit_row.members[table])
    for below, number in zip(unit_row.below(table), unit_row.extended(table).attributes[len(domain) :], strict=True):
        if below.role is not None:
            columns.append(Column(number.name, "BOOLEAN", nullable=False))
            attributes.append(Attribute(number.name, "BOOLEAN", "values", ("false", "true")))
    return replace(source, columns=tuple(columns)), replace(domain, attributes=tuple(attributes))


def constraints_of(unit_row: UnitRow, rules: Sequence[LinkRule]) -> list[Constraint]:
    """Rules that ask whether rows are there, as constraints on the columns of `with_presence`."""
    return [_constraint(unit_row, rule) for rule in rules if rule.present]


def _constraint(unit_row: UnitRow, rule: LinkRule) -> Constraint:
    extended = unit_row.extended(rule.table).names[len(unit_row.members[rule.table]) :]
    called = dict(zip(unit_row.below(rule.table), extended, strict=True))
    names = {fold(p.name): called[Below(unit_row.tree.link_of[p.table], p.role)] for p in rule.present}

    def over_numbers(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Is) and isinstance(node.this, exp.Column) and not node.this.table:
            name = names.get(fold(node.this.name))
            if name is not None:
                return exp.paren(exp.not_(exp.column(exp.to_identifier(name, quoted=True))))
        return node

    tree = row_expression(rule.predicate, "predicate", "'sick OR cost = 0'").transform(over_numbers)
    return Constraint(tree.sql(dialect="duckdb"), (*rule.subject.columns, *names.values()))


def check_presence(unit_row: UnitRow, sources: Mapping[str, Source], rule: LinkRule) -> tuple[int, int]:
    """How many tuples of codes there are of what a rule names, and of how many it holds.

    Raises:
        InvalidArgument: it is not the same in all of a bin, holds of no declared value, or fails on one.
    """
    source, domain = with_presence(unit_row, rule.table, sources[rule.table])
    fact = _constraint(unit_row, rule)
    for name in fact.columns:
        if name not in domain.by_name:
            raise InvalidArgument(
                f"the rule {rule.predicate!r} names {name!r} of {rule.table!r}, which is a key, excluded or computed: "
                "say it by columns with a domain"
            )
    holds = f"NOT {true_of(f'NOT ({fact.predicate})')}"
    try:
        allowed = role_codes_of(source, domain.inner, Role("rule", holds, always=False))
    except InvalidArgument as error:
        reason = str(error).replace(f"role 'rule' of {source.name!r}: ", "").replace(holds, "it")
        raise InvalidArgument(
            f"the rule {rule.predicate!r} of {source.name!r}: {reason.partition(', or take the link')[0]}, "
            f"{taken_back(sources[rule.table], [rule.predicate])}"
        ) from None
    return domain.inner.size(allowed.clique), len(allowed.codes)


def is_allowed(domain: Domain, part: Allowed, rows: Codes) -> npt.NDArray[np.bool_]:
    """Of rows of codes of a domain, which have a tuple that is allowed."""
    able = packed(part.codes, part.clique, domain, part.clique)
    return np.isin(packed(rows, domain.names, domain, part.clique), able)
