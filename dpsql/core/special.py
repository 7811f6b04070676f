"""SciPy's functions of distributions, imported at their first use: who opens a database does not wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.special import chdtrc as chdtrc
    from scipy.special import log_ndtr as log_ndtr
    from scipy.special import ndtr as ndtr
    from scipy.special import ndtri as ndtri
    from scipy.special import ndtri_exp as ndtri_exp
else:

    def __getattr__(name: str) -> Any:
        from scipy import special

        value = globals()[name] = getattr(special, name)
        return value
