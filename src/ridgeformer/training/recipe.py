"""A recipe: the task, architecture and options of one training run, read from TOML and checked."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, asdict, dataclass, fields, replace
from math import inf
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ridgeformer.tasks import LARGEST, LEARNABLE, LearnableTask
from ridgeformer.training.layouts import LAYOUTS
from ridgeformer.transformer import TransformerConfig
from ridgeformer.types import Refusal, counted
from ridgeformer.whole import read_text, reason

SMALLEST_RIDGE = 1e-9
"""With this λ or a larger one, K + λI is positive definite in float64 wherever k(x, x) = 1."""


@dataclass(frozen=True)
class Architecture:
    """The `[model]` table of a recipe."""

    layout: Literal["pairs", "interleaved", "alternating"] = "pairs"
    """With pairs a support is one token and many queries read all of them; interleaved is x, y, x, y, …,
    and alternating x, (x, y), x, (x, y), …"""
    positions: Literal["usual", "none", "learned", "sinusoidal"] = "usual"
    """The usual positions of a layout are learned ones if it is interleaved, and none otherwise."""
    mask: Literal["usual", "context"] = "usual"
    """With pairs, `context` keeps a query from reading itself; otherwise it reads supports and itself."""
    n_layers: int = 8
    d_model: int = 64
    n_heads: int = 4
    d_head: int = 16
    d_mlp: int = 256
    attention: Literal["softmax", "linear"] = "softmax"
    mlp: Literal["gelu", "gelu_new", "relu", "reglu"] = "gelu"
    norm: Literal["layernorm", "rmsnorm", "none"] = "layernorm"


@dataclass(frozen=True)
class TrainingOptions:
    """The `[training]` table of a recipe."""

    steps: int = 20_000
    batch: int = 64
    optimiser: Literal["adamw", "muon"] = "adamw"
    """Muon makes the updates of a block's matrices orthogonal; everything else has AdamW."""
    rate: float = 1e-3
    warmup: int = 500
    final_rate: float = 0.0
    """The learning rate at the end of the cosine, as a fraction of `rate`."""
    beta1: float = 0.9
    beta2: float = 0.98
    weight_decay: float = 0.0
    clip: float = 1.0
    fewer_supports: float = 0.5
    """The share of batches that have a random number of supports."""
    auxiliary: float = 0.0
    """The weight of the error of ridge regression on the model's own states; 0 trains without it."""
    auxiliary_layers: tuple[int, ...] = ()
    """The states are those after these layers, of which the first is 1; each has a regression of its own."""
    auxiliary_ridge: float = 0.001
    """The λ of these regressions, whose kernel has k(x, x) = 1."""
    evaluate_every: int = 500
    checkpoint_every: int = 500


