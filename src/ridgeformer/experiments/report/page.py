"""One self-contained HTML page: figures and sentences, nothing fetched."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ridgeformer.types import Refusal

STYLE = """
:root { --ink: #1c2330; --soft: #5b6577; --line: #dfe3ea; --paper: #ffffff; --tint: #f5f7fa; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--tint);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.01em; }
h2 { font-size: 20px; margin: 0 0 6px; }
.lead { color: var(--soft); font-size: 18px; margin: 0 0 28px; max-width: 62ch; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
          padding: 24px 24px 12px; margin: 0 0 24px; }
section p { max-width: 76ch; margin: 0 0 12px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums;
        font-size: 14.5px; margin: 8px 0 16px; }
th, td { text-align: right; padding: 7px 10px; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
th.words, td.words { text-align: left; }
a { color: #2f5fd0; text-decoration: none; } a:hover { text-decoration: underline; }
sub, sup { font-size: 0.75em; line-height: 0; }
section p.statement { border-left: 3px solid var(--line); padding-left: 14px; }
section p.soft { color: var(--soft); font-size: 15px; }
section p.see { margin: 18px 0 0; }
code { background: var(--tint); padding: 1px 5px; border-radius: 4px; font-size: 0.92em; }
footer { color: var(--soft); font-size: 14px; }
"""


@dataclass(frozen=True)
class Table:
    header: list[str]
    rows: list[list[str]]
    words: int = 1
    """How many of the first columns are words, which stand to the left."""
    linked: bool = False
    """Whether the first cell of a row leads to the section of that name."""

    def html(self) -> str:
        head = "".join(self.cell("th", *cell) for cell in enumerate(self.header))
        body = "".join(
            "<tr>" + "".join(self.cell("td", *cell) for cell in enumerate(row)) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def cell(self, kind: str, column: int, cell: str) -> str:
        text = escape(cell)
        if self.linked and kind == "td" and column == 0:
            text = f'<a href="#{text}">{text}</a>'
        return f"<{kind}{' class=words' if column < self.words else ''}>{text}</{kind}>"


@dataclass(frozen=True)
class Paragraph:
    html: str
    kind: str = ""
    """statement, soft or see: how it is set."""


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    """Plain HTML: the sentence that says what to see."""
    content: list[Any]
    """Paragraphs, tables and plotly figures, in order."""
    anchor: str = ""


def write_page(path: str | Path, title: str, lead: str, sections: list[Section], foot: str) -> None:
    from plotly.io import to_html
    from plotly.offline import get_plotlyjs

    def block(item: Any) -> str:
        match item:
            case Table():
                return item.html()
            case Paragraph(html, kind):
                return f'<p class="{kind}">{html}</p>'
        shown: str = to_html(
            item, include_plotlyjs=False, full_html=False, config={"displaylogo": False}
        )
        return shown

    parts = []
    for section in sections:
        name = f' id="{section.anchor}"' if section.anchor else ""
        text = f"<p>{section.text}</p>" if section.text else ""
        blocks = "".join(block(item) for item in section.content)
        parts.append(f"<section{name}><h2>{escape(section.title)}</h2>{text}{blocks}</section>")
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        f"<script>{get_plotlyjs()}</script></head><body><main>"
        f'<h1>{escape(title)}</h1><p class="lead">{lead}</p>{"".join(parts)}'
        f"<footer>{foot}</footer></main></body></html>"
    )
    check_page(path)
    Path(path).write_text(html)


def check_page(path: str | Path) -> None:
    """Refuses early, before any measuring is done for a page that cannot be written."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror or error}.") from error
