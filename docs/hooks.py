"""What the site makes of pages and links that Markdown on its own cannot have.

SECURITY.md and CONTRIBUTING.md stand at the top of the repository, where people look for them. A page of the site whose
text is `<!-- the whole of FILE -->` shows that file. Links to files that are no pages, such as source code, are shown
as code: the site has no copy of them.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

_WHOLE = re.compile(r"<!-- the whole of (\S+) -->")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by MkDocs with the text of each page."""
    root, uri = Path(config.config_file_path).parent, page.file.src_uri
    shown = _shown(files, root)
    here = posixpath.join("docs", posixpath.dirname(uri))
    whole = _WHOLE.fullmatch(markdown.strip())
    if whole:
        markdown, here = (root / whole[1]).read_text(encoding="utf-8"), posixpath.dirname(whole[1])
    pages = {f"docs/{file.src_uri}": file.src_uri for file in files} | shown

    def linked(match: re.Match[str]) -> str:
        text, target, anchor = match[1], posixpath.normpath(posixpath.join(here, match[2])), match[3] or ""
        if target not in pages:
            if target.startswith("docs/"):
                return match[0]  # MkDocs says that it leads nowhere
            return text if text.startswith("`") else f"`{text}`"
        return f"[{text}]({posixpath.relpath(pages[target], posixpath.dirname(uri) or '.')}{anchor})"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(linked, part) for part in parts)


def _shown(files: Any, root: Path) -> dict[str, str]:
    """Files at the top of the repository, and the page that shows each."""
    found = {}
    for file in files.documentation_pages():
        match = _WHOLE.fullmatch((root / "docs" / file.src_uri).read_text(encoding="utf-8").strip())
        if match:
            found[match[1]] = file.src_uri
    return found
