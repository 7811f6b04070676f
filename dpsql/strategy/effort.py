"""How long a relaxed table is fitted, with how many rows: by A, the L1 error of a 1-way marginal (`allocation`).

    A ≤ 0.005   three quarters of the rows, seven fifths of the steps, and two fifths more at half the rate, of lines
                above two deviations (`dpsql.fitting.relaxed.empty_lines`)
    0.0064 ≤ A  half of the rows and half of the steps, and 3/20 more at half the rate, of all lines; between these by
                log A
    0.01 < A    three fifths of the steps; a quarter of the rows where strong pairs outside of joints are believed to
                have at most 4 nats together; up to 0.1, 1.4 of the pull where rows are pulled towards pairs and not
                their product

These steps are thinned (`dpsql.fitting.relaxed.program`), so that each sees half of the cells. Those at half the rate
see all of them.

Where A is small the fit is what is left of the error, and steps do more for it than rows. Where it is more noise is
left after few steps: further ones fit it. Raw Adult at ε = 1 (A = 0.0064), mean L1 of pairs and triples, two seeds: 780
steps of 384 rows .0494, .1286; 325 of 256 rows, which saw a quarter of the cells, .0457, .1170. There lines below noise
tell something together: without them .0470, .1154 in place of .0456, .1135 on the same noise (of the fit alone). At
ε = 10 they tell nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dpsql.fitting.relaxed.settings import Settings
from dpsql.fitting.relaxed.strong_pairs import forest_information
from dpsql.fitting.target import Target

EXACT: Final = 0.001
"""A up to which only ordered columns are joined: steps are what is left of the error, and joints take more of them."""
NOISY: Final = 0.01
HIDDEN: Final = 0.1
"""A above which single cells tell nothing, and pairs little."""
_LONG: Final = 0.005
_SHORT: Final = 0.0064
_TELLING: Final = 2.0
_LEFT_OUT: Final = 0.15
"""Of the work for each deviation of `telling`: a tenth to half by two of them on five tables at ε = 10."""
_FEW: Final = 4.0
_TO_PAIRS: Final = 1.4


def by_noise(settings: Settings, error: float, believed: Sequence[Target]) -> Settings:
    """Settings with the rows and steps of the rule at the top of this file.

    Args:
        settings: with all rows and steps, and the joints.
        error: A.
        believed: the strong pairs, as far as they are believed.
    """
    settings = replace(settings, thinned=1.0)
    if error <= NOISY:
        more = math.log(_SHORT / min(max(error, _LONG), _SHORT)) / math.log(_SHORT / _LONG)
        rows, steps = math.ceil(settings.rows * (0.5 + 0.25 * more)), math.ceil(settings.steps * (0.5 + 0.9 * more))
        polish, telling = int(settings.steps * (0.15 + 0.25 * more)), _TELLING * more
        return replace(settings, rows=rows, steps=steps, polish=polish, telling=telling)
    apart = [pair for pair in believed if not any(set(pair.clique) <= set(joint.names) for joint in settings.joints)]
    few = forest_information(apart) <= _FEW
    rows, steps = -(-settings.rows // 4) if few else settings.rows, -(-settings.steps * 3 // 5)
    strength = settings.strength * (_TO_PAIRS if settings.reference and error <= HIDDEN else 1)
    return replace(settings, rows=rows, steps=steps, strength=strength)


def foreseen_work(settings: Settings, error: float, *, by_rule: bool) -> tuple[float, float]:
    """Relaxed rows times steps, to foresee seconds: where the rule depends on strong pairs, of few of them.

    Args:
        settings: with all rows and steps.
        error: A.
        by_rule: whether they are those of `by_noise`, or all.

    Returns:
        Of marginals, of which a thinned step sees half of the cells and a step no line that does not tell, and of
        linear queries, which come whole.
    """
    used = by_noise(settings, error, ()) if by_rule else settings
    whole = (used.steps * (1 - used.thinned / 2) + used.polish) * (1 - _LEFT_OUT * used.telling)
    return float(used.rows * whole), float(used.rows * (used.steps + used.polish))
