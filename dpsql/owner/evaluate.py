"""How good a synthetic table is, for its owner: it is compared with the real rows, so what is found is private.

Both tables are coded by the same public domains: those of the release, or of today for another table. A value that is
outside has a code of its own; a synthetic row shows it as NULL, so what a domain leaves out is part of the error.
Nothing is charged, and nothing is written into the books.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from dpsql.books.ledger.store import Books
from dpsql.books.releases.releases import Entry, find_releases, rows_table
from dpsql.books.tables.owner_facts import tables_of
from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_family import LinearFamily
from dpsql.core.names import pick, quote, shorten
from dpsql.core.period import split_key, table_of
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.registry import engine_of, find_source
from dpsql.engines.source import Column, Source
from dpsql.errors import InvalidArgument, UnknownName
from dpsql.evaluation.sandbox import one_empty_database
from dpsql.evaluation.weighing import weigh
from dpsql.language.query import Query
from dpsql.language.size_bounds import check_sizes
from dpsql.language.workloads import parse_workload
from dpsql.owner.periods import in_period
from dpsql.owner.protect import account_of, domain_of, fits
from dpsql.utility.answers import Answers, PlacedQuery, Sums, answers
from dpsql.utility.coded import Coded, Codes, Fractions
from dpsql.utility.dependence import strength
from dpsql.utility.groups import FAR, Groups, groups
from dpsql.utility.utility import Utility, measure

MOST_ROWS: Final = 1_000_000
_KINDS: Final = (
    ("marginal", "marginals"),
    ("family of thresholds", "families of thresholds"),
    ("linear query, by its largest weight", "linear queries, by their largest weights"),
)


@dataclass(frozen=True)
class Evaluation:
    """How good a synthetic table is. Private: see `warning`.

    Attributes:
        source: the real table.
        synthetic: the synthetic one, in words.
        real_rows: how many there are; of more than a million a sample was compared.
        utility: the figures.
        answers: how well it answers a workload; None where none was given.
        groups: how alike both are within groups; None where none were given.
    """

    source: str
    synthetic: str
    real_rows: int
    utility: Utility
    answers: Answers | None = None
    groups: Groups | None = None

    @property
    def warning(self) -> str:
        """What whoever sees the figures must know."""
        return (
            f"Private: computed from the real rows of {self.source!r}, not differentially private. "
            "Do not publish these figures."
        )

    def __str__(self) -> str:
        head = (f"{self.synthetic} beside {self.source}", f"{self.real_rows:,} rows")
        lines = [head, *self._answered(), *self.utility.lines()]
        width = max(len(what) for what, _ in lines)
        return "\n".join([self.warning, *(f"{what:{width}}  {figure}" for what, figure in lines)])

    __repr__ = __str__

    def _answered(self) -> Iterator[tuple[str, str]]:
        if self.answers is not None:
            a = self.answers
            counts = zip((a.marginals, a.families, a.linear), _KINDS, strict=True)
            named = [f"{number:,} {words[number != 1]}" for number, words in counts if number]
            yield f"the workload: {', '.join(named)}", ""
            yield "  largest error of an answer", f"{a.largest:.4f}"
            yield "  the same if every answer were 0", f"{a.zeros:.4f}"
            if a.l1 is not None:
                yield "  mean L1 of its marginals", f"{a.l1:.4f}"
            yield "  root mean square error", f"{a.rmse:.6f}"
        if self.groups is not None:
            yield f"mean L1 of pairs within {len(self.groups.each):,} groups", f"{self.groups.error:.4f}"
            yield f"  groups of which {FAR} rows or more are missing or too many", f"{self.groups.punished:,}"

    def figures(self) -> dict[str, int | float | None]:
        """All figures by name; those of a workload after `workload_`, those of groups after `groups_`."""
        figures: dict[str, int | float | None] = {}
        if self.answers is not None:
            figures |= {f"workload_{name}": value for name, value in vars(self.answers).items()}
        if self.groups is not None:
            summary = {"number": len(self.groups.each), "error": self.groups.error, "punished": self.groups.punished}
            figures |= {f"groups_{name}": value for name, value in summary.items()}
        return figures | self.utility.figures()

    def to_json(self) -> str:
        """All figures by name on one line, the warning first."""
        described = {
            "warning": self.warning,
            "source": self.source,
            "synthetic": self.synthetic,
            "real_rows": self.real_rows,
        }
        return json.dumps({**described, **self.figures()})


@dataclass(frozen=True)
class Compared:
    """Real and synthetic rows in the same codes. Private.

    Attributes:
        source: the real table.
        synthetic: the synthetic one, in words.
        real_rows: how many there are.
        declared: the domain of the synthetic table.
        domain: whose codes they are: that, with a code for what is outside in each column.
        tables: both.
    """

    source: Source
    synthetic: str
    real_rows: int
    declared: Domain
    domain: Domain
    tables: Coded

    def shares(self) -> dict[str, Fractions]:
        """The true shares of each column's cells, in those that synthetic rows tell apart."""
        columns = zip(self.declared, self.domain, self.tables.real.T, strict=True)
        return {declared.name: _shown(declared, closed, codes) for declared, closed, codes in columns}

    def strengths(self) -> dict[Clique, float]:
        """How strongly each pair of columns truly depends on each other: see `dpsql.utility.dependence`."""
        names, ordered = self.domain.names, self.tables.ordered
        return {
            (names[i], names[j]): strength(self.tables.marginals((i, j)), (ordered[i], ordered[j]))
            for i, j in itertools.combinations(range(len(names)), 2)
        }

    def place(self, name: str) -> int:
        """The place of a column.

        Raises:
            UnknownName: there is no such column.
        """
        return self.domain.names.index(self.domain.find(name))

    def queries_of(self, workload: str) -> list[PlacedQuery]:
        """What a workload asks for, by the places of columns.

        Raises:
            InvalidWorkload: see `parse_workload`.
        """
        with one_empty_database():
            parsed = parse_workload(workload, self.source.parts, self.declared, weigh=self._weighed)
        questions: list[tuple[Clique, int | Sums | None]] = [(clique, None) for clique in parsed.cliques]
        questions += [(threshold.clique, threshold.least) for threshold in parsed.thresholds]
        questions += [(family.clique, Sums(family, self.declared.shape(family.clique))) for family in parsed.linear]
        return [(tuple(map(self.place, clique)), of) for clique, of in questions]

    def _weighed(self, query: Query) -> Sequence[LinearFamily]:
        """The linear queries of a statement of sums."""
        check_sizes(query.trees)
        return weigh(self.source, self.declared, query)


