"""A page on a release: from Python and from the command line, in public and for the owner."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.errors import DpsqlError, InvalidArgument, NotOwner, UnknownName

CANARY = "canary-7f3a91"
HOSTILE = {
    "table": '<img src=x onerror="alert(1)">',
    "column": "<script>alert('c')</script> $x^{ & \"",
    "value": "</script><script>alert('v')</script>",
}


class Page(HTMLParser):
    """The elements of a page, and the rows of its tables, by section.

    Attributes:
        tags: every element's name.
        attributes: names of all attributes.
        links: what could be fetched.
        sections: the text of each section by its id, and of the header.
        rows: of each section, the cells' texts of each row.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.sections: dict[str, str] = {"header": ""}
        self.rows: dict[str, list[list[str]]] = {}
        self._in, self._style = "header", False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        self.attributes |= {*given}
        self.links += [given[name] for name in ("src", "href", "xlink:href", "action", "data") if given.get(name)]
        self._style = tag == "style"
        if tag == "section":
            self._in = given["id"]
            self.sections[self._in], self.rows[self._in] = "", []
        if tag == "tr":
            self.rows[self._in].append([])
        if tag in ("td", "th"):
            self.rows[self._in][-1].append("")

    def handle_endtag(self, tag):
        self._style = False

    def handle_data(self, data):
        if self._style:
            return
        self.sections[self._in] += data
        if self.rows.get(self._in) and self.rows[self._in][-1]:
            self.rows[self._in][-1][-1] += data


def made(db: dpsql.Database, sql: str, epsilon: float = 3.0, **given) -> dpsql.Release:
    """A release that is quick to make: of single columns, or of what is given."""
    options = {"workload": sql, "mechanism": "direct", **given}
    return db.synthesize("people", epsilon, **options)


SINGLE = "SELECT sex, count(*) FROM people GROUP BY sex; SELECT mood, count(*) FROM people GROUP BY mood"
PAIRS = "SELECT sex, mood, sick, count(*) FROM people GROUP BY ALL"


@pytest.mark.medium
def test_the_page_shows_what_was_released(people):
    release = made(people, SINGLE)
    page = Page(release.report().html)
    measured = {}
    total = release.judgement.total
    sql = "SELECT cell[1], value, stddev FROM dp_measurements(?) WHERE columns = ['mood']"
    for label, value, stddev in people.sql(sql, [release.entry.key]).fetchall():
        measured[label] = (100 * value / total, 100 * 1.959964 * stddev / total)
    counts = dict(
        people.sql(f"SELECT mood, count(*) FROM dpsql.release_{release.entry.number} GROUP BY ALL").fetchall()
    )
    rows = {row[0]: [float(cell) for cell in row[1:]] for row in page.rows["columns"] if row[0] in counts}
    assert rows.keys() == {"sad", "ok", "happy"}
    for label, (synthetic, noisy, reach) in rows.items():
        assert (noisy, reach) == pytest.approx(measured[label], abs=6e-4)
        assert synthetic == pytest.approx(100 * counts[label] / release.entry.rows, abs=6e-4)
    assert str(release.verdict) in " ".join(page.sections["header"].split())
    assert "No two columns were measured together, so pairs are not judged." in str(release.verdict)
    assert repr(release).endswith(f". {release.verdict}>")
    assert f"{release.entry.rows:,}" in page.sections["header"]
    assert release.entry.guarantee in page.sections["guarantee"]
    left = float(people.budget().epsilon_left[0])
    assert f"one more may ask for {left:.4g}" in page.sections["guarantee"]
    assert "age, sick" in page.sections["measured"]
    assert "Outside the declared domains" in page.sections["outside"]
    assert page.tags.count("svg") == 2


@pytest.mark.medium
def test_the_page_needs_no_network_and_runs_nothing(people):
    html = made(people, PAIRS).report().html
    page = Page(html)
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert not {name for name in page.attributes if name.startswith("on")}
    assert "default-src 'none'" in html
    assert not re.findall(r"url\((?!#)", html)
    assert "prefers-color-scheme: dark" in html
    assert "#0101" not in html.replace("#01014", "")  # every colour of a picture became a variable of the page's


@pytest.mark.medium
def test_hostile_names_and_values_are_shown_as_they_are(db, tmp_path, capsys):
    table, column, value = HOSTILE.values()
    quoted = ['"' + name.replace('"', '""') + '"' for name in (table, column)]
    text = value.replace("'", "''")
    db.sql(
        f"CREATE TABLE {quoted[0]} AS SELECT CASE WHEN i % 2 = 0 THEN '{text}' ELSE '日本' END AS {quoted[1]} FROM range(400) r(i)"
    )
    db.protect(quoted[0], epsilon=3.0, delta=1e-6)
    db.domain(quoted[0], column, values=[value, "日本"])
    release = db.synthesize(quoted[0], 2.0, mechanism="direct")
    for html in (release.report().html, release.report(private=True).html):
        page = Page(html)
        assert "script" not in page.tags
        assert "img" not in page.tags
        assert "onerror" not in page.attributes
        assert column in page.sections["columns"]
        assert value in [row[0] for row in page.rows["columns"]]
        assert quoted[0] in page.sections["header"]
    markdown = release.card().md
    assert "<script" not in markdown
    assert "<img" not in markdown
    notebook = release.report()._repr_html_()
    assert Page(notebook).tags == ["iframe"]
    assert capsys.readouterr().err == ""


