"""The command `dpsql docs`: the documentation of this very version, which is installed with it.

Where `dpsql[docs]` is installed the site is built once, in the user's cache folder, and opened in a browser. Else, or
where a page is named, the text is shown as it is written, in the pager.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dpsql.errors import InvalidArgument, UnknownName

_NEEDED: Final = ("mkdocs", "material")
_WHOLE: Final = ("<!-- the whole of ", " -->")
_HIDDEN: Final = re.compile(r"\A---\n.*?\n---\n+|^<!--.*?-->\n+|^</?div[^>]*>\n+", re.DOTALL | re.MULTILINE)


def add_commands(commands: Any) -> None:
    """Add `docs` to the commands of `dpsql`."""
    docs = commands.add_parser("docs", help="read the documentation of this version; needs no network")
    docs.add_argument("page", nargs="?", help="show one page as text, such as how-to/query or query")
    docs.add_argument("--list", action="store_true", help="list the pages")
    docs.add_argument("--build", metavar="FOLDER", help="write the site there and open nothing; needs dpsql[docs]")
    docs.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Do what the command says."""
    import pydoc
    import webbrowser

    if options.list:
        sys.stdout.write("".join(f"{name}\n" for name in pages()))
    elif options.page is not None:
        pydoc.pager(text_of(options.page))
    elif options.build is not None:
        sys.stdout.write(f"{_built(Path(options.build))}\n")
    elif all(find_spec(name) for name in _NEEDED):
        index = _built(_cached())
        sys.stdout.write(f"{index}\n")
        webbrowser.open(index.as_uri())
    else:
        listed = "".join(f"  {name}\n" for name in pages())
        end = f"\nPages, for dpsql docs PAGE:\n\n{listed}\npip install 'dpsql[docs]' shows them in a browser.\n"
        pydoc.pager(text_of("index") + end)


def root() -> Path:
    """The folder of `docs/` and `mkdocs.yml`: inside the package, or of the checkout."""
    package = Path(__file__).parents[1]
    inside = package / "manual"
    return inside if inside.is_dir() else package.parent


def pages() -> list[str]:
    """The names of all pages.

    >>> "how-to/query" in pages()
    True
    """
    folder = root() / "docs"
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md"))


def text_of(page: str) -> str:
    """A page as it is written.

    Args:
        page: its name, or the last part of it.

    Raises:
        UnknownName: there is none.

    >>> text_of("query").splitlines()[0]
    '# Ask queries'
    """
    from difflib import get_close_matches

    name, names = page.removesuffix(".md"), pages()
    matches = [path for path in names if name in (path, path.rpartition("/")[2])]
    if not matches:
        near = get_close_matches(name, [*names, *(path.rpartition("/")[2] for path in names)], n=1)
        instead = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownName(f"there is no page {page!r}: {instead}dpsql docs --list shows all")
    text = (root() / "docs" / f"{matches[0]}.md").read_text(encoding="utf-8")
    before, after = _WHOLE
    if text.startswith(before):
        text = (root() / text.strip().removeprefix(before).removesuffix(after)).read_text(encoding="utf-8")
    return _HIDDEN.sub("", text)


def _cached() -> Path:
    """A folder for the site of just these pages: another version, or a page that was changed, has another one."""
    import hashlib

    from platformdirs import user_cache_path

    digest = hashlib.sha256()
    for path in sorted([*(root() / "docs").rglob("*"), *root().glob("*.md"), root() / "mkdocs.yml"]):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.name.encode() + path.read_bytes())
    return user_cache_path("dpsql") / "docs" / digest.hexdigest()[:16]


def _built(folder: Path) -> Path:
    """The first page of the site in a folder, built if it is not there.

    Raises:
        InvalidArgument: the packages that build it are not installed, or could not write there.
    """
    import subprocess

    index = folder / "index.html"
    if index.is_file():
        return index
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise InvalidArgument("the site needs mkdocs-material: pip install 'dpsql[docs]', or read dpsql docs PAGE")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder.resolve())]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=root(), env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InvalidArgument(f"the site could not be built in {str(folder)!r}:\n{done.stderr.strip()}")
    return index
