"""Pictures of what commands print, in both themes: `python docs/terminal.py FOLDER [--columns 80] [--run COMMAND …]`.

Each command runs in tmux at that width, in one folder, as it would for a person. Its screen is captured with colours
and drawn by a headless Chromium, once on dark and once on light. `dpsql`, `tmux` and `chromium` must be on the path.
Without `--run` the commands of the first hour run. `--last 2` draws the last two of them only.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

FIRST_HOUR = (
    "dpsql --help | head -30",
    "dpsql doctor",
    "dpsql init patients.csv --owner-looks",
    "dpsql sql bank.duckdb patients.sql | tail -12",
    """dpsql sql bank.duckdb "FROM dp_plan('patients', epsilon := 1.0, assume_rows := 5000, chart := true)" """,
    "dpsql synthesize bank.duckdb patients --epsilon 1 --output synthetic.parquet",
    "dpsql report bank.duckdb --release 2 --output report.html",
    "dpsql budget bank.duckdb",
    "dpsql releases bank.duckdb",
    "dpsql demo",
)
TABLE = """COPY (SELECT 18 + i * 7 % 70 AS age, (['F', 'M'])[1 + i % 2] AS sex, i % 5 = 0 AS smoker,
    CASE WHEN i % 3 = 0 THEN 'N' ELSE (i * 31 % 4000)::VARCHAR END AS cost,
    DATE '2020-01-01' + (i * 13 % 1800)::INTEGER AS admitted, 'notes of patient ' || i AS notes
    FROM range(5000) r(i)) TO 'patients.csv'"""
THEMES = {
    "dark": (
        "#0d1117",
        "#d4dae1",
        ["#6e7681", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#f0f6fc"],
    ),
    "light": (
        "#ffffff",
        "#1f2328",
        ["#57606a", "#cf222e", "#116329", "#7d4e00", "#0550ae", "#8250df", "#1b7c83", "#24292f"],
    ),
}
_CODE = re.compile(r"\x1b\[([\d;]*)m")


def captured(command: str, columns: int, folder: Path) -> str:
    """The screen after a command, with its colours; it ends when a mark is printed."""
    name = f"dpsql{time.time_ns()}"  # a server that was ended may take a moment
    shell = f"cd '{folder}' && {command}; printf '\\n%s\\n' ENDED; sleep 600"
    start = ["tmux", "-L", name, "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", "60", shell]
    subprocess.run(start, check=True, env={**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"})
    try:
        while True:
            take = ["tmux", "-L", name, "capture-pane", "-e", "-p", "-S", "-200"]
            screen = subprocess.run(take, check=True, capture_output=True, text=True).stdout
            if "\nENDED" in screen:
                return screen.partition("\nENDED")[0].rstrip()
            time.sleep(0.2)
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], check=False)


def _style(codes: list[int], theme: str) -> str:
    colors, found = THEMES[theme][2], list[str]()
    for code in codes:
        if code == 1:
            found.append("font-weight:bold")
        elif code == 2:
            found.append("opacity:.7")
        elif 30 <= code <= 37 or 90 <= code <= 97:
            found.append(f"color:{colors[code % 10]}")
    return ";".join(found)


def as_html(screens: list[tuple[str, str]], theme: str) -> str:
    """The page that is drawn."""
    paper, ink, _ = THEMES[theme]
    lines = []
    for command, screen in screens:
        shown, active, at = list[str](), list[int](), 0
        for code in _CODE.finditer(screen):
            shown.append(f'<span style="{_style(active, theme)}">{html.escape(screen[at : code.start()])}</span>')
            given = [int(part or 0) for part in code[1].split(";")]
            active, at = ([] if 0 in given else active) + [one for one in given if one], code.end()
        shown.append(html.escape(screen[at:]))
        lines.append(f"<b style='white-space:pre-wrap'>$ {html.escape(command.strip())}</b>\n{''.join(shown)}")
    style = f"margin:14px;background:{paper};color:{ink};font:14px/1.25 'DejaVu Sans Mono',monospace"
    body = "\n\n".join(lines)
    return f'<meta charset="utf-8"><body style="{style}"><pre style="font:inherit;margin:0">{body}</pre>'


def drawn(page: str, size: tuple[int, int], target: Path) -> None:
    """A PNG of a page."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.html"
        source.write_text(page, encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/user"]
        window = f"--window-size={size[0]},{size[1]}"
        command = ["chromium", *options, window, f"--screenshot={target.resolve()}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True)


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", action="append", default=[], metavar="COMMAND", help="in place of the first hour's")
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--name", default="terminal")
    parser.add_argument("--last", type=int, default=0, help="show the last commands only")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        import duckdb

        duckdb.sql(TABLE.replace("patients.csv", f"{work}/patients.csv"))
        commands = options.run or FIRST_HOUR
        screens = [(command, captured(command, options.columns, Path(work))) for command in commands]
    screens = screens[-options.last :]
    rows = sum(len(screen.splitlines()) + 2 + len(command) // options.columns for command, screen in screens)
    for theme in THEMES:
        size = (round(options.columns * 8.45) + 30, round(rows * 17.6) + 30)
        drawn(as_html(screens, theme), size, options.folder / f"{options.name}-{theme}.png")


if __name__ == "__main__":
    main()
