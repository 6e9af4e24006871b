"""Every combination that compiles as a loop: the solver at every number of steps, in NumPy as well."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from catalogue_cases import hard_prompts, prompts, reference
from numpy_executor import run
from promise import excess_of

from ridgeformer.compiler import Exact, Interpolated, catalogue
from ridgeformer.compiler.catalogue import MAX_SUPPORTS
from ridgeformer.models import trajectory
from ridgeformer.solvers import IterativeNewton
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

LOOPED = ["gd", "richardson", "heavy-ball", "chebyshev", "cg", "newton"]
VARIANTS = {"newton": IterativeNewton(plain=True)}
"""Those of which only a variant can be looped."""
STEPS = {1: (1, 4), 2: (2,)}
"""By the number of outputs."""


def models(solver, outputs):
    for entry, tried in catalogue.looped_attempts().items():
        if entry.solver.name == solver:
            if solver in VARIANTS:
                variant = replace(entry, solver=VARIANTS[solver])
                yield variant, replace(variant, looped=True).compile(outputs=outputs)
            elif tried.model is not None:
                yield entry, tried.model if outputs == 1 else tried.entry.compile(outputs=outputs)


@pytest.mark.parametrize("outputs", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("solver", LOOPED)
def test_every_loop_runs_its_solver_and_runs_in_numpy(solver, outputs, tmp_path, record_property):
    worst = {}
    for index, (entry, model) in enumerate(models(solver, outputs)):
        model.save(tmp_path / str(index))
        for supports in (1, MAX_SUPPORTS):
            prompt = prompts(supports, outputs, seed=supports)
            expected, alpha = reference(entry, prompt, max(STEPS[outputs]))
            largest = float(expected.abs().max())
            for steps in STEPS[outputs]:
                found = trajectory(model, prompt, steps=steps, states=True)
                assert len(found.predictions) == steps + 1
                apart = float((found.predictions - expected[: steps + 1]).abs().max()) / largest
                allowed = model.certificate.at(steps).relative_error
                assert allowed <= (1e-8 if model.certificate.from_heads else 1e-9)
                assert apart <= allowed, f"{entry.label}, k = {supports}, T = {steps}: {apart:.3g}"
                worst[entry.label] = max(worst.get(entry.label, 0.0), apart / allowed)
                if alpha is not None and model.certificate.space == "dual":
                    far = float((found.states["alpha"] - alpha[: steps + 1]).abs().max())
                    assert far <= 1e-9 * float(alpha.abs().max()), f"α of {entry.label}"
        once = model.predict(prompt, steps)
        # A pass without records leaves out the zeros of the weights, and sums in another order.
        torch.testing.assert_close(once, found.final, rtol=0, atol=1e-11 * largest)
        same = trajectory(model.unrolled(steps), prompt).final
        torch.testing.assert_close(same, found.final, rtol=0, atol=0)
        arrays = (x.numpy() for x in (prompt.phi, prompt.y, prompt.phi_query))
        in_numpy = run(tmp_path / str(index), *arrays, loops=model.loops(steps))
        assert np.abs(in_numpy - once.numpy()).max() < 1e-11 * largest, entry.label
    label = max(worst, key=worst.__getitem__)
    record_property("largest error over what is allowed", f"{worst[label]:.2g} ({label})")


def test_everything_with_exact_products_loops_with_as_many_layers_a_step():
    for entry, tried in catalogue.looped_attempts().items():
        if entry.solver.smooths:
            assert "one head, not an iteration" in tried.reason
        elif isinstance(entry.target.products, Interpolated):
            assert "Interpolated products err in every step" in tried.reason
        elif entry.every_prefix:
            assert "leave `looped=True` out" in tried.reason
        elif tried.model is None and entry.solver.name == "cg":
            assert "amplify the errors of products" in tried.reason
            assert entry.attention == "softmax"
            assert entry.kernel.logits() is None
        elif tried.model is None:
            assert "cannot be looped" in tried.reason
            assert entry.solver.name in ("newton", "gd++", "cg-predicted")
            assert entry.solver.name != "newton" or "use `plain=True`" in tried.reason
        elif "polynomial" not in entry.label:
            first, stop = tried.model.transformer.config.loop
            few, many = (entry.compile(steps=t).transformer.config.n_layers for t in (8, 10))
            expected = (many - few) // 2
            if entry.solver.name == "chebyshev":  # a pass works out 1/ω, which else is a number
                expected = {"linear": 4, "softmax": 5}[entry.attention]
            assert stop - first == expected, entry.label


def test_every_float32_loop_keeps_its_certificate():
    used = {}
    for tried in catalogue.looped_attempts().values():
        if tried.model is None:
            continue
        # Of dot products from softmax heads no more than two steps can be promised in float32.
        taken, most = (2, 2) if tried.model.certificate.from_heads else (5, None)
        model, prompt = tried.entry.compile(dtype="float32", steps=most), hard_prompts(5, 1)
        found = trajectory(model, prompt, steps=taken).predictions.numpy()
        assert found.dtype == np.float32
        used[tried.entry.label] = excess_of(model.unrolled(taken), prompt, found).max()
    assert len(used) > 80, "most of what compiles can be looped"
    assert not {case: share for case, share in used.items() if not share <= 1}


def test_refusals_are_sentences_and_products_are_exact():
    for entry, tried in catalogue.looped_attempts().items():
        if tried.model is None:
            assert tried.reason.endswith(".")
            with pytest.raises(Refusal):
                tried.entry.compile()
        else:
            assert entry.target.products in (None, Exact())