@dataclass(frozen=True)
class Curriculum:
    """The `[curriculum]` table of a recipe: batches begin with few features and points, and grow."""

    first_features: int = 0
    """The first batches have this many features that are not 0; 0 begins with all of them."""
    more_features: int = 1
    first_points: int = 0
    """The first batches have this many supports and queries together; 0 begins with all of them."""
    more_points: int = 2
    every: int = 2000
    """After so many steps there are `more_features` and `more_points`, until the task's own are reached."""

    @property
    def grows(self) -> bool:
        """Whether the first batches are smaller than the task."""
        return bool(self.first_features or self.first_points)

    def features(self, step: int, all_of_them: int) -> int:
        return self.grown(step, self.first_features, self.more_features, all_of_them)

    def points(self, step: int, all_of_them: int) -> int:
        return self.grown(step, self.first_points, self.more_points, all_of_them)

    def grown(self, step: int, first: int, more: int, last: int) -> int:
        return min(last, first + step // self.every * more) if first else last

    def check(self, task: LearnableTask) -> None:
        """Refuses a curriculum that has no place in the task."""
        if min(self.every, self.more_features, self.more_points) < 1:
            raise Refusal(
                "[curriculum] needs every, more_features and more_points ≥ 1; got "
                f"{self.every}, {self.more_features} and {self.more_points}."
            )
        if self.first_features > task.features:
            raise Refusal(
                f"[curriculum] first_features must be at most the task's {task.features} features; "
                f"got {self.first_features}."
            )
        if self.first_points and not (
            task.queries < self.first_points <= task.supports + task.queries
        ):
            raise Refusal(
                "[curriculum] first_points must be more than the task's queries and at most its supports "
                f"and queries together; got {self.first_points}, with {task.supports} supports and "
                f"{task.queries} queries."
            )
        if self.first_features:
            replace(task, features=self.first_features)  # It refuses a size that it cannot have.


@dataclass(frozen=True)
class Recipe:
    """All that determines a training run."""

    name: str
    seed: int
    task: LearnableTask
    model: Architecture
    training: TrainingOptions
    curriculum: Curriculum = Curriculum()

    def __post_init__(self) -> None:
        if whole("seed", self.seed) >= 2**63:
            raise Refusal(f"seed must be below 2^63; got {self.seed}.")

    @staticmethod
    def load(path: str | Path) -> Recipe:
        """Reads a recipe from a TOML file."""
        try:
            values = tomllib.loads(read_text(Path(path)))
        except FileNotFoundError as error:
            raise Refusal(f"There is no recipe at {path}.") from error
        except (OSError, RecursionError, ValueError) as error:
            raise Refusal(f"{path} cannot be read as a TOML recipe: {reason(error)}.") from error
        return Recipe.from_dict(values)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Recipe:
        """A recipe from the tables of its file; unknown keys and impossible values are refused."""
        known = {"name", "seed", "task", "model", "training", "curriculum"}
        if odd := sorted(set(values) - known):
            raise Refusal(f"A recipe has {', '.join(sorted(known))}; it does not know {odd[0]!r}.")
        if missing := sorted({"name", "task"} - set(values)):
            raise Refusal(f"The recipe lacks {missing[0]!r}.")
        if not isinstance(values["task"], dict):
            raise Refusal(f"[task] must be a table; got {values['task']!r}.")
        task = dict(values["task"])
        if "name" not in task:
            raise Refusal("[task] lacks 'name'.")
        kind = LEARNABLE.find(str(task.pop("name")))
        recipe = Recipe(
            name=str(values["name"]),
            seed=whole("seed", values.get("seed", 0)),
            task=section(kind, task, "task"),
            model=section(Architecture, values.get("model", {}), "model"),
            training=section(TrainingOptions, values.get("training", {}), "training"),
            curriculum=section(Curriculum, values.get("curriculum", {}), "curriculum"),
        )
        recipe.check()
        return recipe

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seed": self.seed,
            "task": self.task.to_dict(),
            "model": asdict(self.model),
            "training": asdict(self.training),
            "curriculum": asdict(self.curriculum),
        }

    def check(self) -> None:
        """Refuses values that no run can have."""
        for name in ("n_layers", "d_model", "n_heads", "d_head"):
            if getattr(self.model, name) < 1:
                raise Refusal(
                    f"[model] {name} must be at least 1; got {getattr(self.model, name)}."
                )
        s = self.training
        for name in ("steps", "batch", "evaluate_every", "checkpoint_every"):
            if getattr(s, name) < 1:
                raise Refusal(f"[training] {name} must be at least 1; got {getattr(s, name)}.")
        if s.batch > LARGEST:
            raise Refusal(f"[training] batch must be at most {LARGEST:,}; got {s.batch:,}.")
        if not (s.rate > 0 and s.clip > 0 and 0 <= s.fewer_supports <= 1):
            raise Refusal("[training] needs rate > 0, clip > 0 and 0 ≤ fewer_supports ≤ 1.")
        if not (0 <= s.beta1 < 1 and 0 <= s.beta2 < 1):
            raise Refusal("[training] needs 0 ≤ beta1 < 1 and 0 ≤ beta2 < 1.")
        if s.checkpoint_every % s.evaluate_every:
            raise Refusal(
                "[training] checkpoint_every must be a multiple of evaluate_every, so that a run that is resumed "
                f"writes the same log; got {s.checkpoint_every} and {s.evaluate_every}."
            )
        if not 0 <= s.warmup <= s.steps:
            raise Refusal(f"[training] warmup must be between 0 and steps; got {s.warmup}.")
        self.check_auxiliary()
        for name in ("features", "supports", "queries"):
            if getattr(self.task, name) < 1:
                raise Refusal(f"[task] {name} must be at least 1; got {getattr(self.task, name)}.")
        self.curriculum.check(self.task)
        self.config()

    def check_auxiliary(self) -> None:
        """Refuses an auxiliary error that this model does not have."""
        s, layers = self.training, self.model.n_layers
        if not (0 <= s.auxiliary < inf and SMALLEST_RIDGE <= s.auxiliary_ridge < inf):
            raise Refusal(
                f"[training] needs auxiliary ≥ 0 and auxiliary_ridge ≥ {SMALLEST_RIDGE}, both finite; got "
                f"{s.auxiliary} and {s.auxiliary_ridge}."
            )
        if not s.auxiliary:
            return
        if self.model.layout != "pairs":
            raise Refusal(
                "[training] auxiliary needs supports of one token each: use the layout pairs, or leave it out; got "
                f"the layout {self.model.layout}."
            )
        chosen = s.auxiliary_layers
        possible = all(1 <= layer <= layers for layer in chosen)
        if not (chosen and possible and len(set(chosen)) == len(chosen)):
            raise Refusal(
                "[training] auxiliary needs auxiliary_layers, different numbers from 1 to the model's "
                f"{counted(layers, 'layer')}; got {list(chosen)}."
            )

    def config(self) -> TransformerConfig:
        """The configuration of the transformer that is trained."""
        return LAYOUTS[self.model.layout].config(self.task, asdict(self.model))

    def __repr__(self) -> str:
        def line(values: dict[str, Any]) -> str:
            return ", ".join(f"{name} {value}" for name, value in values.items() if value != ())

        values = self.to_dict()
        named = ["task", "model", "training"]
        if self.curriculum.grows:
            named.append("curriculum")
        parts = [f"  {part:9} {line(values[part])}" for part in named]
        return "\n".join([f"Recipe {self.name}, seed {self.seed}", *parts])


