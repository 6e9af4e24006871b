"""Refusals name Python parameters in the library, and flags on the command line."""

import re
from pathlib import Path

import pytest
import typer
from fork_server import cli, refused

from ridgeformer.cli.app import app
from ridgeformer.cli.refusals import with_flags

FLAGS = {
    "max_eigenvalue", "max_norm", "mlp_width", "tolerance", "mlp", "attention", "kernel", "dtype",
    "causal", "precondition", "interval", "out", "force", "features", "heads", "lengthscale", "resume",
    "task", "ridge", "max_target",
}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("`max_eigenvalue` is needed", "--max-eigenvalue is needed"),
        ("raise `width`", "raise --mlp-width"),
        ("leave `products` and `dot_products` out", "leave --mlp and --heads out"),
        (
            "`products=Interpolated(max_target=…, tolerance=…)`",
            "--mlp relu --max-target --tolerance",
        ),
        ("another `directory`, or `force=True`", "another --out, or --force"),
        ("another `folder`", "another --out"),
        ("give `tasks`", "give --task"),
        ("with `features=2`", "with --features 2"),
        ('use `dtype="float64"`', "use --dtype float64"),
        ("leave `causal=True` out", "leave --causal out"),
        ("`products=Exact()`", "--mlp reglu"),
        ("`products=None`", "--mlp relu"),
        ("`products=Interpolated(…)`", "--mlp relu"),
        ("`rf.Exact()`", "--mlp reglu"),
        ("`to=SoftmaxAttention(…)`", "--attention softmax"),
        ("`to=LinearAttention(products=Exact())`", "--attention linear --mlp reglu"),
        ("`LinearAttention`", "--attention linear"),
        (
            "`to=SoftmaxAttention(products=Interpolated(tolerance=0.01))`",
            "--attention softmax --mlp relu --tolerance 0.01",
        ),
        ("`dot_products=HeadPairs(heads=4)`", "--heads 4"),
        ('`precondition="row-sum"`', "--precondition row-sum"),
        ('`precondition="jacobi", products=Exact()`', "--precondition jacobi --mlp reglu"),
        ("`kernel=Linear()`", "--kernel linear"),
        ("`kernel=Gaussian(lengthscale=2)`", "--kernel gaussian --lengthscale 2"),
        ("`interval=(1, 2.5)`", "--interval 1 2.5"),
        ('`Richardson(precondition="row-sum")`', "richardson --precondition row-sum"),
        # What is no flag stays as it is.
        ("call `fit` first", "call `fit` first"),
        ("`ridgeformer train RECIPE.toml`", "`ridgeformer train RECIPE.toml`"),
        ("`causal=False`", "`causal=False`"),
        ("`ridge=ridge()`", "`ridge=ridge()`"),
        ("`fit(task, seed)`", "`fit(task, seed)`"),
        ("no code at all", "no code at all"),
    ],
)
def test_code_becomes_flags(said, shown):
    assert with_flags(said, FLAGS) == shown


def test_the_flags_are_those_of_all_commands():
    flags = typer.main.get_command(app).flags()
    assert {"max_eigenvalue", "lengthscale", "interval", "out", "resume", "only", "import"} <= flags
    assert not {"solver", "prompts_file", "width"} & flags


def test_a_refusal_of_the_library_names_flags(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    room = ["--features", "3", "--steps", "2", "--ridge", "1", "--max-eigenvalue", "9"]
    sentence = "full exists and is not empty: choose another --out, or --force."
    refused(cli("compile", "cg", *room, "--out", tmp_path / "full"), sentence)
    recipe = tmp_path / "r.toml"
    recipe.write_text('name = "r"\n[task]\nname = "linear"\n')
    sentence = "choose another --out, or go on from what is there with --resume."
    refused(cli("train", recipe, "--out", tmp_path / "full"), sentence)


SOURCES = Path(__file__).parents[2] / "src/ridgeformer"


def test_the_library_names_no_flags():
    flag = re.compile(r"(?<![\w-])--[a-z]")
    style = re.compile(r":root|var\(--")  # variables of style sheets begin alike
    for path in SOURCES.rglob("*.py"):
        if path.relative_to(SOURCES).parts[0] != "cli":
            lines = [line for line in path.read_text().splitlines() if flag.search(line)]
            assert [line for line in lines if not style.search(line)] == [], path


def test_a_model_that_promises_nothing_is_told_once(tmp_path):
    """In the summary, and not as a warning of Python beside it."""
    softmax = [
        "--attention",
        "softmax",
        "--kernel",
        "gaussian",
        "--mlp",
        "relu",
        "--mlp-width",
        "64",
    ]
    domain = [
        "--max-norm",
        "1.5",
        "--max-supports",
        "64",
        "--max-target",
        "4",
        "--lengthscale",
        "0.5",
    ]
    room = ["--features", "2", "--steps", "12", "--ridge", "0.1", "--precondition", "row-sum"]
    made = cli("compile", "chebyshev", *softmax, *domain, *room, "--out", tmp_path / "m")
    assert made.returncode == 0, made.stderr
    said = " ".join(made.stdout.split())
    assert "too narrow to certify an error: raise --mlp-width, or give --tolerance instead." in said
    assert made.stderr == ""
