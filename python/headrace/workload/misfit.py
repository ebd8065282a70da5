"""The error of a calibration on a run that it was fitted to: stored with the run in the workload
file, and part of the interval of every prediction.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from headrace.base.units import format_percent

# A calibration that describes its run is off by no more than this in the mean of a half: what a bin
# of a few minutes is off for reasons outside the model (calibration/fit.py, BIN_SPREAD).
MOST_MISFIT = 0.05
# Or by this number of standard deviations of that mean, where the run's own windows scatter more.
MOST_NOISE = 3.0


@dataclass(frozen=True)
class Misfit:
    """The error of a calibration on one of its runs: mean tps of the second half as measured and as
    predicted from the run's start. `noise`: relative standard deviation of the measured mean;
    `limit`: the bottleneck of most of that time in the model; `cause`: the likely cause of a large
    error, in sentences."""

    measured_tps: float
    predicted_tps: float
    noise: float
    limit: str
    cause: str = ""

    @property
    def off(self) -> float:
        """Returns the relative error: predicted over measured tps, less 1."""
        return self.predicted_tps / self.measured_tps - 1.0

    @property
    def bar(self) -> float:
        """Returns the largest absolute value of `off` with which the calibration still describes
        the run."""
        return max(MOST_MISFIT, MOST_NOISE * self.noise)

    @property
    def misses(self) -> bool:
        """Returns True if the calibration does not describe the run."""
        return abs(self.off) > self.bar

    @property
    def beyond_noise(self) -> float:
        """Returns the relative error beyond the noise of the measurement (0.1 is 10 %)."""
        return math.sqrt(max(0.0, self.off**2 - self.noise**2))

    def describe(self, run: str) -> str:
        """Returns a sentence with both rates of the run of that name, and the likely cause."""
        figures = f"{self.predicted_tps:,.4g} tps in its second half where {self.measured_tps:,.4g} were measured"
        bar = (
            f"{format_percent(self.off, 1, sign='+')}, more than the {format_percent(self.bar, 1)} that noise explains"
        )
        return f"{run}: the calibration gives {figures} ({bar}). {self.cause}".strip()

    def to_document(self) -> dict[str, object]:
        """Returns the fields as a run of a workload file has them, without empty ones."""
        return {name: value for name, value in asdict(self).items() if value != ""}


def find_misfit(run: dict[str, Any]) -> Misfit | None:
    """Returns the misfit in a run of a workload; None if its file is older than this field."""
    if "measured_tps" not in run:
        return None
    measured = run["measured_tps"]
    figures = run.get("predicted_tps", measured), run.get("noise", 0.0)
    return Misfit(measured, *figures, run.get("limit", ""), run.get("cause", ""))
