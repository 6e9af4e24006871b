"""`ridgeformer inspect`: everything is shown, and in 80 columns."""

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
    for name, options in (
        ("linear", ["--max-eigenvalue", "99"]),
        ("softmax", SOFTMAX),
        ("prefixes", ["--max-eigenvalue", "99", "--causal", "--every-prefix"]),
    ):
        result = cli("compile", "cg", *options, *room, home / name)
        assert result.returncode == 0, result.stderr
    compiled = {name: home / name for name in ("linear", "softmax", "prefixes")}
    return compiled | {"trained": zoo.path_of("gp")}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("linear", ["22 layers", "λ_max(K) ≤ 99", "21 mid [", "embed [", "Kr", "‖y‖ = 0 or in [1e-12"]),
        ("softmax", ["|φ| ≤ 2", "k ≤ 64", "exponential kernel (temperature 1)", "post [", "mean yᵀy"]),
        ("prefixes", ["29 layers", "of each prefix", "(every x)", "φ of pairs"]),
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


def test_layers_are_listed_up_to_a_limit(models):
    result = cli("inspect", models["linear"], "--layers", "3")
    assert "… 19 more layers: --layers 0 shows all." in result.stdout
