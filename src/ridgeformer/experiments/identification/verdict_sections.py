"""The sections that lead to the verdict: the candidates, where their steps were found, and the calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.identification.view import PROSE, View
from ridgeformer.experiments.wording import plain, shown, spread

MEASURES = ("misfit", "interior", "unexplained", "systematic")
NARROW = ("misfit", "interior", "un- explained", "systematic")
"""The same for a terminal of 80 characters, where a header breaks at a space."""
LEAST, MOST = 1e-4, 1.0
"""The colours of the alignment are for errors between these."""


def verdict(view: View) -> f.Section:
    said = view.settings["verdict"]
    about = f.Paragraph(PROSE.text("about", s=view.settings), "soft")
    return PROSE.section("verdict", about, verdict=said, calibration=view.settings["calibration"])


def candidates(view: View) -> f.Section:
    settings = view.settings
    words = {"guess": settings["guess"], "kernel": shown_kernel(settings["guess"]["kernel"])}
    limits = settings["calibration"]["limits"]
    tables = (candidate_table(view), fitted_table(view))
    return PROSE.section("candidates", *tables, limits=limits, **words)


def candidate_table(view: View, narrow: bool = False) -> f.Table:
    """What each candidate leaves of the subject, with intervals where there is room."""
    accepted = view.settings["verdict"]["accepted"]
    rows = []
    for name, fit in view.part("candidates")["fits"].items():
        numbers = [view.finding.get(measure, name) for measure in MEASURES]
        cells = [plain_or_none(n) if narrow else spread(n) for n in numbers]
        counts = [str(fit["steps"]), str(fit["free"])] if narrow else []
        rows.append([name, *cells, *counts, "yes" if name in accepted else "no"])
    if narrow:
        return f.Table(["candidate", *NARROW, "steps", "free", "ok"], rows)
    return f.Table(["candidate", *MEASURES, "accepted"], rows)


def fitted_table(view: View) -> f.Table:
    """What was fitted of each candidate."""
    fits = view.part("candidates")["fits"]
    names = list(dict.fromkeys(name for fit in fits.values() for name in fit["fitted"]))
    rows = [
        [name, str(fit["steps"]), *(fitted(fit["fitted"].get(n)) for n in names), str(fit["free"])]
        for name, fit in fits.items()
    ]
    return f.Table(["candidate", "steps", *names, "free numbers"], rows)


def fitted(value: float | Sequence[float] | None) -> str:
    if value is None:
        return ""
    return plain(value) if isinstance(value, (int, float)) else " – ".join(map(plain, value))


def plain_or_none(number: f.Number) -> str:
    return "none" if number.mean is None else plain(number.mean)


def shown_kernel(kernel: dict[str, Any]) -> str:
    options = [f"{name} {shown(value)}" for name, value in kernel.items() if name != "name" and value is not None]  # fmt: skip
    return f"{kernel['name']} kernel" + (f" ({', '.join(options)})" if options else "")


def alignment(view: View) -> f.Section:
    fits = view.part("candidates")["fits"]
    panels = [aligned(view, name, fits[name]) for name in view.compared]
    figure = f.Matrices(panels, "layer", "step", "error of a step", limits=(LEAST, MOST), log=True)
    words = {name: quantities(fits[name]["signals"]) for name in view.compared}
    strides = {name: fits[name]["stride"] for name in view.compared if fits[name]["stride"] > 1}
    return PROSE.section("alignment", figure, quantities=words, strides=strides)


def aligned(view: View, name: str, fit: dict[str, Any]) -> f.Matrix:
    numbers = view.finding.select("error of a step", name)
    steps = list(dict.fromkeys(int(n.setting["step"]) for n in numbers))
    layers = list(dict.fromkeys(int(n.setting["layer"]) for n in numbers))
    by_place = {(n.setting["step"], n.setting["layer"]): n.value for n in numbers}
    values = [[by_place.get((s, layer), nan) for layer in layers] for s in steps]
    marked = [(row, layers.index(layer)) for row, layer in enumerate(fit["layers"])]
    return f.Matrix(name, [str(s) for s in steps], [str(n) for n in layers], values, marked)


def quantities(signals: Sequence[str]) -> str:
    """predictions (steps 1 and 2) and coefficients: which quantities the steps are read as."""
    return " and ".join(
        f"{name} ({signals.count(name)} of {len(signals)})" for name in dict.fromkeys(signals)
    )


def calibration(view: View) -> f.Section:
    known = view.settings["calibration"]
    figures = [confusion(treatment, counts) for treatment, counts in known["confusion"].items()]
    rows = [
        [name, f"{rate['wrong']}", f"{rate['of']}", f"{100 * rate['wrong'] / rate['of']:.2g} %"]
        for name, rate in known["error_rates"].items()
    ]
    tables = [f.Table(["error", "wrong", "of", "rate"], rows)] if rows else []
    return PROSE.section("calibration", *tables, *figures, c=known)


def confusion(treatment: str, counts: Mapping[str, Mapping[str, int]]) -> f.Matrices:
    """Truths by verdicts."""
    verdicts = list(dict.fromkeys([*counts, *(name for row in counts.values() for name in row)]))
    verdicts = [name for name in verdicts if any(row.get(name) for row in counts.values())]
    values = [[float(row.get(name, 0)) or nan for name in verdicts] for row in counts.values()]
    panel = f.Matrix(treatment, list(counts), verdicts, values)
    most = max(max(row.values(), default=1) for row in counts.values())
    return f.Matrices([panel], "verdict", "truth", "models", (0.0, float(most)), written=True)
