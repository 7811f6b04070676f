"""Compiled programs are kept between processes, in the user's cache folder.

A program depends on shapes only (sizes of domains, n′, numbers of tiles), never on counts or rows. A cache folder that
the user has set for JAX (`JAX_COMPILATION_CACHE_DIR`) is left as it is; `DPSQL_CACHE=0` keeps nothing.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

import jax
import platformdirs

_WORTH_KEEPING: Final = 0.2  # seconds of compilation


@lru_cache(maxsize=1)
def keep_programs() -> Path | None:
    """Turn the cache on, once; returns its folder, None if there is none."""
    if os.environ.get("DPSQL_CACHE") == "0":
        return None
    known = getattr(jax.config, "jax_compilation_cache_dir", None)
    if known:
        return Path(known)
    folder = platformdirs.user_cache_path("dpsql", appauthor=False) / "jax"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": _WORTH_KEEPING,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    return folder
