"""One self-contained HTML page from a finding's sections: plotly is part of it, and nothing is fetched."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ridgeformer.experiments.figures import draw
from ridgeformer.experiments.finding import Figure, Heatmap, Page, Paragraph, Table
from ridgeformer.experiments.wording import maths


def render(page: Page) -> str:
    """The page as HTML; all text is escaped, but for the few tags that `maths` keeps."""
    from plotly.offline import get_plotlyjs

    html: str = (
        environment().get_template("page.html").render(page=page, plotly=Markup(get_plotlyjs()))
    )
    return html


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("ridgeformer.experiments"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"maths": maths, "drawn": drawn}
    made.tests |= {
        "paragraph": lambda item: isinstance(item, Paragraph),
        "table": lambda item: isinstance(item, Table),
    }
    return made


def drawn(figure: Figure | Heatmap) -> Markup:
    from plotly.io import to_html

    config = {"displaylogo": False, "modeBarButtons": [["toImage", "resetScale2d"]]}
    return Markup(to_html(draw(figure), include_plotlyjs=False, full_html=False, config=config))
