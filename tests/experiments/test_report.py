"""The page of `verify` without a browser: complete, readable, self-contained, and the same twice."""

import base64
import io
import json
import math
import os
import re
import subprocess
import sys
import time
from html import escape

import numpy as np
import pytest
from markupsafe import Markup
from rich.console import Console

from ridgeformer.experiments.figures import draw
from ridgeformer.experiments.finding import (
    Axes,
    Figure,
    Line,
    Page,
    Panel,
    Paragraph,
    Section,
    Table,
)
from ridgeformer.experiments.page import render
from ridgeformer.experiments.picture import mathtext, png
from ridgeformer.experiments.run import Run, terminal_table
from ridgeformer.experiments.theorems import THEOREMS, Theorem, verify
from ridgeformer.experiments.theorems.page import HEADER, row, verify_page
from ridgeformer.experiments.wording import maths, unbroken
from ridgeformer.registry import register
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def page(fast_report):
    return (fast_report[1] / "index.html").read_text()


def sections(page):
    """By theorem, what stands in its section."""
    return dict(re.findall(r'<section id="([\w-]+)"[^>]*>(.*?)</section>', page, re.S))


@pytest.mark.parametrize("name", THEOREMS)
def test_a_theorem_has_statement_numbers_sentence_and_figure(fast_report, page, name):
    (finding,) = (f for f in fast_report[0] if f.name == name)
    theorem, body = THEOREMS[name], sections(page)[name]
    assert f"<h2>{maths(theorem.title)}</h2>" in body
    assert maths(theorem.statement) in body
    assert maths(theorem.see) in body
    assert theorem.see.rstrip().endswith(".")
    assert f"{finding.get('worst', name).value:.4g}" in body
    assert body.count("Plotly.newPlot(") == 1
    assert f'<a href="#{name}">{name}</a>' in sections(page)["summary"]
    drawn = json.loads(draw(finding.figures[0]).to_json())
    assert drawn["data"], "something is drawn"
    for trace in drawn["data"]:
        heights = np.asarray(decoded(trace["y"]), dtype=float)
        assert len(heights)
        assert np.isfinite(heights).all()
    assert drawn["layout"]["yaxis"]["title"]["text"]


