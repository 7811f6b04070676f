"""Addresses of objects in buckets: bucket ‖ key, under each scheme and whatever the endpoint is called; safe names.

A bucket of one name at two endpoints is taken for one bucket, because an endpoint has many names. DuckDB reads a name
as a pattern, or its end as parameters that lead to another server, so a name with such signs is never opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from dpsql.errors import InvalidArgument

_SCHEMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {scheme: store for store in (("s3", "s3a", "s3n"), ("gs", "gcs"), ("r2",)) for scheme in store}
)
"""Of each scheme those that lead to the same store."""
_ADDRESS: Final = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]*)/(?P<key>[^?#]+)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PATTERN: Final = re.compile(r"[?*\[]")  # DuckDB reads { as it is
_PARAMETERS: Final = re.compile(r"[?#;]")
_NO_PART: Final = frozenset({"", ".", ".."})


def is_in_bucket(path: str) -> bool:
    """Whether a path is one of a bucket that can be read."""
    return path.partition("://")[0].lower() in _SCHEMES and "://" in path


def without_keys(address: str) -> str:
    """An address without the parts in which a key may stand, for texts of errors.

    Those are all up to the last @, and all from ?, # or ; on. Where an @ is behind one of these, it is all of it.

    >>> without_keys("https://user:key@lake/visits?signature=more")
    'lake/visits'
    >>> without_keys("https://user:k?ey@lake/visits"), without_keys("az://lake/visits;AccountKey=more")
    ('…', 'az://lake/visits')
    """
    before, _, rest = address.rpartition("@")
    return "…" if _PARAMETERS.search(before) else _PARAMETERS.split(rest)[0]


def checked_pattern(pattern: str) -> str:
    """A pattern of files in a bucket, as it was given.

    Raises:
        InvalidArgument: it names no bucket and key, an object by another spelling, or has parameters: not repeated.
    """
    address = _ADDRESS.fullmatch(pattern)
    if address is None or _CONTROL.search(pattern) or not _NO_PART.isdisjoint(address["key"].split("/")):
        raise InvalidArgument(
            f"files is {without_keys(pattern)!r}: give scheme://bucket/key, where * stands for any text, without ?, #, "
            "parts that are empty or dots, and with the scheme in small letters. Keys, tokens and endpoints are in a "
            "secret of DuckDB's, CREATE SECRET (TYPE s3, …)"
        )
    return pattern


def spellings(path: str) -> list[str]:
    """All ways to write the address of an object, the usual one of its store first.

    Other stores are among them, because one endpoint can be reached by the schemes of several.

    >>> spellings("s3a://lake/visits/0.parquet")[:3]
    ['s3://lake/visits/0.parquet', 's3a://lake/visits/0.parquet', 's3n://lake/visits/0.parquet']
    """
    scheme, _, rest = path.partition("://")
    own = _SCHEMES[scheme.lower()]
    return [f"{other}://{rest}" for other in (*own, *(other for other in _SCHEMES if other not in own))]


def object_of(path: str) -> str:
    """What two addresses share that may lead to one object, by any scheme and with or without %-escapes.

    >>> object_of("gs://Lake/a%20b.parquet")
    'lake/a b.parquet'
    """
    bucket, _, key = path.partition("://")[2].partition("/")
    return f"{bucket.lower()}/{unquote(key)}"


def store_of(path: str) -> tuple[str, str]:
    """The kind of store that a path leads to, and its bucket; both are empty for a file of this machine.

    >>> store_of("s3a://lake/visits/0.parquet"), store_of("/lake/0.parquet")
    (('s3', 'lake'), ('', ''))
    """
    if not is_in_bucket(path):
        return "", ""
    scheme, _, rest = path.partition("://")
    return _SCHEMES[scheme.lower()][0], rest.partition("/")[0]


def fault_of(path: str) -> str | None:
    """What a file's path has, for which DuckDB may open other files, or send a key elsewhere; None for a safe one.

    >>> fault_of("/lake/[0].parquet"), fault_of("s3://lake/a/../0.parquet"), fault_of("s3://lake/0.parquet")
    ('a sign of patterns', 'a part that is empty or dots', None)
    """
    if _CONTROL.search(path):
        return "a control character"
    if _PATTERN.search(path):
        return "a sign of patterns"
    if not is_in_bucket(path):
        return None
    address = _ADDRESS.fullmatch(path)
    if address is None or address["scheme"] not in _SCHEMES:
        return "a sign of parameters, or a scheme in capital letters"
    return "a part that is empty or dots" if not _NO_PART.isdisjoint(address["key"].split("/")) else None


def check_paths(paths: Iterable[str]) -> None:
    """Refuse files that DuckDB may not open as what their names say; see `fault_of`.

    Raises:
        InvalidArgument: names the place of one, without what may be parameters.
    """
    for path in paths:
        fault = fault_of(path)
        if fault is not None:
            folder = re.split(r"[?#*\[\x00-\x1f\x7f-\x9f]", path)[0].rpartition("/")[0]
            raise InvalidArgument(
                f"files: a name in {folder!r} has {fault}, so DuckDB may read another file by it: rename the file, or "
                "give a pattern that leaves it out"
            )
