"""What can be chosen, and the options that come with it: the fields of targets, kernels and solvers.

An option is a field of a dataclass, with its type, its default and the help in its metadata. A choice
whose classes have no such field refuses the option, so that nothing is said in vain.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from typer import Option

from ridgeformer.cli.files import read_matrix
from ridgeformer.compiler import Exact, HeadPairs, Interpolated, LinearAttention, SoftmaxAttention
from ridgeformer.kernels import KERNELS, Kernel
from ridgeformer.solvers import SOLVERS, Solver
from ridgeformer.solvers import make_solver as solver_by_name
from ridgeformer.tasks import ReLUNetwork
from ridgeformer.types import Refusal

RENAMED: dict[tuple[type, str], str] = {
    (Interpolated, "width"): "mlp_width",
    (ReLUNetwork, "width"): "network_width",
}
"""Fields whose option has another name."""

PHRASES = {
    "attention": "{} attention", "mlp": "the {} MLP", "kernel": "the {} kernel", "solver": "{}",
    "to": "the {} exporter", "from": "the {} importer", "task": "the {} task",
}  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """Words that choose, such as {"kernel": "gaussian"}, and the classes that they choose."""

    words: Mapping[str, str]
    classes: tuple[type, ...]

    def options(self) -> dict[str, tuple[Field[Any], Any]]:
        """By name, the fields that words can give, with the type of the option."""
        return {
            name: (field, kind) for cls in self.classes for name, field, kind in options_of(cls)
        }

    def changes(self, other: Choice) -> list[str]:
        """Which words differ from the other's."""
        return [name for name, value in self.words.items() if other.words.get(name) != value]


def target_choices() -> list[Choice]:
    return [
        Choice({"attention": "linear", "mlp": "relu"}, (LinearAttention,)),
        Choice({"attention": "linear", "mlp": "reglu"}, (LinearAttention, Exact)),
        Choice(
            {"attention": "softmax", "mlp": "relu"}, (SoftmaxAttention, HeadPairs, Interpolated)
        ),
        Choice({"attention": "softmax", "mlp": "reglu"}, (SoftmaxAttention, HeadPairs, Exact)),
    ]


def kernel_choices() -> list[Choice]:
    return [Choice({"kernel": name}, (cls,)) for name, cls in KERNELS.items()]


def solver_choices() -> list[Choice]:
    return [Choice({"solver": name}, (cls,)) for name, cls in SOLVERS.items()]


def options_of(cls: type) -> Iterator[tuple[str, Field[Any], Any]]:
    """The fields of a dataclass that words can give, with the name and the type of the option."""
    if not is_dataclass(cls):
        return
    hints = get_type_hints(cls)
    for field in fields(cls):
        kind = type_of_option(hints[field.name])
        if field.init and kind is not None:
            yield RENAMED.get((cls, field.name), field.name), field, kind


def type_of_option(hint: Any) -> Any:
    """What the command line reads for a field of that type; None if words cannot give it."""
    union = get_origin(hint) in (Union, types.UnionType)
    alternatives = [a for a in (get_args(hint) if union else (hint,)) if a is not type(None)]
    if len(alternatives) != 1:
        return None
    (only,) = alternatives
    if get_origin(only) is tuple and ... in get_args(only):
        return None  # as many numbers as one likes, which an option cannot take
    if only in (bool, int, float, str) or get_origin(only) in (Literal, tuple):
        return only
    return Path if hasattr(only, "array_type") else None  # a tensor is read from a file


def parameters(groups: Mapping[str, list[Choice]]) -> list[Parameter]:
    """The options of all choices, each once, under the title of its group."""
    options: dict[str, Parameter] = {}
    for title, choices in groups.items():
        for name in (name for choice in choices for name in choice.options()):
            owners = [choice for choice in choices if name in choice.options()]
            field, kind = owners[0].options()[name]
            # Those of several tasks may differ.
            shared = all(o.options()[name][0].default == field.default for o in owners)
            missing = field.default in (MISSING, None, False) or not shared
            default = "" if missing else f"; {field.default} if left out"
            about = Option(
                *([flag_of(name)] if kind is bool else []),
                help=f"{help_of(field)} ({named(owners)}{default})",
                metavar=field.metadata.get("metavar"),
                rich_help_panel=title,
                show_default=False,
            )
            hint: Any = Annotated[Union[kind, None], about]  # noqa: UP007
            parameter = Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            options.setdefault(name, parameter)
    return list(options.values())


