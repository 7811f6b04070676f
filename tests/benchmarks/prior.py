"""Mechanisms with a public prior, on Adult split into a private table and a biased public part of a tenth.

    python tests/benchmarks/prior.py                       errors with and without the prior, then by groups
    python tests/benchmarks/prior.py --runs 1 --epsilon 1  one run, one ε, the groups too
    python tests/benchmarks/prior.py --runs 5 --only jam   one system of the first table, no groups

The first table: the largest error of a cell and the mean L1 of 64 random 2-way marginals of the synthetic table. The second: Algorithm 2 of IDE with
native-country as region and education as group inside it, measured as in the paper's challenge: mean L1 of 50 random
2-way marginals in each group (2 where a group of the table has no synthetic row), and how far each group's count is off.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[3] / "shared" / "data"
WORKLOAD = "64 random 2-way seed 0"
SYSTEMS = {
    "the prior itself": None,
    "ide, laplace (ε, 0)": {"mechanism": "ide", "prior": "p"},
    "ide, gaussian": {"mechanism": "ide", "prior": "p", "noise": "gaussian"},
    "pmwpub": {"mechanism": "pmwpub", "prior": "p"},
    "jam": {"mechanism": "jam", "prior": "p"},
    "projection with the prior": {"mechanism": "projection", "prior": "p"},
    "projection without": {"mechanism": "projection"},
}
REGION, GROUP = "native-country", "education"
LARGE = 30


def load():
    """A database with the private table `t` and the public one `p`, domain and codes of both."""
    import dpsql
    from dpsql.books.ledger.store import Books
    from dpsql.owner.protect import domain_of

    sizes = json.loads((DATA / "adult_pub_domain.json").read_text())
    db = dpsql.connect()
    for name, file in (("t", "adult_priv"), ("p", "adult_pub")):
        db.sql(f"CREATE TABLE {name} AS SELECT * EXCLUDE (fnlwgt) FROM '{DATA}/{file}.csv.gz'")
    rows = db.sql("SELECT count(*) FROM t").fetchall()[0][0]
    db.protect("t", epsilon=1000, delta=1 / rows**2)
    names = [name for name, *_ in db.sql("DESCRIBE t").fetchall()]
    for name in names:
        db.domain("t", name, lower=0, upper=sizes[name] - 1, bins=sizes[name], nulls=False)
    source = db._source(db.connection, "t")
    domain = domain_of(Books(db.connection, source.catalog), source)
    return db, domain, *(db.sql(f"FROM {name}").df()[list(domain.names)].to_numpy() for name in ("t", "p"))


def fractions(domain, rows, clique):
    """The marginal of codes, in fractions."""
    from dpsql.core.prior import packed

    counts = np.bincount(packed(rows, domain.names, domain, clique), minlength=domain.size(clique))
    return counts / max(1, len(rows))


def errors(db, domain, codes, public, epsilons, runs, systems=tuple(SYSTEMS)):
    """Lines of the first table: for each system and ε the largest error and the mean L1, means of the runs, and CPU seconds."""
    from dpsql.language.workloads import parse_workload

    cliques = parse_workload(WORKLOAD, ("t",), domain).cliques
    truth = {clique: fractions(domain, codes, clique) for clique in cliques}

    def off(rows):
        gaps = [np.abs(truth[c] - fractions(domain, rows, c)) for c in cliques]
        return max(gap.max() for gap in gaps), float(np.mean([gap.sum() for gap in gaps]))

    def shown(made):
        return " / ".join(f"{value:.4f}" for value in np.mean(made, axis=0))

    lines = []
    for label, how in ((label, SYSTEMS[label]) for label in systems):
        if how is None:
            lines.append([label, *[shown([off(public)])] * len(epsilons), "–"])
            continue
        found, begin = [], time.process_time()
        for epsilon in epsilons:
            made = [
                db.synthesize("t", epsilon, workload=WORKLOAD, reuse=False, release=f"{label} {run}", **how).df()
                for run in range(runs)
            ]
            found.append(shown([off(rows.to_numpy()) for rows in made]))
        seconds = (time.process_time() - begin) / runs / len(epsilons)
        lines.append([label, *found, f"{seconds:.1f}"])
        print("  ".join(lines[-1]), flush=True)
    return lines


def by_group(domain, codes, rows):
    """For each group of (region, group): its rows in the table and in `rows`, and the mean L1 inside it."""
    from dpsql.core.prior import packed

    key = domain.clique([REGION, GROUP])
    size = domain.size(key)
    others = [name for name in domain.names if name not in key]
    pairs = list(itertools.combinations(others, 2))
    chosen = np.random.default_rng(0).choice(len(pairs), 50, replace=False)
    true, made = (np.bincount(packed(r, domain.names, domain, key), minlength=size) for r in (codes, rows))
    found = np.zeros(size)
    for number in chosen:
        parts = []
        for r, counts in ((codes, true), (rows, made)):
            marginal = fractions(domain, r, domain.clique([*key, *pairs[number]])) * len(r)
            # the columns of the groups to the front
            clique = domain.clique([*key, *pairs[number]])
            order = [clique.index(name) for name in (*key, *pairs[number])]
            grouped = marginal.reshape(domain.shape(clique)).transpose(order).reshape(size, -1)
            parts.append(grouped / np.maximum(counts, 1)[:, None])
        found += np.abs(parts[0] - parts[1]).sum(axis=1) / len(chosen)
    return true, made, np.where(made > 0, found, 2.0)


def groups(db, domain, codes, public, epsilon):
    """Lines of the second table."""
    asked = {
        "ide by groups, laplace (ε, 0)": {"mechanism": "ide", "prior": "p", "region": REGION, "group_by": GROUP},
        "ide, laplace (ε, 0)": SYSTEMS["ide, laplace (ε, 0)"],
        "projection with the prior": SYSTEMS["projection with the prior"],
    }
    asked["ide by groups, gaussian"] = {**asked["ide by groups, laplace (ε, 0)"], "noise": "gaussian"}
    asked["ide by groups as in the paper, laplace"] = {**asked["ide by groups, laplace (ε, 0)"], "group_prior": False}
    lines = []
    for label, how in {"the prior itself": None, **asked}.items():
        if how is None:
            rows = public
        else:
            release = f"groups {label}"
            rows = db.synthesize("t", epsilon, workload=WORKLOAD, reuse=False, release=release, **how).df().to_numpy()
        true, made, l1 = by_group(domain, codes, rows)
        large, some, bias = true >= LARGE, true > 0, made - true
        penalised = int((np.abs(bias) > 250).sum())
        weighted = float(np.sum(l1 * true) / true.sum())
        off = "–" if how is None else f"{np.abs(bias[some]).mean():.2f} / {np.abs(bias).max()} / {bias.mean():+.2f}"
        line = [label, f"{l1[large].mean():.3f}", f"{l1[some].mean():.3f}", f"{weighted:.3f}", off]
        lines.append([*line, "–" if how is None else str(penalised)])
        print("  ".join(lines[-1]), flush=True)
    return lines, int(large.sum()), int(some.sum())


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 0.2, 1.0])
    parser.add_argument("--groups-epsilon", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, help="these systems of the first table, and no groups")
    parser.add_argument("--write", metavar="SECTION", help="into RESULTS.md")
    options = parser.parse_args()
    db, domain, codes, public = load()
    if options.only:
        errors(db, domain, codes, public, options.epsilon, options.runs, options.only)
        return
    first = errors(db, domain, codes, public, options.epsilon, options.runs)
    second, large, some = groups(db, domain, codes, public, options.groups_epsilon)
    head = ["system", *(f"ε = {epsilon:g}" for epsilon in options.epsilon), "CPU s"]
    head2 = [
        f"ε = {options.groups_epsilon:g}",
        f"L1, {large} groups of ≥ {LARGE} rows",
        f"L1, all {some}",
        "L1, by rows",
        "count off: mean / largest / signed",
        "off by > 250",
    ]
    if options.write:
        import results

        text = f"Largest error and mean L1 of {WORKLOAD}, means of {options.runs} runs each.\n\n{results.table(head, first)}\n\n"
        text += f"Inside the groups of {REGION} and {GROUP}.\n\n{results.table(head2, second)}"
        results.write(options.write, text)


if __name__ == "__main__":
    main()
