"""The result of a proof as plain values, its verdict, and the folder it is written to.

A proof is a folder with proof.json, predictions.json, workload.toml and the run store of what was
measured.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import statistics
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import msgspec

from headrace.base import settings
from headrace.base.encoding import Document
from headrace.base.files import write_whole
from headrace.base.units import format_percent
from headrace.bench.store.store import encode_json
from headrace.experiment.neighbours import OTHERS_SHARE
from headrace.experiment.request import Configuration, refuse

SCHEMA, PROOF_FILE = "headrace-proof/1", "proof.json"
# Bounds of a prediction that holds, percent: nine of ten configurations that no calibration had
# seen were this near (docs/semantics.md, Proving at a smaller scale).
TPS_PERCENT = {"innodb": 10.0, "myrocks": 12.0}
P95_PERCENT = 20.0  # percent
# Two configurations whose predictions are nearer than this are not ranked: their errors decide.
ALIKE_PERCENT = 8.0


@dataclass(frozen=True)
class PredictedResult:
    """Predicted means after the warm-up.

    `tps_low`, `tps_high`: 80 % interval of the mean. `binds`: the cap of most seconds. `series`:
    tps of each second, the warm-up included.
    """

    tps: float
    tps_low: float | None
    tps_high: float | None
    p95_ms: float
    ios_per_tx: float
    binds: str
    warnings: tuple[str, ...] = ()
    series: tuple[float, ...] = ()


@dataclass(frozen=True)
class MeasuredResult:
    """Means of a run after the warm-up. `run`: its id in the proof's run store; `seconds`: those
    that count.

    `state`: complete, interrupted or broken. `processors_bound`: all processors of this machine
    were in use, or other programs had much of them, so that the figures say little of the storage.
    """

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
class Step(Document, computed=("tps_error_percent", "p95_error_percent")):
    """A configuration of the proof. `role`: calibration, winner, runner-up, current, or given;
    `full`: the configuration before scaling. `predicted` is None for the calibration, `measured`
    until it has run."""

    role: str
    full: Configuration
    configuration: Configuration
    predicted: PredictedResult | None = None
    measured: MeasuredResult | None = None

    @property
    def tps_error_percent(self) -> float | None:
        """Returns predicted over measured tps, less one, percent; None if one is missing."""
        if self.predicted is None or self.measured is None or not self.measured.tps > 0:
            return None
        return 100.0 * (self.predicted.tps / self.measured.tps - 1.0)

    @property
    def inside_interval(self) -> bool | None:
        """Returns whether the measured tps lie in the predicted 80 % interval; None if either is
        missing."""
        low, high = (None, None) if self.predicted is None else (self.predicted.tps_low, self.predicted.tps_high)
        if low is None or high is None or self.measured is None:
            return None
        return low <= self.measured.tps <= high

    @property
    def p95_error_percent(self) -> float | None:
        """Returns predicted over measured 95th percentile of response times, less one, percent;
        None if one is missing."""
        if self.predicted is None or self.measured is None or not self.measured.p95_ms:
            return None
        return 100.0 * (self.predicted.p95_ms / self.measured.p95_ms - 1.0)

    def judge_result(self, engine: str) -> str:
        """Returns "holds", "off", "machine" (off, and the processors of this machine limited the
        run), or "" if it was not predicted or not measured completely."""
        error, p95 = self.tps_error_percent, self.p95_error_percent
        if error is None or self.measured is None or self.measured.state != "complete":
            return ""
        if abs(error) <= TPS_PERCENT[engine] and (p95 is None or abs(p95) <= P95_PERCENT):
            return "holds"
        return "machine" if self.measured.processors_bound else "off"


@dataclass(frozen=True)
class StoredPredictions:
    """The file of the predictions, its SHA-256, and the time in UTC at which it was on the disk:
    before anything but the calibration was run."""

    file: str
    sha256: str
    at: str


@dataclass(frozen=True)
class Proof(Document, schema=SCHEMA, computed=("holds", "verdict", "median_error_percent")):
    """Configurations predicted and measured. `state`: complete, interrupted or broken.

    `source`: the plan or workload; `load`: the stand-in, in words. `data_scale`, `rate_scale`:
    factors. `predictions`: None before they are stored. `notes`: what a reader must know.
    """

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
    predictions: StoredPredictions | None = None
    notes: tuple[str, ...] = ()

    def judge(self, step: Step) -> str:
        """Returns the verdict of a step as `judge_result`, but "machine" for "off" if the
        processors limited the run that was calibrated on."""
        verdict = step.judge_result(self.engine)
        disturbed = any(
            other.predicted is None and other.measured is not None and other.measured.processors_bound
            for other in self.steps
        )
        return "machine" if verdict == "off" and disturbed else verdict

    @property
    def proved(self) -> tuple[Step, ...]:
        """Returns the steps that were predicted and measured."""
        return tuple(step for step in self.steps if step.tps_error_percent is not None)

    @property
    def median_error_percent(self) -> float | None:
        """Returns the median of the absolute errors of tps, percent; None without any."""
        errors = [abs(step.tps_error_percent or 0.0) for step in self.proved]
        return statistics.median(errors) if errors else None

    @property
    def order_holds(self) -> bool | None:
        """Returns whether the measured tps have the predicted order; None if no predictions
        differ."""
        tps = [(step.predicted.tps, step.measured.tps) for step in self.steps if step.predicted and step.measured]
        apart = [
            (first, second)
            for first, second in combinations([pair for pair in tps if pair[1] > 0], 2)
            if abs(math.log(first[0] / second[0])) > ALIKE_PERCENT / 100.0
        ]
        return all((a[0] > b[0]) == (a[1] > b[1]) for a, b in apart) if apart else None

    @property
    def holds(self) -> bool | None:
        """Returns whether all predictions hold, in the predicted order; None if one was not
        measured or this machine was the limit."""
        verdicts = [self.judge(step) for step in self.steps if step.predicted is not None]
        if "off" in verdicts:
            return False
        if not verdicts or "machine" in verdicts or "" in verdicts:
            return None
        return self.order_holds is not False

    @property
    def verdict(self) -> str:
        """Returns the outcome of the proof in sentences."""
        if not self.proved:
            return "Nothing was measured that had been predicted."
        verdicts = [self.judge(step) for step in self.steps if step.predicted is not None]
        head = {
            True: "The prediction holds",
            False: "The prediction does not hold",
            None: "It cannot be told yet whether the prediction holds",
        }[self.holds]
        limits = f"{TPS_PERCENT[self.engine]:g} % of its tps and {P95_PERCENT:g} % of its p95"
        error = f"median error of tps {self.median_error_percent:.1f} %"
        sentences = [f"{head}: {verdicts.count('holds')} of {len(verdicts)} configurations within {limits}; {error}."]
        outside = sum(step.inside_interval is False for step in self.proved)
        if outside:
            sentences.append(f"{outside} of {len(self.proved)} measured outside the 80 % interval that was predicted.")
        if "machine" in verdicts:
            sentences.append(
                f"In {verdicts.count('machine')} this machine's processors were all in use, or other programs used "
                f"more than {format_percent(OTHERS_SHARE)} of them: it, not the storage, was the limit. Prove at a smaller "
                "scale, or when others rest."
            )
        if "" in verdicts:
            sentences.append(f"{verdicts.count('')} not measured whole.")
        if self.order_holds is not None:
            sentences.append(f"They {'stand' if self.order_holds else 'do NOT stand'} in the predicted order.")
        return " ".join(sentences)

    def list_entries(self) -> dict[str, object]:
        """Returns the contents of proof.json, each step with its verdict."""
        steps = [step.to_dict() | {"verdict": self.judge(step)} for step in self.steps]
        return super().list_entries() | {"steps": steps}


def get_default_folder() -> Path:
    """Returns $HEADRACE_PROOFS, else headrace/proofs in the user's data folder, and makes it if it
    is missing. Raises CouldNotRun."""
    return _make_folder(settings.get_folder("HEADRACE_PROOFS"))


def begin(folder: str | os.PathLike | None) -> Path:
    """Makes the folder of a new proof in `folder` (None: the default) and returns it. Raises
    CouldNotRun."""
    base = get_default_folder() if folder is None else _make_folder(Path(folder).absolute())
    return _make_folder(base / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")


def _make_folder(folder: Path) -> Path:
    """Makes a folder with its parents if it is missing, and returns it. Raises CouldNotRun."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"cannot be made: {error.strerror}"
        raise refuse.run(str(folder), rule, "Name another: HEADRACE_PROOFS or --folder.") from None
    return folder


def write(proof: Proof) -> Path:
    """Writes proof.json, whole or not at all. Raises CouldNotRun."""
    path = Path(proof.folder) / PROOF_FILE
    write_whole(path, encode_json(proof.to_dict()))
    return path


def read(path: str | os.PathLike) -> Proof:
    """Returns a proof from its folder or its proof.json. Raises InputError, CouldNotRun."""
    path = Path(path)
    path = path / PROOF_FILE if path.is_dir() else path
    try:
        document = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA:
            raise ValueError(document["schema"])
        return msgspec.convert(document, Proof)
    except OSError as error:
        raise refuse.run(str(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, msgspec.ValidationError):
        raise refuse.input(str(path), f"is not a proof ({SCHEMA})", "headrace prove writes one.") from None
