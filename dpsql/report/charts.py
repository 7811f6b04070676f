"""The pictures of a report, drawn by matplotlib as SVG that takes its colours from the page.

Every colour is written as one of `_INKS`, which stands for a variable of the page's style: so one picture serves the
light and the dark theme. Labels are text, never markup: matplotlib escapes them, and reads no formula in them.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dpsql.core.domain import OUTSIDE
from dpsql.errors import DpsqlError
from dpsql.release.estimates import Floats
from dpsql.release.judgement import JudgedColumn, JudgedPair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INKS: Final = {
    "ink": "#010101",
    "muted": "#020202",
    "grid": "#030303",
    "synthetic": "#040404",
    "measured": "#050505",
    "truth": "#060606",
    "paper": "#070707",
}
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dpsql",
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "hatch.linewidth": 0.8,
}
_MOST_BARS: Final = 24
_LONGEST: Final = 22
_MOST_TICKS: Final = 9
_TICK_LETTERS: Final = 56
"""That fit under a chart."""
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

    target = io.StringIO()
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that the measuring font lacks: the browser has its own
        plain = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        draw().savefig(target, format="svg", transparent=True, metadata=plain)
    text = target.getvalue()
    text = text[text.index("<svg") :]
    for name, colour in _INKS.items():
        text = text.replace(colour, f"var(--{name})")
    text = text.replace("font-family: 'DejaVu Sans'", "font-family: inherit").replace("'DejaVu Sans'", "inherit")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def shortened(label: str, longest: int = _LONGEST) -> str:
    """A label that fits, on one line."""
    plain = " ".join("".join(one if one.isprintable() else " " for one in label).split()) or "(empty)"
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


# --- one column -------------------------------------------------------------------------------------------------------


def column_chart(column: JudgedColumn, ordered: int, total: float, truth: Floats | None = None) -> str:
    """The shares of one column: bars of the synthetic rows, dots with intervals of what was measured.

    Args:
        column: its counts.
        ordered: how many of its cells have an order, from the first on; 0 for none.
        total: rows that were measured.
        truth: the true shares, in a private report.
    """
    title = f"Shares of {column.name}: synthetic and measured"
    if ordered > 2:
        return as_svg(lambda: _upright(column, ordered, total, truth), title)
    return as_svg(lambda: _lying(column, total, truth), title)


def _axes(figure: Figure) -> Axes:
    axes = figure.subplots()
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(_INKS["grid"])
    axes.tick_params(colors=_INKS["muted"], labelcolor=_INKS["ink"], length=0)
    return axes


def _lying(column: JudgedColumn, total: float, truth: Floats | None) -> Figure:
    """Bars from left to right, the largest on top."""
    order = np.argsort(-np.maximum(column.measured, column.synthetic), kind="stable")[:_MOST_BARS]
    places = np.arange(len(order))
    drawn = figure(5.2, 0.55 + 0.24 * len(order))
    axes = _axes(drawn)
    share = 100 / total
    axes.barh(places, column.synthetic[order] * share, color=_INKS["synthetic"], height=0.62)
    middle, reach = column.measured[order] * share, column.reach[order] * share
    axes.hlines(places, middle - reach, middle + reach, color=_INKS["measured"], linewidth=1.6)
    axes.scatter(middle, places, color=_INKS["measured"], s=14, zorder=3, clip_on=False)
    if truth is not None:
        axes.scatter(100 * truth[order], places + 0.27, marker="D", color=_INKS["truth"], s=10, zorder=4, clip_on=False)
    axes.set_yticks(places, [_cell(column.labels[place], _LONGEST) for place in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlim(left=min(0.0, float((middle - reach).min(initial=0.0))))
    axes.grid(axis="x", color=_INKS["grid"], linewidth=0.6)
    axes.xaxis.set_major_formatter(_percent)
    return drawn


def _upright(column: JudgedColumn, ordered: int, total: float, truth: Floats | None) -> Figure:
    """Bars upwards in the order of the cells, those without an order after a gap."""
    number = len(column.labels)
    places = np.arange(number, dtype=float)
    places[ordered:] += 1 + 0.02 * ordered
    drawn = figure(5.2, 2.3)
    axes = _axes(drawn)
    share = 100 / total
    if number < 30:
        axes.bar(places, column.synthetic * share, color=_INKS["synthetic"], width=0.8)
    else:  # one outline, many bars would make the page large
        edges = np.arange(ordered + 1) - 0.5
        axes.stairs(column.synthetic[:ordered] * share, edges, fill=True, color=_INKS["synthetic"])
        axes.bar(places[ordered:], column.synthetic[ordered:] * share, color=_INKS["synthetic"], width=1.0)
    middle, reach = column.measured * share, column.reach * share
    width = 1.6 if number < 30 else 1.0
    axes.vlines(places, middle - reach, middle + reach, color=_INKS["measured"], linewidth=width)
    axes.scatter(places, middle, color=_INKS["measured"], s=14 if number < 30 else 5, zorder=3)
    if truth is not None:
        aside = places + (0.25 if number < 30 else 0.0)
        axes.scatter(aside, 100 * truth, marker="D", color=_INKS["truth"], s=10 if number < 30 else 4, zorder=4)
    extra = list(range(ordered, number))
    edges_shown = [shortened(_lower_edge(label), 12) for label in column.labels[:ordered]]
    wide = max(map(len, edges_shown))
    step = -(-ordered // max(2, min(_MOST_TICKS - 2 * len(extra), _TICK_LETTERS // (wide + 2))))
    shown = list(range(0, ordered, step))
    labels = edges_shown[::step]
    ends = [_cell(column.labels[place], 15) for place in extra]
    axes.set_xticks(places[[*shown, *extra]], [*labels, *ends])
    for label in axes.get_xticklabels()[len(shown) :]:
        label.set_rotation(30)
        label.set_horizontalalignment("right")
    axes.grid(axis="y", color=_INKS["grid"], linewidth=0.6)
    axes.set_ylim(bottom=min(0.0, float((middle - reach).min(initial=0.0))))
    axes.margins(x=0.01)
    axes.yaxis.set_major_formatter(_percent)
    return drawn


def _cell(label: str, longest: int) -> str:
    """The label of a cell; those of the cell for what has no value are long."""
    special = {OUTSIDE: "outside", f"NULL or {OUTSIDE}": "NULL or outside", f"{OUTSIDE} or NULL": "NULL or outside"}
    return special.get(label, shortened(label, longest))


def _lower_edge(label: str) -> str:
    """The lower edge of an interval's label."""
    return label[1:].split(",")[0] if label[:1] == "[" and "," in label else label


