"""Training resumes bit for bit, shares batches and stops on NaN."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from fork_server import cli
from safetensors.torch import load_file
from tiny_recipe import recipe_file

from ridgeformer.cli.train import error_line
from ridgeformer.tasks import LinearRegression, Prompt, Sample
from ridgeformer.training import LAYOUTS, Group, Recipe, TrainedModel, started
from ridgeformer.training.loop import batch_at, rate_at
from ridgeformer.training.scores import Held
from ridgeformer.transformer import Transformer
from ridgeformer.types import Refusal


def train(path, out, *options):
    return cli("train", path, "--out", out, "--threads", "1", *options)


def begin(path, out, *options, runner=(sys.executable,)):
    """The same in a process that can be killed, or by another runner."""
    command = [*runner, "-m", "ridgeformer.cli", "train", path, "--out", out, "--threads", "1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*map(str, command), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip


def weights(out):
    return load_file(out / "model/model.safetensors")


def same(first, second):
    return set(first) == set(second) and all(torch.equal(first[n], second[n]) for n in first)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    path = recipe_file(folder, steps=400)
    done = train(path, folder / "run")
    assert done.returncode == 0, done.stderr
    return path, folder / "run"


def logged(out):
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "cpu_seconds"} for line in lines]


def test_killed_at_any_moment_a_run_ends_as_if_it_had_not_been(finished, tmp_path):
    path, whole = finished
    random_times, kills = random.Random(0), 0
    deadline = time.monotonic() + 600
    while kills < 5 and time.monotonic() < deadline:
        process = begin(path, tmp_path / "run", *(["--resume"] if kills else []))
        seen = newest(tmp_path / "run")
        while newest(tmp_path / "run") == seen and process.poll() is None:
            time.sleep(0.02)
        time.sleep(random_times.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        if newest(tmp_path / "run") >= 390:
            break
    assert kills == 5
    done = train(path, tmp_path / "run", "--resume")
    assert done.returncode == 0, done.stderr
    assert same(weights(tmp_path / "run"), weights(whole))
    assert logged(tmp_path / "run") == logged(whole)


def newest(out):
    steps = [int(p.name.split("-")[1]) for p in (out / "checkpoints").glob("step-*")]
    return max(steps, default=0)


def test_a_damaged_checkpoint_costs_one_interval(finished, tmp_path):
    path, whole = finished
    process = begin(path, tmp_path / "run")
    while newest(tmp_path / "run") < 50 and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    last = tmp_path / f"run/checkpoints/step-{newest(tmp_path / 'run'):08d}"
    (last / "weights.safetensors").write_bytes(b"nonsense")
    done = train(path, tmp_path / "run", "--resume")
    assert done.returncode == 0, done.stderr
    assert "cannot be used" in done.stdout
    assert same(weights(tmp_path / "run"), weights(whole))


def test_a_run_is_not_written_over_nor_resumed_under_another_recipe(finished, tmp_path):
    path, whole = finished
    before = weights(whole)
    again = train(path, whole)
    assert again.returncode == 2
    assert "is not empty" in again.stderr
    other = recipe_file(tmp_path, rate=2e-2, steps=400)
    changed = train(other, whole, "--resume")
    assert changed.returncode == 2
    assert "another recipe" in changed.stderr
    assert "Traceback" not in again.stderr + changed.stderr
    assert same(weights(whole), before)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    path = recipe_file(tmp_path, rate=1e20)
    done = train(path, tmp_path / "run")
    assert done.returncode == 2
    assert "not finite" in done.stderr
    assert "step" in done.stderr
    assert "Traceback" not in done.stderr


TWO_PROCESSES = (
    sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port",
    str(20_000 + os.getpid() % 20_000),
)  # fmt: skip


@pytest.mark.slow
def test_two_processes_follow_the_loss_of_one(tmp_path):
    short = recipe_file(tmp_path, steps=60)
    one = train(short, tmp_path / "one")
    two = begin(short, tmp_path / "two", runner=TWO_PROCESSES)
    _, errors = two.communicate(timeout=240)
    assert one.returncode == two.returncode == 0, errors
    for a, b in zip(logged(tmp_path / "one"), logged(tmp_path / "two"), strict=True):
        assert a["step"] == b["step"]
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)
        assert a["mse"] == pytest.approx(b["mse"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_processes_resume_as_if_they_had_not_stopped(layout, tmp_path):
    short, out = recipe_file(tmp_path, layout, steps=30), tmp_path / "run"
    runs = []
    for options in ((), ("--resume",)):
        process = begin(short, out, *options, runner=TWO_PROCESSES)
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        runs.append((weights(out), logged(out)))
        shutil.rmtree(out / "model")
        shutil.rmtree(out / "checkpoints/step-00000030")
    assert same(runs[0][0], runs[1][0])
    assert runs[0][1] == runs[1][1]


def test_training_learns(finished):
    _, whole = finished
    lines = logged(whole)
    assert lines[-1]["excess"] < 0.7 * lines[0]["excess"]
    model = TrainedModel.load(whole / "model")
    assert model.scores["by supports"]["6"]["excess"] == pytest.approx(lines[-1]["excess"], rel=0.2)
    prompt = model.recipe.task.draw(4, seed=0)
    assert model.predict(prompt.to(torch.float32)).shape == (4, 4, 1)
    with pytest.raises(Refusal, match="3 features"):
        model.predict(LinearRegression(features=2).draw(2, 0))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_predictions_are_those_that_were_trained(layout, tmp_path):
    """The loss is that of the predictions; of decoders, of those after every support, too."""
    recipe = Recipe.load(recipe_file(tmp_path, layout=layout))
    model = Transformer(recipe.config())
    task = recipe.task
    sample = task.sample(5, torch.Generator().manual_seed(0))
    sample = Sample(sample.prompt.to(torch.float32), sample.targets.float())
    reader = LAYOUTS[layout]
    if layout == "pairs":
        error = (reader.predict(model, sample.prompt) - sample.targets).square().mean()
    else:
        points = torch.cat([sample.prompt.phi, sample.prompt.phi_query], dim=1)
        values = torch.cat([sample.prompt.y, sample.targets], dim=1)
        parts = []
        # Queries are supports of those after them only where each has a position of its own.
        longest = reader.longest(task)
        for k in range(1, points.shape[1]):
            before = min(k, longest)
            prompt = Prompt(points[:, :before], values[:, :before], points[:, k : k + 1])
            parts.append(reader.predict(model, prompt)[:, 0] - values[:, k])
        error = torch.stack(parts).square().mean()
    torch.testing.assert_close(reader.loss(model, sample), error, rtol=1e-4, atol=1e-6)


def test_batches_depend_on_seed_and_step_alone(tmp_path):
    recipe = Recipe.load(recipe_file(tmp_path))
    first, again, later = (batch_at(step, recipe) for step in (7, 7, 8))
    assert torch.equal(first.targets, again.targets)
    assert first.prompt.phi.shape != later.prompt.phi.shape or not torch.equal(
        first.prompt.phi, later.prompt.phi
    )
    sizes = {batch_at(step, recipe).prompt.supports for step in range(40)}
    assert sizes == set(range(1, 7))


def test_the_first_moments_decay_as_the_recipe_says(tmp_path):
    recipe = Recipe.load(recipe_file(tmp_path))
    recipe = replace(recipe, training=replace(recipe.training, beta1=0.5))
    run = started(recipe, tmp_path / "run", False, print, Group())
    assert {group["betas"] for group in run.optimiser.param_groups} == {(0.5, 0.98)}


def test_a_run_of_an_older_recipe_that_lacks_new_keys_is_resumed(tmp_path):
    """Keys that a checkpoint's recipe lacks have the values that leave training as it was."""
    path, out = recipe_file(tmp_path, steps=20), tmp_path / "run"
    assert train(path, out).returncode == 0
    state = next((out / "checkpoints").glob("step-00000020")) / "state.json"
    values = json.loads(state.read_text())
    del values["recipe"]["curriculum"]
    del values["recipe"]["model"]["positions"]
    for name in ("auxiliary", "auxiliary_layers", "auxiliary_ridge"):
        del values["recipe"]["training"][name]
    state.write_text(json.dumps(values))
    again = train(path, out, "--resume")
    assert again.returncode == 0, again.stderr


