"""The command line: what it writes, and one clear sentence for everything that goes wrong."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from fork_server import cli, refused
from numpy_executor import run, run_prefixes
from safetensors.numpy import load_file, save_file

from ridgeformer.tasks import PrescribedSpectrum

TASK = PrescribedSpectrum(features=3, supports=8, outputs=2, condition=20)
COMPILE = [
    "--features",
    "3",
    "--outputs",
    "2",
    "--steps",
    "3",
    "--ridge",
    "1",
    "--max-eigenvalue",
    "19",
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with prompts and a compiled model."""
    directory = tmp_path_factory.mktemp("home")
    TASK.draw(4, seed=0).save(directory / "prompts.npz")
    result = cli("compile", "cg", *COMPILE, "--out", directory / "cg")
    assert result.returncode == 0, result.stderr
    assert "3 steps in 22 layers" in result.stdout
    return directory


def test_predict_agrees_with_solve_and_with_numpy(home, tmp_path):
    first = cli(
        "predict", home / "cg", home / "prompts.npz", "--out", tmp_path / "p.npz", "--trajectory"
    )
    second = cli(
        "solve", "cg", home / "prompts.npz", "--steps", "3", "--ridge", "1",
        "--out", tmp_path / "r.npz", "--trajectory",
    )  # fmt: skip
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    model, reference = np.load(tmp_path / "p.npz"), np.load(tmp_path / "r.npz")
    assert model["prediction"].shape == (4, 4, 2)
    assert model["trajectory"].shape == (4, 4, 4, 2)
    np.testing.assert_allclose(model["trajectory"], reference["trajectory"], rtol=1e-9, atol=1e-10)
    prompts = np.load(home / "prompts.npz")
    expected = run(home / "cg", prompts["phi"], prompts["y"], prompts["phi_query"])
    np.testing.assert_allclose(model["prediction"], expected, rtol=1e-12, atol=1e-12)


def test_the_closed_form_needs_no_steps_and_a_solver_does(home, tmp_path):
    command = ["solve", "krr", home / "prompts.npz", "--ridge", "1", "--out", tmp_path / "krr.npz"]
    assert cli(*command).returncode == 0
    prompts = np.load(home / "prompts.npz")
    phi, y, query = (prompts[name] for name in ("phi", "y", "phi_query"))
    solved = np.linalg.solve(phi @ phi.mT + np.eye(phi.shape[1]), y)
    expected = query @ (phi.mT @ solved)
    np.testing.assert_allclose(np.load(tmp_path / "krr.npz")["prediction"], expected, atol=1e-10)
    command[1] = "cg"
    refused(cli(*command), "--steps is needed for cg: the number of its iterations.")


