"""How commands are registered, completed and run. Nothing heavy is imported before one is called."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from ridgeformer.cli import interruption

COMPLETED: dict[str, Callable[[], Any]] = {}
"""By name, the commands whose options depend on what is registered, to be built when called."""


class Command(TyperCommand):
    """A command whose help is plain text, so that shapes such as [B, k, p] are shown as written."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        described: list[Any] = [self, *self.params]
        for part in described:
            if part.help:
                part.help = escape(part.help)


class Commands(TyperGroup):
    """The commands: the user's files come first, then the command; refusals and interruptions are one sentence."""

    def main(self, *args: Any, **settings: Any) -> Any:
        with interruption.handled():
            return super().main(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        with interruption.in_one_sentence():  # before torch is imported, which takes seconds
            from ridgeformer.cli.imports import blamed, run_file
            from ridgeformer.cli.refusals import one_sentence

            with one_sentence(self.flags):
                files = ctx.params["files"] or ()
                for path in files:
                    run_file(path)
                with blamed(files):
                    return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.complete(name, command), rest

    def complete(self, name: str | None, command: Any) -> Any:
        return COMPLETED[name]() if name in COMPLETED else command

    def flags(self) -> set[str]:
        """The options of all commands, by the name of their parameter."""
        commands = [self, *(self.complete(*known) for known in self.commands.items())]
        for group in [c for c in commands[1:] if isinstance(c, TyperGroup)]:
            commands += group.commands.values()
        return {
            option.lstrip("-").replace("-", "_")
            for command in commands
            for parameter in command.params
            for option in parameter.opts
            if option.startswith("--")
        }


def with_names(text: str) -> str:
    """The help of an option, with the solvers, kernels and tasks that are registered by now."""
    from ridgeformer.kernels import KERNELS
    from ridgeformer.solvers import SOLVERS
    from ridgeformer.tasks import TASKS

    for word, registry in (("{solvers}", SOLVERS), ("{kernels}", KERNELS), ("{tasks}", TASKS)):
        text = text.replace(word, ", ".join(registry))
    return text


def register(app: typer.Typer, function: Callable[..., None], name: str | None = None) -> None:
    """Adds a command with the options of its signature."""
    app.command(name, cls=Command)(function)


def register_with_options(
    app: typer.Typer,
    function: Callable[..., None],
    options: Callable[[], list[Parameter]],
    name: str | None = None,
) -> None:
    """Adds a command that takes `options` as **keywords besides those of its signature.

    They are asked for when the command is called, so that listing the commands stays fast and the
    user's own kernels and solvers, registered by then, have their options too.
    """
    plain = signature(function, eval_str=True)
    own = [p for p in plain.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]

    def with_signature(parameters: list[Parameter]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            function(**values)

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = plain.replace(parameters=parameters)  # type: ignore[attr-defined]
        return command

    def complete() -> Any:
        names = {p.name for p in own}
        more = [p for p in options() if p.name not in names]
        keywords = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in own]
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        register(alone, with_signature([*keywords, *more]))
        completed = typer.main.get_command(alone)
        for parameter in completed.params:
            parameter.help = with_names(parameter.help)  # type: ignore[attr-defined]
        return completed

    register(app, with_signature(own), name)
    COMPLETED[name or function.__name__] = complete
