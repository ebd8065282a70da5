"""Right headlines of a scenario in a format, and a table of the doctor's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.operate.doctor import diagnosis
from headrace.operate.doctor.advising.gains import Counsel
from headrace.operate.doctor.model import Diagnosis
from headrace.operate.targets import SourceOptions, read_evidence
from recorded_queues import scenarios
from recorded_queues.printing import Format, volume_id, write
from recorded_queues.scenarios import Scenario

CAPS = {
    "gp2 credits gone": "volume-credits",
    "gp3 IOPS": "volume-iops",
    "gp3 MiB/s": "volume-throughput",
    "instance burst": "instance-credits",
    "IOPS cap, busy processors": "volume-iops",
    "degraded, later the cap": "volume-iops",
}
FAULT_WORDS = "EBS's fault"


@dataclass(frozen=True)
class Score:
    """A scenario in a format: what was said, and whether that is right. `blames_ebs`: EBS was blamed
    where it was innocent; `false_fine`: fine where it was not."""

    scenario: str
    form: str
    seed: int
    verdict: str
    subject: str
    headline: str
    right: bool
    blames_ebs: bool
    false_fine: bool


def diagnose(scenario: Scenario, path: Path) -> Diagnosis:
    """Returns the doctor's diagnosis of a file, asked as a user who knows the storage asks."""
    device = scenario.device
    if device is not None and path.suffix == ".json":
        device = "+".join(volume_id(number) for number in range(len(scenario.members)))
    options = SourceOptions(scenario.storage, scenario.instance, devices=(device,) if device else ())
    evidence = read_evidence(str(path), options)
    return diagnosis.diagnose(evidence, Counsel())


def is_right(name: str, form: Format, diagnosis: Diagnosis) -> bool:
    """Returns whether the headline is right. Facts that a format cannot show may be left open, with
    what would tell: bursts within an interval, and reads beside writes where the tool has one
    latency."""
    verdict, subject, words = diagnosis.verdict, diagnosis.findings[0].subject, diagnosis.headline
    seconds = float(form.name.split()[-2])
    if name in CAPS:
        return (verdict, subject) == ("binds", CAPS[name])
    if name == "instance burst, no --instance":
        return (verdict, subject) == ("cannot tell", "instance") and "--instance" in words
    if name == "degraded":
        open_ended = form.name == "CloudWatch, 300 s" and verdict == "cannot tell"
        return verdict == "degraded" or open_ended
    if name in ("steady", "growth"):
        return verdict == "fine"
    if name == "processors":
        # sar -d and CloudWatch say nothing of processors.
        return (verdict, subject) == ("not storage", "processors") or (
            form.name[:3] in ("sar", "Clo") and verdict == "fine"
        )
    if name in ("checkpoint bursts", "bursts of 6 s"):
        length = 40 if name == "checkpoint bursts" else 6
        if seconds * 2 <= length:
            return (verdict, subject) == ("binds", "volume-iops")
        return (verdict, subject) == ("cannot tell", "bursts")
    if name == "slow member":
        if form.suffix == "json":
            return verdict == "degraded" and volume_id(2) in words
        return verdict == "degraded" and "nvme3n1" in words
    if name == "first touch":
        return verdict != "degraded" and verdict != "fine" and "snapshot" in words
    if name == "first touch, bursts":
        return verdict != "degraded" and verdict != "fine"
    raise KeyError(name)


EBS_IS_GUILTY = ("degraded", "slow member", "degraded, later the cap")
STORAGE_IS_FINE = ("steady", "growth", "processors")


def score(scenario: Scenario, form: Format, seed: int, folder: Path) -> Score:
    """Prints the scenario, asks the doctor, and judges the answer."""
    diagnosis = diagnose(scenario, write(scenario, form, folder, seed))
    blames = diagnosis.verdict == "degraded" and scenario.name not in EBS_IS_GUILTY
    return Score(
        scenario.name,
        form.name,
        seed,
        diagnosis.verdict,
        diagnosis.findings[0].subject,
        diagnosis.headline,
        is_right(scenario.name, form, diagnosis),
        blames,
        diagnosis.verdict == "fine" and scenario.name not in STORAGE_IS_FINE,
    )


def score_all(builders: Iterable, forms: Iterable[Format], seeds: Iterable[int], folder: Path) -> list[Score]:
    """Every scenario in every format, of every seed."""
    scores = []
    for seed in seeds:
        for builder in builders:
            scenario = scenarios.make(builder, seed)
            scores += [score(scenario, form, seed, folder) for form in forms]
    return scores