@pytest.mark.medium
def test_a_public_report_reads_no_private_row(people):
    """Whatever became of the table since, and whatever is in it: nothing of it is shown."""
    people.sql(f"UPDATE people SET sex = '{CANARY}' WHERE age < 30")
    release = made(people, PAIRS)
    before = (release.report().html, release.card().json, repr(release))
    assert CANARY not in "".join(before)
    people.sql("UPDATE people SET sex = 'F', sick = true, mood = 'sad'")
    again = people.release(release.entry.number)
    assert (again.report().html, again.card().json, repr(again)) == before


def books_of(db: dpsql.Database) -> list[tuple]:
    tables = db.sql(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'dpsql' AND table_name NOT LIKE 'release_%' ORDER BY 1"
    ).fetchall()
    return [(name, sorted(map(str, db.sql(f'FROM dpsql."{name}"').fetchall()))) for (name,) in tables]


@pytest.mark.medium
def test_a_private_report_has_one_banner_and_marks_what_is_real_and_is_stored_nowhere(people):
    release = made(people, PAIRS)
    before = books_of(people)
    report = release.report(private=True)
    page = Page(report.html)
    assert report.private
    assert len(page.sections) > 7
    assert report.html.count("PRIVATE: made from the real rows. Do not publish.") == 1
    assert "PRIVATE: made from the real rows." in page.sections["header"].partition(str(release.verdict))[0]
    marked = {name for name, text in page.sections.items() if "read from the real rows" in text}
    assert marked == {"farthest", "truth", "columns", "pairs"}
    assert [*page.sections][:2] == ["header", "farthest"]  # what an owner asks for comes first
    true = {row[0]: float(row[4]) for row in page.rows["columns"] if row[0] in ("sad", "ok", "happy", "F", "M")}
    real = people.sql(
        "SELECT mood, count(*) / 6 FROM people GROUP BY ALL UNION ALL SELECT sex, count(*) / 6 FROM people WHERE sex IS NOT NULL GROUP BY ALL"
    ).fetchall()
    assert true == {label: pytest.approx(share, abs=6e-4) for label, share in real}
    assert "mean L1 of" in page.sections["truth"]
    assert books_of(people) == before
    public = Page(release.report().html)
    assert "PRIVATE" not in "".join(public.sections.values())
    assert "truth" not in public.sections
    with pytest.raises(InvalidArgument, match="target is of a private report"):
        release.report(target="sick")
    assert "AUC of a linear model" in release.report(private=True, target="sick").html


@pytest.mark.medium
def test_a_private_report_is_refused_where_the_owner_s_functions_are_off(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(300) r(i)")
        db.protect("t", epsilon=2, delta=1e-6)
        number = db.synthesize("t", 1.0, mechanism="direct").entry.number
    with dpsql.connect(path, owner=False) as db:
        with pytest.raises(NotOwner):
            db.release(number).report(private=True)
        assert "percentage points" in db.release(number).verdict.text


@pytest.mark.medium
def test_what_a_missing_package_says(people, monkeypatch):
    release = made(people, SINGLE)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DpsqlError, match=r"needs matplotlib, which is not installed: pip install matplotlib"):
        release.report()
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(DpsqlError, match=r"needs pyyaml, which is not installed: pip install pyyaml"):
        _ = release.card().yaml
    assert release.verdict.text


def test_what_is_no_synthetic_table_is_refused(people):
    people.query("SELECT sick, count(*) AS n FROM people GROUP BY sick", epsilon=0.5)
    number = int(people.releases().release.max())
    with pytest.raises(InvalidArgument, match=f"release {number} is no synthetic table"):
        people.release(number)
    with pytest.raises(UnknownName, match="no release is called '99'"):
        people.release(99)


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(3000) r(i)")
        db.protect("t", epsilon=2, delta=1e-6)
        db.synthesize("t", 1.0, mechanism="direct", release="mine")
    return str(path)


@pytest.mark.medium
def test_the_command_writes_pages_and_cards(bank, tmp_path, capsys):
    page, card = tmp_path / "r.html", tmp_path / "card.yaml"
    assert (
        main(["report", bank, "--release", "mine", "--output", str(page), "--card", str(card), "--curator", "Bank"])
        == 0
    )
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith("release 2 of t\nShares of single columns are off by about")
    assert shown.out.endswith(f"{page}: the report, of release 2 of t\n{card}: the card, of release 2 of t\n")
    assert "Release 2 of t" in Page(page.read_text(encoding="utf-8")).sections["header"]
    assert "data_curator_name: Bank" in card.read_text(encoding="utf-8")
    assert main(["report", bank]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("release 2 of t, the newest synthetic table\nShares of single columns are off by about")
    assert "--release 2 --output report.html" in shown
    assert main(["report", bank, "--release", "2", "--output", str(page), "--private", "--target", "b"]) == 0
    assert "PRIVATE: do not publish it" in capsys.readouterr().out
    assert "gradient boosting" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--output", "r.pdf"], "give an .html file"),
        (["--card", "r.xml"], "give a .json, .yaml or .md file"),
        (["--card", "r.json", "--private"], "private is of the page"),
        (["--card", "r.json", "--sector", "Chess"], "sector is 'Chess': give Technology"),
        (["--card", "nowhere/r.json"], "the card cannot be written"),
    ],
)
def test_the_command_says_what_is_wrong(bank, capsys, given, message):
    assert main(["report", bank, "--release", "2", *given]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.medium
def test_synthesize_ends_with_the_verdict(bank, tmp_path, capsys):
    command = [
        "synthesize",
        bank,
        "t",
        "--epsilon",
        "0.5",
        "--mechanism",
        "direct",
        "--output",
        str(tmp_path / "o.csv"),
    ]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("Shares of single columns are off by about")
