"""The demonstration's input: one recorded hour of an InnoDB server, and a day laid out from it.

The hour is real; the day around it is an assumption, and says so in its caveats. Both are the same
on every machine.
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import polars as pl

from headrace.errors import CouldNotRun
from headrace.workload.daily import (
    BACKUP_READ_KIB,
    MINUTES_OF_DAY,
    SHAPES,
    add_backup,
    describe_backup_caveat,
    list_backup_minutes,
)
from headrace.workload.model import OpenWorkload
from headrace.workload.points import make_points

RECORDED = Path(__file__).parent / "recorded"
SIDECAR = "innodb_tpcc_hour.toml"

DAY_SHAPE = "office"
BACKUP_START_HOUR = 2.0  # a guess: backups run at night
BACKUP_MINUTES = 30  # a guess
BACKUP_MIB_S = 50.0  # reads the 88 GiB of data in 30 minutes

CAPPED_CAVEAT = (
    "The server was recorded on a gp2 volume of 3,600 IOPS that "
    "was busy all the time, so these figures are what that volume "
    "gave: without the cap the server might have asked for more."
)
SIZES_CAVEAT = (
    "vmstat counts KiB, not I/Os, for the whole host. 16 KiB reads "
    "and 30 KiB writes follow from the volume having been at its "
    "3,600 IOPS; other published runs of this benchmark average 21 KiB an I/O, these 22.7 KiB."
)


def describe_recorded_hour() -> dict:
    """Returns the contents of SIDECAR: source, date, method and sizes of the recorded hour. Raises
    CouldNotRun."""
    return tomllib.loads(_read(SIDECAR).decode())


def recorded_hour() -> OpenWorkload:
    """Returns 3,599 seconds of an InnoDB TPC-C server on gp2 in 2018, one point a second, warm-up
    included. Raises CouldNotRun."""
    about = describe_recorded_hour()
    figures, source = _read_figures(about)
    seconds = figures.height
    points = make_points(
        range(seconds),
        [1.0] * seconds,
        figures["read_kib_s"] / about["read_kib"],
        figures["write_kib_s"] / about["write_kib"],
        [about["read_kib"]] * seconds,
        [about["write_kib"]] * seconds,
    )
    return OpenWorkload(
        name=about["name"],
        kind="recorded",
        points=points,
        size_gib=about["data_gib"] + about["redo_gib"],
        source=source | {"period_s": 1},
        caveats=(CAPPED_CAVEAT, SIZES_CAVEAT),
    )


def demo_day() -> OpenWorkload:
    """Makes a day at one-minute points: the recorded hour as the busy hour, scaled over an office
    day, and a nightly backup.

    The minutes after the warm-up are repeated through the day, each hour multiplied by the factor
    of the "office" shape (1 at ten o'clock, 0.1 at night). From 02:00, 30 minutes of 50 MiB/s of
    backup are added. Raises CouldNotRun.
    """
    about = describe_recorded_hour()
    figures, source = _read_figures(about)
    minutes = _average_minutes(figures, about["warm_up_s"])
    reads, writes = [], []
    for minute in range(MINUTES_OF_DAY):
        recorded = minutes[minute % len(minutes)]
        factor = SHAPES[DAY_SHAPE][minute // 60]
        reads.append(round(recorded[0] / about["read_kib"] * factor, 2))
        writes.append(round(recorded[1] / about["write_kib"] * factor, 2))
    sizes = [about["read_kib"]] * MINUTES_OF_DAY
    backup = list_backup_minutes(BACKUP_START_HOUR, BACKUP_MINUTES)
    add_backup(reads, sizes, backup, BACKUP_MIB_S)
    reads = [round(rate, 2) for rate in reads]
    sizes = [round(size, 3) for size in sizes]
    points = make_points(
        [60.0 * i for i in range(MINUTES_OF_DAY)],
        [60.0] * MINUTES_OF_DAY,
        reads,
        writes,
        sizes,
        [about["write_kib"]] * MINUTES_OF_DAY,
    )
    caveats = (
        f"Only one hour was recorded: its {len(minutes)} minutes after the "
        "warm-up are repeated and scaled by the hourly factors of an "
        f"{DAY_SHAPE} day ({SHAPES[DAY_SHAPE][0]:g} at night, 1 from 10:00): the day's shape is an assumption.",
        f"The backup is an assumption: {BACKUP_MINUTES} minutes from 02:00 at {BACKUP_MIB_S:g} MiB/s in {BACKUP_READ_KIB:g} KiB reads.",
        describe_backup_caveat(),
        CAPPED_CAVEAT,
        SIZES_CAVEAT,
        "Seconds were averaged to minutes: the busiest second of a minute is not in the figures.",
        "The size is an estimate: 88 GiB of data (1,000 warehouses) and 28 GiB of redo logs; leave room to grow.",
    )
    return OpenWorkload(
        name="innodb-tpcc-day",
        kind="recorded",
        points=points,
        size_gib=about["data_gib"] + about["redo_gib"],
        source=source | {"period_s": 60, "clock_start": "00:00:00"},
        caveats=caveats,
    )


def _read_figures(about: dict) -> tuple[pl.DataFrame, dict]:
    """Returns the recorded figures of the demo, and their source. Raises CouldNotRun if the file is
    missing."""
    content = _read(about["figures"])
    source = {
        "tool": "vmstat",
        "file": about["figures"],
        "sha256": hashlib.sha256(content).hexdigest(),
        "server": about["server"],
        "volume": about["volume"],
        "date": about["date"],
        "published_by": about["published_by"],
    }
    return pl.read_csv(content), source


def _average_minutes(figures: pl.DataFrame, from_s: int) -> list[tuple[float, float]]:
    """Returns the mean KiB/s read and written of each minute from `from_s`; the last minute has 59
    s, and its mean is of those."""
    by_minute = (
        figures.filter(pl.col("t_s") >= from_s)
        .group_by(pl.col("t_s") // 60, maintain_order=True)
        .agg(pl.col("read_kib_s").mean(), pl.col("write_kib_s").mean())
    )
    return list(by_minute.select("read_kib_s", "write_kib_s").iter_rows())


def _read(name: str) -> bytes:
    """Reads a file that comes with the package. Raises CouldNotRun if it is missing."""
    try:
        return (RECORDED / name).read_bytes()
    except OSError as error:
        rule = f"cannot be read: {error.strerror}"
        raise CouldNotRun(str(RECORDED / name), rule, "part of the installation", "Install Headrace again.") from None
