"""Workloads: the marginals and thresholds that a synthetic table should answer well.

    parse_workload("SELECT sex, race, count(*) FROM adult GROUP BY sex, race", "adult", domain)

A workload is given as SQL (`SELECT a, b, count(*) FROM source GROUP BY a, b`, several separated by semicolons), or by
a shorthand: `all 3-way`, `64 random 3-way seed 0`, several separated by semicolons too. `SELECT count(*) FROM source
GROUP BY at_least(2, a, b, c)` is a family of thresholds: for all values at once, how many rows match at least 2 of the
3. SQL is parsed by sqlglot and never run: what cannot be either is refused with its place in the text.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.domain import Clique, Domain
from dpsql.errors import DomainTooLarge, InvalidWorkload, UnknownName
from dpsql.names import ends_with
from dpsql.threshold import Family, Threshold

_ALL = re.compile(r"\s*all\s+(\d+)-way\s*", re.IGNORECASE)
_RANDOM = re.compile(r"\s*(\d+)\s+random\s+(\d+)-way\s+seed\s+(\d+)\s*", re.IGNORECASE)
_MOST_CLIQUES: Final = 20_000
_MOST_CELLS: Final = 200_000_000  # of a default workload
_LONGEST: Final = 1_000_000  # characters
_MOST_SHORTHANDS: Final = 20


@dataclass(frozen=True)
class Workload:
    """Marginals and thresholds to answer, each with weight 1.

    Attributes:
        cliques: of the marginals, without repetition, in the order given.
        thresholds: families of thresholds, likewise.
    """

    cliques: tuple[Clique, ...]
    thresholds: tuple[Threshold, ...] = ()

    @property
    def needed(self) -> tuple[Clique, ...]:
        """The cliques whose marginals give all answers."""
        return tuple(dict.fromkeys((*self.cliques, *(threshold.clique for threshold in self.thresholds))))

    @property
    def families(self) -> tuple[Family, ...]:
        """The cliques and the families of thresholds."""
        return (*self.cliques, *self.thresholds)

    def closure(self) -> tuple[Clique, ...]:
        """All non-empty subsets of the needed cliques, smaller ones first, without repetition.

        >>> Workload((("a", "b"),)).closure()
        (('a',), ('b',), ('a', 'b'))
        """
        largest = max((len(clique) for clique in self.needed), default=0)
        found: dict[Clique, None] = {}
        for order in range(1, largest + 1):
            for clique in self.needed:
                found.update(dict.fromkeys(itertools.combinations(clique, order)))
        return tuple(found)

    def ordered(self) -> Workload:
        """The same workload in one order, whatever order it was written in: equal requests then ask equal questions."""
        thresholds = sorted(self.thresholds, key=lambda threshold: (threshold.clique, threshold.least))
        return Workload(tuple(sorted(self.cliques)), tuple(thresholds))

    def __len__(self) -> int:
        return len(self.cliques) + len(self.thresholds)


def parse_workload(text: str | None, source: Sequence[str], domain: Domain) -> Workload:
    """Parse a workload over one source.

    Args:
        text: SQL or a shorthand; None for the default, all 3-way marginals (2-way or 1-way where those are too large).
        source: the parts of the source's name, the table's own last, against which FROM is checked.
        domain: of the source.

    Raises:
        InvalidWorkload: not a set of marginals of the source; says where and why.
        UnknownName: a column that the source does not have.
        DomainTooLarge: a marginal has too many cells to be counted.
    """
    if text is None:
        workload = default_workload(domain)
    else:
        parsed = dict.fromkeys(_parse(text, source, domain))
        thresholds = tuple(part for part in parsed if isinstance(part, Threshold))
        workload = Workload(tuple(part for part in parsed if not isinstance(part, Threshold)), thresholds)
        if len(workload) > _MOST_CLIQUES:
            raise DomainTooLarge(f"the workload has {len(workload)} parts, more than {_MOST_CLIQUES}: ask for fewer")
    for clique in workload.needed:
        domain.check_countable(clique)
    return workload


def default_workload(domain: Domain) -> Workload:
    """All 3-way marginals, or 2-way or 1-way ones where those are too many or too large."""
    for order in (3, 2, 1):
        if math.comb(len(domain), min(order, len(domain))) > _MOST_CLIQUES:
            continue
        cliques = _all(order, domain)
        if order == 1 or sum(domain.size(clique) for clique in cliques) <= _MOST_CELLS:
            break
    return Workload(cliques)


def _parse(text: str, source: Sequence[str], domain: Domain) -> tuple[Clique | Threshold, ...]:
    if len(text) > _LONGEST:
        raise InvalidWorkload(f"the workload has {len(text)} characters, more than {_LONGEST}: split it")
    parts = text.split(";")
    if len(parts) <= _MOST_SHORTHANDS and all(_ALL.fullmatch(part) or _RANDOM.fullmatch(part) for part in parts):
        return tuple(clique for part in parts for clique in _shorthand(part, domain))
    try:
        statements = sqlglot.parse(text, read="duckdb")
    except SqlglotError as error:
        raise InvalidWorkload(f"workload: {_first_line(error)}; {_EXPECTED}") from None
    except RecursionError:
        raise InvalidWorkload("workload: nested too deeply") from None
    if not any(statements):
        raise InvalidWorkload(f"the workload is empty; {_EXPECTED}")
    return tuple(_marginal(statement, source, domain) for statement in statements if statement is not None)


def _shorthand(text: str, domain: Domain) -> tuple[Clique, ...]:
    if found := _ALL.fullmatch(text):
        _check_order(int(found[1]), domain)
        return _all(int(found[1]), domain)
    found = _RANDOM.fullmatch(text)
    assert found is not None
    return _random(int(found[1]), int(found[2]), int(found[3]), domain)


_EXPECTED: Final = (
    "say 'all 3-way', '64 random 3-way seed 0', or SELECT a, b, count(*) FROM the_table GROUP BY a, b (several "
    "separated by ;)"
)


def _first_line(error: Exception) -> str:
    return re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()[0].rstrip(".")


def _check_order(order: int, domain: Domain) -> None:
    if not 1 <= order <= len(domain):
        raise InvalidWorkload(f"{order}-way marginals need 1 to {len(domain)} columns, for so many have a domain")


def _all(order: int, domain: Domain) -> tuple[Clique, ...]:
    order = min(order, len(domain))
    count = math.comb(len(domain), order)
    if count > _MOST_CLIQUES:
        raise DomainTooLarge(
            f"all {order}-way marginals of {len(domain)} columns are {count}, more than {_MOST_CLIQUES}: ask for fewer "
            f"with '{64} random {order}-way seed 0'"
        )
    return tuple(itertools.combinations(domain.names, order))


def _random(count: int, order: int, seed: int, domain: Domain) -> tuple[Clique, ...]:
    """`count` cliques drawn by numpy's default_rng(seed).choice over the combinations in table order."""
    _check_order(order, domain)
    total = math.comb(len(domain), order)
    if not 1 <= count <= total:
        raise InvalidWorkload(f"{count} random {order}-way marginals: there are {total}, ask for 1 to {total}")
    if total > 50_000_000 or count > _MOST_CLIQUES:
        raise DomainTooLarge(f"{count} of {total} marginals are too many to choose from: ask for fewer columns")
    chosen = np.random.default_rng(seed).choice(total, count, replace=False)
    wanted = {int(index) for index in chosen}
    picked = {i: c for i, c in enumerate(itertools.combinations(domain.names, order)) if i in wanted}
    return tuple(picked[int(index)] for index in chosen)


