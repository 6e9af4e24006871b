"""Probes find the state of compiled solvers, layer by layer, and nothing where there is nothing to be found."""

import json
from dataclasses import asdict, dataclass
from functools import cache

import pytest
import torch

import ridgeformer as rf
from ridgeformer.analysis import describe_state_probes, find_state_probes
from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.directions import (
    Directions,
    Fitted,
    deal,
    orthonormal,
    outside,
    turned,
    unit,
)
from ridgeformer.analysis.readouts import Split
from ridgeformer.analysis.state_probe_words import ranges, where
from ridgeformer.analysis.state_probes import State
from ridgeformer.experiments.identification.planted import Neighbours, Rotated
from ridgeformer.models import Reading, subject
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import LinearRegression, Prompt
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = LinearRegression(features=4, supports=14, queries=1, condition=20.0)
PROMPT = TASK.draw(160, seed=3)
TOP = 1.4 * float(torch.linalg.eigvalsh(PROMPT.phi.mT @ PROMPT.phi).max())
STEPS = 3


@cache
def compiled(name="cg", precondition=None, steps=STEPS + 2):
    products = rf.Exact() if precondition else None
    return rf.compile(
        make_solver(name, precondition), features=4, steps=steps, ridge=TASK.ridge,
        to=rf.LinearAttention(TOP, products),
    )  # fmt: skip


def found_in(one, prompt=PROMPT, steps=STEPS, seed=0, **options):
    return find_state_probes(one, TASK.law(), prompt, steps=steps, seed=seed, **options)


@cache
def of_compiled():
    return found_in(Rotated(subject(compiled())))


def at_chance(one):
    """Within four standard errors of 0; without a mean, the stream had left the range of numbers."""
    return one.mean is None or abs(one.mean) <= 4 * (one.high - one.low) / (2 * 1.96)


def written(model, name, step):
    """The layer by whose end a state is there, as the compiler wrote it down."""
    site = next(e["site"] for e in model.sites["states"][name] if e["step"] == step)
    return 0 if site == "embed" else int(site.split(".")[1]) + 1


@pytest.mark.parametrize("name", ["alpha", "r", "p"])
def test_the_state_of_a_compiled_solver_is_found_where_it_is(name):
    """In a rotated stream, so that no channel is aligned."""
    for step in range(1, STEPS + 1):
        at = written(compiled(), name, step)
        probe = of_compiled().of(name, step)
        assert probe.cosine[at].low > 0.99, (name, step)
        assert at in probe.found_at()
        assert probe.cosine[probe.layer].low > 0.99, "the layer that other prompts chose"
        if (name, step) != ("alpha", 1):  # a multiple of y
            new = of_compiled().of(name, step, "new")
            assert new.cosine[at].low > 0.99, (name, step)
            assert new.selectivity[at].low > 0.75


def test_nothing_is_found_before_it_is_computed():
    """r_t is orthogonal to all that fewer than t products with K can give."""
    assert not of_compiled().of("alpha", 1, "new").defined
    firsts = []
    for step in range(1, STEPS + 1):
        assert abs(of_compiled().of("r", step).cosine[0].mean) < 0.3, "the embedding alone"
        probe = of_compiled().of("r", step, "new")
        firsts.append(probe.found_at()[0])
        assert max(one.high for one in probe.cosine[: firsts[-1]]) < 0.5, step
    assert firsts == sorted(set(firsts)), "one step after the other"


def test_controls_are_at_chance():
    probes = of_compiled().probes
    assert not of_compiled().leaks
    assert at_chance(of_compiled().dealt)
    for p in probes:
        if p.part == "new" and p.defined:
            assert all(map(at_chance, p.control_task)), p
            if p.step > (
                2 if p.quantity == "alpha" else 1
            ):  # one random layer of attention has K y
                assert all(map(at_chance, p.untrained)), p
                assert sum(one.mean is not None for one in p.untrained) > 8


def test_the_control_task_is_as_near_to_y_as_the_target():
    """Whole vectors are found to the extent that they point along y, and selectivity is the rest."""
    first = of_compiled().of("alpha", 1)
    assert first.cosine[0].low > 0.99
    assert max(abs(one.mean) for one in first.selectivity) < 1e-6, (
        "y itself says nothing of a system"
    )
    last = of_compiled().of("alpha", 3)
    assert last.control_task[0].mean == pytest.approx(last.cosine[0].mean, abs=0.1)
    assert last.selectivity[last.layer].low > 0.05


