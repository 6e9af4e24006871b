"""Errors in training, in tasks and in baselines."""

from mutants.mutant import Mutant

LOSS = "tests/training/test_training.py::test_predictions_are_those_that_were_trained"
RATE = "tests/training/test_training.py::test_the_rate_warms_up_and_falls_as_a_cosine"
BEST = ("tests/tasks/test_best_predictors.py",)

MUTANTS = (
    Mutant(
        "warm-up-ignored",
        "training/loop.py",
        "if step < s.warmup:",
        "if step < 0:",
        "The learning rate has no warm-up.",
        (),
        (RATE,),
    ),
    Mutant(
        "loss-of-the-first-point",
        "training/layouts.py",
        "return (model.readout(stream) - y)[:, 1:].square().mean()",
        "return (model.readout(stream) - y).square().mean()",
        "The loss of a decoder counts its first point, of which nothing is known.",
        (),
        (LOSS,),
    ),
    Mutant(
        "decoder-reads-its-answer",
        "training/layouts.py",
        "asked = torch.cat([stream[:, 2:context:2], stream[:, context:]], dim=1)",
        "asked = torch.cat([stream[:, 3:context:2], stream[:, context:]], dim=1)",
        "The decoder is asked for a target at the token that holds it.",
        (),
        (LOSS,),
    ),
    Mutant(
        "held-out-prompts-of-all-seeds",
        "training/scores.py",
        "generator_of(HELD_OUT, seed), supports)",
        "generator_of(HELD_OUT), supports)",
        "Held-out prompts are the same for every seed.",
        (),
        ("tests/training/test_training.py::test_held_out_prompts_are_drawn_by_nobody_else",),
    ),
    Mutant(
        "excess-over-variance",
        "training/scores.py",
        "explained = m[:, 1] - m[:, 2] ** 2 - m[:, 3]",
        "explained = m[:, 1] - m[:, 2] ** 2",
        "The excess risk is a share of all variance, the noise included.",
        (),
        ("tests/experiments/test_evaluation.py", "tests/models/test_shipped_models.py"),
    ),
    Mutant(
        "muon-wide-and-tall",
        "training/optimisers.py",
        "return x if wide is matrices else x.mT",
        "return x",
        "Muon returns tall matrices lying.",
        (),
        (
            "tests/training/test_optimisers.py::test_orthogonal_keeps_singular_vectors_and_evens_out_values",
        ),
    ),
    Mutant(
        "cotraining-aggregator",
        "training/cotraining.py",
        "supports, queries = features[:, : prompt.supports], features[:, prompt.supports + 1 :]",
        "supports, queries = features[:, 1 : prompt.supports + 1], features[:, prompt.supports + 1 :]",
        "Co-training takes the aggregator for the last support.",
        (),
        (
            "tests/training/test_cotraining.py::test_the_loss_is_the_models_error_and_that_of_ridge_on_its_states",
        ),
    ),
    Mutant(
        "matern-root",
        "tasks/gaussian_process.py",
        "scaled = 3**0.5 * distance",
        "scaled = 3 * distance",
        "The Matérn covariance of smoothness 3/2 has 3 in place of √3.",
        (),
        BEST,
    ),
    Mutant(
        "evidence-without-determinant",
        "tasks/posterior.py",
        "-0.5 * (y * alpha).sum((1, 2)) - y.shape[2] * half_log_det",
        "-0.5 * (y * alpha).sum((1, 2))",
        "The evidence of a lengthscale lacks the determinant.",
        (),
        BEST,
    ),
    Mutant(
        "gp-noise-doubled",
        "baselines/gaussian_process.py",
        "return conditioned(between, across, prompt.y, s.noise_variance)[0]",
        "return conditioned(between, across, prompt.y, 2 * s.noise_variance)[0]",
        "The posterior of a Gaussian process takes twice the noise.",
        (),
        (
            "tests/baselines/test_baselines.py::test_the_posterior_and_its_likelihood_are_scikit_learns",
        ),
    ),
    Mutant(
        "baselines-tuned-on-scored-prompts",
        "baselines/base.py",
        "return generator_of(seed, TRAINING)",
        "return torch.Generator().manual_seed(seed)",
        "Baselines are tuned on the prompts with which they are evaluated.",
        (),
        ("tests/baselines/test_baselines.py::test_training_prompts_are_no_evaluation_prompts",),
    ),
    Mutant(
        "neighbours-farthest",
        "baselines/nearest_neighbours.py",
        ".argsort(dim=-1, stable=True)[..., :k]",
        ".argsort(dim=-1, stable=True)[..., -k:]",
        "The farthest supports are taken for the nearest.",
        (),
        ("tests/baselines/test_baselines.py::test_nearest_neighbours_are_scikit_learns",),
    ),
)
