"""`dp_measurements(release)`: the noisy counts and sums of a release with their standard deviations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from dpsql.books.ledger.statements import qualified, read, with_constants
from dpsql.books.ledger.store import Books, catalogs_with_books
from dpsql.books.releases.releases import Entry, find_releases
from dpsql.core.names import shorten
from dpsql.errors import InvalidArgument, UnknownName
from dpsql.release.request import LONGEST_NAME

from .bridge.declare import Call, Parameter, Relation
from .extension import Instance, SqlFunction
from .of_users import find_own
from .relations import rows_query

COLUMNS = {
    "measurement": "BIGINT",
    "columns": "VARCHAR[]",
    "cell": "VARCHAR[]",
    "value": "BIGINT",
    "stddev": "DOUBLE",
    "noise": "VARCHAR",
    "at_least": "BIGINT",
    "answer": "DOUBLE",
    "query": "VARCHAR",
}


class DpMeasurements(SqlFunction):
    """One row for each noisy count or sum: its columns, the values of its cell, and its noise.

    `at_least` is NULL, but for thresholds: then the count is of the rows that match so many of the cell's values.
    `query` is NULL, but for sums: then it is the sum's text, and `cell` its group, if there are several. `answer` is
    the noisy count or sum, and `stddev` is in its unit. `value` is NULL for sums, because it is a whole number.
    """

    name = "dp_measurements"
    parameters = (
        Parameter("release", "ANY", positional=True, help="number, name or key of a release (dp_releases())"),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        text = str(call["release"])
        release = find_own(self._instance, text, call.by) if call.by else find_release(self._instance, text)
        catalog, entry = release
        if entry.state != "published":
            raise InvalidArgument(
                f"{entry.called} is {entry.state}, not published: the call that paid for it completes it, free"
            )
        labels = {attribute.name: attribute.labels() for attribute in entry.domain}
        sums = entry.report.get("sums", {})
        texts = json.dumps(labels, ensure_ascii=False), json.dumps(sums, ensure_ascii=False)
        return Measurements(catalog, entry.key, *texts)


@dataclass
class Measurements(Relation):
    """The stored answers of one release."""

    catalog: str
    key: str
    labels: str
    sums: str
    schema: str = field(init=False, default=rows_query(COLUMNS, []))
    cardinality: int | None = None

    def run(self) -> str:
        """See `Relation.run`."""
        constants = {"release": self.key, "labels": self.labels, "sums": self.sums}
        return with_constants(qualified(read("measurements")[0], self.catalog), constants)


def find_release(instance: Instance, text: str) -> tuple[str, Entry]:
    """The database and entry of a release, by its number, name or key.

    Raises:
        UnknownName: none, or several of that name.
    """
    matches = []
    if len(text) <= LONGEST_NAME:
        with instance.lookup() as cursor:
            for catalog in catalogs_with_books(cursor):
                matches += [(catalog, entry) for entry in find_releases(Books(cursor, catalog), text)]
    if len(matches) != 1:
        count = "several releases are" if matches else "no release is"
        raise UnknownName(f"{count} called {shorten(text)!r}: give a number, name or key of dp_releases()")
    return matches[0]