def test_held_out_prompts_are_drawn_by_nobody_else(tmp_path):
    """Not for another seed, not by the task itself, and not as a batch of training."""
    recipe = Recipe.load(recipe_file(tmp_path))
    task, seeds = recipe.task, range(20)
    held = [Held.draw(task, 1, seed).sample.prompt for seed in seeds]
    drawn = [task.draw(1, seed) for seed in seeds]
    trained = [batch_at(step, recipe).prompt for step in seeds]
    first = [[float(prompt.phi.flatten()[0]) for prompt in part] for part in (held, drawn, trained)]
    assert len({round(x, 6) for part in first for x in part}) == 3 * len(seeds)


def test_seeds_have_batches_of_their_own(tmp_path):
    recipe = Recipe.load(recipe_file(tmp_path))
    other = Recipe.from_dict({**recipe.to_dict(), "seed": 4})
    first, second = batch_at(0, recipe), batch_at(0, other)
    assert first.targets.shape != second.targets.shape or not torch.equal(
        first.targets, second.targets
    )


def test_the_rate_warms_up_and_falls_as_a_cosine(tmp_path):
    schedule = Recipe.load(recipe_file(tmp_path)).training
    rates = [rate_at(step, schedule) for step in range(61)]
    assert rates[0] == pytest.approx(1e-2 / 5)
    assert rates[4] == rates[5] == max(rates) == pytest.approx(1e-2)
    assert rates[32] == pytest.approx(
        1e-2 * (1 + torch.tensor(27 / 55 * torch.pi).cos().item()) / 2
    )
    assert rates[60] == pytest.approx(0, abs=1e-12)


