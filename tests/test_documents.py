"""README snippets and examples run, and the documents tell the truth about the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fork_server import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(command, cwd):
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def snippets(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_there_is_something_to_run():
    assert EXAMPLES
    assert snippets("python")


@pytest.mark.parametrize("code", snippets("python"), ids=lambda code: code.strip().splitlines()[0])
def test_readme_python(code, tmp_path):
    run([sys.executable, "-c", code], tmp_path)


def test_readme_commands(tmp_path):
    """Every `ridgeformer …` line of the README, in order, in one folder.

    The demo takes longest, and the tests of the command line run it.
    """
    lines = [
        line
        for block in snippets("sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith(("ridgeformer ", "python "))
    ]
    assert any(line.startswith("ridgeformer compile") for line in lines)
    for line in lines:
        program, *words = line.split("#")[0].split()
        if program == "python":
            run([sys.executable, str(ROOT / words[0]), *words[1:]], tmp_path)
        elif words != ["demo"]:
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


def table_of_what_compiles():
    rows = re.findall(r"^\| (`.*?) \| (.*?)\| (.*?) \| (.*?) \| (.*?) \|$", README, re.M)
    for solvers, options, layers, width, mlps in rows:
        for solver in re.findall(r"`([\w-]+)`", solvers):
            for mlp in mlps.split(" or "):
                yield solver, options.strip(" `"), layers, width, mlp


def value(formula, **names):
    """'7T + 1' or '5p + 11' as a number."""
    return eval(re.sub(r"(\d)([Tp])", r"\1 * \2", formula), names)


def test_what_the_readme_says_of_sizes_is_true():
    """The README may show a few rows; docs/compiles.md has them all, and is compared as a whole."""
    from ridgeformer.compiler import compile
    from ridgeformer.solvers import make_solver

    for line in table_of_what_compiles():
        solver, options, layers, width, mlp = line
        for p, steps in ((4, 5), (11, 9)):
            config = compile(
                make_solver(solver, "jacobi" if "jacobi" in options else "none"),
                features=p, steps=steps, ridge=1.0, max_eigenvalue=50.0,
                causal="--causal" in options, mlp=mlp,
            ).transformer.config  # fmt: skip
            assert config.n_layers == value(layers, T=steps), line
            assert config.d_model == value(width, p=p), line


def test_links_between_documents_exist():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"
