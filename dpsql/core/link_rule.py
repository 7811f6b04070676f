"""Rules between rows of a tree: facts that speak of a row and of rows above it, or beside it with a role.

    day >= patients.birth              of a visit and the patient above it
    age < head.age                     of each person of a household but its head, and that head
    spouse.age - head.age < income     of a spouse, the head of the same household, and the household
    (spouse IS NOT NULL) = married     of a household, and whether it has a row with that role

The row that is drawn last is the subject: the rule is a condition on it, given the others. A row above is drawn before
those below it; of the rows below one row those with a role come first, in the order of the link.

Values only: nothing here reads a catalogue or a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.core.tree import Role

OWN = ""
"""What a rule calls the row of the table that it is stated of: columns without a table's name are that row's."""


@dataclass(frozen=True)
class Part:
    """A row that a rule speaks of.

    Attributes:
        name: what the rule calls it.
        table: whose row it is.
        role: that it has; None of one above, and of the rows of the table that the rule is stated of.
        columns: that the rule names, in the order of the table.
    """

    name: str
    table: str
    role: Role | None
    columns: tuple[str, ...]


@dataclass(frozen=True)
class LinkRule:
    """One rule.

    Attributes:
        table: what the books call the table that it is stated of.
        predicate: SQL; it holds unless it is FALSE, as a CHECK does.
        subject: the row that is drawn last. Without a role it is each row of its table that has none of those named.
        given: the others, of which the rule holds where one of a role is not there.
        apart: roles of the subject's table of whose rows it does not speak, for `drawn_last` says the rule of them.
        present: roles of rows right below the subject, of which it asks whether they are there; no row is given then.
    """

    table: str
    predicate: str
    subject: Part
    given: tuple[Part, ...]
    apart: tuple[Role, ...] = ()
    present: tuple[Part, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """All rows that it speaks of, the subject first."""
        return (self.subject, *self.given)

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that it names, as it calls them."""
        columns = [f"{p.name}.{name}" if p.name != OWN else name for p in self.parts for name in p.columns]
        return (*columns, *(part.name for part in self.present))

    def speaks_of(self, role: Role | None) -> bool:
        """Whether rows of the subject's table that have a role, or none, must obey it."""
        if self.subject.role is not None:
            return role == self.subject.role
        return role is None or (role not in self.apart and all(role != part.role for part in self.given))


def drawn_last(rule: LinkRule, roles: Sequence[Role]) -> list[LinkRule]:
    """The same rule with the row that is drawn last as the subject, whichever role a row without a name in it has.

    Args:
        rule: with a subject that has no role, or any other, which stays.
        roles: of the subject's table, in the order in which their rows are drawn.

    >>> head, spouse = Role("head", "relate = 0", True), Role("spouse", "relate = 1", False)
    >>> own, other = Part(OWN, "persons", None, ("age",)), Part("spouse", "persons", spouse, ("age",))
    >>> parts = drawn_last(LinkRule("persons", "age <> spouse.age", own, (other,)), (head, spouse))
    >>> [(part.subject.name, [given.role and given.role.name for given in part.given]) for part in parts]
    [('', ['spouse']), ('spouse', ['head'])]
    """
    named = [part for part in rule.given if part.role is not None and part.table == rule.subject.table]
    if rule.subject.role is not None or not named:
        return [rule]
    last = max(named, key=lambda part: roles.index(part.role) if part.role else -1)
    before = [role for role in roles[: roles.index(last.role)] if rule.speaks_of(role)] if last.role else []
    rest = tuple(part for part in rule.given if part is not last)
    turned = [replace(rule, subject=last, given=(replace(rule.subject, role=role), *rest)) for role in before]
    return [replace(rule, apart=tuple(before)), *turned]