def test_a_step_is_taken_at_its_rate(tmp_path):
    run = started(Recipe.load(recipe_file(tmp_path)), tmp_path / "run", False, print, Group())
    for run.step in (0, 40):
        run.one_step()
        rates = {group["lr"] for group in run.optimiser.param_groups}
        assert rates == {rate_at(run.step, run.recipe.training)}


def test_another_seed_is_another_run(tmp_path):
    path = recipe_file(tmp_path, steps=10)
    for seed in ("3", "4"):
        assert train(path, tmp_path / seed, "--seed", seed).returncode == 0
    plain = train(path, tmp_path / "plain")
    assert plain.returncode == 0
    assert same(weights(tmp_path / "3"), weights(tmp_path / "plain"))  # the recipe's own
    assert not same(weights(tmp_path / "4"), weights(tmp_path / "plain"))
    saved = json.loads((tmp_path / "4/model/config.json").read_text())
    assert saved["recipe"]["seed"] == 4


@pytest.mark.parametrize(
    ("mse", "best", "shown"),
    [(0.3, 0.2, "1.500 × the best"), (3e-4, 2e-30, "error 3.00e-04"), (0.0, 0.0, "error 0.00e+00")],
)
def test_an_error_is_compared_with_the_best_one_unless_that_is_round_off(mse, best, shown):
    assert error_line({"mse": mse, "best": best, "excess": 0.1}).endswith(shown)


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    recipe = Recipe.load(recipe_file(tmp_path))
    with pytest.raises(Refusal, match="shared by 3 processes"):
        Group(0, 3).share(batch_at(0, recipe))


def test_without_a_run_nothing_is_resumed_and_without_a_checkpoint_it_says_so(tmp_path):
    recipe, said = Recipe.load(recipe_file(tmp_path)), []
    for place in (tmp_path / "run", tmp_path / "run/nowhere"):
        with pytest.raises(Refusal, match=r"no run in .* to go on with: leave `resume=True` out"):
            started(recipe, place, True, said.append, Group())
        assert not place.exists()
        (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run/log.jsonl").write_text(
        ""
    )  # as of a run that was killed before its first checkpoint
    run = started(recipe, tmp_path / "run", True, said.append, Group())
    assert run.step == 0
    assert said == [f"{run.folder} has no checkpoint that can be used: starting at step 0."]


@pytest.mark.parametrize("moment", [1, 7, 10, 13, 40])
def test_a_run_that_is_stopped_saves_its_step_and_goes_on_bit_for_bit(tmp_path, moment):
    recipe, said = Recipe.load(recipe_file(tmp_path, steps=40)), []
    whole = started(recipe, tmp_path / "whole", False, said.append, Group())
    assert whole.train(lambda step, seen: None)
    run = started(recipe, tmp_path / "run", False, said.append, Group())
    assert not run.train(lambda step, seen: None, lambda: run.step == moment)
    assert run.saved == moment
    again = started(recipe, tmp_path / "run", True, said.append, Group())
    assert said == [f"Going on from step {moment} of 40."]
    assert again.train(lambda step, seen: None)
    assert same(again.model.state_dict(), whole.model.state_dict())
    assert logged(tmp_path / "run") == logged(tmp_path / "whole")
