r"""The marginals of least expected squared error under pure ε: the strategy of HDMM with Laplace noise.

    minimise  Σ_U v_U/p_U(ε),   p_U = Σ_{S ⊇ U} a_US·ε_S²   over shares ε_S ≥ 0 with Σ ε_S = 1

v_U and a_US are those of `dpsql.fitting.least_squares`; only the noise differs, 1/σ_S² ∝ ε_S² instead of ρ_S. In ε_S²
the sum is convex, but the shares are not a convex set, so there are several minima: L-BFGS starts from the strategy for
Gaussian noise, from the workload itself and from all candidates alike, and the best end is taken.

Source: McKenna, Miklau, Hay, Machanavajjhala 2018 (HDMM), section 6.3: OPT_M and its random restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.fitting.least_squares import best_strategy, terms

Floats = npt.NDArray[np.float64]
_STEPS: Final = 500
_LEAST: Final = 1e-3  # of the largest share


def best_laplace_strategy(domain: Domain, workload: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
    """The shares of ε among the candidates; see the module.

    Args:
        domain: the attributes.
        workload: the marginals to answer, each a subset of some candidate.
        candidates: the marginals that may be measured.

    Returns:
        Shares that add up to 1, shape (candidates,); zero where a marginal is not worth measuring.
    """
    worth, precision = terms(domain, workload, candidates)

    def value(logs: Floats) -> tuple[float, Floats]:
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        held = np.maximum(precision @ shares**2, 1e-300)
        slope = -2 * shares * (precision.T @ (worth / held**2))
        error = float(np.sum(worth / held))
        return np.log(error), shares * (slope - float(slope @ shares)) / error

    wanted = set(workload)
    gaussian = np.sqrt(best_strategy(domain, workload, candidates))
    starts = [gaussian, np.array([float(c in wanted) for c in candidates]), np.ones(len(candidates))]
    from scipy.optimize import minimize  # takes half a second to import

    optima = []
    for start in starts:
        begin = np.log(start + 1e-3 * max(1e-12, float(start.max())))
        end = minimize(value, begin, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        optima.append((float(end.fun), np.asarray(end.x, np.float64)))
    logs = min(optima, key=lambda entry: entry[0])[1]
    shares = np.exp(logs - logs.max())
    cut_shares = np.where(shares >= _LEAST, shares, 0.0)
    cut_shares = cut_shares if (precision @ cut_shares**2 > 0).all() else shares
    return np.asarray(cut_shares / cut_shares.sum())
