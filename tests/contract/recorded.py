"""What was recorded of every mechanism's questions and plans: see `test_courses`, which makes the record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "fixtures" / "courses.json"
_HEAD = 80


@cache
def recorded() -> dict[str, str]:
    return dict(json.loads(RECORDED.read_text()))


def short(texts: Sequence[str]) -> str:
    """The head of the first text, how many there are, and a digest of all."""
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    return f"{texts[0][:_HEAD]} … {len(texts)} {digest}"
