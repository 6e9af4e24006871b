"""Builds the explorer: template, styles, modules and models as one HTML file that needs no server."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ridgeformer import __version__
from ridgeformer.experiments.explorer.shown import payload

HOME = Path(__file__).parent
ENTRY = "app"
"""The module that starts the page."""


def modules() -> dict[str, str]:
    """The page's JavaScript by name. Modules import each other by name, through the import map."""
    return {path.stem: path.read_text() for path in sorted((HOME / "js").glob("*.js"))}


def import_map() -> dict[str, Any]:
    """Where each module is: in the page itself, since a page without a server can import no files."""
    packed = {name: base64.b64encode(text.encode()).decode() for name, text in modules().items()}
    return {
        "imports": {name: f"data:text/javascript;base64,{text}" for name, text in packed.items()}
    }


@cache
def page() -> str:
    """The whole page; the same bytes whenever it is built by the same code on the same machine."""
    made = Environment(
        loader=FileSystemLoader(HOME / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return made.get_template("explorer.html").render(
        version=__version__,
        entry=ENTRY,
        import_map=in_script(import_map()),
        models=in_script(payload()),
        style=Markup((HOME / "templates" / "explorer.css").read_text()),
    )


def in_script(values: Any) -> Markup:
    """JSON that may stand in a script element."""
    return Markup(json.dumps(values, ensure_ascii=False).replace("</", "<\\/"))
