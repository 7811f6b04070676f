"""Which codes of a table's rows have a role (`dpsql.core.tree.Role`), found on the public domain alone.

    tuples(c1, c2, …)  =  the product of the columns' codes, and inside bins of all their values
    role               =  those for which coalesce(where, FALSE), which is the same in all of a bin
    no role            =  the others

So whether a row has a role follows from its codes: where real rows are counted, and where synthetic ones are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import MOST_TUPLES, Allowed, Codes, Constraint, components
from dpsql.core.domain import Attribute, Domain
from dpsql.core.names import as_text
from dpsql.core.tree import Link, Role
from dpsql.core.unit_row import UnitRow
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.evaluation.bins import PERIODS, finest_of
from dpsql.evaluation.constraints import applicable_in, find_allowed, is_true, true_of
from dpsql.evaluation.row_expression import columns_of_row

RoleCodes = Mapping[tuple[str, str], Allowed]
"""Of each table below and each of its roles' names, the codes whose rows can have it."""


def columns_of_role(source: Source, role: Role) -> tuple[str, ...]:
    """The columns that a role's predicate names.

    Raises:
        InvalidArgument: it is no predicate about the columns of one row, see `columns_of_row`.
        UnknownName: a column that the source does not have.
    """
    return columns_of_row(source, role.where, f"role {role.name!r}", "'relate = 1'")


def roles_of(unit_row: UnitRow, sources: Mapping[str, Source]) -> RoleCodes:
    """The codes of all roles of a tree.

    Args:
        unit_row: the tree and the domains of its tables.
        sources: the tables.

    Raises:
        InvalidArgument: see `role_codes`.
    """
    return {
        (link.child, role.name): allowed
        for link in unit_row.tree.links
        for role, allowed in role_codes(sources[link.child], unit_row.members[link.child], link).items()
    }


def role_codes(source: Source, domain: Domain, link: Link) -> dict[Role, Allowed]:
    """The codes of each role of a table's rows.

    Raises:
        InvalidArgument: a predicate reads a column without a domain, or is not the same in all of a bin; it is true of
            no declared value or of all of them; or a value has two roles.
    """
    if not link.roles:
        return {}
    codes_by_role = {role: role_codes_of(source, domain, role) for role in link.roles}
    _check_apart(source, domain, link)
    return codes_by_role


def allowed_of_role(
    source: Source, domain: Domain, link: Link, role: Role | None, constraints: Sequence[Constraint]
) -> list[Allowed]:
    """What constraints allow of rows with a role, or of those without any; the part of the role itself is the first.

    Raises:
        InvalidArgument: see `find_allowed`, but in the words of roles.
    """
    own = [
        _constraint(source, role_here, has=role_here == role) for role_here in link.roles if role in (None, role_here)
    ]
    try:
        parts = find_allowed(source, domain, [*constraints, *own])
    except InvalidArgument as error:
        tied = _tied(domain, constraints, own)
        reason = _reason(error) or (f"span more than {MOST_TUPLES} tuples of values" if _is_wide(domain, tied) else "")
        raise InvalidArgument(_not_allowed(source, link, role, tied[len(own) :], reason)) from None
    return sorted(parts, key=lambda part: not {own[0].predicate} & {*part.predicates})


def _tied(domain: Domain, constraints: Sequence[Constraint], own: Sequence[Constraint]) -> list[Constraint]:
    """What roles say, and after it the constraints that belong together with it."""
    parts = components([*applicable_in(domain, constraints), *own])
    return [*own, *(constraint for part in parts if {*part} & {*own} for constraint in part if constraint not in own)]


def _not_allowed(source: Source, link: Link, role: Role | None, facts: Sequence[Constraint], reason: str) -> str:
    """Why rows of a role, or those without one, cannot be drawn, and what helps; without the SQL that is made of it."""
    listed = ", ".join(
        f"{role_here.name!r} ({role_here.where})" for role_here in link.roles if role in (None, role_here)
    )
    who = f"rows of {source.name!r} {'without' if role is None else 'with'} the role {listed}"
    helps = f"correct the domain, or take the link back with db.unprotect({source.table_key!r}, reason) and link anew"
    if not facts:
        return f"{who} have no declared value: {helps}"
    stated = " and ".join(repr(fact.predicate) for fact in facts)
    fact = as_text(facts[0].predicate)
    back = f"take a constraint back: CALL dp_constraint({source.argument}, {fact}, remove := true)"
    return f"{who}, and the constraints {stated}, together {reason or 'allow no declared value'}: {helps}, or {back}"


def refuse_impossible_roles(source: Source, domain: Domain, link: Link, constraints: Sequence[Constraint]) -> None:
    """Refuse, before a charge, roles that no declared value has, or that constraints leave none to.

    Raises:
        InvalidArgument: see `role_codes` and `find_allowed`.
    """
    if role_codes(source, domain, link):
        for role in (*link.roles, None):
            allowed_of_role(source, domain.inner, link, role, constraints)
            allowed_of_role(source, domain, link, role, constraints)


def _constraint(source: Source, role: Role, *, has: bool) -> Constraint:
    text = true_of(role.where)
    return Constraint(text if has else f"NOT {text}", columns_of_role(source, role))


