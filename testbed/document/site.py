"""What mkdocs needs to know of files outside docs/: README, CHANGELOG and CONTRIBUTING become pages (mkdocs' hooks)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {"README.md": "inalab.md", "CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}
ELSEWHERE = ("LICENSE", "CITATION.cff")  # files that a page names and the site does not have


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not below docs/."""
    from mkdocs.structure.files import File

    for name, page in OUTSIDE.items():
        text = _within((ROOT / name).read_text(), "").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links out of docs/ lead to those pages, or are plain text."""
    return _within(markdown, "../" * (page.file.src_uri.count("/") + 1))


def _within(text: str, up: str) -> str:
    for name, page in OUTSIDE.items():
        text = text.replace(f"]({up}{name}", f"]({up.removesuffix('../')}{page}")
    gone = "|".join(map(re.escape, ELSEWHERE))
    return re.sub(rf"\[([^\]]+)\]\({re.escape(up)}(?:{gone})\)", r"\1", text)
