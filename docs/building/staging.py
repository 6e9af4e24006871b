"""The documents as the site has them: a link to a page stays one, wherever the page is on the site.

A link to a source file gives that file; a folder, which a code host lists and a site cannot, is named without a link.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from docs.building.paths import CONFIGURATION, ROOT, SOURCES

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
ELSEWHERE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Documents outside docs that are pages of the site."""


def documents() -> dict[Path, Path]:
    """Every document of the repository that is a page, and where the site has it."""
    own = {path: path.relative_to(CONFIGURATION) for path in sorted(CONFIGURATION.rglob("*.md"))}
    return own | {ROOT / name: Path(page) for name, page in ELSEWHERE.items()}


def tutorials() -> dict[Path, Path]:
    """Every tutorial, and the page that is made of it."""
    folder = CONFIGURATION / "tutorials"
    pages = {path: Path("tutorials") / f"{path.stem}.rst" for path in sorted(folder.glob("*.py"))}
    return pages | {folder / "GALLERY_HEADER.rst": Path("tutorials/index.rst")}


def write_documents() -> None:
    pages = documents()
    for path, page in pages.items():
        write(page, with_links_of_the_site(path, pages | tutorials()))
    for path in CONFIGURATION.glob("*.png"):
        shutil.copy(path, SOURCES / path.name)


def write(page: Path, text: str) -> None:
    target = SOURCES / page
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def with_links_of_the_site(path: Path, pages: dict[Path, Path]) -> str:
    """The text of a document, with its links as the site's pages need them; code is left as it is."""
    here = SOURCES / pages[path]

    def link(match: re.Match[str]) -> str:
        text, anchor = match[1], match[3] or ""
        found = (path.parent / match[2]).resolve()
        if found == ROOT / "README.md":
            return f"[{text}](/index.md)"
        if found in pages:
            return f"[{text}](/{pages[found]}{anchor})"
        if found.is_dir():
            return text if "`" in text else f"`{text}`"
        if found.exists():
            return f"[{text}]({os.path.relpath(found, here.parent)})"
        return match[0]  # a page that is made: Sphinx says if it is missing

    text = path.read_text(encoding="utf-8")
    blocks = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    is_code = re.compile(r"```(?!\{)")
    return "".join(block if is_code.match(block) else LINK.sub(link, block) for block in blocks)
