"""Muon is the one of PyTorch where both apply, and goes on from a checkpoint as if it had never stopped."""

import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tiny_recipe import recipe_file

from ridgeformer.training import Group, Recipe
from ridgeformer.training.loop import Run
from ridgeformer.training.optimisers import Muon, optimiser_of, orthogonal
from ridgeformer.transformer import Transformer


@pytest.mark.parametrize("shape", [(3, 12, 5), (5, 12), (4, 6, 6)])
def test_orthogonal_keeps_singular_vectors_and_evens_out_values(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, values, right = torch.linalg.svd(matrices, full_matrices=False)
    core = left.mT @ orthogonal(matrices) @ right.mT
    found = core.diagonal(dim1=-2, dim2=-1)
    assert float((core - torch.diag_embed(found)).abs().max()) < 1e-4
    large = values > 0.05 * values.max()
    assert float(found[large].min()) > 0.5
    assert float(found[large].max()) < 1.3


def test_a_matrix_moves_as_with_the_optimiser_of_pytorch():
    generator = torch.Generator().manual_seed(1)
    start, goal = (torch.randn(6, 10, generator=generator) for _ in range(2))
    mine, other = (torch.nn.Parameter(start.clone()) for _ in range(2))
    scalar = torch.nn.Parameter(torch.zeros(1))
    ours = Muon([mine], [{"params": [scalar]}], 0.1, lr=0.02)
    peer = torch.optim.Muon(
        [other], lr=0.02, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    for _ in range(6):
        for weight in (mine, other):
            weight.grad = None
            (weight - goal).square().sum().backward()
        scalar.grad = torch.ones(1)
        ours.step()
        peer.step()
    moved, apart = (float(x.detach().norm()) for x in (other - start, mine - other))
    assert moved > 0.1
    assert apart < 0.02 * moved, "theirs rounds to bfloat16"


def test_muon_takes_the_matrices_of_blocks_and_nothing_else(tmp_path):
    recipe = Recipe.load(recipe_file(tmp_path))
    model = Transformer(recipe.config())
    muon = optimiser_of(model, replace(recipe.training, optimiser="muon"))
    names = {weight: name for name, weight in model.named_parameters()}
    taken = {names[weight] for stack in muon.stacks for weight in stack}
    assert taken == {name for name in names.values() if name.startswith("blocks") and ".W_" in name}
    rest = {names[weight] for group in muon.param_groups for weight in group["params"]}
    assert rest == set(names.values()) - taken


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_a_run_goes_on_from_its_checkpoint(optimiser, tmp_path):
    recipe = Recipe.load(recipe_file(tmp_path, steps=20))
    recipe = replace(recipe, training=replace(recipe.training, optimiser=optimiser))

    def ended(folder, resume):
        run = Run(recipe, folder, Group())
        if resume:
            run.resume(print)
            assert run.step == 10
        run.train(lambda step, seen: None)
        return load_file(folder / "checkpoints/step-00000020/weights.safetensors")

    (tmp_path / "run").mkdir()
    whole = ended(tmp_path / "run", resume=False)
    shutil.rmtree(tmp_path / "run/checkpoints/step-00000020")
    again = ended(tmp_path / "run", resume=True)
    assert all(torch.equal(whole[name], again[name]) for name in whole)
