"""The picture of one column in a report: its shares in the synthetic rows, as measured, and the truth for an owner."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import OUTSIDE, Attribute
from dpsql.release.estimates import Floats
from dpsql.release.judgement import JudgedColumn
from dpsql.report.charts import INKS, LONGEST, as_svg, figure, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:")
_WIDE: Final = 5.2
_HIGH: Final = 2.3
"""Of a chart of one column, in inches: all are alike, but those of many texts."""
_MOST_BARS: Final = 24
_FEWEST_BARS: Final = 4
"""Places for bars in the smallest chart."""
_MANY: Final = 30
_FLATTENS: Final = 6.0
"""How many times as large as the next a cell is that would flatten all others."""
_WIDEST: Final = 5.0
"""Times the usual width of a bin up to which bins are drawn as wide as they are."""
_MOST_TICKS: Final = 9
_TICK_LETTERS: Final = 56
"""That fit under a chart."""


def column_chart(
    column: JudgedColumn, attribute: Attribute, total: float, truth: Floats | None = None, name: str = ""
) -> str:
    """The shares of one column: bars of the synthetic rows, dots with intervals of what was measured.

    Bins of different widths are drawn as densities, so that a bin is not higher because it is wider. A cell that is
    much larger than all others is cut at the edge, with its share beside it, so that the others can be read.

    Args:
        column: its counts.
        attribute: its domain.
        total: rows that were measured.
        truth: the true shares, in a private report.
        name: what the column is called, where that is not its name.
    """
    title = f"Shares of {name or column.name}: synthetic and measured"
    shares = _Shares.of(column, total, truth)
    ordered = attribute.regular if attribute.is_ordered else 0
    if ordered > 2:
        return as_svg(lambda: _upright(column, attribute, shares), title)
    return as_svg(lambda: _lying(column, shares), title)


@dataclass(frozen=True)
class _Shares:
    """The shares of cells in per cent.

    Attributes:
        made: of the synthetic rows.
        middle, reach: measured, and half of its interval.
        true: in a private report.
    """

    made: Floats
    middle: Floats
    reach: Floats
    true: Floats | None

    @staticmethod
    def of(column: JudgedColumn, total: float, truth: Floats | None) -> _Shares:
        part = 100 / total
        true = None if truth is None else 100 * truth
        return _Shares(column.synthetic * part, column.measured * part, column.reach * part, true)

    def over(self, widths: Floats) -> _Shares:
        """As densities."""
        true = None if self.true is None else self.true / widths
        return _Shares(self.made / widths, self.middle / widths, self.reach / widths, true)

    def at(self, places: npt.NDArray[np.int64]) -> _Shares:
        """Those of some cells."""
        true = None if self.true is None else self.true[places]
        return _Shares(self.made[places], self.middle[places], self.reach[places], true)

    @property
    def tops(self) -> Floats:
        """The largest value that is drawn of each cell."""
        tops = np.maximum(self.made, self.middle + self.reach)
        return tops if self.true is None else np.maximum(tops, self.true)

    @property
    def bottom(self) -> float:
        """The smallest value that is drawn."""
        return min(0.0, float((self.middle - self.reach).min(initial=0.0)))

    @property
    def cut(self) -> float | None:
        """Where the largest cells are cut, so that the others can be seen; None where all can."""
        made = np.sort(self.made)
        if len(made) < _FEWEST_BARS or made[-2] <= 0 or made[-1] < _FLATTENS * made[-2]:
            return None
        return 1.6 * float(np.sort(self.tops)[-2])


def _axes(figure: Figure) -> Axes:
    axes = figure.subplots()
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(INKS["grid"])
    axes.tick_params(colors=INKS["muted"], labelcolor=INKS["ink"], length=0)
    return axes


def _lying(column: JudgedColumn, shares: _Shares) -> Figure:
    """Bars from left to right, the largest on top."""
    order = np.argsort(-np.maximum(column.measured, column.synthetic), kind="stable")[:_MOST_BARS]
    places = np.arange(len(order))
    drawn = figure(_WIDE, max(_HIGH, 0.55 + 0.24 * len(order)))
    axes = _axes(drawn)
    shown = shares.at(order)
    axes.barh(places, shown.made, color=INKS["synthetic"], height=0.62)
    low, high = shown.middle - shown.reach, shown.middle + shown.reach
    axes.hlines(places, low, high, color=INKS["measured"], linewidth=1.6)
    axes.scatter(shown.middle, places, color=INKS["measured"], s=14, zorder=3)
    if shown.true is not None:
        axes.scatter(shown.true, places + 0.27, marker="D", color=INKS["truth"], s=10, zorder=4)
    axes.set_yticks(places, [_cell(column.labels[place], LONGEST) for place in order])
    axes.set_ylim(max(len(order), _FEWEST_BARS) - 0.4, -0.6)
    right = 1.05 * float(shown.tops.max(initial=1.0))
    if shown.cut is not None:
        right = shown.cut
        place = int(np.argmax(shown.made))
        words = f"{shown.made[place]:.3g} % ▸"
        axes.text(right * 0.99, place, words, ha="right", va="center", fontsize=7.5, color=INKS["on-bar"])
    axes.set_xlim(shown.bottom, right)
    axes.grid(axis="x", color=INKS["grid"], linewidth=0.6)
    axes.xaxis.set_major_formatter(_percent)
    return drawn


def _upright(column: JudgedColumn, attribute: Attribute, shares: _Shares) -> Figure:
    """Bars upwards in the order of the cells, those without an order after a gap."""
    number, ordered = len(column.labels), attribute.regular
    edges, units, is_density = _edges(attribute)
    width_beside = (edges[-1] - edges[0]) / ordered
    shares = shares.over(np.concatenate([units, np.full(number - ordered, width_beside if is_density else 1.0)]))
    places = np.concatenate([(edges[1:] + edges[:-1]) / 2, np.zeros(number - ordered)])
    places[ordered:] = edges[-1] + width_beside * (0.5 + 0.02 * ordered + np.arange(1, number - ordered + 1))
    drawn = figure(_WIDE, _HIGH)
    axes = _axes(drawn)
    small = number >= _MANY
    bars = np.append(
        np.diff(edges) * (1.0 if small or is_density else 0.8), np.full(number - ordered, 0.8 * width_beside)
    )
    if small:  # one outline, many bars would make the page large
        axes.stairs(shares.made[:ordered], edges, fill=True, color=INKS["synthetic"])
    else:
        style: dict[str, Any] = {
            "color": INKS["synthetic"],
            "edgecolor": INKS["paper"],
            "linewidth": 0.6 if is_density else 0.0,
        }
        axes.bar(places[:ordered], shares.made[:ordered], width=bars[:ordered], **style)
    axes.bar(places[ordered:], shares.made[ordered:], color=INKS["synthetic"], width=0.8 * width_beside)
    low, high = shares.middle - shares.reach, shares.middle + shares.reach
    axes.vlines(places, low, high, color=INKS["measured"], linewidth=1.0 if small else 1.6)
    axes.scatter(places, shares.middle, color=INKS["measured"], s=5 if small else 14, zorder=3)
    if shares.true is not None:
        offset = places + (0.0 if small else 0.25 * bars)
        axes.scatter(offset, shares.true, marker="D", color=INKS["truth"], s=4 if small else 10, zorder=4)
    _label_edges(axes, column, ordered, edges, places)
    top = 1.05 * float(shares.tops.max(initial=0.0)) or 1.0
    if shares.cut is not None:
        top, place = shares.cut, int(np.argmax(shares.made))
        words = f"▴ {100 * column.synthetic[place] / max(1.0, column.synthetic.sum()):.3g} %"
        side = "left" if places[place] < (places[0] + places[-1]) / 2 else "right"
        axes.text(places[place], top, words, ha=side, va="bottom", fontsize=7.5, color=INKS["ink"])
    axes.grid(axis="y", color=INKS["grid"], linewidth=0.6)
    axes.set_ylim(shares.bottom, top)
    axes.margins(x=0.01)
    if is_density:
        axes.set_yticks([])
        axes.set_ylabel("density", fontsize=7.5, color=INKS["muted"])
    else:
        axes.yaxis.set_major_formatter(_percent)
    return drawn


def _edges(attribute: Attribute) -> tuple[Floats, Floats, bool]:
    """Where the bins of a column are drawn, by how much shares are divided, and whether that makes densities.

    The unit is the usual width. A bin many times as wide is drawn less wide, or it would hide the others. A point
    counts as wide as it is, such as a year of age beside bins of two. One that is far narrower than the usual bin is
    drawn as wide as that.
    """
    ticks = np.array(attribute.ticks, np.float64)
    points = sorted(attribute.point_codes)
    widths: Floats = np.diff(ticks)
    usual = float(np.median(np.delete(widths, points))) if len(points) < len(widths) else 0.0
    widths[points] = np.where(widths[points] * _WIDEST >= usual, widths[points], usual)
    alike = (np.abs(widths - usual) <= max(1.0, 0.05 * usual)).all()
    if alike or not 0 < usual < np.inf or not np.isfinite(widths).all():
        even = (np.arange(attribute.regular + 1) - 0.5).astype(np.float64)
        return even, np.ones(attribute.regular), False
    units = widths / usual
    edges = np.concatenate([np.zeros(1), np.cumsum(np.clip(units, 0.25, _WIDEST))]).astype(np.float64)
    return edges, units, True


def _label_edges(axes: Axes, column: JudgedColumn, ordered: int, edges: Floats, places: Floats) -> None:
    """The lower edges of bins beneath them, as many as fit, and the names of the cells behind."""
    extra = range(ordered, len(column.labels))
    texts = [shortened(_lower_edge(label), 12) for label in column.labels[:ordered]]
    even = bool(np.allclose(np.diff(edges), edges[1] - edges[0]))
    spots = places[:ordered] if even else edges[:-1]
    most = max(2, min(_MOST_TICKS - 2 * len(extra), _TICK_LETTERS // (max(map(len, texts)) + 3)))
    apart, shown, last = (edges[-1] - edges[0]) / most, list[int](), -np.inf
    for place in range(ordered):
        if spots[place] - last >= apart * 0.999:
            shown.append(place)
            last = spots[place]
    ends = [_cell(column.labels[place], 15) for place in extra]
    axes.set_xticks([*spots[shown], *places[ordered:]], [*(texts[place] for place in shown), *ends])
    for label in axes.get_xticklabels()[len(shown) :]:
        label.set_rotation(20)
        label.set_horizontalalignment("right")
        label.set_rotation_mode("anchor")


def _cell(label: str, longest: int) -> str:
    """The label of a cell; those of the cell for what has no value are long."""
    special = {OUTSIDE: "outside", f"NULL or {OUTSIDE}": "NULL or outside", f"{OUTSIDE} or NULL": "NULL or outside"}
    return special.get(label, shortened(label, longest))


def _lower_edge(label: str) -> str:
    """The lower edge of an interval's label; of a moment the day."""
    edge = label[1:].split(",")[0] if label[:1] in ("[", "(") and "," in label else label
    return edge[:10] if _MOMENT.match(edge) else edge


def _percent(value: float, _: float) -> str:
    return f"{value:g} %"
