"""The figure of accuracy, of the lines in utility.md: error and AUC against ε, ours and the peers'.

    python tests/benchmarks/plot.py --output ../../docs/images/accuracy.png

It reads the tables of that section, so it shows what stands there. The default has a line, today's and that of before; `pgm` with
`selection := 'mst'` has one too; peers that were run at ε = 1 only have a point. The grey line is the AUC on real rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

HERE = Path(__file__).parent
TABLES = ("adult", "loans", "adult@3000", "loans@8000", "linked")
TITLES = {
    "adult": "Adult",
    "loans": "Loans",
    "adult@3000": "Adult, 3,000 rows",
    "loans@8000": "Loans, 8,000 rows",
    "linked": "simulated (linked)",
}
STYLES = {
    "projection": ("dpsql, default", "#0072b2", "o-"),
    "before": ("dpsql, before", "#56b4e9", "o:"),
    "pgm:selection=mst": ("MST in dpsql (pgm)", "#d55e00", "s-"),
    "opendp-mst": ("OpenDP's MST", "#cc79a7", "^"),
    "smartnoise-mst": ("SmartNoise's MST", "#999999", "v"),
}


def read(path: Path) -> list[dict[str, str]]:
    """The lines of the file's tables, a name for each cell; those of the second table are of before."""
    parts = path.read_text(encoding="utf-8").split("\n## Before, and others\n")
    found = []
    for when, part in zip(("now", "before"), parts, strict=True):
        head: list[str] = []
        for line in part.splitlines():
            if line.startswith("| table | ε | system"):
                head = [cell.strip() for cell in line.strip("|").split("|")]
            elif head and line.startswith("|") and "---" not in line:
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                found.append({"when": when, **dict(zip(head, cells, strict=True))})
            elif not line.startswith("|"):
                head = []
    return found


def number(text: str) -> float:
    """The number that a cell begins with."""
    return float(text.split()[0].replace(",", ""))


def points(lines: list[dict[str, str]], table: str, name: str) -> dict[str, list[tuple[float, float]]]:
    """For each system its values of one column by ε."""
    found: dict[str, dict[float, float]] = {}
    for line in lines:
        if line["table"].rstrip("*") != table or line["system"] == "real":
            continue
        system = "before" if line["when"] == "before" and line["system"] == "projection" else line["system"]
        if system in STYLES:
            found.setdefault(system, {}).setdefault(float(line["ε"]), number(line[name]))
    return {system: sorted(values.items()) for system, values in found.items()}


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "docs" / "images" / "accuracy.png")
    options = parser.parse_args()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = read(HERE / "utility.md")
    figure, axes = pyplot.subplots(2, len(TABLES), figsize=(15, 6.4), sharex=True)
    for column, table in enumerate(TABLES):
        for row, (name, label) in enumerate((("L1 triples", "mean L1 of triples"), ("AUC boost", "AUC of boosting"))):
            axis = axes[row][column]
            for system, values in points(lines, table, name).items():
                title, colour, style = STYLES[system]
                axis.plot(*zip(*values, strict=True), style, color=colour, label=title, markersize=5)
            axis.set_xscale("log")
            axis.grid(alpha=0.3)
            axis.margins(y=0.1)
            if column == 0:
                axis.set_ylabel(label)
        real = [line for line in lines if line["table"].rstrip("*") == table and line["system"] == "real"]
        axes[1][column].axhline(
            number(real[0]["AUC boost"]), color="#bbbbbb", linewidth=1, label="trained on real rows"
        )
        axes[0][column].set_ylim(bottom=0)
        axes[0][column].set_title(TITLES[table], fontsize=11)
        axes[1][column].set_xlabel("ε")
    handles: dict[str, object] = {}
    for axis in axes.flat:
        for handle, title in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(title, handle)
    figure.legend(list(handles.values()), list(handles), loc="lower center", ncol=6, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(options.output, dpi=110)


if __name__ == "__main__":
    main()