_ALLOWED: Final = frozenset({"expressions", "from", "from_", "group"})


def _marginal(statement: exp.Expr, source: Sequence[str], domain: Domain) -> Clique | Threshold:
    """The clique of one `SELECT columns, count(*) FROM source GROUP BY columns`, or the family of an `at_least`."""
    if not isinstance(statement, exp.Select):
        _refuse(statement, f"{statement.key.upper()} is not a marginal")
    for name, value in statement.args.items():
        if value and name not in _ALLOWED:
            _refuse(statement, f"{name.strip('_').upper()} is not supported in a workload yet")
    _check_from(statement, source)
    outputs = [item.unalias() for item in statement.expressions]
    names = {item.alias: item.unalias() for item in statement.expressions if item.alias}
    counts = [item for item in outputs if isinstance(item, exp.Count)]
    if len(counts) != 1 or not isinstance(counts[0].this, exp.Star):
        _refuse(statement, "a marginal has one count(*)")
    columns = [item for item in outputs if not isinstance(item, exp.Count)]
    keys = _group_keys(statement, outputs, names, columns)
    if any(map(_is_threshold, keys)):
        return _threshold(statement, keys, columns, domain)
    clique = domain.clique(_column(key) for key in keys)
    if not clique:
        _refuse(statement, "a marginal needs GROUP BY")
    shown = domain.clique(_column(item) for item in columns)
    if not set(shown) <= set(clique):
        _refuse(statement, "a column is selected that is not in GROUP BY")
    return clique


