"""AWS Trusted Advisor's checks of EBS as they are published, current and withdrawn: what it would
say of a volume. Kept next to the doctor's verdicts because people ask why the two differ.

Checks whose algorithm is not published (those that show Compute Optimizer's answer) are in the
table and are not computed.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import polars as pl

from headrace.base.units import DAY_S, MIB
from headrace.operate.evidence.model import VolumeEvidence

TABLE = "trusted_advisor.csv"
MAGNETIC, UNUSED, NOT_OPTIMIZED, INSTANCE = "k3J2hns32g", "DAvU99Dc4C", "PPkZrjsH2q", "Bh2xRR2FGH"
OVER, UNDER, SNAPSHOTS = "COr6dfpM03", "COr6dfpM04", "H7IgTzjTYb"
# Of the rules' text: see the column `rule` of the table.
MAGNETIC_VARIES, MAGNETIC_DAYS, MAGNETIC_OF = 0.10, 7, 14
UNUSED_DAYS = 7
INSTANCE_PERIODS = 0.5
SNAPSHOT_YELLOW_DAYS = 7.0
FIVE_MINUTES_S = 300.0


@dataclass(frozen=True)
class AdvisorRule:
    """One row of the table. `until`: the day it was withdrawn, "" while it is current."""

    check_id: str
    name: str
    category: str
    status: str
    until: str
    rule: str
    threshold: str
    unit: str
    needs: str
    source: str
    as_of: str
    confirmed: str
    note: str

    @property
    def limit(self) -> float:
        """The threshold as a number."""
        return float(self.threshold)


@cache
def rules() -> dict[str, AdvisorRule]:
    """All checks by id, in the order of the table."""
    text = files(__package__).joinpath(TABLE).read_text(encoding="utf-8")
    return {row["check_id"]: AdvisorRule(**row) for row in csv.DictReader(text.splitlines())}


@dataclass(frozen=True)
class AdvisedVolume:
    """What the checks look at. `days`: of each of the past days, oldest first, the IOPS of its
    points. `mib_s_periods`: of the preceding UTC day, MiB/s of all volumes of the instance, of each
    five minutes; `instance_mib_s`: its published maximum. `snapshot_age_days`: of the
    newest, None where there is none, and not asked where `snapshots_known` is False."""

    volume: str
    volume_type: str
    attached: bool = True
    boot: bool = False
    can_be_optimized: bool = True
    optimized: bool = True
    days: Sequence[Sequence[float]] = ()
    mib_s_periods: Sequence[float] = ()
    instance_mib_s: float | None = None
    snapshot_age_days: float | None = None
    snapshots_known: bool = False


@dataclass(frozen=True)
class AdvisorAnswer:
    """What a check says of a volume. `result`: `ok`, `yellow`, `red`, or `not known` with `why`."""

    check_id: str
    volume: str
    result: str
    why: str
    rule: AdvisorRule = field(repr=False, compare=False, kw_only=True)


def advised(one: AdvisedVolume) -> list[AdvisorAnswer]:
    """What every check says of one volume, in the order of the table."""
    looked = {
        MAGNETIC: _magnetic,
        UNUSED: _unused,
        NOT_OPTIMIZED: _not_optimized,
        INSTANCE: _instance,
        OVER: _not_published,
        UNDER: _not_published,
        SNAPSHOTS: _snapshots,
    }
    found = []
    for check_id, rule in rules().items():
        result, why = looked[check_id](one, rule)
        found.append(AdvisorAnswer(check_id, one.volume, result, why, rule=rule))
    return found


def _magnetic(one: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    if one.volume_type != "standard" or not one.can_be_optimized:
        return "ok", "is not a magnetic volume on an instance that can be EBS-optimized"
    if len(one.days) < MAGNETIC_DAYS:
        return "not known", f"{len(one.days)} days are known, {MAGNETIC_DAYS} at least are looked at"
    busy = 0
    for day in one.days[-MAGNETIC_OF:]:
        middle = statistics.median(day) if day else 0.0
        if middle > rule.limit and all(abs(value - middle) < MAGNETIC_VARIES * middle for value in day):
            busy += 1
    told = f"{busy} of the past {min(len(one.days), MAGNETIC_OF)} days above {rule.limit:g} IOPS and steady"
    return ("yellow" if busy >= MAGNETIC_DAYS else "ok"), told


def _unused(one: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    if one.boot:
        return "ok", "boot volumes are left out"
    if not one.attached:
        return "yellow", "is not attached"
    if len(one.days) < UNUSED_DAYS:
        return "not known", f"{len(one.days)} days are known, {UNUSED_DAYS} are looked at"
    idle = [statistics.fmean(day) < rule.limit if day else True for day in one.days[-UNUSED_DAYS:]]
    return ("yellow" if all(idle) else "ok"), f"{sum(idle)} of the past {UNUSED_DAYS} days below {rule.limit:g} IOPS"


def _not_optimized(one: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    if not one.volume_type.startswith(("io1", "io2")) or not one.attached:
        return "ok", "is not an attached io1 or io2 volume"
    if one.can_be_optimized and not one.optimized:
        return "yellow", "its instance can be EBS-optimized and is not"
    return "ok", "its instance is EBS-optimized, or cannot be"


def _instance(one: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    if one.instance_mib_s is None or not one.mib_s_periods:
        return "not known", "five-minute periods of a UTC day and the instance's maximum are needed"
    above = sum(value > rule.limit / 100.0 * one.instance_mib_s for value in one.mib_s_periods)
    told = f"{above} of {len(one.mib_s_periods)} periods above {rule.limit:g} % of {one.instance_mib_s:,.4g} MiB/s"
    return ("yellow" if above > INSTANCE_PERIODS * len(one.mib_s_periods) else "ok"), told


def _not_published(one: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    return "not known", "shows Compute Optimizer's answer, whose algorithm is not published"


def _snapshots(one: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    if not one.snapshots_known:
        return "not known", "snapshots were not asked for"
    if one.snapshot_age_days is None:
        return "red", "has no snapshot"
    told = f"the newest snapshot is {one.snapshot_age_days:,.1f} days old"
    if one.snapshot_age_days > rule.limit:
        return "red", told
    return ("yellow" if one.snapshot_age_days > SNAPSHOT_YELLOW_DAYS else "ok"), told


def of_evidence(one: VolumeEvidence) -> AdvisedVolume:
    """What the rows of a volume tell the checks: whole UTC days, and the five-minute periods of the
    last of them."""
    rows = one.rows.with_columns(
        (pl.col("t_unix") // DAY_S).alias("day"),
        (pl.col("t_unix") // FIVE_MINUTES_S).alias("period"),
        (pl.col("read_iops") + pl.col("write_iops")).alias("iops"),
        (pl.col("read_mib_s") + pl.col("write_mib_s")).alias("mib_s"),
    )
    seconds = rows.group_by("day").agg(pl.col("duration_s").sum()).sort("day")
    whole = [day for day, covered in seconds.iter_rows() if covered >= WHOLE_DAY * DAY_S]
    days = [rows.filter(pl.col("day") == day)["iops"].to_list() for day in whole]
    periods: list[float] = []
    if whole:
        last = rows.filter(pl.col("day") == whole[-1])
        periods = last.group_by("period").agg(pl.col("mib_s").mean()).sort("period")["mib_s"].to_list()
    limits = one.facts.limits
    most = limits.instance_burst_bytes_s / MIB if limits and limits.instance_burst_bytes_s else None
    kind = (one.facts.storage or "").partition(":")[0]
    return AdvisedVolume(one.facts.name, kind, days=days, mib_s_periods=periods, instance_mib_s=most)


WHOLE_DAY = 0.99  # of a day, as workload/observed.py calls a recording whole
