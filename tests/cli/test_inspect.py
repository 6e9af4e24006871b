"""`ridgeformer inspect`: everything is shown, and in 80 columns."""

import numpy as np
import pytest
from fork_server import cli

from ridgeformer.models import zoo

SOFTMAX = [
    "--attention", "softmax", "--kernel", "exponential", "--mlp", "reglu", "--outputs", "3",
    "--max-norm", "2", "--max-supports", "64",
]  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    room = ["--features", "12", "--steps", "3", "--ridge", "0.5", "--out"]
    linear = ["--max-eigenvalue", "99"]
    compiled = {"trained": zoo.path_of("gp")}
    for name, solver, options in (
        ("linear", "cg", linear),
        ("softmax", "cg", SOFTMAX),
        ("prefixes", "cg", [*linear, "--causal", "--every-prefix"]),
        ("newton", "newton", linear),
        ("gd++", "gd++", linear),
        ("predicted", "cg-predicted", linear),
        ("loop", "cg", [*linear, "--looped"]),
        ("one-block", "heavy-ball", [*linear, "--looped"]),
    ):
        compiled[name] = home / name
        result = cli("compile", solver, *options, *room, compiled[name])
        assert result.returncode == 0, result.stderr
    return compiled


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("linear", ["22 layers", "λ_max(K) ≤ 99", "21 mid [", "embed [", "Kr", "‖y‖ = 0 or in [1e-12"]),
        ("softmax", ["|φ| ≤ 2", "k ≤ 64", "exponential kernel (temperature 1)", "post [", "mean yᵀy"]),
        ("prefixes", ["29 layers", "of each prefix", "(every x)", "φ of pairs", "r, alpha, p: at every token, for the pairs up to it", "Kr·rho·(1 + de + fe²)"]),
        ("newton", ["1 head of 12, 12 registers;", "2 mid [16…27] × ", "4 mid [15] × −1", "inverse: at supports and registers",
                    "→ 3…4: multiply [16…27] by the factor", "│   1…2 │ inverse", "│   3…4 │ f "]),
        ("gd++", ["12 registers", "features: at supports and registers", "1…2 │ f, features"]),
        ("predicted", ["15 layers", "K(c'·r)  [", "rᵀA(c'·r)·z  [", "c'  [", "inverse_length  [", "r, alpha, p: at the supports"]),
        ("loop", ["Layers 2 to 8 (↻) are a loop", "│   ↻ 2 │", "│     9 │", "each later step: 7 blocks further on"]),
        ("one-block", ["Layer 0 (↻) is a loop", "each later step: 1 block further on"]),
        ("trained", ["recipe", "lengthscales", "by supports, 32", "excess 0.00178"]),
    ],
)  # fmt: skip
def test_a_model_is_shown_in_80_columns(models, name, words):
    path = models[name]
    result = cli("inspect", path.name, "--layers", "0", cwd=path.parent)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for word in words:
        assert any(word in line for line in lines), word
    # An ellipsis stands between channels, and never for text that was cut off.
    assert not any("… " in line for line in lines)


def test_nothing_is_said_of_what_a_model_does_not_have(models):
    """No MLP, no column for it; the flags of tokens are nobody's factor; a K belongs to all of its product."""
    shown = {name: cli("inspect", path, "--layers", "0").stdout for name, path in models.items()}
    for name in ("newton", "gd++"):
        assert "no MLP" in " ".join(shown[name].split())
        assert "d_mlp" not in shown[name]
        assert "┃ MLP" not in shown[name]
        assert "post" not in shown[name]
    assert "┃ MLP" in shown["linear"]
    for output in shown.values():
        assert "·is_support" not in output
        assert "Kc" not in output
        assert "1 heads" not in output
    assert "×" not in shown["linear"]


def test_layers_are_listed_up_to_a_limit(models):
    result = cli("inspect", models["linear"], "--layers", "3")
    assert "19 more layers: --layers 0 shows all." in result.stdout
    result = cli("inspect", models["linear"], "--layers", "21")
    assert "1 more layer: --layers 0 shows all." in result.stdout


def test_shipped_models_go_by_their_names(tmp_path):
    """Where no saved model has that name in the folder."""
    by_path, by_name = (cli("inspect", model) for model in (zoo.path_of("gp"), "gp"))
    assert by_name.returncode == 0, by_name.stderr
    shown = by_path.stdout.splitlines()
    assert by_name.stdout.splitlines()[1:] == shown[1:]
    task, prompts = "linear", tmp_path / "prompts.npz"
    assert cli("prompts", task, "--out", prompts).returncode == 0
    for model in (zoo.path_of("linear"), "linear"):
        result = cli("predict", model, prompts, "--out", tmp_path / f"{len(str(model))}.npz")
        assert result.returncode == 0, result.stderr
    one, other = (np.load(path)["prediction"] for path in tmp_path.glob("[0-9]*.npz"))
    assert (one == other).all()
