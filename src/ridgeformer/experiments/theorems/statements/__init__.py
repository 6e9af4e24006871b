"""The theorems in words: each is stated once, in a Markdown file of this directory.

A file has the statement under the title, then the sections Proof, Tightness and, where there is
something to add, Remark, and the names of references, of the functions that compute the bounds and of
the tests. `docs/theorems.md` and the pages of `verify` are made from these files. Formulas are LaTeX
between dollar signs; `@name` stands for the number of another theorem.
"""
# mypy: implicit-reexport

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import import_module
from importlib.resources import files

from latex2mathml.converter import convert

from ridgeformer.experiments.theorems.statements.references import REFERENCES
from ridgeformer.experiments.wording import maths

ORDER = (
    "prediction", "richardson", "chebyshev", "conjugate-gradients", "heavy-ball", "newton",
    "gd-plus-plus", "depth-law",
    "finite-termination", "diagonal-preconditioners", "width-rank", "effective-dimension",
    "query-error", "kernel-drift", "prediction-drift", "several-outputs", "inexact-fixed",
    "inexact-cg", "dot-products", "normaliser", "row-sums", "interpolated-products", "masking",
    "compiled-model", "looped-models", "ablated-model", "ridge-weights", "depth-failure", "condition-failure",
    "ridge-failure", "collinear", "smoother-temperature", "krr-temperature", "width-failure",
    "new-part", "shared-outputs", "without-reductions", "narrow-models", "round-off-fixed",
    "round-off-cg", "sizes", "size-law", "feature-conjugate-gradients", "causal-supports", "least-width",
    "inexact-scalars", "compiled-cg", "compiled-fixed",
    "relative-products", "digit-products", "depth-and-width", "reciprocals",
    "heads-fixed",
)  # fmt: skip
"""The theorems by name, in the order of their numbers."""

ROOMS = ("ridgeformer.theory", "ridgeformer.analysis")
"""Where the functions of the theorems are."""


@dataclass(frozen=True)
class Statement:
    """A theorem in Markdown, with its proof and what belongs to it."""

    name: str
    title: str
    text: str
    proof: str
    tightness: str
    remark: str
    """Empty where nothing is left to say."""
    references: tuple[str, ...]
    function_names: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def number(self) -> int:
        return ORDER.index(self.name) + 1

    @property
    def functions(self) -> tuple[Callable[..., object], ...]:
        """What computes the bounds."""
        return tuple(map(function_of, self.function_names))


@cache
def statement(name: str) -> Statement:
    """The theorem of that name, read from its file."""
    source = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    title, *sections = re.split(r"^#{1,2} ", source, flags=re.M)[1:]
    title, _, text = title.partition("\n")
    parts = dict(section.split("\n", 1) for section in sections)

    def listed(part: str) -> list[str]:
        return [entry for entry in re.split(r"[,\s]+", parts[part]) if entry]

    return Statement(
        name=name,
        title=title.strip(),
        text=text.strip(),
        proof=parts["Proof"].strip(),
        tightness=parts["Tightness"].strip(),
        remark=parts.get("Remark", "").strip(),
        references=tuple(REFERENCES[key] for key in listed("References")),
        function_names=tuple(listed("Functions")),
        tests=tuple(listed("Tests")),
    )


DISPLAY = '<span class="display">'


def function_of(name: str) -> Callable[..., object]:
    """The function of `theory` or `analysis` that has this name."""
    for room in map(import_module, ROOMS):
        if hasattr(room, name):
            found: Callable[..., object] = getattr(room, name)
            return found
    raise LookupError(f"no function {name} in {' or '.join(ROOMS)}")


def numbered(text: str) -> str:
    """The text with the number of each theorem that it names."""
    return re.sub(r"@([\w-]*\w)", lambda m: f"theorem {ORDER.index(m[1]) + 1}", text)


def statement_html(names: Sequence[str], measured: str) -> str:
    """The statements of that name, and what is measured, as HTML that fits into one paragraph."""
    parts = [
        f"<b>Theorem {s.number} ({escape(s.title, quote=False)}).</b> {html_of(s.text)}"
        for s in map(statement, names)
    ]
    if measured:
        parts.append(f"<b>Measured.</b> {maths(measured)}")
    # A formula on lines of its own has its margin already.
    return re.sub(f"({DISPLAY}.*?</math></span>)<br><br>", r"\1<br>", "<br><br>".join(parts))


def html_of(text: str) -> str:
    """Markdown with LaTeX formulas as HTML with MathML, without blocks: lists become lines."""
    pieces = re.split(r"(\$\$.+?\$\$|\$.+?\$)", numbered(text), flags=re.S)
    return "".join(formula(piece) if piece.startswith("$") else prose(piece) for piece in pieces)


def formula(source: str) -> str:
    """A formula as MathML. One on lines of its own scrolls by itself if the page is narrower."""
    latex = " ".join(source.strip("$").split())
    if source.startswith("$$"):
        return f"{DISPLAY}{convert(latex, display='block')}</span>"
    return convert(latex, display="inline")


def prose(source: str) -> str:
    text = escape(source, quote=False)
    text = re.sub(r"\n+(?=(?:\d+\.|-) )", "<br>", text)
    text = re.sub(r"\n\n+", "<br><br>", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"\*([^*]+)\*", r"<i>\1</i>", text)