def help_of(field: Field[Any]) -> str:
    return str(field.metadata.get("help") or f"The {field.name.replace('_', ' ')}.")


def named(owners: list[Choice]) -> str:
    """The words that all owners share, such as "softmax with relu", or else those of each owner."""
    shared = [v for n, v in owners[0].words.items() if all(o.words[n] == v for o in owners)]
    return " with ".join(shared) or listed([" with ".join(o.words.values()) for o in owners])


def listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; a switch is given if it is on."""
    return {name: v for name, v in options.items() if v is not None and v is not False}


def check(options: Mapping[str, Any], *chosen: tuple[Choice, list[Choice]]) -> None:
    """Refuses an option that none of the chosen has, and names what has it."""
    classes = [cls for choice, _ in chosen for cls in choice.classes]
    for name, value in options.items():
        # What a class says of itself may be repeated, such as that it has no preconditioner.
        said = any(getattr(cls, name, None) == value for cls in classes)
        if not said and not any(name in choice.options() for choice, _ in chosen):
            for choice, alternatives in chosen:
                refuse(name, choice, [c for c in alternatives if name in c.options()])


def refuse(name: str, chosen: Choice, owners: list[Choice]) -> None:
    if not owners:
        return
    fewest = min(len(owner.changes(chosen)) for owner in owners)
    nearest = [owner for owner in owners if len(owner.changes(chosen)) == fewest]
    words = nearest[0].changes(chosen)
    phrase = " with ".join(PHRASES[word].format(chosen.words[word]) for word in words)
    others = [
        " ".join(o.words[w] if w == "solver" else f"--{w} {o.words[w]}" for w in words)
        for o in nearest
    ]
    raise Refusal(
        f"{flag_of(name)} is not an option of {phrase}: leave it out, or use {listed(others)}."
    )


def chosen_solver(name: str) -> tuple[Choice, list[Choice]]:
    return Choice({"solver": name}, (SOLVERS.find(name),)), solver_choices()


def chosen_kernel(name: str) -> tuple[Choice, list[Choice]]:
    return Choice({"kernel": name}, (KERNELS.find(name),)), kernel_choices()


def chosen_target(attention: str, mlp: str) -> tuple[Choice, list[Choice]]:
    words, choices = {"attention": attention, "mlp": mlp}, target_choices()
    return next(choice for choice in choices if choice.words == words), choices


def fields_of(cls: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the class that were given."""
    return {f.name: options[name] for name, f, _ in options_of(cls) if name in options}


def build(cls: type, where: str, options: Mapping[str, Any], **others: Any) -> Any:
    """The dataclass with the options that it has; one that it cannot do without must be given."""
    values = fields_of(cls, options) | others
    for field in fields(cls):
        needed = field.init and field.default is MISSING and field.default_factory is MISSING
        if needed and field.name not in values:
            name = RENAMED.get((cls, field.name), field.name)
            about = re.sub("^(A|An|The) ", lambda word: word[0].lower(), help_of(field))
            raise Refusal(f"{flag_of(name)} is needed with {where}: {about}")
    return cls(**values)


def make_target(
    attention: str, mlp: str, options: Mapping[str, Any]
) -> LinearAttention | SoftmaxAttention:
    """The target that the options describe."""
    where = f"{attention} attention"

    def if_given(part: type) -> Any:
        return (
            build(part, f"{where} and --mlp {mlp}", options) if fields_of(part, options) else None
        )

    products = build(Exact, where, options) if mlp == "reglu" else None
    if attention == "linear":
        return build(LinearAttention, where, options, products=products)  # type: ignore[no-any-return]
    return build(  # type: ignore[no-any-return]
        SoftmaxAttention,
        where,
        options,
        products=products or if_given(Interpolated),
        dot_products=if_given(HeadPairs),
    )


def make_kernel(name: str, options: Mapping[str, Any]) -> Kernel:
    """The kernel with the options that it has; matrices are read from their files."""
    (cls,) = chosen_kernel(name)[0].classes
    values = {
        field: read_matrix(value) if isinstance(value, Path) else value
        for field, value in options.items()
        if field in fields_of(cls, options)
    }
    return build(cls, f"the {name} kernel", values)  # type: ignore[no-any-return]


def make_solver(name: str, options: Mapping[str, Any]) -> Solver:
    """The solver with the options that it has."""
    return solver_by_name(name, **fields_of(SOLVERS.find(name), options))
