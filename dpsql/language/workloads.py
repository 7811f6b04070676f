"""Workloads: the marginals, thresholds and linear queries that a synthetic table should answer well.

    parse_workload("SELECT sex, race, count(*) FROM adult GROUP BY sex, race", "adult", domain)

A workload is given as SQL, several statements separated by semicolons, or by shorthands: `all 3-way`, `64 random 3-way
seed 0`. A statement is any query of `dpsql.language.parse`: it stands for the joint distribution of all columns that
it reads, one for each grouping set, for all that it asks are sums over the cells of those marginals. `SELECT count(*)
FROM source GROUP BY at_least(2, a, b, c)` is a family of thresholds: for all values at once, how many rows match 2 or
more of the 3. A statement whose aggregates are sums alone, such as `SELECT sex, sum(CASE WHEN age > 50 THEN 1 ELSE 0.5
END) FROM source GROUP BY sex`, is a family of linear queries, one for each group. `SELECT /*+ weight 3 */ …` counts
three times as much as others. SQL is parsed by sqlglot and never run: what cannot be answered is refused with its place
in the text.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.core.domain import Clique, Domain
from dpsql.core.linear_family import LinearFamily
from dpsql.core.names import ends_with, shorten
from dpsql.core.threshold import Threshold
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidQuery, InvalidWorkload, UnknownName
from dpsql.language.expressions import columns_read
from dpsql.language.parse import analyse
from dpsql.language.query import Query
from dpsql.language.refusal import INSTEAD
from dpsql.language.scope import Catalog, Scope, Unlinked
from dpsql.language.syntax import first_line
from dpsql.language.value_types import check_nesting
from dpsql.language.written import parsed
from dpsql.runtime.process_settings import deep_recursion

_ALL = re.compile(r"\s*all\s+(\d+)-way\s*", re.IGNORECASE)
_RANDOM = re.compile(r"\s*(\d+)\s+random\s+(\d+)-way\s+seed\s+(\d+)\s*", re.IGNORECASE)
_MOST_CLIQUES: Final = 20_000
_MOST_CELLS: Final = 200_000_000  # of a default workload
_LONGEST: Final = 1_000_000  # characters
_MOST_SHORTHANDS: Final = 20
_MOST_LINEAR: Final = 1000
_MOST_WEIGHTS: Final = 20_000_000

Weigh = Callable[[Query], Sequence[LinearFamily]]
"""What the sums of a statement are on the declared domain."""
Parts = list[tuple[Clique | Threshold | LinearFamily, float]]


def parse_workload(
    text: str | None,
    source: Sequence[str],
    domain: Domain,
    catalog: Catalog | None = None,
    weigh: Weigh | None = None,
) -> Workload:
    """Parse a workload over one source.

    Args:
        text: SQL or a shorthand; None for the default, all 3-way marginals (2-way or 1-way where those are too large).
        source: the parts of the source's name, the table's own last, against which FROM is checked.
        domain: of the source.
        catalog: what names in FROM mean, for views of the source; without, only the source's own name is known.
        weigh: makes linear queries of a statement of sums; without, it stands for the marginal of what it reads.

    Raises:
        InvalidWorkload: not a set of marginals of the source; says where and why.
        UnknownName: a column that the source does not have.
        DomainTooLarge: a marginal has too many cells to be counted.
    """
    if text is None:
        workload = default_workload(domain)
    else:
        weights: dict[Clique | Threshold, float] = {}
        linear: dict[LinearFamily, None] = {}
        for part, weight in _parse(text, source, domain, catalog, weigh):
            if isinstance(part, LinearFamily):
                linear[part] = None
            else:
                weights[part] = max(weight, weights.get(part, 0.0))
        thresholds = tuple(part for part in weights if isinstance(part, Threshold))
        cliques = tuple(part for part in weights if not isinstance(part, Threshold))
        part_weights = tuple((part, weight) for part, weight in weights.items() if weight != 1)
        workload = Workload(cliques, thresholds, part_weights, tuple(linear))
        _check_linear(workload)
        if len(workload) > _MOST_CLIQUES:
            raise DomainTooLarge(f"the workload has {len(workload)} parts, more than {_MOST_CLIQUES}: ask for fewer")
    domain.check_countable(max(workload.needed, key=domain.size, default=()))
    return workload


def _check_linear(workload: Workload) -> None:
    """Refuse linear queries that are too many, or whose cells are."""
    if len(workload.linear) > _MOST_LINEAR or workload.linear_cells > _MOST_WEIGHTS:
        raise DomainTooLarge(
            f"the workload has {len(workload.linear)} families of linear queries, whose columns have "
            f"{workload.linear_cells:.3g} cells together, more than {_MOST_LINEAR} and {_MOST_WEIGHTS:.3g}: ask for "
            "fewer sums, or of fewer columns each"
        )


def default_workload(domain: Domain) -> Workload:
    """All 3-way marginals, or 2-way or 1-way ones where those are too many or too large."""
    for order in (3, 2, 1):
        if math.comb(len(domain), min(order, len(domain))) > _MOST_CLIQUES:
            continue
        cliques = _all(order, domain)
        if order == 1 or sum(domain.size(clique) for clique in cliques) <= _MOST_CELLS:
            break
    return Workload(cliques)


def _parse(text: str, source: Sequence[str], domain: Domain, catalog: Catalog | None, weigh: Weigh | None) -> Parts:
    if len(text) > _LONGEST:
        raise InvalidWorkload(f"the workload has {len(text)} characters, more than {_LONGEST}: split it")
    if is_shorthand(text):
        return [(clique, 1.0) for part in text.split(";") for clique in _shorthand(part, domain)]
    try:
        check_nesting(sqlglot.tokenize(text, read="duckdb"))
        with deep_recursion():
            statements = parsed(text)
    except InvalidQuery as deep:
        raise InvalidWorkload(str(deep).replace("query:", "workload:", 1)) from None
    except SqlglotError as error:
        raise InvalidWorkload(f"workload: {first_line(error)}; {EXPECTED}") from None
    except RecursionError:
        raise InvalidWorkload("workload: nested too deeply") from None
    if not statements:
        raise InvalidWorkload(f"the workload is empty; {EXPECTED}")
    return [
        part
        for statement in statements
        for part in _parts_of(statement, source, domain, catalog or _OneTable(tuple(source), domain), weigh)
    ]


def is_shorthand(text: str) -> bool:
    """Whether a workload is made of shorthands, and not SQL.

    >>> is_shorthand("all 2-way; 8 random 3-way seed 0"), is_shorthand("SELECT sex, count(*) FROM t GROUP BY sex")
    (True, False)
    """
    parts = text.split(";")
    return len(parts) <= _MOST_SHORTHANDS and all(_ALL.fullmatch(part) or _RANDOM.fullmatch(part) for part in parts)


def _shorthand(text: str, domain: Domain) -> tuple[Clique, ...]:
    if match := _ALL.fullmatch(text):
        _check_order(int(match[1]), domain)
        return _all(int(match[1]), domain)
    match = _RANDOM.fullmatch(text)
    assert match is not None
    return _random(int(match[1]), int(match[2]), int(match[3]), domain)


EXPECTED: Final = (
    "say 'all 3-way', '64 random 3-way seed 0', or SELECT a, b, count(*) FROM the_table GROUP BY a, b (several "
    "separated by ;)"
)


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


@dataclass(frozen=True)
class _OneTable(Unlinked):
    """A catalogue of one table, by its name."""

    parts: tuple[str, ...]
    domain: Domain

    def find(self, table: exp.Table) -> Scope:
        """See `dpsql.language.scope.Catalog.find`."""
        if not ends_with(self.parts, [part.name for part in table.parts]):
            raise UnknownName(
                f"the workload reads {table.name!r}, not {self.parts[-1]!r}: a workload is over one table"
            )
        columns = {name: exp.column(exp.to_identifier(name, quoted=True)) for name in self.domain.names}
        return Scope(self, columns, ())

    def public(self, table: exp.Table) -> tuple[Any, Sequence[tuple[str, str]]]:
        """See `dpsql.language.scope.Catalog.public`: no other table is known."""
        raise UnknownName(f"the workload joins {table.name!r}, which is not known here")

    def is_public(self, table: exp.Table) -> bool:
        """See `dpsql.language.scope.Catalog.is_public`."""
        return False

    def aggregates(self) -> frozenset[str]:
        """See `dpsql.language.scope.Catalog.aggregates`."""
        return frozenset()


@dataclass(frozen=True)
class _Only(Unlinked):
    """A catalogue where all but one table is refused."""

    catalog: Catalog
    parts: tuple[str, ...]

    def public(self, table: exp.Table) -> tuple[Any, Sequence[tuple[str, str]]]:
        """See `dpsql.language.scope.Catalog.public`."""
        return self.catalog.public(table)

    def is_public(self, table: exp.Table) -> bool:
        """See `dpsql.language.scope.Catalog.is_public`."""
        return self.catalog.is_public(table)

    def aggregates(self) -> frozenset[str]:
        """See `dpsql.language.scope.Catalog.aggregates`."""
        return self.catalog.aggregates()

    def find(self, table: exp.Table) -> Scope | tuple[exp.Query, Catalog]:
        """See `dpsql.language.scope.Catalog.find`."""
        entry = self.catalog.find(table)
        if not isinstance(entry, Scope):
            query, inside = entry
            return query, _Only(inside, self.parts)
        if tuple(entry.origin.parts) != self.parts:
            raise UnknownName(
                f"the workload reads {entry.origin.parts[-1]!r}, not {self.parts[-1]!r}: a workload is over one table"
            )
        return entry


def _parts_of(
    statement: exp.Expr, source: Sequence[str], domain: Domain, catalog: Catalog, weigh: Weigh | None
) -> Parts:
    """What one statement asks for, with its weight: the joint distribution of all columns that it reads, set by set.

    Of sums alone it is the linear queries that they are.
    """
    weight = _weight(statement)
    group = statement.args.get("group") if isinstance(statement, exp.Select) else None
    if isinstance(statement, exp.Select) and _asks_thresholds(statement, group):
        return [(_family(statement, source, domain, catalog), weight)]
    try:
        with deep_recursion():
            query = analyse(statement, _Only(catalog, tuple(source)))
        if query.around is not None:
            _refuse(statement, "a query around a query of groups asks for what that does: give the query of groups")
        if weigh is not None and all(aggregate.kind == "sum" for aggregate in query.aggregates):
            if weight != 1:
                _refuse(statement, "a sum has no /*+ weight */, for its own weights say how much rows count")
            return [(family, 1.0) for family in weigh(query)]
    except DomainTooLarge as error:
        raise DomainTooLarge(str(error).replace("query:", "workload:", 1)) from None
    except InvalidQuery as error:
        raise InvalidWorkload(str(error).replace("query:", "workload:", 1).replace(INSTEAD, EXPECTED)) from None
    if query.of_units:
        _refuse(statement, "DISTINCT inside an aggregate is not supported: a workload counts rows")
    everywhere = _read_by([*query.filters, *(tree for aggregate in query.aggregates for tree in aggregate.trees)])
    cliques = [domain.clique(everywhere | _read_by([query.keys[key] for key in keys])) for keys in query.sets]
    if not any(cliques):
        _refuse(statement, "no column is named: a workload needs GROUP BY or WHERE")
    return [(clique, weight) for clique in cliques if clique]


def _read_by(trees: Sequence[exp.Expr]) -> set[str]:
    return {name for tree in trees for name in columns_read(tree)}


_WEIGHT = re.compile(r"\s*\+\s*weight\s+([0-9.eE+-]+)\s*", re.IGNORECASE)


def _weight(statement: exp.Expr) -> float:
    """Of `/*+ weight 3 */`; 1 without."""
    for node in (statement, *statement.expressions):
        for comment in node.comments or ():
            if comment.strip().startswith("+"):
                match = _WEIGHT.fullmatch(comment)
                try:
                    weight = float(match[1]) if match else math.nan
                except ValueError:
                    weight = math.nan
                if not 0 < weight < math.inf:
                    raise InvalidWorkload(f"workload: /*{comment}*/ is not understood: say /*+ weight 3 */")
                return weight
    return 1.0


def _asks_thresholds(statement: exp.Select, group: exp.Expr | None) -> bool:
    return any(_is_threshold(node) for part in (group, *statement.expressions) if part for node in part.walk())


def _family(statement: exp.Select, source: Sequence[str], domain: Domain, catalog: Catalog) -> Threshold:
    """The family of one `SELECT count(*) FROM source GROUP BY at_least(t, a, b, …)`."""
    for name, value in statement.args.items():
        if value and name not in ("expressions", "from_", "group"):
            _refuse(statement, f"{name.strip('_').upper()} is not supported beside at_least(…)")
    table = statement.args["from_"].this if statement.args.get("from_") else None
    if not isinstance(table, exp.Table):
        _refuse(statement, f"FROM must be the protected table {source[-1]} and nothing else")
    scope = catalog.find(table)
    if not isinstance(scope, Scope) or tuple(scope.origin.parts) != tuple(source):
        _refuse(statement, f"FROM must be the protected table {source[-1]} and nothing else")
    outputs = [item.unalias() for item in statement.expressions]
    names = {item.alias: item.unalias() for item in statement.expressions if item.alias}
    counts = [item for item in outputs if isinstance(item, exp.Count)]
    if len(counts) != 1 or not isinstance(counts[0].this, exp.Star):
        _refuse(statement, "thresholds have one count(*)")
    columns = [item for item in outputs if not isinstance(item, exp.Count)]
    return _threshold(statement, _group_keys(statement, outputs, names, columns), columns, domain)


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


def _group_keys(
    statement: exp.Select,
    outputs: list[exp.Expr],
    names: dict[str, exp.Expr],
    columns: list[exp.Expr],
) -> list[exp.Expr]:
    group = statement.args.get("group")
    if group is None:
        _refuse(statement, "thresholds need GROUP BY")
    extra = [name for name, value in group.args.items() if value and name not in ("expressions", "all")]
    if extra:
        _refuse(statement, f"{extra[0].replace('_', ' ').upper()} is not supported beside at_least(…)")
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
        _refuse(expression, "only plain columns are supported in at_least(…)")
    return expression.name


def _refuse(expression: exp.Expr, reason: str) -> NoReturn:
    shown = shorten(expression.sql(dialect="duckdb"))
    raise InvalidWorkload(f"workload: {reason}, in: {shown}; {EXPECTED}")
