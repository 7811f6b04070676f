"""What a request names, looked up in the catalogue, the books and public tables: facts for a plan. No private row.

Nothing is decided here but what can be refused early: an ε that no plan takes is refused before domains are looked up.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from dpsql.books.ledger.store import Books, LookUp
from dpsql.books.people.visible_names import alone_for, find_seen, find_table
from dpsql.books.reading.dimensions import load
from dpsql.books.reading.lineage import Tables
from dpsql.books.tables.links import beside, declared_beside, link_of, per_unit_now, unit_columns
from dpsql.core.column_types import column_type, kind_of, lists_members, public_type
from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_family import LinearFamily
from dpsql.core.names import as_text
from dpsql.core.neighbours import Neighbours
from dpsql.core.tree import UNITS
from dpsql.core.workload import Workload
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.declare import automatic, declare_bins
from dpsql.engines.duckdb.declare_nulls import null_texts, with_nulls
from dpsql.engines.duckdb.names import current_schema
from dpsql.engines.duckdb.ticks import canonical
from dpsql.engines.registry import cannot_of, check_domain, check_listed, find_parts, find_source, rates_of
from dpsql.engines.source import Column, Source
from dpsql.engines.source_path import with_per_unit
from dpsql.errors import DpsqlError, InvalidArgument, InvalidQuery, InvalidWorkload, NotDeclared
from dpsql.evaluation.components import columns_of
from dpsql.evaluation.lookups import Loaded
from dpsql.evaluation.sandbox import check_syntax, one_empty_database
from dpsql.evaluation.weighing import weigh
from dpsql.language.expressions import columns_read
from dpsql.language.parse import parse_query
from dpsql.language.query import Query
from dpsql.language.refusal import refuse
from dpsql.language.size_bounds import check_sizes
from dpsql.language.workloads import EXPECTED, Weigh, is_shorthand, parse_workload
from dpsql.owner.declaration import read_column
from dpsql.owner.periods import in_period
from dpsql.owner.protect import as_released, chargeable, check_collation, check_stored, domain_of
from dpsql.privacy.account import Account
from dpsql.release.discovery_plan import DiscoveryFacts
from dpsql.release.drawing import check_rows_fit
from dpsql.release.members import check_alone, check_request, find_root, look_up_members
from dpsql.release.plan import TableFacts
from dpsql.release.query_plan import QueryFacts, delta_of
from dpsql.release.request import DiscoveryRequest, QueryRequest, Request, asked_delta
from dpsql.release.rows_of_units import with_cells

_USUAL_BINS: Final = 20
_MOST_BINS: Final = 1000
_KEPT_WEIGHTS: Final = 5_000_000


# --- a synthetic table ------------------------------------------------------------------------------------------------


def look_up_table(cursor: Cursor, request: Request) -> TableFacts:
    """The table, its account, domain and workload.

    Raises:
        DpsqlError: a child says what is not there, and what mends it.
    """
    source = find_table(cursor, request.table, request.search_path, request.by)
    books = LookUp(cursor, source.catalog)
    source = in_period(books, source, request.period)
    if request.linked:
        return _look_up_linked(request, books, source)
    check_alone(request)
    account = chargeable(books, source)
    asked_delta(account, request.epsilon, request.delta)
    domain = domain_of(books, source, request.columns)
    check_rows_fit(request.rows, domain)
    source = as_released(source, domain)
    tables = Tables(cursor, request.search_path, source, request.by)
    workload = _workload_of(request, source, domain, tables, _weighing(cursor, source, domain)).ordered()
    before = _workload_of(request, source, domain, tables).ordered() if workload.linear else None
    prior = _name_of_prior(cursor, request, source)
    alone, cannot, rates = alone_for(books, request.by), cannot_of(source), rates_of(source)
    link = link_of(books, source.key)
    keys = () if link is None else link.key
    return TableFacts(source, account, domain, workload, prior, alone, cannot, rates, before, keys)


def _look_up_linked(request: Request, books: Books, requested: Source) -> TableFacts:
    """The tables that links lead to from one of them, the root's account, and the domain of units' rows."""
    check_request(request)
    root = find_root(books, requested)
    account = chargeable(books, root)
    asked_delta(account, request.epsilon, request.delta)
    members = look_up_members(books, requested, account, request.ordered_by)
    if members.tree.root == UNITS:
        account = replace(account, neighbours=Neighbours.UNITS)
    row, source = members.unit_row, members.first
    domain, workload, before = row.domain, row.workload(), row.former_workload()
    check_rows_fit(request.rows, domain)
    alone = alone_for(books, request.by)
    meant = None if before == workload else before
    return TableFacts(source, account, domain, workload, alone=alone, before=meant, linked=members)


def _name_of_prior(cursor: Cursor, request: Request, source: Source) -> tuple[str, ...] | None:
    """The names that lead to the request's prior; see `TableFacts`."""
    if request.prior is None:
        return None
    if request.by:  # a place or a name that another user calls something else by
        entries = find_seen(Books(cursor, source.catalog), request.prior, request.by, shown_too=True)
        return ("release", *sorted(entry.key for entry in entries))
    catalog, schema = current_schema(cursor, request.search_path)
    return (catalog, schema, request.prior)[catalog == source.catalog :]