def _shown(declared: Attribute, closed: Attribute, codes: npt.NDArray[np.integer]) -> Fractions:
    """The shares of a column's cells as synthetic rows have them: NULL also stands for what is outside."""
    shares = np.bincount(codes, minlength=closed.size) / len(codes)
    if closed.outside and closed.nullable:
        return np.append(shares[:-2], shares[-2:].sum())
    return shares[:-1] if closed.outside and not declared.outside else shares


def evaluate(
    cursor: Cursor, source: Source, synthetic: str, search_path: str = "", **measured: Unpack[Measured]
) -> Evaluation:
    """Compare a synthetic table with the real one: see `compared` and `evaluation_of`."""
    return evaluation_of(compared(cursor, source, synthetic, search_path), **measured)


class Measured(TypedDict, total=False):
    """What is measured beside the pairs and triples of all columns.

    Attributes:
        target: the column that models predict.
        workload: SQL or a shorthand, whose answers are compared.
        groups: columns, within whose values pairs of others are compared.
    """

    target: str | None
    workload: str | None
    groups: Sequence[str]


def evaluation_of(comparison: Compared, **measured: Unpack[Measured]) -> Evaluation:
    """How good a synthetic table is.

    Args:
        comparison: both tables.
        **measured: see `Measured`.

    Raises:
        UnknownName: there is no such column.
        InvalidArgument: `groups` are of all columns, or name one twice.
        InvalidWorkload: see `parse_workload`.
        DpsqlError: scikit-learn is not installed, which `target` needs.
    """
    target, workload, groups_of = measured.get("target"), measured.get("workload"), measured.get("groups", ())
    place = None if target is None else comparison.place(target)
    within = [comparison.place(name) for name in groups_of]
    if len(set(within)) < len(within):
        raise InvalidArgument(f"groups are {', '.join(groups_of)}: name each column once")
    questions = None if workload is None else comparison.queries_of(workload)
    return Evaluation(
        comparison.source.key,
        comparison.synthetic,
        comparison.real_rows,
        measure(comparison.tables, target=place),
        None if questions is None else answers(comparison.tables, questions),
        groups(comparison.tables, within) if within else None,
    )


