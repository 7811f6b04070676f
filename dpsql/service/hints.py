"""What to write instead of what DuckDB refuses with words of its own: a sentence for each kind of it."""

from __future__ import annotations

import re
from typing import Final

_HINTS: Final = (
    (
        r"'//?\(INTERVAL",
        "an interval that is no literal is not divided: write x * 0.5, or extract(epoch FROM x) / 2 for seconds",
    ),
    (
        r"'sum\(INTERVAL",
        "intervals have no sum here: write avg(x) * count(x), or sum(extract(epoch FROM x)) for seconds",
    ),
    (
        r"Cannot concatenate types (?:.*\[\] and \w+ -|\w+ and .*\[\] -)",
        "an array and an element are not joined: write array_append(a, x) or array_prepend(x, a)",
    ),
    (
        r"'(?:@>|<@)\(JSON|'(?:@>|<@)\([^']*JSON\)",
        """@> of JSON is served with a value that is written out, such as data @> '{"a": 1}'""",
    ),
    (r"'-\(JSON", "a key of JSON is not taken out here: read those that you want by ->"),
    (r"TypeList for prepared statement", "PREPARE is not served: a driver's own prepared statements are"),
)
_FIRST: Final = re.compile(r"\.? ?You might need to add explicit type casts\..*", re.DOTALL)
"""What follows is a list of all forms that a function has."""


def hinted(text: str) -> str:
    """A message of DuckDB's; of what has a hint, its first line and the hint.

    >>> hinted("Binder Error: No function matches the given name and argument types 'sum(INTERVAL)'. You might")[:40]
    'Binder Error: No function matches the gi'
    >>> hinted("something else")
    'something else'
    """
    hint = next((sentence for pattern, sentence in _HINTS if re.search(pattern, text)), None)
    return text if hint is None else f"{_FIRST.sub('', text).strip()}: {hint}"