def _workload_of(
    request: Request, source: Source, domain: Domain, tables: Tables, weigh: Weigh | None = None
) -> Workload:
    """What a request's workload asks for; what DuckDB cannot parse either is refused in DuckDB's words, as a query is.

    Raises:
        InvalidWorkload: see `parse_workload`.
    """
    try:
        return parse_workload(request.workload, source.parts, domain, tables, weigh)
    except InvalidWorkload:
        if request.workload and not is_shorthand(request.workload):
            check_syntax(request.workload, "workload", InvalidWorkload, EXPECTED)
        raise


_weighed: OrderedDict[tuple[Source, Domain, str], Sequence[LinearFamily]] = OrderedDict()
_weighing_one: Final = threading.Lock()


def _weighing(cursor: Cursor, source: Source, domain: Domain) -> Weigh:
    """Makes linear queries of sums; those of the last statements are kept, for they depend on nothing else."""

    def weighed(query: Query) -> Sequence[LinearFamily]:
        check_sizes(query.trees)
        loaded = [load(cursor, dimension, query.trees) for dimension in query.scope.dimensions]
        key = (source, domain, repr((query.fingerprint, [loaded_table.digest for loaded_table in loaded])))
        with _weighing_one:
            earlier = _weighed.get(key)
        if earlier is None:
            with one_empty_database():
                earlier = weigh(source, domain, query, loaded)
            with _weighing_one:
                _weighed[key] = earlier
                while sum(len(f.weights) for families in _weighed.values() for f in families) > _KEPT_WEIGHTS:
                    _weighed.popitem(last=False)
        return earlier

    return weighed


# --- a query ----------------------------------------------------------------------------------------------------------


