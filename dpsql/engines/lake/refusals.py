"""What a bucket answers instead of a file, in words that hold no name, no key and nothing of the answer's own text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import duckdb

from dpsql.engines.lake.addresses import is_in_bucket
from dpsql.engines.protocol import CountingRefused
from dpsql.errors import DpsqlError, InvalidArgument

GONE: Final = 404
_MENDED: Final = {
    400: "its token expired, or its region is another one: CREATE OR REPLACE SECRET with those of now",
    401: "it wants a key: CREATE SECRET (TYPE s3, KEY_ID …, SECRET …)",
    403: "the key of DuckDB's secret may not read them, or its token expired: CREATE OR REPLACE SECRET … with another",
    GONE: "a file or the bucket is not there: restore it, or see that files and the secret's ENDPOINT name it",
    429: "it asks for fewer requests: wait a while",
    503: "it asks for fewer requests: wait a while",
}


class BucketRefused(CountingRefused):
    """A bucket gave an error instead of a file; its number follows from no row, and its text stays here.

    Attributes:
        status: of HTTP; 0 where there was no answer.
    """

    def __init__(self, status: int) -> None:
        self.status = status
        problem = f"gave the error {status} instead of files" if status else "did not answer"
        mended = _MENDED.get(status, "see that the secret's ENDPOINT is right and that it can be reached")
        super().__init__(
            f"the bucket {problem}: {mended}. A charge that was made is "
            "kept, and the same call goes on with it, three times at most before it has a new answer"
        )


@contextmanager
def in_words(refusal: str) -> Iterator[None]:
    """No text of another package leaves: it may have the content of a log, or a path. An interrupt stays one."""
    try:
        yield
    except (duckdb.InterruptException, DpsqlError):
        raise
    except Exception:  # of another package, of the disk, or of whatever types a file has instead of its own
        raise InvalidArgument(refusal) from None


def refusal_of(error: BaseException | None, paths: Iterable[str]) -> BucketRefused | None:
    """What a bucket answered, if that is why DuckDB failed with these files."""
    if any(map(is_in_bucket, paths)):
        if isinstance(error, duckdb.HTTPException):
            return BucketRefused(int(getattr(error, "status_code", 0) or 0))
        if isinstance(error, duckdb.IOException):
            return BucketRefused(0)
    return None