@lru_cache(maxsize=32)  # a release asks several times, see `dpsql.evaluation.constraints`
def role_codes_of(source: Source, domain: Domain, role: Role) -> Allowed:
    """The codes of a role; arrays are for reading only.

    Raises:
        InvalidArgument: see `role_codes`.
    """
    attributes = _attributes(source, domain, role)
    fine = [finest_of(attribute, PERIODS[0]) for attribute in attributes]
    for attribute in fine:
        if attribute.kind == "bins" and not attribute.has_single_values:
            raise InvalidArgument(
                f"role {role.name!r} of {source.name!r}: the values in the bins of {attribute.name!r} are too many to "
                "be tried one by one; say the role by a column of listed values or of whole numbers"
            )
    if math.prod(attribute.size for attribute in fine) > MOST_TUPLES:
        raise InvalidArgument(
            f"role {role.name!r} of {source.name!r} spans more than {MOST_TUPLES} tuples of values: say it by fewer "
            "columns"
        )
    shape = [attribute.size for attribute in attributes]
    inside = [np.arange(attribute.size) for attribute in fine]
    tried = _is_true(source, fine, role, _product(inside))
    coarse = _product([_coarse(whole, part) for whole, part in zip(attributes, fine, strict=True)])
    cells = np.ravel_multi_index(tuple(coarse.T), shape)
    true = np.bincount(cells, tried, math.prod(shape))
    mixed = np.flatnonzero((true > 0) & (true < np.bincount(cells, minlength=len(true))))
    if len(mixed):
        codes = np.unravel_index(mixed[0], shape)
        where = " and ".join(f"{a.name} {a.labels()[int(c)]}" for a, c in zip(attributes, codes, strict=True))
        raise InvalidArgument(
            f"role {role.name!r} of {source.name!r}: {role.where} is not the same for all values in the bin {where}; "
            "declare an edge where it changes: CALL dp_domain(…, edges := […])"
        )
    places = np.flatnonzero(true)
    if not len(places):
        raise InvalidArgument(
            f"role {role.name!r} of {source.name!r}: {role.where} is true of no declared value; correct the domain, or "
            "take the link back with db.unprotect(table, reason) and link the table anew"
        )
    able = np.stack(np.unravel_index(places, shape), axis=1).astype(np.int64)
    able.flags.writeable = False
    names = tuple(attribute.name for attribute in attributes)
    return Allowed(names, names, (role.where,), able, np.zeros(able.shape))


def _product(columns: Sequence[Codes]) -> Codes:
    """All tuples of the values of some columns."""
    return np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1).reshape(-1, len(columns))


def _is_true(source: Source, attributes: Sequence[Attribute], role: Role, codes: Codes) -> npt.NDArray[np.bool_]:
    """For each tuple of codes whether a row has the role."""
    try:
        return is_true(source, attributes, role.where, codes)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"role {role.name!r} of {source.name!r}: {role.where} {_reason(error) or error}"
        ) from None


def _reason(error: InvalidArgument) -> str:
    """What of an error of a predicate is DuckDB's; empty where it does not fail."""
    _, fails, reason = str(error).partition("fails on the declared domain: ")
    return fails + reason.partition("; correct it, ")[0]


def _attributes(source: Source, domain: Domain, role: Role) -> list[Attribute]:
    """Those that a role reads, in the domain's order."""
    columns = columns_of_role(source, role)
    computed = {attribute.name: attribute for attribute in domain.excluded if attribute.computed_as}
    for name in columns:
        if name in computed:
            raise InvalidArgument(
                f"role {role.name!r} of {source.name!r} reads {name!r}, which is computed as "
                f"{computed[name].computed_as} and not measured: say the role by "
                f"{', '.join(map(repr, computed[name].computed_from))}"
            )
        if name not in domain.by_name:
            raise InvalidArgument(
                f"role {role.name!r} of {source.name!r} reads {name!r}, which is a key or has no domain: a role is "
                f"told by columns whose domains are declared, CALL dp_domain({source.argument}, {as_text(name)}, …)"
            )
    return [attribute for attribute in domain if attribute.name in columns]


def _coarse(whole: Attribute, fine: Attribute) -> Codes:
    """For each code of finer bins the code of the bins that are declared."""
    codes = np.arange(fine.size)
    inside = codes < fine.regular
    if whole.kind == "bins":
        ticks = np.array(fine.ticks[:-1])
        codes[inside] = np.minimum(np.searchsorted(whole.ticks, ticks, side="right") - 1, whole.regular - 1)
    codes[~inside] += whole.regular - fine.regular
    return codes


def _check_apart(source: Source, domain: Domain, link: Link) -> None:
    """Refuse roles that one value has both of, and those that leave no value to other rows."""
    for place, first in enumerate(link.roles):
        for other in link.roles[:place]:
            if _allows(source, domain, [_constraint(source, role, has=True) for role in (first, other)]):
                raise InvalidArgument(
                    f"roles {other.name!r} and {first.name!r} of {source.name!r} are both true of some values: a row "
                    "has one role at most, so say predicates that exclude each other"
                )
    if not _allows(source, domain.inner, [_constraint(source, role, has=False) for role in link.roles]):
        raise InvalidArgument(
            f"every declared value of {source.name!r} has a role, so there is none for further rows: leave out a role, "
            "or declare another value"
        )


def _allows(source: Source, domain: Domain, constraints: Sequence[Constraint]) -> bool:
    """Whether some values satisfy all."""
    if any(_is_wide(domain, part) for part in components(constraints)):
        raise InvalidArgument(
            f"the roles of {source.name!r} together span more than {MOST_TUPLES} tuples of values: say them by fewer "
            "columns"
        )
    try:
        return bool(find_allowed(source, domain, constraints))
    except InvalidArgument:  # nothing is allowed; each predicate by itself does not fail
        return False


def _is_wide(domain: Domain, part: Sequence[Constraint]) -> bool:
    """Whether constraints that belong together are over too many tuples of codes."""
    names = {name for constraint in part for name in constraint.columns}
    return math.prod(attribute.size for attribute in domain if attribute.name in names) > MOST_TUPLES
