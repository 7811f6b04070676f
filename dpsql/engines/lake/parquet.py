"""Plain Parquet files as a source: a list of paths and patterns, pinned as the files that there are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import duckdb

from dpsql.engines.external import Registered
from dpsql.engines.lake.addresses import check_paths, checked_pattern, is_in_bucket, spellings, without_keys
from dpsql.engines.lake.bucket import listed
from dpsql.engines.lake.engine import LakeEngine
from dpsql.engines.lake.files import check_alike, hive_values, schemas
from dpsql.engines.lake.identity import check_once
from dpsql.engines.lake.rows import Reading, check_places, columns_of
from dpsql.engines.lake.snapshot import local, registered
from dpsql.engines.source import Column
from dpsql.errors import InvalidArgument


class ParquetEngine(LakeEngine):
    """`CALL dp_source('visits', files := 'lake/visits/*.parquet')`."""

    takes: ClassVar[frozenset[str]] = LakeEngine.takes | {"files"}

    def register(self, given: Mapping[str, Any]) -> Registered:
        """See `ExternalEngine.register`."""
        patterns = _absolute(given.get("files"))
        paths = self._paths(patterns)
        union = not check_alike(schemas(self._cursor, paths))
        folders = [hive_values(path) for path in paths]
        if any(tuple(folder) != tuple(folders[0]) for folder in folders):
            raise InvalidArgument(
                "files: some are in folders such as year=2026 and others are not, or in other ones: name files of one "
                "layout"
            )
        inside = columns_of(self._cursor, paths, union=union)
        in_files = {column.name for column in inside}
        constants = tuple(name for name in folders[0] if name not in in_files)  # a file knows better
        if constants:
            check_places(in_files)
        columns = (*inside, *(Column(name, "VARCHAR", nullable=True) for name in constants))
        return registered(
            self._cursor,
            Reading(columns, constants, union=union),
            {path: {name: folder[name] for name in constants} for path, folder in zip(paths, folders, strict=True)},
            address="\n".join(sorted(spellings(p)[0] if is_in_bucket(p) else p for p in patterns)),
            relation={"files": patterns},
            identity=tuple(given.get("identity", ())),
            public="parquet files",
        )

    def _paths(self, patterns: list[str]) -> list[str]:
        """The files that the patterns name now, in order, each once."""
        paths_seen: dict[str, None] = {}
        for pattern in patterns:
            paths = listed(self._cursor, pattern) if is_in_bucket(pattern) else self._listed(pattern)
            if not paths:
                raise InvalidArgument(f"files is {pattern!r}: there is no such file")
            paths_seen |= dict.fromkeys(paths)
        check_paths(paths_seen)
        check_once(list(paths_seen), "files")
        return list(paths_seen)

    def _listed(self, pattern: str) -> list[str]:
        """The files of this machine that a pattern names."""
        try:
            rows = self._cursor.execute("SELECT file FROM glob(?) ORDER BY 1", [pattern]).fetchall()
        except duckdb.InterruptException:
            raise
        except duckdb.Error:
            raise InvalidArgument(f"files is {pattern!r}: it cannot be listed") from None
        return [path for (path,) in rows]


def _absolute(files: Sequence[str] | None) -> list[str]:
    """The patterns, so that they mean the same in any folder."""
    if not files:
        raise InvalidArgument("files is missing: give a path or a pattern, or a list of them")
    return [checked_pattern(pattern) if is_in_bucket(pattern) else _here(pattern) for pattern in files]


def _here(pattern: str) -> str:
    return str(Path(local(pattern, f"files {without_keys(pattern)!r}")).absolute())
