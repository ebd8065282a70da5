"""AWS Trusted Advisor's checks of EBS as they are published, current and withdrawn, computed for a
volume. Kept next to the doctor's verdicts because people ask why the two differ.

Checks whose algorithm is not published (those that show Compute Optimizer's answer) are in the
table and are not computed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import polars as pl

from headrace.base.packaged import read_rows
from headrace.base.units import DAY_S, MIB
from headrace.observe.evidence.model import Evidence, VolumeEvidence

TABLE = "trusted_advisor.csv"
MAGNETIC, UNUSED, NOT_OPTIMIZED, INSTANCE = "k3J2hns32g", "DAvU99Dc4C", "PPkZrjsH2q", "Bh2xRR2FGH"
OVER, UNDER, SNAPSHOTS = "COr6dfpM03", "COr6dfpM04", "H7IgTzjTYb"
# Figures in the rules' text: see the column `rule` of the table.
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
def read_rules() -> dict[str, AdvisorRule]:
    """Returns all checks by id, in the order of the table."""
    return {row["check_id"]: AdvisorRule(**row) for row in read_rows("headrace.operate.doctor", TABLE)}


@dataclass(frozen=True)
class AdvisedVolume:
    """The facts that the checks look at. `days`: the IOPS of the points of each past day, oldest
    first. `mib_s_periods`: MiB/s of all volumes of the instance in each five minutes of the last
    UTC day; `instance_mib_s`: its published maximum. `snapshot_age_days`: of the newest snapshot,
    None without one, or where `snapshots_known` is False."""

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
    """A check's answer on a volume. `result`: `ok`, `yellow`, `red`, or `not known` with `why`."""

    check_id: str
    volume: str
    result: str
    why: str
    rule: AdvisorRule = field(repr=False, compare=False, kw_only=True)


def check_volume(volume: AdvisedVolume) -> list[AdvisorAnswer]:
    """Returns the answers of all checks on a volume, in the order of the table."""
    checks = {
        MAGNETIC: _check_magnetic,
        UNUSED: _check_unused,
        NOT_OPTIMIZED: _check_optimized,
        INSTANCE: _check_instance,
        OVER: _check_unpublished,
        UNDER: _check_unpublished,
        SNAPSHOTS: _check_snapshots,
    }
    answers = []
    for check_id, rule in read_rules().items():
        result, why = checks[check_id](volume, rule)
        answers.append(AdvisorAnswer(check_id, volume.volume, result, why, rule=rule))
    return answers


