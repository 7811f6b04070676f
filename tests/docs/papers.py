"""Options of mechanisms beside the values of their papers: what `faithful := true` takes, the default, and why.

What we take is read from the code. An option that a paper or we decide, and that has no words here, fails the build.
"""

from __future__ import annotations

from typing import Any, Final

from dpsql.mechanisms.base import find, make
from dpsql.mechanisms.defaults import having_papers, make_for

_SAME: Final = ""
PAPERS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "barak": {
        "noise": ("Laplace", _SAME),
        "queries": ("Fourier coefficients of Boolean columns", "columns of other kinds are written in bits"),
        "rounding": ("to whole counts", "as many rows as there are where their number is public"),
    },
    "dualquery": {
        "start": ("uniform", _SAME),
        "records": ("1 a round", _SAME),
        "rule": ("T, s and η of the theorem for a wanted α", "a request names ε, so α is the one that costs it"),
        "search": ("an integer program each round", "the local search where a round draws more queries than it solves"),
    },
    "fem": {
        "rounds": ("T of a grid", "a fixed one, for choosing it on the rows costs ε"),
        "samples": ("s of a grid", "likewise"),
        "noise": ("the mean of a grid", "likewise"),
        "start": ("uniform", _SAME),
        "search": ("an integer program for each record", "the local search where columns have more than 200 values"),
        "order": ("records, then the query that they answer worst", _SAME),
    },
    "ide": {
        "noise": ("Laplace", _SAME),
        "group_prior": ("a group starts from its region", _SAME),
        "passes": ("twice as many steps as marginals", _SAME),
        "totals": ("as much ε as the marginals, as they are measured", _SAME),
        "ties": ("not said", "the nearest by relative entropy of the L1-closest ones, as problem (4) asks for"),
        "marginals": ("cliques of the public table, tuned for the contest", "a rule over the same table"),
    },
    "lp": {
        "noise": ("Laplace", _SAME),
        "queries": ("each f by itself, of scale 2|F|/(εn)", _SAME),
        "space": ("a known measure, such as the uniform one", _SAME),
        "bootstrap": ("rows drawn independently", _SAME),
        "rule": (
            "m = δ⁻²·K·|F|/γ points",
            "K is kappa, or 1 where it is not given; at most what a linear program holds, 5 million over the marginals",
        ),
    },
    "mwem": {
        "rounds": ("T that makes Claim 3's bound least", "at least 10"),
        "queries": ("single queries", _SAME),
        "noise": ("Laplace", _SAME),
        "start": ("uniform", _SAME),
        "passes": ("the newest answer", _SAME),
        "output": ("the average of the iterates", _SAME),
        "max_cells": ("the whole domain", "connected columns only: no query joins more cells"),
    },
    "pmwpub": {
        "queries": ("single queries", _SAME),
        "start": ("the public rows' weights", _SAME),
        "output": ("the average of the iterates", _SAME),
    },
    "rap": {
        "rounds": (
            "the best of T = 2, 5, 10, 25, 50 on the private rows",
            "a public rule: choosing on the rows costs ε",
        ),
        "queries_per_round": ("the best of K = 5, 10, 25, 50, 100", "likewise"),
        "steps": ("at most 5,000", _SAME),
        "relaxed_rows": ("1,000", _SAME),
        "conversion": ("ε = ρ + 2√(ρ ln(1/δ))", _SAME),
        "start": ("random", _SAME),
        "queries": (
            "T = 1: each cell pays ρ/m",
            "the same noise; more than 20,000 cells are fitted in tiles, by a rate that falls, and not by the paper's Adam",
        ),
    },
}
"""By mechanism and option: the paper's value, and why ours is another; the option is empty where there is none."""


def paper_rows() -> list[list[str]]:
    """The rows of the table."""
    rows = []
    for name in having_papers():
        faithful, usual = make_for(name, {"faithful": True}, pure=False), make_for(name, {}, pure=False)
        published, recommended = find(name).published() or {}, find(name).recommended(pure=False)
        said = PAPERS[name]
        if missing := ({*published, *recommended} - {*said}):
            raise KeyError(f"{name}: no paper's value of {', '.join(sorted(missing))}")
        for option, (paper, why) in said.items():
            ours = [_shown(getattr(one, option)) if option else "" for one in (faithful, usual)]
            rows.append([f"`{name}`", f"`{option}`" if option else "", paper, *ours, why])
    assert all(option in make(name, {}).__dataclass_fields__ for name, of in PAPERS.items() for option in of if option)
    return rows


def _shown(value: Any) -> str:
    """A value as SQL writes it."""
    if value is None:
        return "a rule"
    return f"`{str(value).lower() if isinstance(value, bool) else repr(value)}`"
