"""A public table LEFT JOINed to the protected one: each of its rows is in a group, also where no row meets it.

Such a row comes with NULLs in place of the protected table's columns. Whether it does is private, so nothing may
depend on it: keys and conditions of WHERE read the public table alone, and aggregates take nothing from NULLs, as
`count(x)` and `sum(x)` do. The groups are then those of the public rows, and the answers those of the rows that meet.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.language.expressions import columns_read, unwrapped
from dpsql.language.query import Aggregate
from dpsql.language.refusal import refuse
from dpsql.language.scope import MATCHES, Preserved, Scope

_STRICT = (exp.Cast, exp.Neg, exp.Not, exp.Abs, exp.Floor, exp.Ceil, exp.Round, exp.Sqrt, exp.Lower, exp.Upper)
_STRICT_IN_BOTH = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE,
    exp.Like, exp.ILike,
)  # fmt: skip


def over_public(tree: exp.Expr, preserved: Preserved) -> exp.Expr | None:
    """An expression over the public table's own columns; None where it reads the protected table, too."""
    name = preserved.dimension.name

    def own_column(node: exp.Expr) -> exp.Expr:
        is_own = (
            isinstance(node, exp.Subquery) and node.meta.get("dpsql_type") and node.this.find(exp.Table).name == name
        )
        return node.this.expressions[0].copy() if is_own else node

    expression = tree.transform(own_column)
    return None if columns_read(expression) else expression


def check_preserved(
    scope: Scope, keys: Sequence[exp.Expr], filters: Sequence[exp.Expr], aggregates: Sequence[Aggregate]
) -> None:
    """Refuse what depends on which public rows meet none of the protected table.

    Raises:
        InvalidQuery: with what to say instead.
    """
    preserved = scope.preserved
    if preserved is None:
        return
    protected, public = preserved.protected, preserved.public
    for tree in keys:
        if over_public(tree, preserved) is None:
            reason = f"a key of {protected!r} is not supported where {public!r} is LEFT JOINed to it"
            refuse(tree, reason, f"group by columns of {public!r}, or say JOIN in place of LEFT JOIN")
    for tree in filters:
        if not tree.meta.get(MATCHES) and over_public(tree, preserved) is None:
            reason = f"a condition on {protected!r} is not supported where {public!r} is LEFT JOINed to it"
            refuse(tree, reason, "say it in ON, which keeps all groups, or say JOIN in place of LEFT JOIN")
    for aggregate in aggregates:
        for side in aggregate.sides or (aggregate,):
            if not _takes_no_nulls(side):
                _refuse(side, scope, preserved)


def _refuse(aggregate: Aggregate, scope: Scope, preserved: Preserved) -> None:
    instead = f"say count({preserved.key}), or JOIN in place of LEFT JOIN"
    counted = "count(*)" if not aggregate.filters else f"count({preserved.public}.…)"
    if aggregate.kind == "count":
        reason = f"{counted} counts 1 for each row of {preserved.public!r} that meets no row of {preserved.protected!r}"
    else:
        reason = f"{aggregate.kind}(…) of what is not NULL where a row of {preserved.public!r} meets none"
    refuse(aggregate.argument or exp.Var(this=counted), f"{reason}, which is private", instead)


def _takes_no_nulls(aggregate: Aggregate) -> bool:
    """Whether a row adds nothing in which all columns of the protected table are NULL."""
    if any(map(_rejects, aggregate.filters)):
        return True
    if aggregate.argument is None:
        return False
    if aggregate.kind == "sum":
        return _adds_nothing(aggregate.argument)
    return _is_null(aggregate.argument) or (aggregate.second is not None and _is_null(aggregate.second))


def _is_null(tree: exp.Expr) -> bool:
    """Whether an expression is sure to be NULL where the protected table's columns are."""
    tree = unwrapped(tree)
    if isinstance(tree, exp.Column):
        return not tree.table
    if isinstance(tree, exp.Null):
        return True
    if isinstance(tree, _STRICT_IN_BOTH):
        return _is_null(tree.this) or _is_null(tree.expression)
    if isinstance(tree, exp.Between):
        return _is_null(tree.this)
    if isinstance(tree, exp.In):
        return _is_null(tree.this) and bool(tree.expressions)
    if isinstance(tree, exp.Case):
        return _case_gives(tree, _is_null)
    return isinstance(tree, _STRICT) and _is_null(tree.this)


def _adds_nothing(tree: exp.Expr) -> bool:
    tree = unwrapped(tree)
    if isinstance(tree, exp.Literal) and tree.is_number:
        return float(tree.name) == 0
    if isinstance(tree, exp.Case):
        return _case_gives(tree, _adds_nothing)
    if isinstance(tree, exp.Cast) and tree.to.is_type(*exp.DataType.NUMERIC_TYPES):
        return _adds_nothing(tree.this)
    return _is_null(tree)


def _case_gives(tree: exp.Case, value: object) -> bool:
    """Whether a CASE comes to its ELSE, because no condition holds, and that is of a kind."""
    assert callable(value)
    last = tree.args.get("default")
    if tree.this is not None:
        reached = _is_null(tree.this)
    else:
        reached = all(_rejects(branch.this) for branch in tree.args["ifs"])
    return reached and (last is None or bool(value(last)))


def _rejects(tree: exp.Expr) -> bool:
    """Whether a condition is sure not to hold where the protected table's columns are NULL."""
    tree = unwrapped(tree)
    if isinstance(tree, exp.And):
        return _rejects(tree.this) or _rejects(tree.expression)
    if isinstance(tree, exp.Or):
        return _rejects(tree.this) and _rejects(tree.expression)
    if isinstance(tree, exp.Not):
        inside = unwrapped(tree.this)
        if isinstance(inside, exp.Is):
            return isinstance(inside.expression, exp.Null) and _is_null(inside.this)
    return _is_null(tree)
