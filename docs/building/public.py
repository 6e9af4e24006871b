"""The public names: those of the package, and those that its rooms offer at their doors."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import ridgeformer

ROOMS = {
    "sklearn": "Estimators for scikit-learn",
    "solvers": "Solvers, and the closed form",
    "kernels": "Kernels",
    "tasks": "Tasks, which draw prompts",
    "compiler": "The compiler",
    "program": "Programs, between solvers and weights",
    "transformer": "The generic transformer",
    "models": "Models, compiled, trained or others'",
    "models.zoo": "Trained models that are shipped",
    "training": "Training",
    "baselines": "Baselines",
    "analysis": "Analyses of a model's workings",
    "analysis.in_context": "Analyses of answers alone",
    "theory": "Bounds of the theorems",
    "language": "Language models",
    "suite": "The ground-truth suite",
    "export": "Export",
    "experiments": "Experiments",
}


@dataclass(frozen=True)
class Public:
    """A class or function that users may import."""

    home: str
    """The module that offers it."""
    name: str
    value: Any

    @property
    def dotted(self) -> str:
        return f"{self.home}.{self.name}"

    @property
    def kind(self) -> str:
        return "class" if inspect.isclass(self.value) else "function"

    @property
    def has_page(self) -> bool:
        """Names of the package have a page each, and so do the estimators; those of other rooms share their room's."""
        return self.home in ("ridgeformer", "ridgeformer.sklearn")

    @property
    def unmistakable(self) -> str:
        """Its name with its kind, where a name of the same module differs in capitals alone, as file systems may not."""
        same = [other for other in public_names() if other.dotted.lower() == self.dotted.lower()]
        return f"{self.dotted}-{self.kind}" if len(same) > 1 else self.dotted

    @property
    def page(self) -> str:
        """The page that describes it, below reference."""
        return self.unmistakable if self.has_page else self.home

    @property
    def anchor(self) -> str:
        """The place on that page."""
        return self.dotted if self.has_page else re.sub(r"[._]+", "-", self.unmistakable.lower())


@cache
def public_names() -> tuple[Public, ...]:
    """Every public class and function once; what the package itself offers is not listed with its room again."""
    own = [Public("ridgeformer", n, getattr(ridgeformer, n)) for n in ridgeformer.__all__]
    seen = {id(public.value) for public in own}
    for room in ROOMS:
        for public in offered(f"ridgeformer.{room}"):
            if id(public.value) not in seen:
                seen.add(id(public.value))
                own.append(public)
    return tuple(own)


def offered(home: str) -> list[Public]:
    """The classes and functions at the door of a room, in the order of the alphabet."""
    module = import_module(home)
    names = {*vars(module), *vars(module).get("_HOME_OF", ())}
    values = {n: getattr(module, n) for n in sorted(names) if not n.startswith("_")}
    return [Public(home, name, value) for name, value in values.items() if is_own(value, home)]


def is_own(value: Any, home: str) -> bool:
    """A class or function of this room, and not what its door needs of another."""
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return False
    return value.__module__ == home or value.__module__.startswith(f"{home}.")


def own_docstring(value: Any) -> str:
    """What a class or function says of itself; nothing if that is inherited, or the signature that a dataclass makes up."""
    said = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    return "" if said is None or said.startswith(f"{value.__name__}(") else inspect.cleandoc(said)