def _is_threshold(expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Anonymous) and expression.name.lower() == "at_least"


def _threshold(statement: exp.Expr, keys: list[exp.Expr], columns: list[exp.Expr], domain: Domain) -> Threshold:
    """The family of `GROUP BY at_least(t, a, b, …)`."""
    if len(keys) > 1 or any(column != keys[0] for column in columns):
        _refuse(statement, "at_least(…) stands alone in GROUP BY, and beside count(*) only itself is selected")
    least, *names = keys[0].expressions or [exp.null()]
    clique = domain.clique(_column(name) for name in names)
    if not isinstance(least, exp.Literal) or not least.is_int or len(clique) < len(names):
        _refuse(statement, "at_least(t, a, b, …) takes a whole number and different columns")
    if not 1 <= int(least.name) <= len(clique):
        _refuse(statement, f"at_least({least.name}, …) over {len(clique)} columns: t is from 1 to their number")
    return Threshold(clique, int(least.name))


def _check_from(statement: exp.Select, source: Sequence[str]) -> None:
    origin = statement.find(exp.From)
    table = origin.this if origin is not None else None
    if (
        not isinstance(table, exp.Table)
        or not isinstance(table.this, exp.Identifier)
        or any(table.args.get(k) for k in ("joins", "pivots", "sample", "version"))
    ):
        _refuse(statement, f"FROM must be the protected table {source[-1]} and nothing else")
    if not ends_with(source, [part.name for part in table.parts]):
        raise UnknownName(f"the workload reads {table.name!r}, not {source[-1]!r}: a workload is over one table")


def _group_keys(
    statement: exp.Select,
    outputs: list[exp.Expr],
    names: dict[str, exp.Expr],
    columns: list[exp.Expr],
) -> list[exp.Expr]:
    group = statement.args.get("group")
    if group is None:
        _refuse(statement, "a marginal needs GROUP BY")
    extra = [name for name, value in group.args.items() if value and name not in ("expressions", "all")]
    if extra:
        _refuse(statement, f"{extra[0].replace('_', ' ').upper()} is not supported in a workload yet")
    if group.args.get("all"):
        return columns
    keys = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and key.is_int:
            place = int(key.name)
            if not 1 <= place <= len(outputs) or isinstance(outputs[place - 1], exp.Count):
                _refuse(key, f"GROUP BY {place} is not a column of the SELECT list")
            keys.append(outputs[place - 1])
        elif isinstance(key, exp.Column) and not key.table and key.name in names:
            keys.append(names[key.name])
        else:
            keys.append(key)
    return keys


def _column(expression: exp.Expr) -> str:
    if not isinstance(expression, exp.Column) or isinstance(expression.this, exp.Star):
        _refuse(expression, "only plain columns and count(*) are supported in a workload yet")
    return expression.name


def _refuse(expression: exp.Expr, reason: str) -> NoReturn:
    text = expression.sql(dialect="duckdb")
    shown = text if len(text) <= 80 else text[:77] + "…"
    raise InvalidWorkload(f"workload: {reason}, in: {shown}; {_EXPECTED}")
