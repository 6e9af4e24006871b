"""What a compiled model promises, and for which prompts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import inf
from typing import Any, get_type_hints

import torch
from torch import Tensor

from ridgeformer.compiler.domain import SLACK, Domain, largest_eigenvalue, lengths, slack
from ridgeformer.compiler.job import Job
from ridgeformer.compiler.saved import AGAIN, fits
from ridgeformer.kernels import kernel_from
from ridgeformer.program import LoopedProgram, Program, Space
from ridgeformer.solvers import EagerMachine, Solver
from ridgeformer.tasks import Prompt, check_prompt
from ridgeformer.types import Refusal, check_whole, counted

QUERY_ROOM = 1e6
"""Queries may be this many times as long as the largest singular value of the supports."""

OPTIONAL = ("options", "every_prefix", "looped", "steps_before_loop", "updates_unproved")
"""Entries that older files lack, and that are left out where they say nothing."""

PROMISE = {"float64": (1e-9, 100.0), "float32": (1e-3, 100.0)}
"""The relative error that is promised, and the least multiple of the solver's own round-off. What is proved
of round-off is smaller in the constructions that docs/theorems.md names; for the others tests check it."""


class NoPromise(UserWarning):
    """A compiled model certifies no error."""


@dataclass(frozen=True)
class Certificate:
    """The promise that inside the domain, every iterate's prediction equals the solver's.

    Relative to the largest prediction, the difference is at most `relative_error`, or
    `round_off_factor` times the solver's own round-off at that step where that is larger. Dot
    products from pairs of softmax heads have the round-off of the largest dot product in the
    domain, and the difference is then relative to that dot product times Σ|α_i| where this is
    larger. Where products are interpolated, the difference is at most `absolute_error` instead; if
    both are None, nothing is promised. docs/format.md defines the solver's own round-off, which for a
    polynomial kernel is that of its monomials.
    """

    solver: str
    precondition: str
    kernel: dict[str, Any]
    attention: str
    space: str
    steps: int
    features: int
    outputs: int
    dtype: str
    ridge: float | None
    max_eigenvalue: float
    min_target_norm: float
    max_target_norm: float
    max_query_norm: float
    max_norm: float | None
    max_supports: int | None
    max_target: float | None
    interval: tuple[float, float] | None
    relative_error: float | None
    round_off_factor: float
    absolute_error: float | None
    options: dict[str, Any] = field(default_factory=dict)
    """The options of the solver besides `precondition` and `interval`."""
    every_prefix: bool = False
    """Whether each x of the tokens x₁, (x₁, y₁), x₂, … is predicted from the pairs before it. The domain
    is then that of the prompt with all of its prefixes, and the promise is for each of them."""
    looped: bool = False
    """Whether the number of steps is chosen when the model is run; `steps` is then the largest."""
    steps_before_loop: int = 0
    """How many steps a looped model takes before its loop, which is then run that much less often."""
    updates_unproved: bool = False
    """Whether, of a method on dot products from pairs of softmax heads, `relative_error` is proved but for
    the round-off of its updates, which is checked by tests."""

    def to_dict(self) -> dict[str, Any]:
        return {name: v for name, v in asdict(self).items() if v or name not in OPTIONAL}

    @staticmethod
    def from_dict(values: Any) -> Certificate:
        names = {entry.name for entry in fields(Certificate)}
        if not isinstance(values, dict) or not names - {*OPTIONAL} <= set(values) <= names:
            raise Refusal("config.json has no complete certificate: compile the model again.")
        hints = get_type_hints(Certificate)
        for name, value in values.items():
            if not fits(value, hints[name]):
                raise Refusal(f"The certificate's {name} cannot be {str(value)[:80]}: {AGAIN}.")
        if values["steps"] < 1 or values["dtype"] not in SLACK:
            raise Refusal(f"The certificate needs steps of at least 1, and a known dtype: {AGAIN}.")
        return Certificate(**values)

    def at(self, steps: int | None) -> Certificate:
        """The certificate for the number of steps that a caller asks for; what it does not serve is
        refused. Only a looped model leaves the choice. What is promised for `steps` steps is promised
        for fewer.
        """
        if not self.looped:
            if steps is not None:
                raise Refusal(
                    f"The model has no loop and always takes {counted(self.steps, 'step')}: leave `steps` "
                    "out, or compile with `looped=True`."
                )
            return self
        if steps is None:
            raise Refusal(
                f"The model has a loop: choose `steps`, how often it runs, from 1 to {self.steps:,}."
            )
        check_whole("steps", steps, -inf)
        if not 1 <= steps <= self.steps:
            raise Refusal(
                f"`steps` is {steps:,}, outside the 1 to {self.steps:,} for which the model is certified: "
                "compile with a larger `steps`."
            )
        return replace(self, steps=steps, looped=False, steps_before_loop=0)

    def slack(self, prompt: Prompt, modes: int | None = None) -> float:
        """The factor by which the prompt may exceed a bound on norms, or on eigenvalues of K with so many modes."""
        return slack(self.dtype, rounded=prompt.phi.dtype == torch.float32, modes=modes)

    def check(self, prompt: Prompt) -> None:
        """Refuses a prompt outside the domain, and names the bound and the value.

        The CPU checks, wherever the prompt is: not every device has float64.
        """
        check_prompt(prompt)
        if prompt.phi.device.type != "cpu":
            prompt = prompt.to("cpu")
        for name, asked, given in (
            ("features", self.features, prompt.features),
            ("outputs", self.outputs, prompt.outputs),
        ):
            if asked != given:
                raise Refusal(
                    f"The model was compiled for {asked} {name}, the prompt has {given}: compile "
                    f"with `{name}={given}`."
                )
        if self.attention == "softmax":
            self.check_bounds(prompt)
        else:
            self.check_spectrum(prompt)
        if self.ridge is not None:  # a smoother has none, and takes any target
            self.check_target(prompt)
            self.check_interval(prompt)

    def check_bounds(self, prompt: Prompt) -> None:
        """Checks the domain of softmax attention: norms, targets and the number of supports."""
        if self.max_supports is not None and prompt.supports > self.max_supports:
            raise Refusal(
                f"The prompt has {prompt.supports} supports, outside the domain k ≤ "
                f"{self.max_supports}: compile with a larger `max_supports`."
            )
        features = torch.cat([prompt.phi, prompt.phi_query], dim=1).double()
        for name, symbol, limit, values in (
            ("max_norm", "|φ|", self.max_norm, features.norm(dim=-1)),
            ("max_target", "|y|", self.max_target, prompt.y.double().abs()),
        ):
            if limit is not None and float(values.max()) > limit * self.slack(prompt):
                raise Refusal(
                    f"{symbol} reaches {float(values.max()):.6g}, outside the domain {symbol} ≤ "
                    f"{limit:.6g}: compile with a larger `{name}` or rescale the data."
                )

    def check_spectrum(self, prompt: Prompt) -> None:
        """Checks the domain of linear attention: λ_max(K), and the norms of queries."""
        kernel = kernel_from(self.kernel)
        features = kernel.dot_product(self.features)
        top = float(largest_eigenvalue(prompt, kernel).max())
        width = prompt.features if features is None else features.width(prompt.features)
        if top > self.max_eigenvalue * self.slack(prompt, min(width, prompt.supports)):
            raise Refusal(
                f"λ_max(K) is {top:.6g}, outside the domain λ_max(K) ≤ {self.max_eigenvalue:.6g}: "
                "compile with a larger `max_eigenvalue` or scale the features down."
            )
        longest = float(kernel.diagonal(prompt.phi_query.double()).sqrt().max())
        if longest > self.max_query_norm * self.slack(prompt):
            raise Refusal(
                f"A query has norm {longest:.6g}, outside the domain ‖φ(x)‖ ≤ "
                f"{self.max_query_norm:.6g}: rescale the features."
            )

    def check_target(self, prompt: Prompt) -> None:
        norms = self.target_norms(prompt)
        most = float(norms.max())
        least = float(norms[norms > 0].min()) if most > 0 else self.min_target_norm
        slack = self.slack(prompt)
        if most > self.max_target_norm * slack or least < self.min_target_norm / slack:
            worst = most if most > self.max_target_norm else least
            raise Refusal(
                f"{self.target_symbol} is {worst:.6g}, outside the domain [{self.min_target_norm:.6g}, "
                f"{self.max_target_norm:.6g}]: rescale the targets."
            )

    @property
    def target_symbol(self) -> str:
        """What the bounds on targets are for."""
        if self.space != "feature":
            return "‖y‖"
        return "‖Φᵀy‖ of some prefix" if self.every_prefix else "‖Φᵀy‖"

    def target_norms(self, prompt: Prompt) -> Tensor:
        """‖y‖ of each output, or in feature space ‖Φᵀy‖, of every prefix where each is solved."""
        if self.space != "feature":
            return lengths(prompt.y)
        features = kernel_from(self.kernel).dot_product(self.features)
        assert features is not None
        u = features(prompt.phi)
        if not self.every_prefix:
            return lengths(u.mT @ prompt.y)
        y = prompt.y.double()
        squares = torch.zeros_like(y)
        for entry in u.double().unbind(-1):  # one at a time, so that memory does not grow with p
            squares += (entry[..., None] * y).cumsum(1).square()
        return squares.sqrt()

    def check_interval(self, prompt: Prompt) -> None:
        """Refuses a prompt with eigenvalues above the interval to which coefficients were tuned."""
        if self.interval is None or self.ridge is None:
            return
        machine = EagerMachine(prompt, kernel_from(self.kernel), self.ridge)
        top = machine.interval(self.precondition)[1]  # type: ignore[arg-type]
        if top > self.interval[1] * self.slack(prompt, prompt.supports):
            raise Refusal(
                f"The largest eigenvalue is {top:.6g}, above the interval's end {self.interval[1]:.6g}, "
                "where the iteration may diverge: compile with a wider `interval`."
            )

    def summary(self) -> str:
        """The solver and its kernel in a few words."""
        options = [
            f"{name} {value:g}"
            for name, value in self.kernel.items()
            if isinstance(value, (int, float))
        ]
        if self.kernel.get("projection") is not None:
            options.append(f"projected to {len(self.kernel['projection'])} features")
        kernel = f"{self.kernel['name']} kernel" + (f" ({', '.join(options)})" if options else "")
        chosen = [
            name if value is True else f"{name} {value}"
            for name, value in self.options.items()
            if value is not False
        ]
        if self.precondition != "none":
            chosen.insert(0, f"{self.precondition} preconditioner")
        solver = self.solver + (f" ({', '.join(chosen)})" if chosen else "")
        steps = counted(self.steps, "step")
        if self.looped:
            steps = f"1 to {steps}, a loop,"
        where = f"in {self.space} space" + (", at every prefix" if self.every_prefix else "")
        return f"{steps} of {solver} on the {kernel}, {where}"

    def domain(self) -> list[str]:
        """The conditions on a prompt."""
        conditions = [counted(self.features, "feature"), counted(self.outputs, "output")]
        if self.ridge is not None:
            conditions.append(f"λ = {self.ridge:g}")
        if self.attention == "linear":
            conditions += [
                f"λ_max(K) ≤ {self.max_eigenvalue:g}",
                "any number of supports",
                f"‖φ(x)‖ ≤ {self.max_query_norm:.3g}",
            ]
        for symbol, bound in (
            ("|φ|", self.max_norm),
            ("k", self.max_supports),
            ("|y|", self.max_target),
        ):
            if bound is not None:
                conditions.append(f"{symbol} ≤ {bound:g}")
        if self.ridge is not None:
            target = self.target_symbol.replace("some", "each")
            least, most = self.min_target_norm, self.max_target_norm
            conditions.append(f"{target} = 0 or in [{least:.3g}, {most:.3g}]")
        if self.interval is not None:
            conditions.append(f"eigenvalues ≤ {self.interval[1]:g}")
        return conditions

    @property
    def from_heads(self) -> bool:
        """Whether dot products come from pairs of softmax heads."""
        return self.attention == "softmax" and kernel_from(self.kernel).logits() is None

    @property
    def on_monomials(self) -> bool:
        """Whether kernel values are sums of monomials, whose terms may cancel as the solver's do not."""
        features = kernel_from(self.kernel).dot_product(self.features)
        return self.attention == "linear" and features is not None and bool(features.monomials)

    def no_promise(self) -> str | None:
        """What is missing where nothing is promised, with the remedy; None where there is a promise."""
        if self.absolute_error is not None or self.relative_error is not None:
            return None
        if self.from_heads:
            return "has no certified error: leave `epsilon` out for a promise, or a refusal with the reason"
        return (
            "is too narrow to certify an error: raise `width`, or give the `tolerance` to promise instead, for "
            "which a width is chosen"
        )

    def promise(self) -> str:
        """How close the predictions of every step are to the solver's."""
        if self.absolute_error is not None:
            return f"every step within {self.absolute_error:.3g} of the solver"
        if self.relative_error is None:
            return "none: " + (
                "at this scale of the heads errors of dot products may be amplified without bound"
                if self.from_heads
                else "at this MLP width an iterate may leave the range in which products are interpolated"
            )
        to = "the largest prediction" + (" from that prefix" if self.every_prefix else "")
        if self.from_heads:
            to += " or, if that is larger, to the domain's largest dot product times Σ|α_i|"
        checked = "; the round-off of its updates is checked, not proved"
        return (
            f"every step within {self.relative_error:g} of the solver, relative to {to}, or "
            f"{self.round_off_factor:g} times the solver's own round-off"
            + (" on the monomials of the kernel" if self.on_monomials else "")
            + (checked if self.updates_unproved else "")
        )

    def description(self) -> str:
        """The summary, the domain and the promise, each on a line of its own."""
        domain = ", ".join(self.domain())
        return f"{self.summary()}\n  domain   {domain}\n  promise  {self.promise()}"

    def __repr__(self) -> str:
        return f"Certificate: {self.description()}"


