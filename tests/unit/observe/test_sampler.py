"""Samples and their rates: counters of this machine, one time line, bounded memory, devices that go
away.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CouldNotRun, InputError
from headrace.mysql.statements import parse_number
from headrace.observe.live.host import FIELDS, find_device, find_volume_id, read_disks, read_host
from headrace.observe.live.sampler import Sampler
from headrace.observe.live.samples import (
    PART_ROWS,
    LabRows,
    Samples,
    SampleStore,
    Spill,
    is_level,
    write_disk_csv,
    write_status_csv,
)

T0 = 1_700_000_000


def samples(
    status: dict | None = None, disks: dict | None = None, host: dict | None = None, interval_s: float = 1.0
) -> Samples:
    """Returns samples of columns by name; disks: kernel name to columns."""
    frames = [
        pl.DataFrame({"device": [name] * len(columns["t_unix"])} | columns) for name, columns in (disks or {}).items()
    ]
    disk = (
        pl.concat(frames).select("t_unix", "device", *FIELDS)
        if frames
        else pl.DataFrame(schema={"t_unix": pl.Float64, "device": pl.String})
    )
    empty = {"t_unix": []}
    return Samples(
        *(pl.DataFrame(status or empty, strict=False), disk, pl.DataFrame(host or empty, strict=False)), interval_s
    )


def disk_columns(times, **given) -> dict:
    return {"t_unix": [float(t) for t in times]} | {
        name: [float(x) for x in given.get(name, [0] * len(times))] for name in FIELDS
    }


def a_disk() -> str:
    """A device of this machine that has counted something."""
    return next(name for name, row in read_disks(None).items() if row["reads"])


def test_rates_are_differences_over_the_time_they_really_took():
    status = {
        "t_unix": [T0 + 0.01, T0 + 1.06, T0 + 2.01],
        "com_commit": [100.0, 205.0, 300.0],
        "threads_running": [3.0, 5.0, 4.0],
    }
    rate_table = samples(status).compute_rates()
    assert rate_table["t_s"].to_list() == [0.0, 1.0] and rate_table["t_unix"].to_list() == [T0, T0 + 1]
    assert rate_table["com_commit_per_s"].to_list() == pytest.approx([105 / 1.05, 95 / 0.95], rel=1e-6)
    assert rate_table["threads_running"].to_list() == [5.0, 4.0]  # a level: at the end of the row


def test_a_missing_sample_and_a_restart_are_null():
    status = {"t_unix": [float(T0 + at) for at in (0, 1, 3, 4, 5)], "questions": [10.0, 20.0, 40.0, 5.0, 9.0]}
    rate_table = samples(status).compute_rates()
    assert rate_table["t_s"].to_list() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert rate_table["questions_per_s"].to_list() == [10.0, None, None, None, 4.0]


def test_sources_lie_on_one_time_line():
    host = {"t_unix": [T0 + 1.0, T0 + 2.0], "user_s": [0.0, 1.5], "load1": [1.0, 2.0]}
    disks = {"a": disk_columns([T0 + 2, T0 + 3], reads=[0, 10])}
    rate_table = samples({"t_unix": [float(T0), T0 + 1.0], "questions": [0.0, 7.0]}, disks, host).compute_rates()
    assert rate_table["t_s"].to_list() == [0.0, 1.0, 2.0]
    assert rate_table["questions_per_s"].to_list() == [7.0, None, None] and rate_table["user_cpus"].to_list() == [
        None,
        1.5,
        None,
    ]
    assert rate_table["read_iops"].to_list() == [None, None, 10.0] and rate_table["load1"].to_list() == [
        None,
        2.0,
        None,
    ]


def test_disks_add_up_and_waits_are_weighted():
    entry = disk_columns(
        [T0, T0 + 1],
        reads=[0, 100],
        read_ms=[0, 300],
        read_bytes=[0, 100 * 16_384],
        weighted_ms=[0, 2_000],
        io_ms=[0, 500],
    )
    two = disk_columns(
        [T0, T0 + 1],
        reads=[0, 300],
        read_ms=[0, 300],
        read_bytes=[0, 300 * 16_384],
        weighted_ms=[0, 500],
        io_ms=[0, 900],
    )
    row = samples(disks={"a": entry, "b": two}).compute_rates().row(0, named=True)
    assert (row["read_iops"], row["read_mib_s"], row["queue"], row["busy"]) == (400.0, 6.25, 2.5, 0.9)
    assert row["read_wait_ms"] == pytest.approx(600 / 400) and row["write_wait_ms"] is None
    assert (row["read_iops:a"], row["read_wait_ms:a"], row["read_iops:b"], row["read_wait_ms:b"]) == (
        100.0,
        3.0,
        300.0,
        1.0,
    )


def test_a_row_that_one_disk_lacks_has_no_sum():
    entry = disk_columns([T0, T0 + 1, T0 + 2], reads=[0, 10, 20])
    two = disk_columns([T0, T0 + 1], reads=[0, 30])
    rate_table = samples(disks={"a": entry, "b": two}).compute_rates()
    assert rate_table["read_iops"].to_list() == [40.0, None] and rate_table["read_iops:a"].to_list() == [10.0, 10.0]


def test_milliseconds_of_diskstats_wrap_at_32_bits():
    """Documentation/admin-guide/iostats.rst: these counters are 32 bit."""
    columns = disk_columns([T0, T0 + 1], reads=[0, 10], read_ms=[2**32 - 100, 100], weighted_ms=[2**32 - 1_000, 1_000])
    row = samples(disks={"a": columns}).compute_rates().row(0, named=True)
    assert row["read_wait_ms"] == pytest.approx(20.0) and row["queue"] == pytest.approx(2.0)
    # Counts do not wrap: a lower one is a device attached again.
    again = samples(disks={"a": disk_columns([T0, T0 + 1], reads=[50, 10])}).compute_rates()
    assert again["read_iops"].to_list() == [None]


def test_nothing_gives_no_rates():
    assert samples().compute_rates().height == 0
    assert samples({"t_unix": [float(T0)], "questions": [1.0]}).compute_rates().height == 0


@given(
    counts=st.lists(st.integers(0, 10**6), min_size=2, max_size=50),
    jitter=st.lists(st.floats(0, 0.4), min_size=50, max_size=50),
)
def test_rates_times_their_durations_are_the_counts(counts, jitter):
    times = [T0 + at + late for at, late in zip(range(len(counts)), jitter, strict=False)]
    total = [float(sum(counts[: at + 1])) for at in range(len(counts))]
    questions_per_s = samples({"t_unix": times, "questions": total}).compute_rates()["questions_per_s"]
    took = [b - a for a, b in zip(times, times[1:], strict=False)]
    # Times near 1.7e9 hold 2.4e-7 s; of at least 0.6 s that is 4e-7.
    assert [rate * length for rate, length in zip(questions_per_s, took, strict=True)] == pytest.approx(
        counts[1:], rel=1e-6, abs=1e-6
    )


def test_levels_and_counters():
    levels = (
        "threads_running",
        "innodb_buffer_pool_pages_free",
        "innodb_checkpoint_age",
        "innodb_row_lock_current_waits",
        "open_tables",
    )
    counters = ("com_commit", "innodb_buffer_pool_pages_flushed", "innodb_pages_read", "bytes_sent", "opened_tables", "innodb_row_lock_time",
                "threads_created", "innodb_lsn_current", "innodb_redo_log_current_lsn")  # fmt: skip
    assert all(is_level(name) for name in levels) and not any(is_level(name) for name in counters)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0.0), ("-5", -5.0), ("18446744073709551615", 2.0**64), ("0.25", 0.25), ("1_000", None), ("nan", None), ("inf", None), ("ON", None),
     ("", None), ("2024-01-01 10:00:00", None), ("0000-0000:00000000", None), ("1e5x", None), (7, 7.0), (None, None)],
)  # fmt: skip
def test_numbers_of_status_variables(text, value):
    assert parse_number(text) == value


# --- the store ----------------------------------------------------------------------------------------------------------------


def test_long_series_go_to_disk_and_come_back_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    spill = Spill()
    store = SampleStore("status", spill)
    rows = 2 * PART_ROWS + 10
    for at in range(rows):
        row = {"t_unix": float(at), "always": 2.0 * at}
        if at >= PART_ROWS + 5:
            row["later"] = float(at)
        if at == 3:
            del row["always"]
        store.add(row)
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    frame = store.collect_frame()
    assert frame["t_unix"].to_list() == [float(at) for at in range(rows)]
    assert frame["always"].null_count() == 1 and frame["always"][3] is None
    assert frame["later"].null_count() == PART_ROWS + 5 and frame["later"][rows - 1] == rows - 1
    spill.remove()
    assert not list(tmp_path.iterdir())


# --- this machine -------------------------------------------------------------------------------------------------------------


def test_counters_of_this_machine():
    host = read_host()
    assert all(math.isfinite(value) and value >= 0 for value in host.values()) and host["memory_available_bytes"] > 1e6
    # All processors together cannot have lived longer than the machine times their number.
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    lived = sum(host[name] for name in ("user_s", "system_s", "iowait_s", "idle_s", "steal_s"))
    assert lived <= 1.1 * uptime * os.cpu_count() + 10
    disk = read_disks([a_disk()])[a_disk()]
    sysfs = [int(word) for word in Path(f"/sys/class/block/{a_disk()}/stat").read_text().split()]
    assert disk["reads"] <= sysfs[0] and disk["read_bytes"] <= 512 * sysfs[2]
    assert find_volume_id("loop0") is None and find_device("/nonexistent") is None


def test_the_sampler_stands_on_whole_seconds():
    with Sampler(None, [f"/dev/{a_disk()}"], 0.2) as sampler:
        time.sleep(1.3)
        assert threading.active_count() > 1
    recording = sampler.stop()
    assert sampler.stop() is recording and not sampler.ended
    assert recording.status.height == 0 and recording.disk["device"].unique().to_list() == [a_disk()]
    for frame in (recording.disk, recording.host):
        # Four of the six that fit: a busy machine may miss some, and says so.
        assert frame.height >= 4 or any("missed" in note for note in recording.notes)
        ticks = [round(t / 0.2) for t in frame["t_unix"]]
        assert len(set(ticks)) == len(ticks)
        # Sampled at or after the tick it stands for.
        assert all(t >= 0.2 * math.floor(t / 0.2) for t in frame["t_unix"])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-sample")]
    assert recording.compute_rates().height >= 1


class SomeLab:
    """A lab with a row for each second up to `now`; `gone` is a volume that it forgets."""

    def __init__(self) -> None:
        self.now, self.gone, self.closed = int(time.time()) + 60, "", False

    def describe(self, volume):
        if volume == "none":
            raise InputError(volume, "is not there")

    def metrics(self, volume, resolution, since):
        if volume == self.gone:
            raise InputError(volume, "was deleted")
        return {"columns": ["t_s", "reads"], "rows": [[t_s, 1] for t_s in range(since, self.now + 1)]}

    def close(self):
        self.closed = True


def test_rows_of_the_lab_are_kept_to_the_end_each_once():
    lab = SomeLab()
    first_read = lab.now
    with Sampler(None, lab=(rows := LabRows(lab, ["data", "log"]))) as sampler:
        rows.read()
        lab.now, lab.gone = lab.now + 5, "log"
    recording = sampler.stop()
    seconds = recording.lab["data"]["t_s"].to_list()
    assert seconds == list(range(seconds[0], lab.now + 1)) and lab.closed
    assert recording.lab["log"]["t_s"][-1] == first_read and any(
        "log: no figures from" in note for note in recording.notes
    )
    with pytest.raises(InputError, match="is not there"):
        LabRows(lab, ["none"])


@pytest.mark.parametrize(
    ("devices", "interval", "words"),
    [(["/dev/nonesuch"], 1.0, "not a block device"), (["/etc/passwd"], 1.0, "not a block device"), ([""], 1.0, "not a block device"), ([], 0.0, "must be 0.1"),
     ([], math.nan, "must be 0.1"), ([], 1e9, "must be 0.1")],
)  # fmt: skip
def test_what_cannot_be_sampled(devices, interval, words):
    with pytest.raises(InputError, match=words):
        Sampler(None, devices, interval)


def test_a_device_named_twice_is_refused():
    with pytest.raises(InputError, match="twice|once more"):
        Sampler(None, [a_disk(), f"/dev/{a_disk()}"])


def test_a_device_that_goes_away_ends_its_series_alone(tmp_path):
    """The kernel keeps loop devices listed when they are detached, so a partition on one is taken
    away.
    """
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    result = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True)
    if result.returncode or shutil.which("addpart") is None:
        pytest.skip(
            f"losetup: {result.stderr.strip()} (needs root, a free loop device, addpart and delpart of util-linux)"
        )
    loop = result.stdout.strip()
    try:
        subprocess.run(["addpart", loop, "1", "2048", "4096"], check=True)
        part = f"{loop.removeprefix('/dev/')}p1"
        for _ in range(50):
            if part in read_disks(None):
                break
            time.sleep(0.05)
        with Sampler(None, [f"/dev/{part}", a_disk()], 0.1) as sampler:
            time.sleep(0.5)
            subprocess.run(["delpart", loop, "1"], check=True)
            for _ in range(100):
                if part in sampler.ended:
                    break
                time.sleep(0.05)
            time.sleep(0.5)
        recording = sampler.stop()
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)
    assert sampler.ended == {part}
    assert any("is gone" in note for note in recording.notes)
    lengths = dict(recording.disk.group_by("device").len().iter_rows())
    assert lengths[a_disk()] > lengths[part] >= 2


def test_files_are_whole_or_not_there(tmp_path):
    columns = disk_columns([T0 + 0.25, T0 + 1.5], reads=[1, 2])
    given = samples(
        {"t_unix": [T0 + 0.123456, T0 + 1.0], "questions": [2.0**53, 2.0**60], "half": [0.5, None]}, {"a": columns}
    )
    write_status_csv(given, tmp_path / "status.csv")
    assert (tmp_path / "status.csv").read_text().splitlines() == [
        "time,questions,half", f"{T0}.123456,9007199254740992,0.500000", f"{T0 + 1}.000000,1152921504606846976,"
    ]  # fmt: skip
    write_disk_csv(given, tmp_path / "disk.csv")
    assert (tmp_path / "disk.csv").read_text().splitlines()[0] == "time,device," + ",".join(FIELDS)
    with pytest.raises(CouldNotRun, match="cannot be written"):
        write_disk_csv(given, tmp_path / "no" / "disk.csv")
    assert sorted(os.listdir(tmp_path)) == ["disk.csv", "status.csv"]
