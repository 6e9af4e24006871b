"""Objects print themselves in a few informative lines, and models are called on prompts."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer.models import zoo

PROMPT = rf.PrescribedSpectrum(features=4, supports=9, condition=50).draw(300, seed=0)


@pytest.fixture(scope="module")
def compiled():
    return rf.compile(
        rf.ConjugateGradient(), features=4, steps=8, ridge=1.0, to=rf.LinearAttention(99.0)
    )


@pytest.fixture(scope="module")
def trained():
    return zoo.load("gp")


def shown(value, *words):
    """At most ten lines with these words, the same for print and for the prompt of Python."""
    assert repr(value) == str(value)
    lines = repr(value).splitlines()
    assert len(lines) <= 10
    assert all(len(line) <= 250 for line in lines)
    for word in (type(value).__name__, *words):
        assert word in repr(value), repr(value)


def test_a_compiled_model(compiled):
    shown(
        compiled,
        "8 steps of cg on the linear kernel",
        "57 layers of linear attention",
        "4 features, 1 output, λ = 1, λ_max(K) ≤ 99",
        "within 1e-09 of the solver",
        "d_model 17",
    )
    shown(compiled.certificate, "8 steps of cg", "λ_max(K) ≤ 99", "within 1e-09")
    shown(compiled.transformer, "57 layers", "d_model 17", "relu MLP", "prefix mask", "parameters")


def test_certificates_name_what_is_not_the_default():
    solver = rf.Richardson("row-sum", interval=(0.5, 2.5))
    to = rf.SoftmaxAttention(1.5, 8, rf.Interpolated(2.0, width=256))
    kernel = rf.Exponential(2.0, torch.eye(2, 3, dtype=torch.float64))
    model = rf.compile(solver, features=3, steps=1, ridge=1.0, kernel=kernel, to=to)
    words = [
        "1 step of richardson (row-sum preconditioner)",
        "temperature 2, projected to 2 features",
    ]
    shown(model.certificate, *words, "|φ| ≤ 1.5", "k ≤ 8", "|y| ≤ 2", "eigenvalues ≤ 2.5")


def test_a_trained_model_and_its_recipe(trained):
    shown(trained, "Recipe gp, seed 0", "400,513 parameters", "0.0018 with 32 supports")
    shown(trained.recipe, "task      name gp, features 2", "n_layers 8", "steps 10000")


def test_a_prompt():
    shown(PROMPT, "300 problems of 9 supports and 4 queries, 4 features, 1 output, float64")
    assert "1 problem of 9 supports" in repr(PROMPT[0].to(torch.float32))
    assert "float32" in repr(PROMPT.to(torch.float32))


def test_a_trajectory(compiled):
    shown(
        rf.trajectory(compiled, PROMPT, states=True),
        "of compiled cg: 8 steps, 300 problems",
        "alpha",
    )
    assert "states" not in repr(rf.trajectory(compiled, PROMPT))


def test_a_program():
    program = rf.trace(rf.ConjugateGradient(), steps=4, ridge=1.0, max_eigenvalue=9.0)
    shown(program, "4 steps of cg", f"{len(program.ops)} operations", "⟨y.0, y.0⟩", "listing()")
    assert len(program.listing().splitlines()) == len(program.ops)


def test_models_are_called_on_prompts(compiled, trained):
    assert torch.equal(compiled(PROMPT), compiled.predict(PROMPT))
    prompt = trained.recipe.task.draw(3, seed=0)
    assert torch.equal(trained(prompt), trained.predict(prompt))
    with pytest.raises(rf.Refusal, match="outside the domain"):
        compiled(rf.Prompt(100 * PROMPT.phi, PROMPT.y, PROMPT.phi_query))