def decoded(values):
    """plotly may pack arrays."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    return values


def test_nothing_is_fetched_and_the_page_is_small(page):
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    # The name of a namespace is no address: nothing is asked of it.
    outside = outside.replace("http://www.w3.org/1998/Math/MathML", "")
    assert not re.search(r"https?://", outside)
    assert not re.search(r"<(?:script|img|iframe|link)[^>]+(?:src|href)=", page)
    assert not re.search(r"@import|url\(", re.search(r"<style>.*?</style>", page, re.S)[0])
    assert len(page.encode()) < 15e6


def test_subscripts_are_set():
    assert (
        maths("|f_t − σ_{m+1}|² ≤ ‖α*‖_A·10^{−5}")
        == "|f<sub>t</sub> − σ<sub>m+1</sub>|² ≤ ‖α<sup>∗</sup>‖<sub>A</sub>·10<sup>−5</sup>"
    )
    assert maths("Aα_t of my_file") == "Aα<sub>t</sub> of my_file"
    assert maths("log_{10} 1/ε") == "log<sub>10</sub> 1/ε"
    assert mathtext("|f_t − f*|, worst query") == "|$f_{t}$ − $f^*$|, worst query"
    for theorem in THEOREMS.values():
        for text in (theorem.statement, theorem.see, theorem.title):
            assert "_" not in re.sub(r"<[^>]+>", "", maths(text))


def test_no_title_of_a_figure_has_raw_marks(fast_report):
    for finding in fast_report[0]:
        layout = draw(finding.figures[0]).to_dict()["layout"]
        titles = [axis.get("title", {}).get("text", "") for name, axis in layout.items() if "axis" in name]  # fmt: skip
        assert not re.search(r"_|\*", " ".join(titles)), finding.name


def test_text_is_escaped_and_markup_is_kept():
    wild = '<script>alert("x")</script> a < b & c'
    page = Page(wild, wild, [Section(wild, [Paragraph(wild), Table([wild], [[wild]])])], wild)
    body = render(page).split("</head>")[1]
    assert "<script>alert" not in body
    assert body.count(escape("<script>alert(")) == 7
    assert maths("&lt; <b>bold</b> <a href='https://x'>") == "&lt; <b>bold</b> &lt;a href=&#39;https://x&#39;&gt;"  # fmt: skip
    assert maths('<a href="#summary">All</a>') == '<a href="#summary">All</a>'
    assert maths(Markup("<math>x_1</math>")) == "<math>x_1</math>"


def test_a_bound_has_the_colour_of_what_it_bounds():
    lines = [Line("b", [0], [1]), Line("a", [0, 1], [1, 2]), Line("a, bound", [0, 1], [2, 3], bound=True, of="a"), Line("none", [], [], bound=True)]  # fmt: skip
    drawn = draw(Figure.of(lines, Axes("x", "f_t"))).data
    assert [trace.name for trace in drawn] == ["b", "a", "a, bound"]
    assert drawn[1].line.color == drawn[2].line.color != drawn[0].line.color
    assert (drawn[1].line.dash, drawn[2].line.dash) == ("solid", "dot")


def test_values_beyond_the_limits_are_drawn_at_the_edge_and_told_exactly():
    axes = Axes("x", "y", y_limits=(0.1, 10.0), clip=True)
    line = Line("a", ["p", "q"], [1.0, 1e6], low=[0.5, 1e5], high=[2.0, 1e7])
    trace = draw(Figure([[Panel("", [line], axes)]])).data[0]
    assert list(trace.y) == [1.0, 10.0]
    assert trace.customdata[1].tolist() == [1e6, 1e5, 1e7]


@pytest.mark.parametrize("log", [True, False])
def test_values_far_beyond_the_limits_end_where_a_browser_can_draw_them(log):
    line = Line("f", [1.0, 2.0, 3.0], [1.0, 5.0, 1e250])
    drawn = draw(Figure.of([line], Axes("t", "v", log_y=log, y_limits=(0.1, 10.0)))).data[0]
    assert list(drawn.y[:2]) == [1.0, 5.0]
    assert 10 < drawn.y[2] <= 1e5
    assert drawn.customdata[2][0] == 1e250


def test_a_picture_is_1200_pixels_wide():
    lines = [Line("line", [0, 1], [1, 2]), Line("circles", [0, 1], [1, 2], mode="markers")]
    image = png(Figure.of(lines, Axes("step", "|f_t − f*|")), "A title")
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(image[16:20]) == 1200


def test_files_are_whole_or_not_there(tmp_path):
    run = Run(tmp_path / "out", "numbers.json", Console(quiet=True))
    assert list((tmp_path / "out").iterdir()) == [], "the check leaves nothing behind"
    with pytest.raises(ValueError, match="JSON"):
        run.write(Page("t", "", [], ""), {"bad": math.nan})
    assert list((tmp_path / "out").iterdir()) == []
    (tmp_path / "out" / "index.html").mkdir()
    with pytest.raises(Refusal, match="cannot be written: Is a directory"):
        Run(tmp_path / "out", "numbers.json")


def test_the_table_says_in_what_settings(fast_report):
    findings, out = fast_report
    assert HEADER == [
        "theorem",
        "settings",
        "cases",
        "worst measured / bound",
        "loosest part",
        "holds",
    ]
    ((title, table),) = verify_page(findings, 0, True).terminal.items()
    shown = io.StringIO()
    Console(file=shown, width=80).print(terminal_table(title, table))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    settings = [f.settings["settings"] for f in findings]
    for finding, setting in zip(findings, settings, strict=True):
        (line,) = (text for text in lines if text.startswith(f" {finding.name} "))
        assert line.split()[-1] == "yes"
        assert setting.split()[0] in line
    words = {word for text in lines for word in text.split()}
    assert {w for s in settings for w in s.split()} <= words, "folded between words"
    assert table.rows == [row(f) for f in findings]
    page = (out / "index.html").read_text()
    for cell in (cell for f in findings for cell in row(f)[1:]):
        assert f">{maths(unbroken(cell))}</td>" in page


IN_ANOTHER_PROCESS = ["cg-rate", "dot-products", "looped-models", "probes", "width-rank"]
"""Random draws, compiled models of both kinds of attention, least squares and eigenvalues."""


def test_the_command_line_gives_the_same_numbers_in_another_process(fast_report, tmp_path):
    some = [f for f in fast_report[0] if f.name in IN_ANOTHER_PROCESS]
    assert len(some) == len(IN_ANOTHER_PROCESS)
    command = [sys.executable, "-m", "ridgeformer.cli", "verify", "--fast", "--out", "v"]
    command += [word for f in some for word in ("--only", f.name)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "80"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "The page: v/index.html" in done.stdout
    again, once = (
        json.loads((d / "results.json").read_text()) for d in (tmp_path / "v", fast_report[1])
    )
    of_all = {entry["name"]: entry for entry in once["theorems"]}
    assert again["theorems"] == [of_all[f.name] for f in some]
    ((title, table),) = verify_page(some, 0, True).terminal.items()
    assert title == "Theorems, seed 0, fast"
    shown = io.StringIO()
    Console(file=shown, width=80).print(terminal_table(title, table))
    assert shown.getvalue().strip() in done.stdout


def test_every_file_has_the_same_bytes_twice(tmp_path, monkeypatch):
    """Also where the clock runs differently: no finding depends on how long it took."""
    files = []
    for speed in (1, 1000):
        right = time.perf_counter
        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", lambda: speed * right())  # noqa: B023
            out = tmp_path / str(speed)
            verify([THEOREMS[name] for name in ("depth-law", "width-rank")], out, fast=True)
        files.append({f.relative_to(out): f.read_bytes() for f in out.rglob("*") if f.is_file()})
    assert files[0]
    assert files[0] == files[1]


def test_another_seed_gives_other_numbers(fast_report, tmp_path):
    names = ["cg-rate", "inexact-cg", "width-rank", "feature-drift", "ablations", "probes"]
    other = verify([THEOREMS[name] for name in names], tmp_path, seed=1, fast=True)
    first = {f.name: f.figures[0].lines for f in fast_report[0]}
    for finding in other:
        assert finding.holds
        lines = finding.figures[0].lines
        assert [line.y for line in lines] != [line.y for line in first[finding.name]]
        assert all(math.isfinite(v) for line in lines for v in line.y)


def test_the_users_own_theorem_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr(THEOREMS, "members", dict(THEOREMS.members))

    class Mine(Theorem):
        name, title, statement, see = "mine", "Mine", "1 ≤ 1.", "A line."

        def measure(self, seed, fast):
            raise NotImplementedError

    mine = register(Mine())
    assert THEOREMS.find("mine") is mine
    with pytest.raises(Refusal, match="There is no theorem 'mien': did you mean mine"):
        THEOREMS.find("mien")
