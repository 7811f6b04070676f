"""What people call the columns of a unit's row, whose own names only dpsql gives.

    region                    region of clients
    accounts.number           number of accounts a client has
    accounts[1].kind          kind of accounts
    accounts[2].kind          kind of a second account of the same client
    persons.number            number of persons without a role a household has     (where others have one)
    persons.head.age          age of the head in persons
    persons.spouse            whether a household has a spouse
    wages[2].year             year of a second row of the same nr       (of a table with the privacy unit nr)
                              year of the next row of the same nr       (of rows in order)

Names of tables are taken for English plurals where they look like them: of `staff` it is "a second row of staff".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from dpsql.core.names import fold
from dpsql.core.tree import UNITS, Link
from dpsql.core.unit_row import Below, Slot, UnitRow

_NO_PLURALS: Final = ("as", "is", "ss", "us", "ies", "ches", "shes", "ses", "xes", "zes")


def words_of(unit_row: UnitRow) -> Mapping[str, str]:
    """What each column of the flat domain is called: no two the same, and none by the name of another.

    A column has its own name where its words are those of another column, or the name of one. Case does not count.

    >>> from dpsql.core.domain import Attribute, Domain
    >>> from dpsql.core.tree import Tree
    >>> flag = Domain((Attribute("late", "BOOLEAN", "values", ("false", "true")),))
    >>> tree = Tree("clients", (Link("orders", "clients", ("c",), ("c",)),))
    >>> for words in words_of(UnitRow(tree, {"clients": flag, "orders": flag})).values():
    ...     print(words)
    late of clients
    number of orders a client has
    late of orders
    late of a second order of the same client
    """
    called = dict(_words(unit_row))
    taken = Counter(word for pair in called.items() for word in {*map(fold, pair)})
    return {name: words if taken[fold(words)] == 1 else name for name, words in called.items()}


def column_of_table(column: str, table: str) -> str:
    """A column of one of several tables."""
    return f"{column} of {table}"


def one_of(table: str) -> str:
    """One row of a table.

    >>> one_of("visits"), one_of("staff"), one_of("boxes")
    ('visit', 'row of staff', 'row of boxes')
    """
    folded = table.lower()
    if len(table) > 2 and folded.isidentifier() and folded.endswith("s") and not folded.endswith(_NO_PLURALS):
        return table[:-1]
    return f"row of {table}"


def one_above(link: Link) -> str:
    """One row of the table above: of a privacy unit what its column is called."""
    return ", ".join(link.references) if link.parent == UNITS else one_of(link.parent)


def _words(unit_row: UnitRow) -> Iterator[tuple[str, str]]:
    for slot in unit_row.slots:
        own = unit_row.members[slot.table].names
        for name, column in zip(slot.names, own, strict=False):
            yield name, column_of_table(column, _whose(unit_row, slot))
        for name, below in zip(slot.names[len(own) :], unit_row.below(slot.table), strict=True):
            yield name, _number(unit_row, slot, below)


def _whose(unit_row: UnitRow, slot: Slot) -> str:
    """Whose columns those of a slot are."""
    if slot.role is not None:
        return f"the {slot.role.name} in {slot.table}"
    link = unit_row.tree.link_of.get(slot.table)
    return f"{slot.table}{without_role(link)}" if link is None or slot.nth == 0 else _same(link)


def without_role(link: Link | None) -> str:
    """Which rows are told without a role, where some have one."""
    return " without a role" if link is not None and link.roles else ""


def _same(link: Link) -> str:
    row_word = "row" if link.parent == UNITS else one_of(link.child)
    which = "the next" if link.ordered_by else "a second"
    return f"{which} {row_word}{without_role(link)} of the same {one_above(link)}"


def _number(unit_row: UnitRow, slot: Slot, below: Below) -> str:
    """What a column is called that says how many rows there are below, or whether there is one with a role."""
    if slot.role is not None:
        owner = f"the {slot.role.name} in {slot.table}"
    elif slot.nth:
        owner = _same(unit_row.tree.link_of[slot.table])
    else:
        above = one_above(below.link)
        owner = f"{'an' if above[:1].lower() in 'aeio' else 'a'} {above}"
    if below.role is not None:
        return f"whether {owner} has a {below.role.name}"
    rows = f"rows of {below.link.child}" if below.link.parent == UNITS else below.link.child
    before = " before the two" if below.before else ""
    return f"number of {rows}{without_role(below.link)} {owner} has{before}"