def _check_magnetic(volume: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    """Returns the check's result and reason: yellow if a magnetic volume was above the limit, IOPS,
    and steady, on MAGNETIC_DAYS of the past MAGNETIC_OF days."""
    if volume.volume_type != "standard" or not volume.can_be_optimized:
        return "ok", "is not a magnetic volume on an instance that can be EBS-optimized"
    if len(volume.days) < MAGNETIC_DAYS:
        return "not known", f"{len(volume.days)} days are known, {MAGNETIC_DAYS} at least are looked at"
    busy = 0
    for day in volume.days[-MAGNETIC_OF:]:
        middle = statistics.median(day) if day else 0.0
        if middle > rule.limit and all(abs(value - middle) < MAGNETIC_VARIES * middle for value in day):
            busy += 1
    words = f"{busy} of the past {min(len(volume.days), MAGNETIC_OF)} days above {rule.limit:g} IOPS and steady"
    return ("yellow" if busy >= MAGNETIC_DAYS else "ok"), words


def _check_unused(volume: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    """Returns the check's result and reason: yellow if not attached, or if the mean of each of the
    past UNUSED_DAYS days was below the limit, IOPS."""
    if volume.boot:
        return "ok", "boot volumes are left out"
    if not volume.attached:
        return "yellow", "is not attached"
    if len(volume.days) < UNUSED_DAYS:
        return "not known", f"{len(volume.days)} days are known, {UNUSED_DAYS} are looked at"
    idle = [statistics.fmean(day) < rule.limit if day else True for day in volume.days[-UNUSED_DAYS:]]
    return ("yellow" if all(idle) else "ok"), f"{sum(idle)} of the past {UNUSED_DAYS} days below {rule.limit:g} IOPS"


def _check_optimized(volume: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    """Returns the check's result and reason: yellow if an instance with an io1 or io2 volume could
    be EBS-optimized and is not."""
    if not volume.volume_type.startswith(("io1", "io2")) or not volume.attached:
        return "ok", "is not an attached io1 or io2 volume"
    if volume.can_be_optimized and not volume.optimized:
        return "yellow", "its instance can be EBS-optimized and is not"
    return "ok", "its instance is EBS-optimized, or cannot be"


def _check_instance(volume: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    """Returns the check's result and reason: yellow if more than half of the five-minute periods
    were above the limit, percent of the instance's MiB/s."""
    if volume.instance_mib_s is None or not volume.mib_s_periods:
        return "not known", "five-minute periods of a UTC day and the instance's maximum are needed"
    above = sum(value > rule.limit / 100.0 * volume.instance_mib_s for value in volume.mib_s_periods)
    words = (
        f"{above} of {len(volume.mib_s_periods)} periods above {rule.limit:g} % of {volume.instance_mib_s:,.4g} MiB/s"
    )
    return ("yellow" if above > INSTANCE_PERIODS * len(volume.mib_s_periods) else "ok"), words


def _check_unpublished(volume: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    return "not known", "shows Compute Optimizer's answer, whose algorithm is not published"


def _check_snapshots(volume: AdvisedVolume, rule: AdvisorRule) -> tuple[str, str]:
    """Returns the check's result and reason: red without a snapshot or with one older than the
    limit, days; yellow if it is older than SNAPSHOT_YELLOW_DAYS."""
    if not volume.snapshots_known:
        return "not known", "snapshots were not asked for"
    if volume.snapshot_age_days is None:
        return "red", "has no snapshot"
    words = f"the newest snapshot is {volume.snapshot_age_days:,.1f} days old"
    if volume.snapshot_age_days > rule.limit:
        return "red", words
    return ("yellow" if volume.snapshot_age_days > SNAPSHOT_YELLOW_DAYS else "ok"), words


def make_advised_volume(volume: VolumeEvidence, evidence: Evidence) -> AdvisedVolume:
    """Returns the facts for the checks from recorded rows: the whole UTC days of the volume, and
    the five-minute periods of the last one for all volumes that were recorded (an array once)."""
    days = _split_days(volume.rows)
    whole = [day for day, rows in days.items() if float(rows["duration_s"].sum()) >= WHOLE_DAY * DAY_S]
    periods: list[float] = []
    if whole:
        volumes = [other for other in evidence.volumes if other.facts.role != "member"]
        rows = [other.rows.filter(pl.col("t_unix") // DAY_S == whole[-1]) for other in volumes if other.rows.height]
        periods = _sum_mib_s_periods(rows)
    limits = volume.facts.limits
    most = limits.instance_burst_bytes_s / MIB if limits and limits.instance_burst_bytes_s else None
    # An array is named by how many of which: 4xgp3:100.
    kind = (volume.facts.storage or "").partition(":")[0].rpartition("x")[2]
    iops = [(days[day]["read_iops"] + days[day]["write_iops"]).to_list() for day in whole]
    return AdvisedVolume(volume.facts.name, kind, days=iops, mib_s_periods=periods, instance_mib_s=most)


def _split_days(rows: pl.DataFrame) -> dict[float, pl.DataFrame]:
    """Returns the rows by UTC day, oldest first."""
    days = rows.with_columns(day=pl.col("t_unix") // DAY_S).partition_by("day", as_dict=True, include_key=False)
    return {float(str(day)): days[(day,)] for (day,) in sorted(days)}


def _sum_mib_s_periods(volumes: Sequence[pl.DataFrame]) -> list[float]:
    """Returns MiB/s of these volumes together: the mean of each in five minutes, summed."""
    total = pl.concat(
        rows.group_by(period=pl.col("t_unix") // FIVE_MINUTES_S).agg(
            mib_s=((pl.col("read_mib_s") + pl.col("write_mib_s")) * pl.col("duration_s")).sum()
            / pl.col("duration_s").sum()
        )
        for rows in volumes
    )
    return total.group_by("period").agg(pl.col("mib_s").sum()).sort("period")["mib_s"].to_list()


WHOLE_DAY = 0.99  # of a day, as workload/observed.py calls a recording whole