def test_a_decoder_of_every_prefix(home, tmp_path):
    """The gated MLP that it needs need not be named."""
    made = cli("compile", "cg", *COMPILE, "--causal", "--every-prefix", "--out", tmp_path / "m")
    assert made.returncode == 0, made.stderr
    for extra in ([], ["--trajectory"]):
        out = tmp_path / f"p{len(extra)}.npz"
        result = cli("predict", tmp_path / "m", home / "prompts.npz", "--out", out, *extra)
        assert result.returncode == 0, result.stderr
    assert "prefix_prediction [4, 9, 2]" in result.stdout
    plain, found = np.load(tmp_path / "p0.npz"), np.load(tmp_path / "p1.npz")
    assert set(plain) == {"prediction", "prefix_prediction"}
    assert found["trajectory"].shape == (4, 4, 4, 2)
    assert found["prefix_trajectory"].shape == (4, 4, 9, 2)
    assert (found["prefix_prediction"][:, 0] == 0).all()
    np.testing.assert_array_equal(found["prefix_prediction"][:, -1], found["prediction"][:, 0])
    for name in plain:
        np.testing.assert_allclose(plain[name], found[name], rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(
            found[name], found[name.replace("prediction", "trajectory")][-1]
        )
    prompts = np.load(home / "prompts.npz")
    arrays = [prompts[name] for name in ("phi", "y", "phi_query")]
    expected = run_prefixes(tmp_path / "m", *arrays)
    np.testing.assert_allclose(plain["prediction"], expected[:, 8:], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(plain["prefix_prediction"], expected[:, :9], rtol=1e-11, atol=1e-12)


def test_solve_knows_the_closed_form_and_other_kernels(home, tmp_path):
    for solver, extra in (("krr", []), ("cg", [])):
        result = cli(
            "solve", solver, home / "prompts.npz", "--steps", "40", "--ridge", "0.5", "--kernel",
            "gaussian", "--lengthscale", "2", *extra, "--out", tmp_path / f"{solver}.npz",
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
    found, exact = np.load(tmp_path / "cg.npz"), np.load(tmp_path / "krr.npz")
    np.testing.assert_allclose(found["prediction"], exact["prediction"], atol=1e-10)
    assert "trajectory" not in found


def test_inspect_shows_size_certificate_and_layers(home):
    result = cli("inspect", home / "cg", "--layers", "0")
    assert result.returncode == 0, result.stderr
    for word in ("22 layers", "Certificate", "λ_max(K) ≤ 19", "alpha", "inverse_rho", "erase"):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cgg", *COMPILE], ["did you mean cg?"]),
        (
            ["block-cg", *COMPILE],
            [
                "block-cg cannot be compiled",
                "use a solver whose state is made of vectors and scalars",
            ],
        ),
        (["nadaraya-watson", *COMPILE], ["use --attention softmax"]),
        (
            ["gd", *COMPILE, "--precondition", "jacobi"],
            ["--precondition is not an option of gd", "use richardson, chebyshev or cg"],
        ),
        (["cg", *COMPILE, "--precondition", "jacobi"], ["use --mlp reglu"]),
        (["cg", *COMPILE, "--ridge", "0"], ["ridge must be positive"]),
        (["cg", *COMPILE, "--ridge", "nan"], ["ridge must be positive"]),
        (["cg", *COMPILE, "--max-eigenvalue", "-1"], ["must be positive"]),
        (["cg", *COMPILE, "--steps", "0"], ["--steps must be at least 1"]),
        (
            ["cg", *COMPILE, "--attention", "softmax"],
            [
                "--max-eigenvalue is not an option of softmax attention: leave it out, or use --attention linear."
            ],
        ),
        (["cg", *COMPILE, "--mlp", "gelu"], ["gelu"]),
        (["cg"], ["Missing option"]),
        (["cg", "--features", "3"], ["--steps is needed"]),
        (["cg", "--features", "3", "--steps", "2"], ["--max-eigenvalue is needed"]),
    ],
)
def test_impossible_compilations(tmp_path, arguments, words):
    refused(cli("compile", *arguments, "--out", tmp_path / "m"), *words)
    assert not (tmp_path / "m").exists()
    assert list(tmp_path.iterdir()) == []


def broken_prompts(tmp_path, **changes):
    prompt = TASK.draw(2, seed=0)
    arrays = {n: getattr(prompt, n).numpy().copy() for n in ("phi", "y", "phi_query")}
    for name, change in changes.items():
        arrays[name] = change(arrays[name])
    path = tmp_path / "broken.npz"
    np.savez(path, **{n: a for n, a in arrays.items() if a is not None})
    return path


def with_nan(a):
    a[0, 0, 0] = np.nan
    return a


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"phi": with_nan}, ["phi contains NaN"]),
        ({"y": lambda a: a * np.inf}, ["y contains NaN or infinite"]),
        ({"phi": lambda a: a[:, :0], "y": lambda a: a[:, :0]}, ["no support"]),
        ({"phi": lambda a: a[..., :2], "phi_query": lambda a: a[..., :2]}, ["--features 2"]),
        ({"y": lambda a: a[..., :1]}, ["--outputs 1"]),
        ({"y": lambda a: a[:, :3]}, ["one target"]),
        ({"phi": lambda a: 10 * a}, ["λ_max(K) is", "outside the domain"]),
        ({"phi_query": lambda a: None}, ["lacks phi_query"]),
        ({"phi": lambda a: a[0]}, ["phi [B,k,p]"]),
        ({"y": lambda a: a.astype(str)}, ["real numbers"]),
        ({"y": lambda a: np.array([[[None]]], dtype=object)}, ["y holds Python objects"]),
    ],
)
def test_bad_prompts(home, tmp_path, changes, words):
    path = broken_prompts(tmp_path, **changes)
    refused(cli("predict", home / "cg", path, "--out", tmp_path / "p.npz"), *words)
    assert not (tmp_path / "p.npz").exists()