def compared(cursor: Cursor, source: Source, synthetic: str, search_path: str = "") -> Compared:
    """Code a synthetic table and the real one.

    Args:
        cursor: a connection of its own.
        source: the protected table.
        synthetic: number, key or name of a release of it, or else a table with its columns.
        search_path: where a table is looked up.

    Raises:
        NotProtected: the table has no account.
        UnknownName: there is no such release or table, or it lacks a column.
        InvalidArgument: the release is of a query or not published, or a column has another type.
    """
    books = Books(cursor, source.catalog)
    account_of(books, source)
    entry = release_of(books, source, synthetic)
    if entry is not None:
        source = in_period(books, source, split_key(entry.source)[1])
    if entry is None:
        domain, made = domain_of(books, source), _table(cursor, source, synthetic, search_path)
        name = f"table {made.name}"
    else:
        table = rows_table(source.catalog, entry)
        columns = tuple(Column(a.name, a.stored_type, a.nullable) for a in entry.domain)
        domain, made = entry.domain, Source(table.catalog, table.db, table.name, columns)
        name = f"release {entry.number}"
    _check_columns(domain, source, "column {0} of {1!r}, {2}, was {3} when that release was made: evaluate a newer one")
    _check_columns(domain, made, "column {0} of {1!r} is {2}, not {3}: say ALTER TABLE {4} ALTER {0} TYPE {3}")
    closed = Domain(tuple(attribute.closed(never_null=False) for attribute in domain))
    (real, number), (rows, made_number) = (_codes(cursor, side, closed) for side in (source, made))
    for words, there in ((source.name, number), (name, made_number)):
        if not there:
            raise InvalidArgument(f"{words} has no rows: there is nothing to compare")
    sizes = tuple(attribute.size for attribute in closed)
    tables = Coded(real, rows, sizes, tuple(_ordered(attribute) for attribute in closed))
    return Compared(source, name, number, domain, closed, tables)


def _codes(cursor: Cursor, source: Source, domain: Domain) -> tuple[Codes, int]:
    engine = engine_of(cursor, source)
    try:
        return engine.codes(source, domain, MOST_ROWS)
    finally:
        engine.close()


def _ordered(attribute: Attribute) -> int:
    """How many codes of a column have an order: those of its bins."""
    return attribute.regular if attribute.kind == "bins" else 0


def release_of(books: Books, source: Source, text: str) -> Entry | None:
    """The published release of a table that a text means; None if there is none of that number, key or name.

    A linked release is one of each of its tables.

    Raises:
        UnknownName: several have the name, or there is no release of that number.
        InvalidArgument: it has no rows of the table.
    """
    entries = [entry for entry in find_releases(books, text) if source.table_key in _tables(entry)]
    if not entries and not text.isdecimal():
        return None
    if len(entries) != 1:
        count = "several releases of {} are" if entries else "no release of {} is"
        raise UnknownName(
            f"{count.format(repr(source.name))} called {shorten(text)!r}: give a number of FROM dp_releases()"
        )
    (entry,) = entries
    if entry.state != "published":
        raise InvalidArgument(
            f"{entry.called} is {entry.state}, not published: the call that paid for it completes it, free"
        )
    if entry.rows is None or "query" in json.loads(entry.request):
        raise InvalidArgument(f"{entry.called} is of a query: evaluate compares synthetic tables, of dp_synthesize")
    return entry


def _tables(entry: Entry) -> list[str]:
    return [table_of(entry.source)] if entry.linked is None else tables_of(entry.linked)


def _table(cursor: Cursor, source: Source, text: str, search_path: str) -> Source:
    """The table of that name.

    Raises:
        UnknownName: there is none, nor a release.
    """
    try:
        return find_source(cursor, text, search_path)
    except UnknownName:
        raise UnknownName(
            f"there is no release of {source.name!r} and no table called {shorten(text)!r}: give a number of "
            "FROM dp_releases(), or a table with the same columns"
        ) from None


def _check_columns(domain: Domain, source: Source, words: str) -> None:
    """Refuse a table that the domain does not fit, because its values could not be coded."""
    for attribute in domain:
        if pick(attribute.name, (column.name for column in source.columns)) is None:
            raise UnknownName(
                f"{source.name!r} has no column {attribute.name!r}: compare a table with the same columns"
            )
        column = source.column(attribute.name)
        if not fits(attribute, column):
            shown = quote(attribute.name), source.name, column.type, attribute.stored_type, source.identifier
            raise InvalidArgument(words.format(*shown))
