"""What synthetic rows get in columns without a domain, in place of NULL: ids of their own, or what Faker writes.

Privacy: nothing is read. Ids are counted 1, 2, 3, … along the synthetic rows or drawn at random, and fake texts are
drawn from a public list, independently of every row.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.column_types import kind_of
from dpsql.core.domain import Attribute, Domain
from dpsql.errors import DpsqlError, InvalidArgument

_NUMBERED: Final = ("INTEGER", "BIGINT", "HUGEINT", "UINTEGER", "UBIGINT", "UHUGEINT", "VARCHAR")
FAKES: Final = (
    *("name", "first_name", "last_name", "user_name", "email", "phone_number", "address", "street_address", "city"),
    *("postcode", "country", "company", "job", "iban", "license_plate", "url", "ipv4", "sentence"),
)
"""What Faker can be asked for: words of its own."""
_DIFFERENT: Final = 10_000  # texts of one column; more rows than that repeat them

Frame = dict[str, npt.NDArray[Any]]


def check_ids(name: str, kind: str) -> None:
    """Refuse a type that cannot number the rows of a table.

    Raises:
        InvalidArgument: it cannot.
    """
    if kind not in (*_NUMBERED, "UUID"):
        raise InvalidArgument(
            f"ids := true, but column {name!r} is of type {kind_of(kind)}: say it of INTEGER and larger whole numbers, "
            "VARCHAR and UUID; say exclude := true for NULL"
        )


def check_fake(name: str, kind: str, fake: str) -> None:
    """Refuse a word that Faker does not know, another type than text, or a package that is not installed.

    Raises:
        InvalidArgument: the word or the type.
        DpsqlError: Faker is not installed.
    """
    if fake not in FAKES:
        raise InvalidArgument(f"fake is {fake!r}: say one of {', '.join(FAKES)}")
    if kind != "VARCHAR":
        raise InvalidArgument(f"fake is {fake!r}, but column {name!r} is of type {kind_of(kind)}: it goes with VARCHAR")
    if importlib.util.find_spec("faker") is None:
        raise _not_installed(name, "or declare the column again with exclude := true")


def check_installed(domain: Domain, *, is_paid: bool = False) -> None:
    """Refuse, before a charge or before more work, a table with columns that Faker fills where it is not installed.

    Args:
        domain: of the synthetic table.
        is_paid: whether the release was charged before, so that the same call goes on from it.

    Raises:
        DpsqlError: it is not.
    """
    for attribute in domain.excluded:
        if attribute.fake and is_paid and importlib.util.find_spec("faker") is None:
            raise _not_installed(attribute.name, _GOES_ON)
        if attribute.fake:
            check_fake(attribute.name, attribute.type, attribute.fake)


_GOES_ON: Final = "then the same call goes on from what was charged, free"


def _not_installed(name: str, instead: str) -> DpsqlError:
    return DpsqlError(
        f"column {name!r} is filled by the faker package, which is not installed: pip install 'dpsql[faker]', {instead}"
    )


def stand_ins(domain: Domain, rows: int, generator: np.random.Generator) -> Frame:
    """Columns `s<i>` for each excluded column number i that is not NULL; of UUIDs two halves, `s<i>` and `r<i>`.

    `dpsql.evaluation.decode.stood_in` makes values of them.

    Args:
        domain: of the synthetic table.
        rows: how many.
        generator: of the draws.
    """
    frame: Frame = {}
    for place, attribute in enumerate(domain.excluded):
        if attribute.ids and attribute.type == "UUID":
            high, low = generator.integers(0, 2**64, (2, rows), np.uint64)
            frame[f"s{place}"] = high & ~np.uint64(0xF000) | np.uint64(0x4000)  # version 4
            frame[f"r{place}"] = low >> np.uint64(2) | np.uint64(1 << 63)
        elif attribute.ids:
            frame[f"s{place}"] = np.arange(1, rows + 1)
        elif attribute.fake:
            texts = _texts(attribute, min(rows, _DIFFERENT), generator)
            frame[f"s{place}"] = texts[generator.integers(0, max(1, len(texts)), rows)] if rows else texts
    return frame


def _texts(attribute: Attribute, count: int, generator: np.random.Generator) -> npt.NDArray[Any]:
    """So many texts by Faker."""
    try:
        from faker import Faker  # an optional package
    except ImportError:  # taken away since the charge
        raise _not_installed(attribute.name, _GOES_ON) from None

    writer = Faker()
    writer.seed_instance(int(generator.integers(0, 2**32)))
    texts = np.empty(count, object)
    texts[:] = [str(getattr(writer, attribute.fake)()) for _ in range(count)]
    return texts