def test_what_is_not_there_is_not_found():
    """One step of CG has one product with K."""
    found = found_in(subject(compiled(steps=1)))
    assert found.of("alpha", 1).found_at()
    for step in (2, 3):
        assert not found.of("r", step).found_at()
        assert not found.of("r", step, "new").found_at(0.3)
    assert not found_in(Neighbours()).of("r", 2, "new").found_at(0.3)


def test_another_candidate_is_looked_for():
    jacobi = Candidate(make_solver("cg", "jacobi"))
    own, other = (
        found_in(subject(compiled("cg", kind)), candidate=jacobi) for kind in ("jacobi", None)
    )
    assert own.candidate == "cg, jacobi"
    assert {p.quantity for p in own.probes} == {"alpha", "r", "p"}, "P itself is no step's"
    assert own.of("r", 3, "new").found_at(0.99)
    assert not other.of("r", 3, "new").found_at()


# ---------------------------------------------------------------------- what is new


def test_new_parts_are_what_the_krylov_space_before_does_not_hold():
    setting = Setting.around(PROMPT, TASK.law().kernel, TASK.ridge)
    state = State.of(Candidate(make_solver("cg")), PROMPT, setting, 3)
    gram = PROMPT.phi @ PROMPT.phi.mT
    powers = [PROMPT.y]
    for _ in range(3):
        powers.append(gram @ powers[-1])
    residual = {t: state.vectors["r"][t] for t in range(4)}
    seen = set()
    for targets, basis in state.new_parts():
        for (name, step), new in targets.items():
            degree = step - 1 if name == "alpha" else step
            krylov = orthonormal(torch.cat(powers[:degree], dim=-1))
            assert outside(krylov, basis).norm() < 1e-6 * krylov.norm()
            assert basis.square().sum() == pytest.approx(degree * len(PROMPT))
            cosine = torch.cosine_similarity(new, residual[degree], dim=1).abs()
            torch.testing.assert_close(cosine, torch.ones_like(cosine), rtol=0, atol=1e-6)
            seen.add((name, step))
    assert seen == {("alpha", 2), ("alpha", 3), *((n, t) for n in "rp" for t in (1, 2, 3))}


def test_nothing_is_looked_for_in_round_off():
    """K + λI has five eigenvalues here, so that five steps solve the system."""
    found = found_in(Neighbours(), PROMPT[:24], steps=7)
    defined = {(p.quantity, p.step, p.part) for p in found.probes if p.defined}
    assert {t for name, t, part in defined if name == "r"} == {1, 2, 3, 4}
    assert {t for name, t, part in defined if (name, part) == ("alpha", "whole")} == set(
        range(1, 8)
    )
    assert {t for name, t, part in defined if (name, part) == ("alpha", "new")} == {2, 3, 4, 5}


def test_a_rotation_fixes_what_it_should_and_keeps_all_angles():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 9, 4, generator=generator, dtype=torch.float64)
    fixed = orthonormal(torch.cat([x[..., :1], 2 * x[..., :1], x[..., 1:2]], dim=-1))
    assert not fixed[..., 1].any(), "the second vector was in the span of the first"
    found = turned(x, fixed, 0)
    torch.testing.assert_close(found[..., :2], x[..., :2])
    torch.testing.assert_close(found.mT @ found, x.mT @ x)
    assert (
        torch.cosine_similarity(*(unit(outside(v, fixed)) for v in (x, found)), dim=1)[:, 2:]
        .abs()
        .mean()
        < 0.5
    )


def test_targets_are_dealt_to_other_prompts():
    for batch in (8, 31):
        order = deal(batch, 0)
        assert sorted(order.tolist()) == list(range(batch))
        assert not (order == torch.arange(batch)).any()


# ---------------------------------------------------------------------- prompts that score what they fitted


@dataclass(frozen=True)
class Wide(rf.Subject):
    """A stream with many channels that have nothing to do with the prompt, for probes to lose themselves in."""

    name: str = "wide"

    def read(self, prompt):
        generator = torch.Generator().manual_seed(0)
        shape = (2, *prompt.phi.shape[:2], 60)
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        return Reading(prompt.phi_query[..., :1], noise[:, :, :1], noise)


