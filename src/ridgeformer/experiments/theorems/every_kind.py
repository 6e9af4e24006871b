"""How fast each kind of compiled model reaches kernel ridge regression: the rates, on one model of every kind."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.experiments.theorems.base import RATES, Measurement, Outcome
from ridgeformer.experiments.theorems.cases import Case
from ridgeformer.experiments.theorems.depth import STEPS
from ridgeformer.experiments.theorems.general import GeneralTheorem, allowed_error, has_polynomials
from ridgeformer.experiments.theorems.kinds import held, kinds
from ridgeformer.kernels import Kernel, Linear
from ridgeformer.solvers import ConjugateGradient, krr
from ridgeformer.tasks import Prompt


class RateOfEveryKind(GeneralTheorem):
    name = "rate-of-every-kind"
    group = RATES
    title = "Every kind of compiled model converges as fast as its solver must"
    states = ("prediction", "conjugate-gradients", "feature-conjugate-gradients")
    measured = (
        "The predictions are those that one model of every kind holds after each step: causal, at every prefix, "
        "looped, with registers, with dot products from softmax heads, in float32 and with several outputs. The bound "
        "is that of its solver in the space in which the model works, and its certificate is added."
    )
    see = "Each kind's error lies under the bound of its solver, until what the certificate allows is all that is left."

    def inapplicable(self, case: Case) -> str | None:
        if isinstance(case.solver, ConjugateGradient):
            return super().inapplicable(case)
        return super().inapplicable(case) or has_polynomials(case)

    def cases(self, fast: bool) -> Iterable[Case]:
        return kinds().values()

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        m, model = Measurement(), case.model()
        prompt = case.prompts(8 if fast else 32, seed, 12)
        given, kernel = prompt.to(torch.float64), case.kernel
        if model.certificate.space == "feature":
            every = model.certificate.every_prefix
            given = (theory.prefix_prompts if every else theory.in_features)(given, kernel)
            kernel = Linear()
        exact = krr(given, ridge=case.ridge, kernel=kernel)
        error = (held(model, prompt, case.taken) - exact).abs()
        allowed = allowed_error(case, exact) + 1e-12 * float(exact.abs().max())
        bound = rate_of(case, given, kernel) + allowed
        # Random prompts come this near in one of the steps; each step's hardest prompts are other theorems'.
        m.by_step(case.label, error, bound, 100 * allowed, whole=True, reach=0.2)
        return m.outcome(case.label, STEPS)


def rate_of(case: Case, given: Prompt, kernel: Kernel) -> Tensor:
    """The bound on |f_t − f*| of the case's solver, in the space in which its model works."""
    if not isinstance(case.solver, ConjugateGradient):
        return theory.polynomial_prediction_bound(
            case.solver, given, steps=case.steps, interval=case.interval(), ridge=case.ridge, kernel=kernel
        )  # fmt: skip
    in_features = case.model().certificate.space == "feature"
    bound = theory.feature_cg_prediction_bound if in_features else theory.cg_prediction_bound
    return bound(given, ridge=case.ridge, steps=case.steps, kernel=kernel)
