"""README snippets and examples run, and the documents tell the truth about the code."""

import re
import subprocess
import sys

import pytest
from fork_server import cli
from readme import README, ROOT, commands, snippets

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(command, cwd):
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_there_is_something_to_run():
    assert EXAMPLES
    assert snippets("python")


@pytest.mark.parametrize("code", snippets("python"), ids=lambda code: code.strip().splitlines()[0])
def test_readme_python(code, tmp_path):
    run([sys.executable, "-c", code], tmp_path)


def test_readme_commands(tmp_path):
    """Every command that takes seconds, in order, in one folder; tests/test_wheel.py runs the others too.

    The demo takes longest, and the tests of the command line run it.
    """
    lines = commands("sh")
    assert any(line.startswith("ridgeformer compile") for line in lines)
    for line in lines:
        _, *words = line.split()
        if words != ["demo"]:
            result = cli(*words, cwd=tmp_path)
            assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples(path, tmp_path):
    assert run([sys.executable, str(path)], tmp_path).strip()


def test_the_notation_names_code_that_exists():
    import importlib

    text = (ROOT / "docs/notation.md").read_text()
    names = re.findall(r"`(ridgeformer[\w.]+)`", text)
    assert len(names) > 10
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def sizes(solver, **target):
    """Layers of 8 and 9 steps, and channels beyond the p = 6 features."""
    import ridgeformer as rf

    kind = rf.SoftmaxAttention if "max_norm" in target else rf.LinearAttention
    kernel = rf.Exponential() if "max_norm" in target else rf.Linear()
    few, many = (
        rf.compile(
            solver, features=6, steps=steps, ridge=1.0, kernel=kernel, to=kind(**target)
        ).transformer.config
        for steps in (8, 9)
    )
    return many.n_layers - few.n_layers, many.d_model - 6


def test_what_the_readme_says_of_sizes_is_true():
    """It names a few; docs/compiles.md has them all, and is compared with the compiler as a whole."""
    import ridgeformer as rf

    words = " ".join(README.split())
    assert "CG with linear attention takes seven layers a step and p + 13 channels" in words
    assert sizes(rf.ConjugateGradient(), max_eigenvalue=50.0) == (7, 13)
    assert "methods with fixed coefficients take one layer a step" in words
    for solver in (rf.GradientDescent(), rf.HeavyBall(), rf.Chebyshev()):
        assert sizes(solver, max_eigenvalue=50.0)[0] == 1
    assert "every token does, for the pairs before it, in nine layers a step" in words
    decoder = {"products": rf.Exact(), "causal": True, "every_prefix": True}
    assert sizes(rf.ConjugateGradient(), max_eigenvalue=50.0, **decoder)[0] == 9
    assert "CG with softmax attention takes ten layers a step" in words
    assert sizes(rf.ConjugateGradient(), max_norm=1.0, max_supports=16)[0] == 10


@pytest.mark.slow
def test_the_table_of_cg_variants_is_what_the_study_measures():
    """One of its rows, and its neurons; the digits of round-off differ between CPUs, the intervals overlap."""
    from ridgeformer.experiments.finding import Collector
    from ridgeformer.experiments.studies.cg_variants import measure_case
    from ridgeformer.experiments.studies.cg_variants_page import SHOWN

    text = (ROOT / "docs/construction.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| float64 | 10² |"))
    intervals = re.findall(r"\[([\d.]+), ([\d.]+)\]", row)
    out = Collector(32, 0)
    measure_case("float64", 100.0, 32, 0, out)
    found = {(n.measure, n.method): n for n in out.numbers}
    for name, (low, high) in zip(SHOWN, intervals, strict=True):
        ratio = found["ratio", name]
        assert float(low) < ratio.high, name
        assert ratio.low < float(high), name
    few, many = (int(found["neurons", name].value) for name in SHOWN[:2])
    assert f"{many} instead of {few} at κ = 100" in text


def test_the_readme_shows_what_is_printed():
    import ridgeformer as rf

    model = rf.compile(
        rf.ConjugateGradient(), features=8, steps=8, ridge=1.0, to=rf.LinearAttention(99.0)
    )
    shown = [line for line in README.splitlines() if line.startswith(("CompiledModel", "  domain", "  promise", "  weights"))]  # fmt: skip
    assert len(shown) == 4
    for line, printed in zip(shown, str(model).splitlines(), strict=True):
        assert printed.startswith(line.removesuffix("…").rstrip()), printed


def test_the_readme_counts_the_statements():
    from ridgeformer.experiments import THEOREMS

    assert f"measures {len(THEOREMS)} statements" in README


MADE = ("docs/commands", "docs/reference", "docs/concepts/pictures")
"""What `make site` makes from the code; tests/site follows links to these."""


def test_links_between_documents_exist():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            target = (path.parent / link).resolve()
            made = any(target.is_relative_to(ROOT / folder) for folder in MADE)
            assert made or target.exists(), f"{path.name}: {link}"
