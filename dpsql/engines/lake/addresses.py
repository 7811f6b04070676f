"""Addresses of objects in buckets: bucket ‖ key, under each scheme of its store and whatever the endpoint is called.

A bucket of one name at two endpoints is taken for one bucket, because an endpoint has many names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dpsql.errors import InvalidArgument

_SCHEMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {scheme: store for store in (("s3", "s3a", "s3n"), ("gs", "gcs"), ("r2",)) for scheme in store}
)
"""Of each scheme those that lead to the same store."""
_ADDRESS: Final = re.compile(r"(?P<scheme>[A-Za-z0-9]+)://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]*)/(?P<key>[^?#]+)")


def is_in_bucket(path: str) -> bool:
    """Whether a path is one of a bucket that can be read."""
    return path.partition("://")[0].lower() in _SCHEMES and "://" in path


def checked_pattern(pattern: str) -> str:
    """A pattern of files in a bucket, as it was given.

    Raises:
        InvalidArgument: it names no bucket and key, or has parameters, which could be a credential: not repeated.
    """
    if _ADDRESS.fullmatch(pattern) is None:
        shown = pattern.partition("?")[0].partition("#")[0].rpartition("@")[2]
        raise InvalidArgument(
            f"files is {shown!r}: give scheme://bucket/key, where * stands for any text, without ? or #. Keys, tokens "
            "and endpoints are in a secret of DuckDB's, CREATE SECRET (TYPE s3, …)"
        )
    return pattern


def spellings(path: str) -> list[str]:
    """All ways to write the address of an object, the usual one first.

    >>> spellings("s3a://lake/visits/0.parquet")
    ['s3://lake/visits/0.parquet', 's3a://lake/visits/0.parquet', 's3n://lake/visits/0.parquet']
    """
    scheme, _, rest = path.partition("://")
    return [f"{other}://{rest}" for other in _SCHEMES[scheme.lower()]]
