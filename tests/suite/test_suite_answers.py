"""The labels and the answers of interventions hold on the exported files, run by NumPy alone."""

import json

import numpy as np
import pytest
import torch
from numpy_executor import run_tokens
from safetensors.numpy import load_file

from ridgeformer.analysis.reference import program_of
from ridgeformer.compiler import CompiledModel
from ridgeformer.compiler.certificate import Certificate
from ridgeformer.kernels import kernel_from
from ridgeformer.models.reference import interval_of, kernel_of, ridge_of, solver_of
from ridgeformer.program import interpret
from ridgeformer.program.interpret import evaluate
from ridgeformer.solvers import EagerMachine, solve
from ridgeformer.suite.cases import TOLERANCE, check_answer
from ridgeformer.suite.interventions import Intervention, Write, find_interventions
from ridgeformer.suite.numerics import Numerics
from ridgeformer.suite.planned import Drawer, planned
from ridgeformer.suite.states import Held, Observed, find_held
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

COMPILED = [f"{kind} {group}" for group in ("channels", "rotated") for kind in (
    "cg-linear", "chebyshev-linear", "gd-linear", "heavy-ball-linear", "heavy-ball-unrolled-loop",
    "newton-linear", "gd++-linear", "chebyshev-decoder", "cg-exponential", "richardson-gaussian",
    "chebyshev-gaussian", "nadaraya-watson",
)]  # fmt: skip


@pytest.fixture(scope="module")
def plans():
    return {plan.kind: plan for plan in planned(Drawer(0))}


def find(exported, name):
    """The case's name, and its labels, of a kind and a group."""
    for path in sorted((exported / "answers").glob("*/labels.json")):
        labels = json.loads(path.read_text())
        if f"{labels['kind']} {labels['group']}" == name:
            return path.parent.name, labels
    raise AssertionError(f"there is no case {name}")


def test_every_compiled_case_is_tested(exported):
    paths = (exported / "answers").glob("*/labels.json")
    labels = [json.loads(path.read_text()) for path in paths]
    kinds = {f"{one['kind']} {one['group']}" for one in labels if one["interventions"]}
    assert kinds == set(COMPILED)


@pytest.mark.parametrize("name", COMPILED)
def test_the_model_gives_the_answer_of_every_intervention(exported, name):
    """Both with the values that the answers have, and with those of the source's own run."""
    case, labels = find(exported, name)
    pairs = load_file(exported / "interventions" / case / "pairs.safetensors")
    answers = load_file(exported / "answers" / case / "interventions.safetensors")
    questions = json.loads((exported / "interventions" / case / "questions.json").read_text())
    how = {question["id"]: question["how"] for question in questions}
    context = json.loads((exported / "cases" / case / "case.json").read_text())["context"]

    def run(which, edit):
        tokens = pairs[f"{which}.tokens"]
        return run_tokens(exported / "cases" / case, tokens, context, edit=edit)

    stream = {}

    def note(site, x):
        stream[site] = x
        return x

    run("source", note)
    unchanged = run("base", lambda site, x: x)
    np.testing.assert_allclose(unchanged, answers["unchanged"], atol=1e-8)
    assert labels["interventions"]
    for asked in labels["interventions"]:
        expected = answers[f"{asked['id']}.expected"]
        room = asked["tolerance"] * np.abs(expected).max()
        for whose in ["answers", "source"][: 2 if how[asked["id"]] == "exchange" else 1]:

            def put(site, x, asked=asked, whose=whose):
                for write in asked["writes"]:
                    if write["site"] == site:
                        rows, basis = write["rows"], answers[write["basis"]]
                        theirs = stream[site][:, rows] @ basis
                        values = answers[write["values"]] if whose == "answers" else theirs
                        x = x.copy()
                        x[:, rows] += (values - x[:, rows] @ basis) @ basis.T
                return x

            found = run("base", put)
            assert np.abs(found - expected).max() <= room, (asked["id"], whose)
        # No answer is that of doing nothing.
        assert np.abs(unchanged - expected).max() > 1e4 * room, asked["id"]


def test_the_tolerance_is_what_is_stated(exported):
    for path in (exported / "answers").glob("*/labels.json"):
        for asked in json.loads(path.read_text())["interventions"]:
            assert asked["tolerance"] == TOLERANCE == 1e-6
            assert asked["measured error"] < 1e-8  # on this machine, far below


@pytest.mark.parametrize("name", COMPILED)
def test_every_labelled_subspace_holds_the_state_on_other_prompts(suite, exported, name):
    """At every site that is listed, on prompts that no label was made from: α by its value, and what has a unit of its
    own in each prompt by its direction."""
    case, labels = find(exported, name)
    stored = suite.cases[case]
    certificate = Certificate.from_dict(labels["certificate"])
    model = CompiledModel(stored.transformer, certificate, {})
    seen = Observed.of(Numerics.of(model, stored.prompt))
    for place in labels["states"]:
        basis = stored.subspaces[place["basis"]]
        assert torch.allclose(basis.mT @ basis, torch.eye(basis.shape[1], dtype=basis.dtype))
        held = Held(place["state"], place["step"], place["rows"], tuple(place["sites"]), ())
        expected = seen.value(held)
        for site in place["sites"]:
            read = seen.stream[site][:, seen.tokens.rows(place["rows"])] @ basis * place["scale"]
            if seen.numerics.renews_units and place["state"] != "alpha":
                cosine = torch.cosine_similarity(read.flatten(1), expected.flatten(1))
                assert float(cosine.min()) > 1 - 1e-9, (place["basis"], site)
            else:
                assert torch.allclose(read, expected, atol=1e-7, rtol=1e-6), (place["basis"], site)


