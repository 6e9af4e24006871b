"""One self-contained HTML page from a finding's sections, and the prose that stands on it.

The page's frame and all of its sentences are Jinja2 templates. plotly is part of the page, and nothing
is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypedDict

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.figures import draw, legend
from ridgeformer.experiments.wording import maths, plain, spread, unbroken


def render(page: f.Page) -> str:
    """The page as HTML; all text is escaped, but for the few tags that `maths` keeps."""
    from plotly.offline import get_plotlyjs

    template = environment().get_template("page.html")
    return template.render(page=page, plotly=Markup(get_plotlyjs()))


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("ridgeformer.experiments"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "maths": maths,
        "unbroken": unbroken,
        "drawn": drawn,
        "plain": plain,
        "spread": spread,
        "fmt": format,
    }
    made.tests |= {
        "paragraph": lambda item: isinstance(item, f.Paragraph),
        "table": lambda item: isinstance(item, f.Table),
    }
    return made


def drawn(figure: f.Figure | f.Heatmap | f.Matrices, name: str) -> Markup:
    """The figure as HTML, below a legend in which readers choose what is drawn.

    plotly would name the figure at random, and the page would never be the same twice.
    """
    from plotly.io import to_html

    config = {"displaylogo": False, "modeBarButtons": [["toImage", "resetScale2d"]]}
    options = {"include_plotlyjs": False, "full_html": False, "config": config, "div_id": name}
    drawing = draw(figure)
    keys = environment().get_template("legend.html").render(keys=legend(drawing), figure=name)
    return Markup(keys + to_html(drawing, default_width="100%", **options))


class Titled(TypedDict):
    title: str
    see: str


class Prose:
    """The sentences of one page: the blocks of a template, which take values and may have a title."""

    def __init__(self, name: str) -> None:
        self.name = name

    def lines(self, block: str, values: Mapping[str, Any]) -> list[str]:
        template = environment().get_template(f"prose/{self.name}.html")
        return (
            "".join(template.blocks[block](template.new_context(dict(values)))).strip().split("\n")
        )

    def text(self, block: str, **values: Any) -> str:
        return " ".join(self.lines(block, values))

    def titled(self, block: str, **values: Any) -> Titled:
        """The title, which is the first line, and what there is to see."""
        title, *lines = self.lines(block, values)
        return {"title": Markup(title.removeprefix("# ")).unescape(), "see": " ".join(lines)}

    def section(self, block: str, *content: f.Block, **values: Any) -> f.Section:
        words = self.titled(block, **values)
        return f.Section(words["title"], [f.Paragraph(words["see"]), *content])

    def page(
        self, sections: Sequence[f.Section], finding: f.Finding, terminal: Mapping[str, f.Table] | None = None,
        **values: Any,
    ) -> f.Page:  # fmt: skip
        """The page of a finding, whose seed, prompts and settings are known to the prose."""
        known = {"seed": finding.seed, "prompts": finding.prompts, "s": finding.settings, **values}
        words = self.titled("page", **known)
        foot = self.text("foot", **known)
        return f.Page(words["title"], words["see"], sections, foot, terminal or {})
