"""Every combination that compiles runs its solver, and docs/compiles.md lists them all."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from catalogue_cases import prompts, reference
from numpy_executor import run

from ridgeformer.compiler import catalogue
from ridgeformer.compiler.catalogue import MAX_SUPPORTS
from ridgeformer.models import trajectory
from ridgeformer.solvers import SOLVERS
from ridgeformer.tasks import Prompt

pytestmark = pytest.mark.usefixtures("unchecked")

STEPS = {1: 4, 2: 2}
"""By the number of outputs."""
SUPPORTS = (1, 5, MAX_SUPPORTS)
COMPILES = [name for name in SOLVERS if name != "block-cg"]


def models(solver, outputs):
    """Each entry with its model; those for one output are there from the attempt."""
    for found in catalogue.attempts():
        if found.model is not None and found.entry.solver.name == solver:
            one = (
                found.model
                if outputs == 1
                else found.entry.compile(outputs=outputs, steps=STEPS[outputs])
            )
            yield found.entry, one


@pytest.mark.parametrize("outputs", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("solver", COMPILES)
def test_every_entry_runs_its_solver_and_runs_in_numpy(solver, outputs, tmp_path, record_property):
    worst = {}
    for index, (entry, model) in enumerate(models(solver, outputs)):
        check_numpy(entry.label, model, tmp_path / str(index))
        for supports in SUPPORTS:
            prompt = prompts(supports, outputs, seed=supports)
            found = trajectory(model, prompt, states=True)
            predictions, alpha = reference(entry, prompt, STEPS[outputs])
            assert found.predictions.shape == predictions.shape, entry.label
            allowed = model.certificate.absolute_error
            if allowed is None:
                allowed = 1e-9 * float(predictions.abs().max())
                most = 0.1 if entry.solver.name == "cg" and model.certificate.from_heads else 1e-9
                assert model.certificate.relative_error <= most, entry.label
            apart = float((found.predictions - predictions).abs().max())
            assert apart <= allowed, f"{entry.label}, k = {supports}: {apart:.3g} > {allowed:.3g}"
            worst[entry.label] = max(worst.get(entry.label, 0.0), apart / allowed)
            # A pass without records leaves out the zeros of the weights, and sums in another order.
            near = 1e-12 * float(predictions.abs().max())
            torch.testing.assert_close(model.predict(prompt), found.final, rtol=0, atol=near)
            if alpha is None or model.certificate.space != "dual":
                continue
            if model.certificate.absolute_error is None:
                allowed = 1e-9 * float(alpha.abs().max())
            apart = float((found.states["alpha"] - alpha).abs().max())
            assert apart <= allowed, f"α of {entry.label}, k = {supports}: {apart:.3g}"
    label = max(worst, key=worst.__getitem__)
    record_property("largest error over what is allowed", f"{worst[label]:.2g} ({label})")


@pytest.mark.parametrize("outputs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_prefix_of_every_entry(outputs):
    tried = 0
    for solver in COMPILES:
        for entry, model in models(solver, outputs):
            if not entry.every_prefix:
                continue
            tried += 1
            prompt = prompts(6, outputs)
            found = trajectory(model, prompt, prefixes=True).predictions
            xs = torch.cat([prompt.phi, prompt.phi_query], dim=1)
            assert found[:, :, 0].abs().max() == 0
            for i in range(1, 6 + 1):
                before = Prompt(prompt.phi[:, :i], prompt.y[:, :i], xs[:, i : i + 1])
                expected, _ = reference(entry, before, STEPS[outputs])
                apart = float((found[:, :, i : i + 1] - expected).abs().max())
                assert apart <= 1e-9 * float(expected.abs().max()), f"{entry.label}, prefix {i}"
    assert tried >= 15


def check_numpy(label, model, directory):
    """The saved file gives the same numbers in NumPy."""
    prompt = prompts(7, model.certificate.outputs)
    model.save(directory)
    expected = run(directory, *(x.numpy() for x in (prompt.phi, prompt.y, prompt.phi_query)))
    apart = np.abs(model.predict(prompt).numpy() - expected).max()
    assert apart < 1e-11 * np.abs(expected).max(), f"{label}: {apart:.3g}"


def test_the_catalogue_has_every_family():
    compiled = {entry.label: entry for entry in catalogue.compiled_entries()}
    for expected in [
        "cg none linear linear relu",
        "cg none linear linear relu causal",
        "cg none linear linear reglu causal every-prefix",
        "chebyshev none polynomial, degree 2 linear reglu causal every-prefix",
        "cg row-sum exponential softmax reglu",
        "cg none linear softmax reglu",
        "cg none polynomial, degree 3 linear reglu",
        "cg none polynomial, degree 2 softmax reglu",
        "gd none exponential softmax relu",
        "chebyshev row-sum gaussian softmax relu",
        "nadaraya-watson none gaussian softmax relu",
    ]:
        assert expected in compiled
        assert catalogue.entry(expected).label == expected
    assert {entry.solver.name for entry in compiled.values()} == set(COMPILES)
    refused = [a for a in catalogue.attempts() if a.model is None]
    assert len(refused) + len(compiled) == len(catalogue.attempts())
    assert all(attempt.reason.endswith(".") for attempt in refused), "a reason is a sentence"


def test_the_document_is_what_the_compiler_says():
    path = Path(__file__).parents[2] / "docs/compiles.md"
    # In a process of its own, where nothing checks types at run time: that is four times as fast.
    code = "from ridgeformer.compiler.catalogue import document; print(document(), end='')"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert path.read_text() == result.stdout, (
        "docs/compiles.md has fallen behind the compiler; write it again with "
        "python -m ridgeformer.compiler.catalogue"
    )
