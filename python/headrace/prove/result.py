"""What a proof came to, as plain values; `to_dict` gives what JSON can hold."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass

from headrace.prove.configuration import Configuration

SCHEMA = "headrace-proof/1"
# Held to: nine of ten configurations nobody has seen lie so near (docs/semantics.md, Proving at a smaller scale), percent.
TPS_PERCENT = {"innodb": 10.0, "myrocks": 12.0}
P95_PERCENT = 20.0
# Two configurations nearer than this are not ranked: an error of a few percent each decides.
ALIKE_PERCENT = 8.0


@dataclass(frozen=True)
class Predicted:
    """Means after the warm-up. `tps_low`, `tps_high`: 80 % interval of the mean. `binds`: the cap of most seconds. `series`: tps of each second, the warm-up too."""

    tps: float
    tps_low: float | None
    tps_high: float | None
    p95_ms: float
    ios_per_tx: float
    binds: str
    warnings: tuple[str, ...] = ()
    series: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measured:
    """The same of a run. `run`: its id in the proof's run store; `state`: complete, interrupted or broken. `seconds`: those that count.

    `processors_bound`: the machine had nothing left, so that the figures are its own and say little of the storage."""

    run: str
    state: str
    seconds: float
    tps: float
    p95_ms: float | None
    ios_per_tx: float | None
    findings: tuple[str, ...] = ()
    series: tuple[float, ...] = ()
    processors_bound: bool = False


@dataclass(frozen=True)
class Step:
    """A configuration of the proof. `role`: calibration, winner, runner-up, current, or given. `full`: before scaling. `predicted`: None of the one calibrated on; `measured`: None
    while it was not run."""

    role: str
    full: Configuration
    configuration: Configuration
    predicted: Predicted | None = None
    measured: Measured | None = None

    @property
    def tps_error_percent(self) -> float | None:
        """Predicted over measured, less one; None where one is missing."""
        if self.predicted is None or self.measured is None or not self.measured.tps > 0:
            return None
        return 100.0 * (self.predicted.tps / self.measured.tps - 1.0)

    @property
    def p95_error_percent(self) -> float | None:
        """The same of the 95th percentile of response times."""
        if self.predicted is None or self.measured is None or not self.measured.p95_ms:
            return None
        return 100.0 * (self.predicted.p95_ms / self.measured.p95_ms - 1.0)

    def verdict(self, engine: str) -> str:
        """holds, off, machine (off, and this machine's processors were all in use), or "" where nothing can be said."""
        error, p95 = self.tps_error_percent, self.p95_error_percent
        if error is None or self.measured.state != "complete":
            return ""
        if abs(error) <= TPS_PERCENT[engine] and (p95 is None or abs(p95) <= P95_PERCENT):
            return "holds"
        return "machine" if self.measured.processors_bound else "off"


@dataclass(frozen=True)
class Proof:
    """Predicted beside measured. `source`: the plan or workload; `load`: the stand-in, in words. `data_scale`, `rate_scale`: factors. `predictions_file` and `_sha256`: what was stored at
    `predicted_at`, before anything but the calibration was run. `state`: complete, interrupted, broken. `notes`: what a reader must know."""

    name: str
    folder: str
    state: str
    began_at: str
    source: str
    engine: str
    server: str
    load: str
    data_gib: float
    data_scale: float
    rate_scale: float
    warmup_s: int
    seconds: int
    seed: int
    steps: tuple[Step, ...]
    machine: dict
    ended_at: str | None = None
    predicted_at: str | None = None
    predictions_file: str | None = None
    predictions_sha256: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def proved(self) -> tuple[Step, ...]:
        """Configurations that were predicted and measured."""
        return tuple(step for step in self.steps if step.tps_error_percent is not None)

    @property
    def median_error_percent(self) -> float | None:
        """Of the absolute errors of tps."""
        errors = [abs(step.tps_error_percent) for step in self.proved]
        return statistics.median(errors) if errors else None

    @property
    def order_holds(self) -> bool | None:
        """Whether configurations stand in the predicted order of tps, as far as predictions differ; None with nothing to order."""
        pairs = [(one, other) for index, one in enumerate(self.proved) for other in self.proved[index + 1 :]]
        apart = [(a, b) for a, b in pairs if abs(math.log(a.predicted.tps / b.predicted.tps)) > ALIKE_PERCENT / 100.0]
        if not apart:
            return None
        return all((a.predicted.tps > b.predicted.tps) == (a.measured.tps > b.measured.tps) for a, b in apart)

    @property
    def holds(self) -> bool | None:
        """Whether all that was asked for came as predicted; None while it was not measured, or where this machine was the limit."""
        verdicts = [step.verdict(self.engine) for step in self.steps if step.predicted is not None]
        if "off" in verdicts:
            return False
        if not verdicts or "machine" in verdicts or "" in verdicts:
            return None
        return self.order_holds is not False

    @property
    def verdict(self) -> str:
        """In a sentence or two."""
        wanted = [step for step in self.steps if step.predicted is not None]
        if not self.proved:
            return "Nothing was measured beside a prediction."
        verdicts = [step.verdict(self.engine) for step in wanted]
        head = {
            True: "The prediction holds",
            False: "The prediction does not hold",
            None: "It cannot be told yet whether the prediction holds",
        }[self.holds]
        limits = f"{TPS_PERCENT[self.engine]:g} % of its tps and {P95_PERCENT:g} % of its p95"
        words = f"{head}: {verdicts.count('holds')} of {len(wanted)} configurations within {limits}; median error of tps {self.median_error_percent:.1f} %."
        if "machine" in verdicts:
            words += f" In {verdicts.count('machine')} this machine's processors were all in use: it, not the storage, was the limit. Prove at a smaller scale, or when others rest."
        if "" in verdicts:
            words += f" {verdicts.count('')} not measured whole."
        return (
            words
            + {True: " They stand in the predicted order.", False: " They do NOT stand in the predicted order.", None: ""}[self.order_holds]
        )

    def to_dict(self) -> dict:
        """JSON-able, with errors and verdicts."""
        steps = [
            asdict(step)
            | {
                "tps_error_percent": step.tps_error_percent,
                "p95_error_percent": step.p95_error_percent,
                "verdict": step.verdict(self.engine),
            }
            for step in self.steps
        ]
        found = {key: value for key, value in asdict(self).items() if key != "steps"}
        return (
            {"schema": SCHEMA}
            | found
            | {"steps": steps, "holds": self.holds, "verdict": self.verdict, "median_error_percent": self.median_error_percent}
        )
