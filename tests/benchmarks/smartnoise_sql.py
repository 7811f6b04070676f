"""64 three-way marginals by smartnoise-sql's PrivateReader on Postgres; runs in an environment of its own.

    python -m tests.benchmarks.postgres --times 20 --peer …/bin/python

Args: the address, the rows of the table, and a JSON list of marginals. Prints the seconds and CPU seconds of this process.
It imports nothing of dpsql, because smartnoise-sql wants other versions.
"""

import json
import os
import sys
import time
import warnings

import psycopg2
from snsql import Privacy, from_connection


def main() -> None:
    """Ask for each marginal, as its documentation shows it."""
    warnings.simplefilter("ignore")
    address, rows, asked = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    names = sorted({name for clique in asked for name in clique})
    columns = {name: {"type": "string"} for name in names}
    table = {"row_privacy": True, "rows": rows, "censor_dims": True, **columns}
    metadata = {"": {"public": {"adult": table}}}
    connection = psycopg2.connect(address)
    privacy = Privacy(epsilon=1.0 / len(asked), delta=1e-12)
    reader = from_connection(connection, privacy=privacy, metadata=metadata, engine="postgres")
    begun, used, cells = time.perf_counter(), os.times(), 0
    for clique in asked:
        listed = ", ".join(clique)
        found = reader.execute(f"SELECT {listed}, COUNT(*) AS n FROM public.adult GROUP BY {listed}")
        cells += len(found) - 1
    now = os.times()
    print(cells, time.perf_counter() - begun, now.user + now.system - used.user - used.system)


if __name__ == "__main__":
    main()
