"""The report of `verify` without a browser: complete, readable, self-contained, and the same twice."""

import io
import json
import math
import os
import re
import subprocess
import sys
from html import escape

import numpy as np
import pytest
from rich.console import Console

from ridgeformer.experiments.report import Table
from ridgeformer.experiments.theorems import THEOREMS, verify
from ridgeformer.experiments.theorems.page import HEADER, figure, maths, row
from ridgeformer.experiments.theorems.run import summary

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def page(fast_report):
    return (fast_report[1] / "index.html").read_text()


def sections(page):
    """By theorem, what stands in its section."""
    return dict(re.findall(r'<section id="([\w-]+)">(.*?)</section>', page, re.S))


@pytest.mark.parametrize("name", THEOREMS)
def test_a_theorem_has_statement_numbers_sentence_and_figure(fast_report, page, name):
    (verdict,) = (v for v in fast_report[0] if v.theorem.name == name)
    theorem, body = verdict.theorem, sections(page)[name]
    assert f"<h2>{escape(theorem.title)}</h2>" in body
    assert maths(theorem.statement) in body
    assert maths(theorem.see) in body
    assert theorem.see.rstrip().endswith(".")
    assert f"{verdict.outcome.worst:.4g}" in body
    assert body.count("Plotly.newPlot(") == 1
    assert f'<a href="#{name}">{name}</a>' in sections(page)["summary"]
    drawn = json.loads(figure(verdict.outcome).to_json())
    assert drawn["data"], "something is drawn"
    for trace in drawn["data"]:
        heights = np.asarray(decoded(trace["y"]), dtype=float)
        assert len(heights)
        assert np.isfinite(heights).all()
    assert drawn["layout"]["yaxis"]["title"]["text"]


def decoded(values):
    """plotly may pack arrays."""
    if isinstance(values, dict):
        import base64

        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    return values


def test_nothing_is_fetched_and_the_page_is_small(page):
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r"https?://", outside)
    assert not re.search(r"<(?:script|img|iframe|link)[^>]+(?:src|href)=", page)
    assert not re.search(r"@import|url\(", re.search(r"<style>.*?</style>", page, re.S)[0])
    assert len(page.encode()) < 15e6


def test_subscripts_are_set():
    assert (
        maths("|f_t − σ_{m+1}|² ≤ ‖α*‖_A")
        == "|f<sub>t</sub> − σ<sub>m+1</sub>|² ≤ ‖α*‖<sub>A</sub>"
    )
    for theorem in THEOREMS.values():
        assert "_" not in re.sub(
            r"<[^>]+>", "", maths(theorem.statement + theorem.see + theorem.title)
        )


def test_the_table_says_in_what_settings(fast_report):
    verdicts, out = fast_report
    assert HEADER == ["theorem", "settings", "cases", "worst measured/bound", "median", "holds"]
    shown = io.StringIO()
    Console(file=shown, width=80).print(summary(verdicts, "t"))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for verdict in verdicts:
        (line,) = (text for text in lines if text.startswith(f" {verdict.theorem.name} "))
        assert line.split()[-1] == "yes"
        assert verdict.outcome.settings.split()[0] in line
    words = {word for text in lines for word in text.split()}
    assert {w for v in verdicts for w in v.outcome.settings.split()} <= words, (
        "folded between words"
    )
    table = Table(HEADER, [row(v) for v in verdicts], words=2, linked=True).html()
    assert table in (out / "index.html").read_text()


def test_the_command_line_gives_the_same_numbers_in_another_process(fast_report, tmp_path):
    command = [sys.executable, "-m", "ridgeformer.cli", "verify", "--fast", "--out", "v"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "80"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "The report: v/index.html" in done.stdout
    again, once = (d / "results.json" for d in (tmp_path / "v", fast_report[1]))
    assert again.read_bytes() == once.read_bytes()
    shown = io.StringIO()
    Console(file=shown, width=80).print(summary(fast_report[0], "Theorems, seed 0, fast"))
    assert shown.getvalue().strip() in done.stdout


def test_another_seed_gives_other_numbers(fast_report, tmp_path):
    names = ["cg-rate", "inexact-cg", "width-rank", "feature-drift", "ablations", "probes"]
    other = verify([THEOREMS[name] for name in names], tmp_path, seed=1, fast=True)
    first = {v.theorem.name: v.outcome for v in fast_report[0]}
    for verdict in other:
        assert verdict.holds
        before = [line.y for line in first[verdict.theorem.name].lines]
        assert [line.y for line in verdict.outcome.lines] != before
        assert all(math.isfinite(v) for line in verdict.outcome.lines for v in line.y)