def certify(
    job: Job,
    program: Program,
    *,
    attention: str,
    space: Space = "dual",
    domain: Domain | None = None,
    absolute_error: float | None = None,
    relative_error: float | None = None,
    units: float = 0.0,
) -> Certificate:
    """The certificate of a job's program; an infinite `absolute_error` promises nothing.

    `units` is how many units of round-off a kernel value may be off by, where these are more than a few.
    """
    usual_error, round_off_factor = PROMISE[job.dtype]
    least, most = program.target_norm
    return Certificate(
        solver=job.solver.name,
        precondition=job.solver.precondition,
        kernel=job.kernel.to_dict(),
        attention=attention,
        space=space,
        steps=job.steps,
        features=job.features,
        outputs=job.outputs,
        dtype=job.dtype,
        ridge=program.ridge,
        max_eigenvalue=program.max_eigenvalue,
        min_target_norm=least,
        max_target_norm=most,
        max_query_norm=QUERY_ROOM * program.max_eigenvalue**0.5,
        max_norm=domain.max_norm if domain else None,
        max_supports=domain.max_supports if domain else None,
        max_target=domain.max_target if domain else None,
        interval=job.solver.interval,
        relative_error=(relative_error or usual_error) if absolute_error is None else None,
        round_off_factor=max(round_off_factor, units),
        absolute_error=absolute_error if absolute_error != inf else None,
        options=solver_options(job.solver),
        looped=job.looped,
        steps_before_loop=program.steps_before if isinstance(program, LoopedProgram) else 0,
    )


def solver_options(solver: Solver) -> dict[str, Any]:
    """The solver's fields besides those that the certificate names itself."""
    if not is_dataclass(solver):
        return {}
    named = {"precondition", "interval"}
    return {f.name: getattr(solver, f.name) for f in fields(solver) if f.name not in named}