def test_files_that_are_not_prompts(home, tmp_path):
    refused(
        cli("predict", home / "cg", tmp_path / "none.npz", "--out", tmp_path / "p.npz"),
        "There is no file",
    )
    (tmp_path / "text.npz").write_text("not an archive")
    refused(
        cli("predict", home / "cg", tmp_path / "text.npz", "--out", tmp_path / "p.npz"),
        "text.npz is no .npz file: a prompt file is an .npz with phi",
    )
    whole = (home / "prompts.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    refused(
        cli(
            "solve",
            "cg",
            tmp_path / "half.npz",
            "--steps",
            "1",
            "--ridge",
            "1",
            "--out",
            tmp_path / "p.npz",
        ),
        "half.npz is damaged or incomplete",
    )


def copy_model(home, tmp_path):
    target = tmp_path / "m"
    target.mkdir()
    for name in ("config.json", "model.safetensors"):
        (target / name).write_bytes((home / "cg" / name).read_bytes())
    return target


def truncate(m):
    data = (m / "model.safetensors").read_bytes()
    (m / "model.safetensors").write_bytes(data[: len(data) // 2])


def flip_a_bit(m):
    data = bytearray((m / "model.safetensors").read_bytes())
    data[-1000] ^= 64
    (m / "model.safetensors").write_bytes(bytes(data))


def edit(m, **changes):
    config = json.loads((m / "config.json").read_text())
    (m / "config.json").write_text(json.dumps({**config, **changes}))


def swap_weights(m, change):
    config = json.loads((m / "config.json").read_text())
    config.pop("weights_sha256")
    (m / "config.json").write_text(json.dumps(config))
    weights = load_file(m / "model.safetensors")
    change(weights)
    save_file(weights, m / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (truncate, ["damaged"]),
        (flip_a_bit, ["damaged or was altered"]),
        (lambda m: (m / "model.safetensors").write_bytes(b""), ["damaged"]),
        (lambda m: (m / "model.safetensors").unlink(), ["incomplete"]),
        (lambda m: (m / "config.json").unlink(), ["no saved model"]),
        (lambda m: (m / "config.json").write_text("{"), ["damaged or unreadable"]),
        (lambda m: (m / "config.json").write_text("[]"), ["does not say format"]),
        (lambda m: edit(m, format="other/3"), ["does not say format"]),
        (lambda m: edit(m, attn_scale=2.0), ["altered after the model was saved"]),
        (lambda m: edit(m, attention="cosine"), ["attention must be one of linear, softmax"]),
        (lambda m: edit(m, d_model=-3), ["d_model must be a whole number"]),
        (lambda m: swap_weights(m, lambda w: w.pop("unembed.b")), ["unembed.b is missing"]),
        (
            lambda m: swap_weights(m, lambda w: w.update({"unembed.b": w["unembed.b"][:1]})),
            ["does not fit"],
        ),
        (lambda m: swap_weights(m, lambda w: w["unembed.b"].fill(np.nan)), ["NaN or infinite"]),
    ],
)
def test_damaged_models(home, tmp_path, damage, words):
    model = copy_model(home, tmp_path)
    damage(model)
    for command in (
        ["predict", model, home / "prompts.npz", "--out", tmp_path / "p.npz"],
        ["inspect", model],
    ):
        refused(cli(*command), *words)


def test_a_model_without_hashes_still_loads(home, tmp_path):
    model = copy_model(home, tmp_path)
    swap_weights(model, lambda w: None)
    result = cli("predict", model, home / "prompts.npz", "--out", tmp_path / "p.npz")
    assert result.returncode == 0, result.stderr


def test_nothing_is_overwritten_without_force(home, tmp_path):
    model = copy_model(home, tmp_path)
    before = (model / "model.safetensors").read_bytes()
    refused(cli("compile", "gd", *COMPILE, "--out", model), "--force")
    assert (model / "model.safetensors").read_bytes() == before
    # A request that fails leaves what was there, even with --force.
    refused(cli("compile", "block-cg", *COMPILE, "--out", model, "--force"), "block-cg cannot")
    assert (model / "model.safetensors").read_bytes() == before
    assert cli("compile", "gd", *COMPILE, "--out", model, "--force").returncode == 0
    assert (model / "model.safetensors").read_bytes() != before
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.txt").write_text("years of work")
    refused(cli("compile", "gd", *COMPILE, "--out", precious, "--force"), "will not replace")
    assert (precious / "chapter.txt").read_text() == "years of work"


def test_unwritable_outputs(home, tmp_path):
    (tmp_path / "file").write_text("")
    refused(cli("compile", "gd", *COMPILE, "--out", tmp_path / "file"), "is a file")
    refused(
        cli("compile", "gd", *COMPILE, "--out", tmp_path / "file" / "m"), "not a writable directory"
    )
    refused(
        cli("predict", home / "cg", home / "prompts.npz", "--out", tmp_path / "no" / "p.npz"),
        "directory does not exist",
    )
    refused(cli("predict", home / "cg", home / "prompts.npz", "--out", tmp_path), "is a directory")
    before = (home / "prompts.npz").read_bytes()
    refused(
        cli("predict", home / "cg", home / "prompts.npz", "--out", home / "prompts.npz"),
        "prompt file itself",
    )
    assert (home / "prompts.npz").read_bytes() == before
    refused(cli("demo", "--out", tmp_path / "file"), "cannot be written")


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root may write anywhere, so no directory is read-only"
)
def test_a_read_only_directory(home, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    refused(cli("compile", "gd", *COMPILE, "--out", locked / "m"), "not a writable directory")


def test_the_demo_prints_a_table_and_writes_a_self_contained_page(tmp_path):
    result = cli("demo", "--out", tmp_path / "demo")
    assert result.returncode == 0, result.stderr
    assert "CG compiled to a transformer" in result.stdout
    assert "1000" in result.stdout
    page = (tmp_path / "demo" / "index.html").read_text()
    assert "A transformer that runs conjugate gradients" in page
    assert "A decoder that predicts at every x" in result.stdout
    assert "A decoder: the learning curve of one forward pass" in page
    found = json.loads((tmp_path / "demo" / "findings.json").read_text())["findings"]
    numbers = next(f["numbers"] for f in found if f["study"] == "learning-curve")
    excess = {
        (n["method"], n["setting"]["pairs"]): n["mean"] for n in numbers if n["measure"] == "excess"
    }
    assert len(excess) == 5 * 49
    assert abs(excess["cg, 8 steps", 48]) < 0.02
    assert excess["cg, 1 step", 48] > 0.1
    assert "src=" not in page.split("</style>")[0]
    for tag in ('<script src="http', "<link"):
        assert tag not in page


def test_the_version(tmp_path: Path):
    import ridgeformer

    assert cli("--version").stdout.strip() == f"ridgeformer {ridgeformer.__version__}"
