"""`Calibration`: the limits of a verdict, and how often verdicts with them are right on models whose answer is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import scipy

from ridgeformer.analysis.verdict import Limits
from ridgeformer.experiments.identification.measure import METHOD
from ridgeformer.types import Refusal, counted
from ridgeformer.whole import read_text, reason

FILE = "calibration.json"

Counts = Mapping[str, Mapping[str, int]]
"""How often each truth got each verdict: truth → verdict → count."""


@dataclass(frozen=True)
class Rate:
    """So many of so many verdicts were wrong."""

    wrong: int
    of: int

    @property
    def mean(self) -> float:
        return self.wrong / self.of

    @property
    def ends(self) -> tuple[float, float]:
        """The 95 % interval of Clopper and Pearson, which is never too narrow."""
        found = scipy.stats.binomtest(self.wrong, self.of).proportion_ci(0.95)
        return float(found.low), float(found.high)


@dataclass(frozen=True)
class Calibration:
    """What models with known answers say about a verdict."""

    limits: Limits
    confusion: Mapping[str, Counts] = field(default_factory=dict)
    """The counts of each treatment of the models, such as clean or noise."""
    error_rates: Mapping[str, Rate] = field(default_factory=dict)
    """By kind of error, in words."""
    resolution: Mapping[str, float] = field(default_factory=dict)
    """For each family, up to which spread of random factors on its weights it is still recognised."""
    seed: int = 0
    method: int = METHOD
    """The version of the method that was calibrated."""
    cases: int = 0
    """How many models were judged; 0 if the limits are a guess."""

    @property
    def sentence(self) -> str:
        """How far a verdict with these limits can be trusted."""
        if not self.cases:
            return (
                "No calibration is there, so that the limits are guesses and the verdict is uncalibrated: "
                "`ridgeformer calibrate` makes one."
            )
        rates = [
            f"{name} {100 * rate.mean:.2g} % ({rate.wrong} of {rate.of}, at most {100 * rate.ends[1]:.2g} %)"
            for name, rate in self.error_rates.items()
        ]
        tried = f"Its limits were tried on {counted(self.cases, 'model')} whose answer is known"
        return f"{tried}; these verdicts were wrong: {'; '.join(rates)}." if rates else f"{tried}."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Any) -> Calibration:
        try:
            found = Calibration(
                **values
                | {
                    "limits": Limits(**values["limits"]),
                    "error_rates": {n: Rate(**r) for n, r in values["error_rates"].items()},
                }
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise Refusal(
                "This is no calibration: it needs the entries that `ridgeformer calibrate` writes."
            ) from error
        if found.method != METHOD:
            raise Refusal(
                f"The calibration is of version {found.method} of the method, and this is version "
                f"{METHOD}: run `ridgeformer calibrate` again."
            )
        return found

    @staticmethod
    def load(path: str | Path) -> Calibration:
        try:
            values = json.loads(read_text(Path(path)))
        except (OSError, ValueError, RecursionError) as error:
            raise Refusal(f"{path} cannot be read as a calibration: {reason(error)}.") from error
        return Calibration.from_dict(values)


UNCALIBRATED = Calibration(Limits(interior=0.05, unexplained=0.03, systematic=1e-3))


def shipped() -> Calibration:
    """The calibration that is part of the package; without one, limits that are marked as uncalibrated."""
    with_package = files("ridgeformer.experiments.identification") / FILE
    if not with_package.is_file():
        return UNCALIBRATED
    return Calibration.from_dict(json.loads(with_package.read_text()))