def test_a_probe_that_saw_the_scoring_prompts_is_noticed(monkeypatch):
    """Dealt targets are found if the prompts that score have fitted, by whatever way round the refusals."""
    prompt, one = PROMPT[:64], Wide()
    assert not found_in(one, prompt).leaks

    class Seeing(Directions):
        def __init__(self, streams, split):
            everything = Split(slice(0, streams.shape[1]), slice(0, 0), slice(0, 0))
            super().__init__(streams, everything)

    monkeypatch.setattr("ridgeformer.analysis.state_probes.Directions", Seeing)
    with pytest.raises(Refusal, match="prompts that fitted it"):
        found_in(one, prompt)
    monkeypatch.setattr(
        Fitted, "said", lambda self, part: self.columns[:, part] @ self.weights[:, None]
    )
    found = found_in(one, prompt)
    assert found.leaks
    assert "must have seen the prompts that score them" in describe_state_probes(found)


def test_parts_that_share_prompts_are_refused():
    with pytest.raises(Refusal, match="5 prompts would have two parts"):
        Split(slice(0, 20), slice(15, 25), slice(25, 30))
    with pytest.raises(Refusal, match="share no prompt"):
        Split(slice(0, 20), slice(20, 20), slice(0, 20))


def test_a_probe_says_nothing_of_the_prompts_that_fitted_it():
    split = Split.of(len(PROMPT))
    fitted = Directions(PROMPT.phi[None], split).fitted(PROMPT.y)
    assert isinstance(fitted, Fitted)
    for part in (split.fit, slice(0, len(PROMPT)), slice(None), slice(-len(PROMPT), None)):
        with pytest.raises(Refusal, match="prompts that fitted it"):
            fitted.said(part)
    assert fitted.said(split.score).shape == (1, 40, 14, 1)


def test_prompts_that_come_twice_are_refused():
    twice = PROMPT[[*range(40), *range(40)]]
    with pytest.raises(Refusal, match="40 prompts that fit the probes would judge them too"):
        found_in(subject(compiled()), twice)


def test_one_output_is_asked_for():
    two = Prompt(PROMPT.phi, PROMPT.y.repeat(1, 1, 2), PROMPT.phi_query)
    with pytest.raises(Refusal, match="have 2: give one"):
        found_in(subject(compiled()), two)


# ---------------------------------------------------------------------- what is said of it


class Broken(rf.Subject):
    """The last layer is not a number, and nobody knows its shape."""

    name = "broken"

    def read(self, prompt):
        inner = subject(compiled(steps=1)).read(prompt)
        supports = inner.supports[:3].clone()
        supports[2] = torch.nan
        return Reading(inner.predictions, inner.queries[:3], supports)


def test_layers_that_are_not_finite_have_no_score():
    found = found_in(Broken(), steps=2)
    probe = found.of("alpha", 1)
    assert probe.cosine[1].mean > 0.99
    assert probe.cosine[2].mean is None
    assert probe.layer in (0, 1)
    assert all(one.mean is None for one in probe.untrained)
    assert probe.found_at() == (0, 1)


def test_results_are_plain_numbers_and_the_same_each_time():
    found = of_compiled()
    again = json.loads(json.dumps(asdict(found)))
    assert again["probes"][0]["cosine"][0]["prompts"] == found.scored == 40
    assert (found.fitted, found.chose) == (80, 40)
    assert found_in(Rotated(subject(compiled()))) == found


def test_the_sentence_says_where_and_where_not():
    said = describe_state_probes(of_compiled())
    assert (
        "above 0.9 are α_1–3, r_1–3, p_1–3 (α_1 in the embedding or untrained weights too)." in said
    )
    assert "Of what is new in a step, α_2–3, r_1–3, p_1–3 are." in said
    assert "which is chance" in said
    none = describe_state_probes(found_in(Neighbours()))
    assert "Of what is new in a step, none of α_2–3, r_1–3, p_1–3 are." in none
    assert ranges((1, 2, 3, 7)) == "1–3, 7"
    lines = where(of_compiled())
    last = len(of_compiled().probes[0].cosine) - 1
    assert lines[0] == f"α_1, whole: layers 0–{last}"
    assert "α_1, new: there is none" in lines
    assert where(found_in(Neighbours()))[3].startswith("r_1, whole: no layer; at most 0.")
