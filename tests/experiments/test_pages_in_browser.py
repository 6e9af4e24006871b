"""Pages of commands, opened in a real browser that is off the network, at three widths."""

import pytest
from browsing import WIDTHS, opened, problems_at_every_width
from fork_server import cli

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import render
from ridgeformer.experiments.studies import STUDIES

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.pages]

COMMANDS = {
    "demo": ["demo"],
    "evaluate": ["evaluate", "linear-attention", "--prompts", 24],
    **{name: ["study", name, "--prompts", 8] for name in STUDIES},
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_is_drawn_at_every_width(name, browser, tmp_path):
    done = cli(*COMMANDS[name], "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert problems_at_every_width(browser, tmp_path / "index.html") == {}


LONG = ["gd", "heavy-ball", "richardson, row-sum", "nadaraya-watson", "cg, jacobi"]
STEPS = [1.0, 2.0, 3.0]


def panels(title: str, count: int) -> list[f.Panel]:
    return [
        f.Panel(f"panel {i}", [f.Line("one", STEPS, [1.0, 0.1, 0.01])], f.Axes(title, "error"))
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """A page on which much stands beside each other."""
    names = [f"preconditioned-{i}" for i in range(16)]
    speed = f.Figure.of([f.Line("speed", names, [10.0] * 16)], f.Axes("", "speed", bars="beside"))
    square = [[0.1234 * i * j for i in range(5)] for j in range(5)]
    states = [[f"{s}_{i}" for i in range(8)] for s in "αrp"]
    matrices = [
        f.Matrix(rows[0][0], rows, [str(i) for i in range(9)], [[-0.06394] * 9] * 8)
        for rows in states
    ]
    sections = [
        f.Section("Two rows", [f.Figure([panels("layer, or step of a candidate", 2)] * 2)]),
        f.Section("Four panels", [f.Figure([panels("eigenvalue σ of A", 4)])]),
        f.Section("Bars", [speed]),
        f.Section("Names", [f.Matrices([f.Matrix("", LONG, LONG, square)], "verdict", "truth", "models", written=True)]),
        f.Section("States", [f.Matrices(matrices, "layer", "step", "cosine", (0.0, 1.0), written=True)]),
        f.Section("Tables", [f.Table(["part", *"abcdef"], [["α_2", *["1.2e-15 [1.0e-15,\u00a01.4e-15]"] * 6]])]),
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("crowded") / "index.html"
    path.write_text(render(f.Page("Crowded", "", sections, "", {})))
    return path


def test_nothing_crosses_where_much_stands_side_by_side(crowded, browser):
    assert problems_at_every_width(browser, crowded) == {}


NAMES = """() => [...document.querySelectorAll('.plotly-graph-div')].map(div => ({
    ticks: [...div.querySelectorAll('.ytick text')].map(t => t.textContent),
    apart: [...div.querySelectorAll('.xtick text')].every((t, i, all) => i === 0 || i % 9 === 0 ||
        t.getBoundingClientRect().left >= all[i - 1].getBoundingClientRect().right - 1),
    cells: Math.min(...[...div.querySelectorAll('.heatmap-label text')].map(t => t.getBoundingClientRect().height)),
}))"""


@pytest.mark.parametrize("width", WIDTHS)
def test_every_case_and_every_row_is_named(crowded, browser, width):
    page, troubles = opened(browser, crowded, width)
    _, _, bars, names, states = page.evaluate(NAMES)
    assert width > 500 or bars["apart"]  # there they are turned by a right angle
    assert sorted(names["ticks"]) == sorted(LONG)
    if width == 1366:
        assert states["cells"] >= 8
    assert troubles == []
    page.context.close()


def test_tables_set_formulas_and_break_no_number(crowded, browser):
    page, _ = opened(browser, crowded, 500)
    cells = page.locator("td")
    assert cells.first.inner_html() == "α<sub>2</sub>"
    assert "e-" not in cells.nth(1).text_content()
    page.context.close()
