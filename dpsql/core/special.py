"""SciPy's functions of distributions, of which opening a database needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scipy.special import chdtrc as chdtrc
    from scipy.special import log_ndtr as log_ndtr
    from scipy.special import ndtr as ndtr
    from scipy.special import ndtri as ndtri
    from scipy.special import ndtri_exp as ndtri_exp
else:
    from dpsql.core.late import late

    __getattr__ = late("scipy.special")