def section(kind: type[Any], values: dict[str, Any], name: str) -> Any:
    """A dataclass from a table of the recipe, whose keys and types must be its fields'."""
    if not isinstance(values, dict):
        raise Refusal(f"[{name}] must be a table; got {values!r}.")
    hints = get_type_hints(kind)
    entries = {f.name: f for f in fields(kind)}
    if odd := sorted(set(values) - set(entries)):
        raise Refusal(f"[{name}] does not know {odd[0]!r}: choose from {', '.join(entries)}.")
    needed = [
        n for n, f in entries.items() if f.default is MISSING and f.default_factory is MISSING
    ]
    if missing := [n for n in needed if n not in values]:
        raise Refusal(f"[{name}] lacks {missing[0]!r}.")
    return kind(
        **{key: checked(f"[{name}] {key}", value, hints[key]) for key, value in values.items()}
    )


def checked(name: str, value: Any, hint: Any) -> Any:
    """The value as the type that the field has; another type is refused."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise Refusal(f"{name} must be one of {', '.join(get_args(hint))}; got {value!r}.")
        return value
    if hint is int:
        return whole(name, value)
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Refusal(f"{name} must be a number; got {value!r}.")
        return float(value)
    if get_origin(hint) is tuple:
        if not isinstance(value, (list, tuple)):
            raise Refusal(f"{name} must be a list of numbers; got {value!r}.")
        return tuple(checked(name, item, get_args(hint)[0]) for item in value)
    return value


def whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refusal(f"{name} must be a whole number ≥ 0; got {value!r}.")
    return value
