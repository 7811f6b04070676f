"""Deletion vectors for Delta tables, as Delta's protocol writes them: https://github.com/delta-io/delta/blob/master/PROTOCOL.md.

No package that the tests use writes one, so the bytes are made here, and deltalake reads them.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

DECLARED: Final = {"delta.enableDeletionVectors": "true"}
"""Of a table that lists the feature."""
_MAGIC: Final = 1681511377
_COOKIE: Final = 12346
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def delete(folder: Path, places: Sequence[int], *, number: int = 0, inline: bool = False, **wrong: Any) -> None:
    """Let the newest version delete rows of the file that its commit adds, in the commit itself.

    Args:
        folder: of the table.
        places: of the rows in the file.
        number: of the file among those that the commit adds.
        inline: whether the vector is in the log, and not in a file of its own.
        wrong: what the log says otherwise.
    """
    log = max((folder / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    add = [action["add"] for action in actions if "add" in action][number]
    data = _bitmap(places)
    vector = {"storageType": "i", "pathOrInlineDv": _z85(data), "sizeInBytes": len(data), "cardinality": len(places)}
    if not inline:
        name = uuid.uuid4()
        whole = b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        (folder / f"deletion_vector_{name}.bin").write_bytes(whole)
        vector |= {"storageType": "u", "pathOrInlineDv": _z85(name.bytes), "offset": 1}
    add["deletionVector"] = vector | wrong
    log.write_text("\n".join(map(json.dumps, actions)))


def _bitmap(places: Sequence[int]) -> bytes:
    """A RoaringBitmapArray of places below 2³², of which no block of 2¹⁶ has more than 4,096."""
    blocks: dict[int, list[int]] = {}
    for place in sorted(places):
        blocks.setdefault(place >> 16, []).append(place & 0xFFFF)
    head = struct.pack("<qiii", 1, 0, _COOKIE, len(blocks))
    keys = b"".join(struct.pack("<HH", key, len(block) - 1) for key, block in blocks.items())
    start, starts, bodies = 8 + 8 * len(blocks), b"", b""
    for block in blocks.values():
        starts += struct.pack("<I", start + len(bodies))
        bodies += struct.pack(f"<{len(block)}H", *block)
    data = struct.pack("<i", _MAGIC) + head + keys + starts + bodies
    return data + bytes(-len(data) % 4)


def _z85(data: bytes) -> str:
    text = ""
    for start in range(0, len(data), 4):
        value = int.from_bytes(data[start : start + 4], "big")
        text += "".join(_DIGITS[value // 85**power % 85] for power in range(4, -1, -1))
    return text
