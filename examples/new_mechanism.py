"""A mechanism of one's own: one class, which SQL finds by its name. This one keeps only the 1-way marginals."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import dpsql
from dpsql.fitting.relaxed.settings import one_way_prior
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable
from dpsql.fitting.target import targets_of
from dpsql.mechanisms.asks import Marginals
from dpsql.mechanisms.base import Mechanism, Outcome, register
from dpsql.mechanisms.course import Course
from dpsql.models.relaxed import RelaxedModel
from dpsql.privacy.distributions import GAUSSIAN


@register("independent", when="columns that have nothing to do with each other")
@dataclass(frozen=True)
class Independent(Mechanism):
    """Columns drawn independently of each other, from their noisy 1-way marginals.

    Privacy: ρ-zCDP, ρ the charge: one `measure` of every 1-way marginal with an equal share.
    """

    def course(self, facts):
        """One question, of all 1-way marginals, which gets all of the charge."""
        singles = [(name,) for name in facts.domain.names]
        return Course(facts, GAUSSIAN, (Marginals(Fraction(1), singles),))

    def fit(self, walk, seed, progress):
        """Ask it; a model of what was answered."""
        progress.check()  # whether somebody pressed Ctrl-C; a loop does so in each round
        measured = walk.marginals()
        total = max(1.0, float(np.mean([m.values.sum() for m in measured])))
        prior = one_way_prior(walk.domain, targets_of(measured), total).astype(np.float32)
        table = RelaxedTable(Blocks.of(walk.domain), prior[:, None], total)
        return Outcome(RelaxedModel(table), {"marginals": len(measured)})


if __name__ == "__main__":
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(300) r(i)")
        db.protect("t", epsilon=2.0, delta=1e-6)
        release = db.synthesize("t", epsilon=1.0, mechanism="independent")
        print(release)
        print(release.df().groupby(["a", "b"]).size())
