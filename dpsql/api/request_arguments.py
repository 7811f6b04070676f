"""The arguments of `dp_synthesize` and the options of all mechanisms, for an editor that completes them.

Made by `python -m tests.docs.tables --write` from the parameters of `dp_synthesize` and the fields of the mechanisms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict


class Options(TypedDict, total=False):
    """Options of mechanisms, each with those that have it; None for its default."""

    all_cells: int | None  # projection
    alpha: float | None  # dualquery, mwem
    beta: float | None  # dualquery, mwem
    bootstrap: bool | None  # barak, lp
    clear: float | None  # ide
    constants: str | None  # dualquery
    conversion: str | None  # rap
    copies: int | None  # ide, pmwpub
    eta: float | None  # dualquery
    faithful: bool | None  # barak, dualquery, fem, ide, lp, mwem, pmwpub, rap
    gamma: float | None  # barak, lp
    group_by: Sequence[str] | str | None  # ide
    group_marginals: int | None  # ide
    group_prior: bool | None  # ide
    iterations: int | None  # ide
    kappa: float | None  # lp
    learning_rate: float | None  # rap
    marginals: int | None  # ide
    max_cells: int | None  # hdmm, ide, jam, mwem, pgm, projection, residual
    memory: str | None  # projection
    merge_rare: bool | None  # pgm
    method: str | None  # ide
    model_mb: int | None  # hdmm, pgm
    neighbours: str | None  # rap
    noise: float | str | None  # barak, direct, fem, hdmm, ide, lp, mwem
    objective: str | None  # barak, lp
    order: str | None  # fem
    output: str | None  # mwem, pmwpub
    passes: int | None  # ide, mwem, pmwpub
    points: int | None  # lp
    queries: str | None  # barak, lp, mwem, pmwpub, projection, rap
    queries_per_round: int | str | None  # rap
    reach: str | None  # ide
    reconstruct: str | None  # hdmm
    records: int | None  # dualquery
    region: str | None  # ide
    relaxation: str | None  # projection, rap
    relaxed_rows: int | None  # direct, hdmm, jam, projection, rap, residual
    rounding: str | None  # barak
    rounds: int | str | None  # dualquery, fem, mwem, pmwpub, rap
    rule: str | None  # dualquery, lp
    sample_rows: int | None  # dualquery
    samples: int | None  # dualquery, fem
    search: str | None  # dualquery, fem
    seconds: float | None  # barak, dualquery, fem, ide, lp
    selection: str | None  # pgm
    space: str | None  # lp
    start: str | None  # dualquery, fem, mwem, pmwpub, rap
    steps: int | None  # direct, hdmm, jam, pgm, projection, rap, residual
    subsample: bool | None  # dualquery
    support: int | None  # ide
    ties: str | None  # ide
    totals: str | None  # ide
    weights: str | None  # projection
    without: Sequence[str] | str | None  # projection


class RequestArguments(Options, total=False):
    """What `Database.synthesize` and `plan` take beside a table and ε, with its meaning; None for its default."""

    delta: Annotated[
        float | None,
        "by default the table's",
    ]
    workload: Annotated[
        str | None,
        "SQL or shorthand; by default all 3-way marginals",
    ]
    mechanism: Annotated[
        str | None,
        "one of barak, direct, dualquery, fem, hdmm, ide, jam, lp, mwem, pgm, pmwpub, projection, rap, residual, or "
        "auto",
    ]
    rows: Annotated[
        int | None,
        "of the synthetic table; by default the measured total",
    ]
    columns: Annotated[
        Sequence[str] | str | None,
        "only these columns; by default all",
    ]
    prior: Annotated[
        str | None,
        "a public table, view or earlier release to lean on",
    ]
    reuse: Annotated[
        bool | None,
        "use what earlier releases of the table measured",
    ]
    release: Annotated[
        str | None,
        "name of the release; a new name makes (and pays for) a new one",
    ]
    linked: Annotated[
        bool | None,
        "all tables that links lead to, in one release; or, with a privacy unit, units with their several rows",
    ]
    period: Annotated[
        str | None,
        "the period whose rows are read, as '2026-03', where each has a budget",
    ]
    ordered_by: Annotated[
        str | None,
        "with linked and a privacy unit: the column by which rows of a unit follow each other, such as a year",
    ]
