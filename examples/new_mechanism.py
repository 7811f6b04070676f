"""A mechanism of one's own: one class, which SQL finds by its name. This one keeps only the 1-way marginals."""

from dataclasses import dataclass

import numpy as np

import dpsql
from dpsql.fitting.relaxed.settings import one_way_prior
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable
from dpsql.fitting.target import targets_of
from dpsql.mechanisms.base import Mechanism, Outcome, PlannedMeasurement, register
from dpsql.models.relaxed import RelaxedModel
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.pricing import Questions


@register("independent", when="columns that have nothing to do with each other")
@dataclass(frozen=True)
class Independent(Mechanism):
    """Columns drawn independently of each other, from their noisy 1-way marginals.

    Privacy: ρ-zCDP, ρ the charge: one `measure` of every 1-way marginal with an equal share.
    """

    def questions(self, domain, workload, neighbours):
        return Questions.of(GAUSSIAN)

    def plan(self, domain, workload, neighbours, rho, rows):
        share = rho / len(domain)
        stddev = GAUSSIAN.stddev(share, neighbours.marginal_l2_squared)
        return [PlannedMeasurement((name,), domain.size((name,)), stddev, float(share)) for name in domain.names]

    def run(self, curator, workload, rho, seed, progress):
        share = rho / len(curator.domain)
        progress.check()  # whether somebody pressed Ctrl-C; a loop does so in each round
        measured = curator.measure([((name,), share) for name in curator.domain.names])
        total = max(1.0, float(np.mean([m.values.sum() for m in measured])))
        prior = one_way_prior(curator.domain, targets_of(measured), total).astype(np.float32)
        table = RelaxedTable(Blocks.of(curator.domain), prior[:, None], total)
        return Outcome(RelaxedModel(table), {"marginals": len(measured)})


if __name__ == "__main__":
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(300) r(i)")
        db.protect("t", epsilon=2.0, delta=1e-6)
        release = db.synthesize("t", epsilon=1.0, mechanism="independent")
        print(release)
        print(release.df().groupby(["a", "b"]).size())
