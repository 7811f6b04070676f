"""SciPy's sparse matrices, of which opening a database needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scipy.sparse import csr_array as csr_array
    from scipy.sparse import csr_matrix as csr_matrix
    from scipy.sparse import hstack as hstack
    from scipy.sparse import vstack as vstack
else:
    from dpsql.core.late import late

    __getattr__ = late("scipy.sparse")
