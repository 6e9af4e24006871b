"""`python -m docs.building`: writes the documentation site to build/site."""

from __future__ import annotations

import shutil
import sys

from docs.building.commands import write_commands
from docs.building.explorer import write_explorer
from docs.building.mathematics import write_mathjax
from docs.building.names import write_names
from docs.building.paths import CONFIGURATION, SITE, SOURCES
from docs.building.pictures import write_pictures
from docs.building.staging import write_documents
from sphinx.cmd.build import build_main


def main() -> int:
    """Every page in Markdown, then Sphinx; a warning is an error."""
    for folder in (SOURCES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    write_commands(SOURCES / "commands")
    write_names(SOURCES / "reference")
    write_pictures(SOURCES / "concepts" / "pictures")
    write_explorer(SOURCES / "beside" / "explorer.html")
    write_mathjax(SOURCES / "static" / "mathjax")
    write_documents()
    strict = ["--fail-on-warning", "--keep-going", "--nitpicky"]
    options = ["-b", "html", "-j", "2", "-q", *strict, "-c", str(CONFIGURATION)]
    return build_main([*options, "-d", f"{SOURCES}-doctrees", str(SOURCES), str(SITE)])


if __name__ == "__main__":
    sys.exit(main())
