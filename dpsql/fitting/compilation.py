"""Compiled programs: how many a process keeps in memory, and where they are kept between processes.

A program depends on shapes only (sizes of domains, n′, numbers of tiles), never on counts or rows. A program takes some
three megabytes, and JAX keeps what it compiled for a function as long as the function lives. So each shape gets a
function of its own (`own_program`), and a cache of a few of them forgets the one that was used least recently. A
service that runs for months then stays as large as it is. Nothing is computed by JAX outside such a program.

Between processes they are kept in the user's cache folder. A cache folder that the user has set for JAX
(`JAX_COMPILATION_CACHE_DIR`) is left as it is; `DPSQL_CACHE=0` keeps nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import platformdirs

MOST_PROGRAMS: Final = 16
"""Shapes of one kind whose programs a process keeps."""
_WORTH_KEEPING: Final = 0.2  # seconds of compilation


def own_program(function: Callable[..., Any], **options: Any) -> Any:
    """A function as JAX compiles it, with compiled programs of its own: they are freed when it is.

    Args:
        function: what to compile.
        **options: of `jax.jit`.
    """
    from dpsql.fitting.loading import jax

    def own(*arrays: Any) -> Any:  # JAX knows programs by the function's identity
        return function(*arrays)

    return jax.jit(own, **options)


@lru_cache(maxsize=1)
def keep_programs() -> Path | None:
    """Turn the cache on, once; returns its folder, None if there is none."""
    if os.environ.get("DPSQL_CACHE") == "0":
        return None
    from dpsql.fitting.loading import jax

    set_folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    if set_folder:
        return Path(set_folder)
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
