"""The pictures of a report, drawn by matplotlib as SVG that takes its colours from the page.

Every colour is written as one of `INKS`, which stands for a variable of the page's style: so one picture serves the
light and the dark theme. Labels are text, never markup: matplotlib escapes them, and reads no formula in them.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dpsql.errors import DpsqlError
from dpsql.release.judgement import JudgedPair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INKS: Final = {
    "ink": "#010101",
    "muted": "#020202",
    "grid": "#030303",
    "synthetic": "#040404",
    "measured": "#050505",
    "truth": "#060606",
    "paper": "#070707",
    "on-bar": "#080808",
    "hatch": "#090909",
}
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dpsql",
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "hatch.linewidth": 0.8,
}
LONGEST: Final = 22
_LONGEST_WORDS: Final = 48
_DARK: Final = 0.37
"""Associations up to which a colour is so dark that light text is read on it."""
_MOST_NUMBERS: Final = 16
"""Columns up to which the numbers stand in a heat map."""


def check_installed() -> None:
    """Refuse to draw without the libraries.

    Raises:
        DpsqlError: says what to install.
    """
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise DpsqlError(
            f"a report needs {error.name}, which is not installed: pip install {error.name}; card() and the "
            "verdict need no package"
        ) from None


def figure(width: float, height: float) -> Figure:
    """An empty figure that no window shows; sizes are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def as_svg(draw: Any, title: str) -> str:
    """The SVG element of a figure.

    Args:
        draw: draws it, and returns it.
        title: what it shows, for who cannot see it.
    """
    import matplotlib
    from markupsafe import escape
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    target = io.StringIO()
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that the measuring font lacks: the browser has its own
        drawn = draw()
        for part in (drawn, *drawn.axes):
            part.patch.set_facecolor("none")
        # `savefig` would draw everything twice, the first time to lay it out, which drawing does by itself
        plain = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas: Any = FigureCanvasSVG(drawn)
        canvas.print_svg(target, metadata=plain)
    text = target.getvalue()
    text = text[text.index("<svg") :]
    for name, colour in INKS.items():
        text = text.replace(colour, f"var(--{name})")
    text = text.replace("font-family: 'DejaVu Sans'", "font-family: inherit").replace("'DejaVu Sans'", "inherit")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def shortened(label: str, longest: int = LONGEST) -> str:
    """A label that fits, on one line."""
    plain = " ".join("".join(character if character.isprintable() else " " for character in label).split()) or "(empty)"
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def heat_map(
    names: Sequence[str],
    pairs: Sequence[JudgedPair],
    truth: Mapping[tuple[str, ...], float] | None = None,
    words: Callable[[str], str] = str,
) -> str:
    """The strengths of all pairs: measured below the diagonal, synthetic above; what noise hides is hatched.

    Args:
        names: of the columns, in order.
        pairs: that were judged; others are left empty.
        truth: the true strengths, in a private report: then below the diagonal are those.
        words: what the columns are called.
    """
    below = "true" if truth is not None else "measured"
    title = f"How strongly pairs of columns depend on each other: {below} below the diagonal, synthetic above"
    return as_svg(lambda: _heat(names, pairs, truth, words), title)


def _heat(
    names: Sequence[str],
    pairs: Sequence[JudgedPair],
    truth: Mapping[tuple[str, ...], float] | None,
    words: Callable[[str], str],
) -> Figure:
    number = len(names)
    side = max(1.3, 0.42 * number if number <= _MOST_NUMBERS else 0.26 * number)
    labels = [shortened(words(name), 18 if words is str else _LONGEST_WORDS) for name in names]
    longer = 0.055 * max(0, max(map(len, labels), default=0) - 18)
    drawn = figure(side + 2.2 + longer, side + 1.4 + longer)
    axes = drawn.subplots()
    place = {name: index for index, name in enumerate(names)}
    for pair in pairs:
        first, second = (place[name] for name in pair.clique)
        hidden = pair.state == "hidden"
        strength = None if pair.state in ("hidden", "likely") else pair.measured.value
        if truth is not None:
            strength = truth.get(pair.clique, 0.0)
        _square(axes, first, second, strength, hidden=hidden or strength is None, number=number)
        _square(axes, second, first, pair.synthetic, hidden=hidden, number=number)
        if pair.state == "missed":
            _patch(axes, second, first, 0.88, fill=False, edgecolor="#d55e00", linewidth=2)
    for index in range(number):
        _patch(axes, index, index, 1.0, facecolor=INKS["grid"], linewidth=0)
    axes.set_xlim(-0.5, number - 0.5)
    axes.set_ylim(number - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks(range(number), labels, rotation=55, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(number), labels)
    axes.tick_params(length=0, labelcolor=INKS["ink"])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return drawn


def _square(axes: Axes, x: int, y: int, value: float | None, *, hidden: bool, number: int) -> None:
    """One strength; None for one that is not shown."""
    dark = value is not None and abs(value) < _DARK
    colour = INKS["paper"] if value is None else _colour(value)
    _patch(axes, x, y, 1.0, facecolor=colour, edgecolor=INKS["paper"], linewidth=0.8)
    if hidden:
        edge = INKS["hatch"] if value is None else ("#b0b0b0" if dark else "#404040")
        _patch(axes, x, y, 1.0, fill=False, edgecolor=edge, hatch="////", linewidth=0)
    elif value is not None and number <= _MOST_NUMBERS:
        ink = "#ffffff" if dark else "#000000"
        shown = f"{round(value, 2) + 0.0:.2f}".replace("0.", ".", 1)  # 0 is added to -0
        axes.text(x, y, shown, ha="center", va="center", fontsize=7.5, color=ink)


def _patch(axes: Axes, x: float, y: float, side: float, **style: Any) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x - side / 2, y - side / 2), side, side, **style))


def _colour(value: float) -> str:
    """Of a strength or its opposite: small ones, which are the most, are stretched."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return to_hex(colormaps["cividis"](abs(value) ** 0.6))


def scale_colours(steps: int = 11) -> list[str]:
    """The colours of strengths from 0 to 1, at even distances."""
    return [_colour(place / (steps - 1)) for place in range(steps)]
