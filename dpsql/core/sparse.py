"""SciPy's sparse matrices, imported when the first is made: who opens a database does not wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.sparse import csr_array as csr_array
    from scipy.sparse import csr_matrix as csr_matrix
    from scipy.sparse import hstack as hstack
    from scipy.sparse import vstack as vstack
else:

    def __getattr__(name: str) -> Any:
        from scipy import sparse

        value = globals()[name] = getattr(sparse, name)
        return value