def _percent(value: float, _: float) -> str:
    return f"{value:g} %"


# --- pairs ------------------------------------------------------------------------------------------------------------


def heat_map(
    names: Sequence[str], pairs: Sequence[JudgedPair], truth: Mapping[tuple[str, ...], float] | None = None
) -> str:
    """The strengths of all pairs: measured below the diagonal, synthetic above; what noise hides is hatched.

    Args:
        names: of the columns, in order.
        pairs: that were judged; others are left empty.
        truth: the true strengths, in a private report: then below the diagonal are those.
    """
    below = "true" if truth is not None else "measured"
    title = f"How strongly pairs of columns depend on each other: {below} below the diagonal, synthetic above"
    return as_svg(lambda: _heat(names, pairs, truth), title)


def _heat(names: Sequence[str], pairs: Sequence[JudgedPair], truth: Mapping[tuple[str, ...], float] | None) -> Figure:
    number = len(names)
    side = max(1.3, 0.42 * number if number <= _MOST_NUMBERS else 0.26 * number)
    drawn = figure(side + 2.2, side + 1.4)
    axes = drawn.subplots()
    place = {name: index for index, name in enumerate(names)}
    for pair in pairs:
        first, second = (place[name] for name in pair.clique)
        hidden = pair.state == "hidden"
        known = None if hidden else pair.measured.value
        if truth is not None:
            known = truth.get(pair.clique, 0.0)
        _square(axes, first, second, known, hidden=hidden, number=number)
        _square(axes, second, first, pair.synthetic, hidden=hidden, number=number)
        if pair.state == "missed":
            _patch(axes, second, first, 0.88, fill=False, edgecolor="#d55e00", linewidth=2)
    for index in range(number):
        _patch(axes, index, index, 1.0, facecolor=_INKS["grid"], linewidth=0)
    axes.set_xlim(-0.5, number - 0.5)
    axes.set_ylim(number - 0.5, -0.5)
    axes.set_aspect("equal")
    labels = [shortened(name, 18) for name in names]
    axes.set_xticks(range(number), labels, rotation=55, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(number), labels)
    axes.tick_params(length=0, labelcolor=_INKS["ink"])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return drawn


def _square(axes: Axes, x: int, y: int, value: float | None, *, hidden: bool, number: int) -> None:
    """One strength; None for one that is not shown."""
    dark = value is not None and abs(value) < _DARK
    colour = _INKS["paper"] if value is None else _colour(value)
    _patch(axes, x, y, 1.0, facecolor=colour, edgecolor=_INKS["paper"], linewidth=0.8)
    if hidden:
        edge = _INKS["muted"] if value is None else ("#b0b0b0" if dark else "#404040")
        _patch(axes, x, y, 1.0, fill=False, edgecolor=edge, hatch="////", linewidth=0)
    elif value is not None and number <= _MOST_NUMBERS:
        ink = "#ffffff" if dark else "#000000"
        axes.text(x, y, f"{value:.2f}".replace("0.", ".", 1), ha="center", va="center", fontsize=7.5, color=ink)


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
