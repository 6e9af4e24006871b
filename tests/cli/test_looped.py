"""`compile --looped` and `predict --steps`: one file, any number of steps, and clear refusals."""

import numpy as np
import pytest
from fork_server import cli, refused
from numpy_executor import run

from ridgeformer.tasks import PrescribedSpectrum

TASK = PrescribedSpectrum(features=3, supports=8, outputs=2, condition=20)
COMPILE = ["--features", "3", "--outputs", "2", "--ridge", "1", "--max-eigenvalue", "19"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Prompts, a looped model, and one without a loop."""
    directory = tmp_path_factory.mktemp("home")
    TASK.draw(4, seed=0).save(directory / "prompts.npz")
    result = cli(
        "compile", "cg", "--looped", *COMPILE, "--steps", "90", "--out", directory / "loop"
    )
    assert result.returncode == 0, result.stderr
    assert "cg, 1 to 90 steps of 7 layers each, 10 layers in all" in result.stdout
    result = cli("compile", "gd", *COMPILE, "--steps", "3", "--out", directory / "gd")
    assert result.returncode == 0, result.stderr
    return directory


@pytest.mark.parametrize("steps", [1, 4])
def test_the_number_of_steps_is_chosen_when_the_model_is_run(home, tmp_path, steps):
    first = cli(
        "predict", home / "loop", home / "prompts.npz", "--out", tmp_path / "p.npz",
        "--steps", steps, "--trajectory",
    )  # fmt: skip
    second = cli(
        "solve", "cg", home / "prompts.npz", "--steps", steps, "--ridge", "1",
        "--out", tmp_path / "r.npz", "--trajectory",
    )  # fmt: skip
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    model, reference = np.load(tmp_path / "p.npz"), np.load(tmp_path / "r.npz")
    assert model["trajectory"].shape == (steps + 1, 4, 4, 2)
    np.testing.assert_allclose(model["trajectory"], reference["trajectory"], rtol=1e-9, atol=1e-10)
    prompts = np.load(home / "prompts.npz")
    arrays = (prompts[name] for name in ("phi", "y", "phi_query"))
    expected = run(home / "loop", *arrays, loops=steps)
    np.testing.assert_allclose(model["prediction"], expected, rtol=1e-11, atol=1e-12)


def test_without_steps_a_loop_serves_very_many(tmp_path):
    result = cli("compile", "heavy-ball", "--looped", *COMPILE, "--out", tmp_path / "m")
    assert "1 to 10,000 steps of 1 layer each, 2 layers in all" in result.stdout


def test_inspect_shows_the_loop(home):
    result = cli("inspect", "loop", "--layers", "0", cwd=home)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for word in (
        "Layers 2 to 8 (↻) are a loop",
        "each later step: 7 blocks further on",
        "│   ↻ 2 │",
    ):
        assert any(word in line for line in lines), word
    assert "1 to 90 steps, a loop, of cg" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("loop", [], "choose --steps, how often it runs, from 1 to 90."),
        ("loop", ["--steps", "91"], "--steps is 91, outside the 1 to 90"),
        ("loop", ["--steps", "0"], "--steps is 0, outside the 1 to 90"),
        ("gd", ["--steps", "3"], "has no loop and always takes 3 steps: leave --steps out"),
    ],
)
def test_steps_that_cannot_be_taken_are_refused(home, tmp_path, model, options, message):
    files = (home / model, home / "prompts.npz", "--out", tmp_path / "p.npz")
    refused(cli("predict", *files, *options), message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["richardson", "--precondition", "row-sum", "--attention", "softmax", "--kernel", "gaussian",
             "--mlp", "relu", "--tolerance", "0.1", "--max-norm", "1", "--max-supports", "8",
             "--max-target", "2", "--ridge", "1"],
            "use --mlp reglu, or compile without --looped.",
        ),
        (["nadaraya-watson", "--attention", "softmax", "--kernel", "gaussian"], "leave --looped out."),
    ],
)  # fmt: skip
def test_what_cannot_be_looped_is_refused(tmp_path, words, message):
    refused(cli("compile", *words, "--looped", "--features", "2", "--out", tmp_path / "m"), message)
