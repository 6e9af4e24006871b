"""Findings and their parts as plain data that JSON can hold, and back, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from ridgeformer.experiments import finding
from ridgeformer.types import Refusal

CLASSES = {
    cls.__name__: cls
    for cls in (
        finding.Number,
        finding.Line,
        finding.Axes,
        finding.Part,
        finding.Panel,
        finding.Figure,
        finding.Stream,
        finding.Heatmap,
        finding.Table,
        finding.Paragraph,
        finding.Finding,
    )
}


def to_plain(value: Any) -> Any:
    """Lists, strings and numbers as they are; everything else under one name that says what it is."""
    match value:
        case Markup():
            return {"Markup": str(value)}
        case np.ndarray():
            flat = value.ravel().tolist()
            return {"array": flat, "shape": list(value.shape), "dtype": str(value.dtype)}
        case np.generic():
            return to_plain(value.item())
        case None | bool() | int() | float() | str():
            return value
        case list() | range():
            return [to_plain(one) for one in value]
        case tuple():
            return {"tuple": [to_plain(one) for one in value]}
        case Mapping():
            return {"dict": [[to_plain(k), to_plain(v)] for k, v in value.items()]}
    if is_dataclass(value) and type(value).__name__ in CLASSES:
        parts = {part.name: to_plain(getattr(value, part.name)) for part in fields(value)}
        return {"class": type(value).__name__, "fields": parts}
    raise Refusal(
        f"A {type(value).__name__} cannot be kept on disk or sent by a worker: findings hold numbers, "
        "strings, lists, arrays, figures and tables."
    )


def from_plain(value: Any) -> Any:
    """What `to_plain` was given."""
    match value:
        case list():
            return [from_plain(one) for one in value]
        case {"Markup": text}:
            return Markup(text)
        case {"array": flat, "shape": shape, "dtype": dtype}:
            return np.array(flat, dtype=dtype).reshape(shape)
        case {"tuple": values}:
            return tuple(from_plain(one) for one in values)
        case {"dict": pairs}:
            return {from_plain(k): from_plain(v) for k, v in pairs}
        case {"class": name, "fields": parts}:
            return CLASSES[name](**{k: from_plain(v) for k, v in parts.items()})
    return value