def look_up_query(cursor: Cursor, request: QueryRequest) -> tuple[QueryFacts, list[Loaded]]:
    """The query taken apart, its table, account and domain, and the rows of the public tables that it joins.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    query = _parsed(cursor, request)
    check_sizes(query.trees)  # at once: the rest of what is checked of expressions takes longer
    return _facts_of(cursor, request, query, query.scope.origin)


def look_up_again(cursor: Cursor, request: QueryRequest, facts: QueryFacts) -> QueryFacts:
    """The same facts as they are now, of a query that was taken apart before."""
    plain = find_parts(cursor, facts.source.parts, facts.source.parts[:2])
    books = LookUp(cursor, plain.catalog)
    now = beside(books, plain)
    source = with_per_unit(now, [per_unit_now(books, derived) for derived in facts.source.per_unit])
    return _facts_of(cursor, request, facts.query, source)[0]


def _facts_of(cursor: Cursor, request: QueryRequest, query: Query, source: Source) -> tuple[QueryFacts, list[Loaded]]:
    books = LookUp(cursor, source.catalog)
    source = in_period(books, source, request.period)
    account = chargeable(books, source)
    delta_of(request, account)
    _check_units(account, query, unit_columns(books, source))
    if query.of_units and "presence" in (cannot := cannot_of(source)):
        raise InvalidQuery(
            f"query: engine {source.engine!r} of {source.name!r} cannot count DISTINCT values; {cannot['presence']}"
        )
    source, numbered = with_cells(books, source)
    query = query.without_sure(_never_null(books, source))
    query, domain = _with_domain(books, source, query)
    joined = [load(cursor, dimension, query.trees) for dimension in query.scope.dimensions]
    digests = tuple((loaded.dimension.name, loaded.digest) for loaded in joined)
    released = as_released(source, domain)
    return QueryFacts(released, account, domain, query, digests + numbered, alone_for(books, request.by)), joined


def _with_domain(books: Books, source: Source, query: Query) -> tuple[Query, Domain]:
    """A query and the domain of its columns; where one has none the same query in other words, if they need none."""
    try:
        return query, _domain_of(books, source, query)
    except NotDeclared:
        counted = query.counting_there()
        try:
            return counted, _domain_of(books, source, counted)
        except DpsqlError:
            _check_counted(books, source, query)
        raise
    except DpsqlError:
        _check_counted(books, source, query)
        raise


def _never_null(books: Books, source: Source) -> frozenset[str]:
    """The columns that are never NULL, by a constraint, and have no domain, or are excluded."""
    declared_names = {
        name for name, attribute in declared_beside(books, source).items() if attribute.kind != "excluded"
    }
    sure = (c for c in source.columns if not c.nullable and c.name not in declared_names and automatic(c) is None)
    return frozenset(column.name for column in sure)


def _check_counted(books: Books, source: Source, query: Query) -> None:
    """Refuse count(x) of a column whose NULLs nobody may know of, because it has no domain.

    Raises:
        NotDeclared: with what counts instead.
    """
    declared = declared_beside(books, source)
    for name in sorted(query.only_there):
        column = source.column(name)
        attribute = declared.get(name) or automatic(column)
        if attribute is None or attribute.kind == "excluded":
            preserved = query.scope.preserved
            rows = "count(*), which counts rows with NULL, too" if preserved is None else f"count({preserved.key})"
            by_domain = "with dp_domain, or " if column_type(column.type).listable else ""
            raise NotDeclared(
                f"query: count({name}) counts the rows in which {name!r} is not NULL, and it has no public domain: say "
                f"{rows}; or the owner declares it {by_domain}as NOT NULL in the table"
            )


def _parsed(cursor: Cursor, request: QueryRequest) -> Query:
    """The query taken apart; what DuckDB cannot parse either is refused in DuckDB's words.

    Raises:
        InvalidQuery: see `parse_query`.
        UnknownName: likewise.
    """
    try:
        return parse_query(request.sql, Tables(cursor, request.search_path, by=request.by))
    except InvalidQuery:
        check_syntax(request.sql)
        raise


def _domain_of(books: Books, source: Source, query: Query) -> Domain:
    """The domain of the columns that a query reads; without any, the empty one."""
    names = {name for tree in query.trees for name in columns_read(tree)}
    there = _presence(books, source, query.only_there)
    declared_names = names - {attribute.name for attribute in there}
    domain = domain_of(books, source, sorted(declared_names)).inner if declared_names else Domain(())
    if there:
        places = {column.name: place for place, column in enumerate(source.columns)}
        attributes = sorted([*domain, *there], key=lambda attribute: places[attribute.name])
        domain = replace(domain, attributes=tuple(attributes))
    domain = replace(domain, attributes=tuple(attribute.counted for attribute in domain))
    for tree in query.trees:
        columns_of(domain, tree)  # refuses excluded columns
    return domain


def _presence(books: Books, source: Source, names: Iterable[str]) -> list[Attribute]:
    """Domains of columns that have none, and of which is asked whether they are NULL: that, and any other value.

    Which columns may be NULL is public, as the types are, and each row is in one of the two cells.
    """
    declared, attributes = declared_beside(books, source), []
    for name in sorted(names):
        column = source.column(name)
        kind = public_type(column.type)
        some = column_type(kind).some
        if name not in declared and automatic(column) is None and not column.generated and some is not None:
            attributes.append(Attribute(name, kind, "values", nullable=True, other=some))
    return attributes


def _check_units(account: Account, query: Query, keys: frozenset[str]) -> None:
    """Refuse count(DISTINCT …) of anything but the table's privacy unit."""
    for aggregate in query.of_units:
        column = aggregate.argument
        if column is None or column.name == account.unit_column or column.name in keys:
            continue
        if account.unit_column is None:
            reason = f"rows of {account.source!r} are units of their own, so DISTINCT values cannot be counted"
            refuse(column, reason, "count groups instead: GROUP BY the column")
        instead = f"say count(DISTINCT {account.unit_column}), or count groups: GROUP BY the column"
        refuse(column, "DISTINCT values are counted of the privacy unit only", instead)