def states_of(stored, prompt):
    """Coefficients after every step, by `solve`."""
    labels = stored.labels
    certificate = Certificate.from_dict(labels["certificate"])
    model = CompiledModel(stored.transformer, certificate, {})
    found = solve(
        solver_of(model), prompt, steps=labels["steps"], ridge=ridge_of(model),
        kernel=kernel_of(model), interval=interval_of(model), states=True,
    )  # fmt: skip
    return found.states["alpha"]


def batches(suite, case):
    pairs = suite.cases[case].pairs
    return [
        Prompt(*(pairs[f"{which}.{part}"] for part in ("phi", "y", "phi_query")))
        for which in ("base", "source")
    ]


def test_the_answers_of_gradient_descent_have_a_closed_form(suite, exported):
    """α_T = α* + (I − ηA)^{T−t}(α_t − α*) for α_t of the source and α* of the base."""
    case, labels = find(exported, "gd-linear channels")
    base, source = batches(suite, case)
    ridge, top = labels["certificate"]["ridge"], labels["certificate"]["max_eigenvalue"]
    A = base.phi @ base.phi.mT + ridge * torch.eye(base.supports, dtype=torch.float64)
    solution = torch.linalg.solve(A, base.y)
    shrink = torch.eye(base.supports, dtype=torch.float64) - 2 / (2 * ridge + top) * A
    alpha = states_of(suite.cases[case], source)
    for asked in labels["interventions"]:
        state, t = asked["id"].split("@")
        assert state == "alpha"
        left = torch.linalg.matrix_power(shrink, labels["steps"] - int(t))
        final = solution + left @ (alpha[int(t)] - solution)
        expected = base.phi_query @ base.phi.mT @ final
        stored = suite.cases[case].intervened[f"{asked['id']}.expected"]
        assert torch.allclose(stored, expected, atol=1e-10)


@pytest.mark.parametrize("kind", ["cg-linear", "cg-exponential"])
def test_coefficients_of_conjugate_gradients_only_add_up(suite, exported, kind):
    """Later steps do not read α, so that its exchange changes predictions by k(x)ᵀ of the difference."""
    case, labels = find(exported, f"{kind} channels")
    base, source = batches(suite, case)
    kernel = kernel_from(labels["certificate"]["kernel"])
    mine, theirs = (states_of(suite.cases[case], prompt) for prompt in (base, source))
    stored = suite.cases[case].intervened
    for t in (1, 2):
        change = kernel(base.phi_query, base.phi) @ (theirs[t] - mine[t])
        expected = stored["unchanged"] + change
        assert torch.allclose(stored[f"alpha@{t}.expected"], expected, atol=1e-8)


def test_the_unit_that_is_read_off_the_stream_is_that_of_the_program(plans):
    """The one number of an answer that is not the numerics': for linear attention the program has it too."""
    plan = plans["cg-linear"]
    prompt = plan.draw(6, 1)
    seen = Observed.of(Numerics.of(plan.model, prompt))
    program = program_of(plan.model)
    machine, values = EagerMachine(prompt, kernel_of(plan.model), program.ridge), {}
    for op in program.ops:
        values[op.out] = evaluate(op, values, machine)
    assert torch.allclose(
        interpret(program, prompt).final, seen.numerics.final
    )  # the program is the one that was compiled
    for name, t in (("r", 1), ("p", 1), ("p", 2)):
        [entry] = [e for e in plan.model.sites["states"][name] if e["step"] == t]
        held = Held(name, t, "supports", (entry["site"],), tuple(entry["columns"]))
        said = values[program.states[t][name]]
        assert torch.allclose(seen.unit(held) * seen.numerics.value(name, t), said, rtol=1e-8)


@pytest.mark.parametrize("wrong", ["site", "column", "values", "answer"])
def test_an_answer_that_the_model_does_not_give_is_not_written(plans, wrong):
    plan = plans["chebyshev-linear"]
    base = plan.draw(4, 1)
    mine, theirs = (Observed.of(Numerics.of(plan.model, p)) for p in (base, plan.source(base, 2)))
    right = find_interventions(mine, theirs, find_held(mine))[1]
    basis = torch.eye(plan.model.transformer.config.d_model, dtype=torch.float64)
    check = (plan.kind, plan.model.transformer, mine.tokens, basis)
    assert check_answer(check[0], right, *check[1:]) < 1e-12
    [write] = right.writes
    site, columns, values, expected = write.site, write.columns, write.values, right.expected
    if wrong == "site":
        site = "blocks.0.resid_post"
    elif wrong == "column":
        columns = ((columns[0] + 1) % len(basis),)
    elif wrong == "values":
        values = values * 1.001
    else:
        expected = mine.numerics.final
    planted = Intervention(
        right.states, right.step, right.how, (Write(site, write.rows, columns, values),), expected
    )
    with pytest.raises(Refusal, match="from the answer of"):
        check_answer(check[0], planted, *check[1:])