# --- a discovery ------------------------------------------------------------------------------------------------------


def look_up_discovery(cursor: Cursor, request: DiscoveryRequest) -> DiscoveryFacts:
    """The table, its account and the column, and what the owner says of it in the column's type.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    source = find_source(cursor, request.table, request.search_path)
    books = LookUp(cursor, source.catalog)
    source = in_period(books, source, request.period)
    account = chargeable(books, source)
    column = source.column(request.column)
    check_stored(source, column)
    if lists_members(column.type):  # whose members need not be public
        column = replace(column, type=public_type(column.type))
    check_collation(source, column, names_texts=request.lower is None or request.nulls_as is not None)
    nulls_as = () if request.nulls_as is None else null_texts(cursor, column, request.nulls_as)
    if nulls_as and request.nulls is False:
        raise InvalidArgument("nulls is false, but the values of nulls_as count as NULL: leave one of them out")
    nullable = bool(nulls_as) or (column.nullable if request.nulls is None else request.nulls)
    read, form = (column, {}) if request.read_as is None else read_column(column, request.read_as)
    if "reading" in form:
        raise InvalidArgument(
            f"read_as is {request.read_as!r}, whose bins are those of the calendar: declare them with lower, upper and "
            "bins or every, in place of discover := true"
        )
    whole = _whole(cursor, request, read, nullable=nullable)
    other = None if request.other is None else canonical(cursor, [request.other], read.type, "other")[0]
    if whole is None:
        _check_listed(account, column, request)
        check_listed(cursor, source, column.name)
    else:
        if request.heavy is not None and column.name == account.unit_column:
            raise InvalidArgument(f"column {column.name!r} is the privacy unit, of which no value may be known")
        whole = replace(whole, **form)
        whole = with_nulls(cursor, whole, nulls_as) if nulls_as else whole
        check_domain(cursor, source, whole)
    return DiscoveryFacts(source, account, column, whole, nullable, other, nulls_as)


def _whole(cursor: Cursor, request: DiscoveryRequest, column: Column, *, nullable: bool) -> Attribute | None:
    """The range of a column in bins of equal width; None where values are asked for."""
    bounds = (request.lower, request.upper)
    if bounds == (None, None):
        return None
    if None in bounds:
        raise InvalidArgument(f"column {column.name!r}: lower and upper go together")
    if request.bins is not None and not 2 <= request.bins <= _MOST_BINS:
        raise InvalidArgument(f"bins is {request.bins}: give 2 to {_MOST_BINS} to discover, or leave it out for 20")
    whole = declare_bins(cursor, column, None, *bounds, 1, nullable=nullable, other=request.other)
    steps = _MOST_BINS if whole.is_float else int(whole.ticks[1]) - int(whole.ticks[0])
    bins = min(request.bins or _USUAL_BINS, steps)
    while True:
        try:
            return declare_bins(cursor, column, None, *bounds, bins, nullable=nullable, other=request.other)
        except InvalidArgument:
            if request.bins is not None or bins == 1:
                raise
            bins //= 2  # a FLOAT may not tell so many apart


def _check_listed(account: Account, column: Column, request: DiscoveryRequest) -> None:
    """Refuse to discover the values of a column that has none to list, or shows whose row it is."""
    for name in ("bins", "heavy", "read_as"):
        if (given := getattr(request, name)) is not None:
            raise InvalidArgument(
                f"{name} is {given}: give lower and upper too, the public bounds between which edges lie"
            )
    if not column_type(column.type).listable:
        raise InvalidArgument(
            f"column {column.name!r} is of type {kind_of(column.type)}, which can have no domain: say "
            f"dp_domain(…, {as_text(column.name)}, exclude := true)"
        )
    if column.name == account.unit_column:
        raise InvalidArgument(f"column {column.name!r} is the privacy unit, of which no value may be known")
    if column_type(column.type).equal_text is None:
        raise InvalidArgument(
            f"column {column.name!r} is of type {kind_of(column.type)}, of which equal values are written in several "
            f'ways: declare them with dp_domain(…, {as_text(column.name)}, "values" := […])'
        )
    if automatic(column) is not None:
        raise InvalidArgument(f"column {column.name!r} is of type {column.type}, which tells its values by itself")
