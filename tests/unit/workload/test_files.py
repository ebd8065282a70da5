"""Workload files: what is saved is loaded the same, what is wrong is refused with words."""

import os
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from places import ROOT

from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.workload import (
    ClosedWorkload,
    OpenWorkload,
    TransactionWorkload,
    load,
    load_demand,
    make_points,
    new_constant,
    new_daily,
    recorded_hour,
    save,
)
from headrace.workload.files import ClosedFile, OpenFile, PointsTable

MUTATIONS = settings(
    max_examples=400, print_blob=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def recorded(rng, count):
    durations = [float(rng.choice([1, 60, 300])) for _ in range(count)]
    starts = [sum(durations[:i]) for i in range(count)]
    reads, writes = ([rng.choice([0.0, rng.uniform(0, 1e4)]) for _ in range(count)] for _ in range(2))
    points = make_points(
        starts, durations, reads, writes, [rng.uniform(0.5, 256)] * count, [rng.uniform(0.5, 256) for _ in range(count)]
    )
    return OpenWorkload(
        "r",
        "recorded",
        points,
        size_gib=rng.choice([None, 12.5]),
        source={"tool": "test", "n": 1},
        caveats=('say "so"',),
    )


def describe(path: Path) -> str:
    """Loads demand in I/Os, and describes it in words."""
    workload = load(path)
    assert not isinstance(workload, TransactionWorkload)
    return workload.describe()


@pytest.mark.parametrize(
    "workload",
    [
        new_constant(100, 50),
        new_constant(0, 0, seconds=200_000),
        new_daily(1000.5, 1, backup_start_hour=2, shape=[1.0] * 24, size_gib=5),
        new_daily(1000, 500).scale(1.5),
        ClosedWorkload("f", "randrw", 16, 32, 4, 70, 100.0, ("x",)),
        ClosedWorkload("f", "read", 0.5, 1, 1),
    ],
    ids=["constant", "idle", "daily", "scaled", "closed", "closed-small"],
)
def test_round_trip(tmp_path, workload):
    save(workload, tmp_path / "w.toml")
    assert load(tmp_path / "w.toml") == workload
    assert os.listdir(tmp_path) == ["w.toml"]


@settings(parent=MUTATIONS, max_examples=60)
@given(st.integers(0, 2**32))
def test_round_trip_of_recorded(tmp_path, seed):
    note(f"seed {seed}")
    rng = random.Random(seed)
    workload = recorded(rng, rng.randint(1, 60))
    save(workload, tmp_path / "w.toml")
    assert load(tmp_path / "w.toml") == workload


def test_many_points_go_beside(tmp_path):
    hour = recorded_hour()
    count = 25_000
    points = make_points(
        range(count), [1.0] * count, [float(i % 97) for i in range(count)], [1.5] * count, [16.0] * count, [8.0] * count
    )
    long = replace(hour, points=points)
    save(long, tmp_path / "w.toml")
    (csv,) = [name for name in os.listdir(tmp_path) if name.endswith(".csv")]
    assert load(tmp_path / "w.toml") == long
    (tmp_path / csv).write_bytes((tmp_path / csv).read_bytes()[:-10])
    with pytest.raises(InputError, match="sha256"):
        load(tmp_path / "w.toml")
    (tmp_path / csv).unlink()
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "w.toml")


def test_daily_file_is_short_and_editable(tmp_path):
    save(new_daily(1000, 500), tmp_path / "w.toml")
    text = (tmp_path / "w.toml").read_text()
    assert len(text) < 600 and "[daily]" in text
    (tmp_path / "w.toml").write_text(text.replace("reads_per_s = 1000", "reads_per_s = 2000"))
    assert load_demand(tmp_path / "w.toml").summarize()["peak_iops"] == 2500


HEAD = 'format = "headrace-workload"\nversion = 1\nmodel = "open"\nname = "t"\nkind = "recorded"\n'
POINTS = "[points]\ninterval_s = 60\nreads_per_s = [1, 2]\nwrites_per_s = 1\nread_kib = 16\nwrite_kib = 16\n"
OBSERVED = "await_ms = [0.5, nan]\nqueue = [0.5, 30]\nutil_percent = 80\n"
CLOSED = 'format = "headrace-workload"\nversion = 1\nmodel = "closed"\nname = "t"\nrw = "read"\nbs_kib = 4\niodepth = 1\nnumjobs = 1\n'

BAD_FILES = {
    "empty": ("", "empty"),
    "no format": ("a = 1", "format"),
    "newer": (HEAD.replace("version = 1", "version = 2") + "new_thing = 1\n" + POINTS, "newer Headrace"),
    "version text": (HEAD.replace("version = 1", 'version = "1"') + POINTS, "version"),
    "typo": (HEAD + "size_gb = 3\n" + POINTS, "Did you mean size_gib"),
    "typo in points": (HEAD + POINTS.replace("read_kib", "read_kb"), "Did you mean read_kib"),
    "typo in daily": (
        HEAD.replace("recorded", "daily") + "[daily]\nread_per_s = 1\nwrites_per_s = 2\n",
        "Did you mean reads_per_s",
    ),
    "no points": (HEAD, "exactly one of"),
    "two kinds of points": (HEAD + POINTS + "[daily]\nreads_per_s = 1\n", "exactly one of"),
    "unequal": (HEAD + POINTS.replace("writes_per_s = 1", "writes_per_s = [1, 2, 3]"), "equally long"),
    "empty arrays": (HEAD + POINTS.replace("[1, 2]", "[]"), "none may be empty"),
    "no arrays": (HEAD + POINTS.replace("[1, 2]", "1"), "one is needed"),
    "interval array": (HEAD + POINTS.replace("interval_s = 60", "interval_s = [60, 60]"), "duration_s"),
    "text number": (HEAD + POINTS.replace("[1, 2]", '[1, "2"]'), r"reads_per_s\[1\]"),
    "nan": (HEAD + POINTS.replace("[1, 2]", "[1, nan]"), "finite"),
    "negative": (HEAD + POINTS.replace("[1, 2]", "[1, -2]"), "negative"),
    "huge int": (HEAD + POINTS.replace("[1, 2]", "[1, 0x" + "f" * 5000 + "]"), "must be a number"),
    "not toml": (HEAD + "= = =", "not valid TOML"),
    "escape": (HEAD + 'points_file = "../x.csv"\npoints_sha256 = "0"\n', "below the workload file"),
    "absolute": (HEAD + 'points_file = "/etc/passwd"\npoints_sha256 = "0"\n', "below the workload file"),
    "no sha": (HEAD + 'points_file = "x.csv"\n', "sha256"),
    "caveats": (HEAD + "caveats = 5\n" + POINTS, "list of sentences"),
    "model": (HEAD.replace('"open"', '"opn"') + POINTS, "Did you mean open"),
    "closed with a stray key": (CLOSED + "bs = 4\n", "bs"),
    "closed without depth": (CLOSED.replace("iodepth = 1\n", ""), "iodepth"),
    "closed bad": (CLOSED.replace('rw = "read"', 'rw = "reed"'), "Did you mean read"),
    "a trace": (
        "procs ---memory--- ---io---\n r  b   swpd   free   buff  cache   si   so    bi    bo   in\n",
        "looks like vmstat",
    ),
    "utilisation": (HEAD + POINTS + OBSERVED.replace("80", "101"), "util_percent"),
    "infinite queue": (HEAD + POINTS + OBSERVED.replace("30", "inf"), "queue"),
    "queue of another length": (HEAD + POINTS + OBSERVED.replace("[0.5, 30]", "[1]"), "equally long"),
    "typo beside the rates": (
        HEAD + POINTS + OBSERVED.replace("util_percent", "util_percents"),
        "Did you mean util_percent",
    ),
    "zone": (HEAD + 'clock_zone = "CET"\n' + POINTS, "clock_zone"),
    "deep": ("a = " + "[" * 3000, "not valid TOML"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file(tmp_path, case):
    text, words = BAD_FILES[case]
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        load(tmp_path / "w.toml")
    assert "w.toml" in caught.value.value and caught.value.exit_code == 2


def test_what_cannot_be_read_or_written(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "absent.toml")
    with pytest.raises(InputError, match="folder"):
        load(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="UTF-8"):
        load(tmp_path / "b.toml")
    with pytest.raises(CouldNotRun) as caught:
        save(new_constant(1, 1), tmp_path / "no" / "such" / "folder.toml")
    assert caught.value.exit_code == 3


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    save(new_constant(1, 1), tmp_path / "w.toml")
    before = (tmp_path / "w.toml").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headrace.workload.files.os.fsync", full)
    with pytest.raises(CouldNotRun, match="No space left"):
        save(new_constant(2, 2), tmp_path / "w.toml")
    assert (tmp_path / "w.toml").read_bytes() == before and os.listdir(tmp_path) == ["w.toml"]


def test_bom_and_crlf_are_fine(tmp_path):
    (tmp_path / "w.toml").write_bytes(b"\xef\xbb\xbf" + (HEAD + POINTS).replace("\n", "\r\n").encode())
    assert load_demand(tmp_path / "w.toml").points["reads_per_s"].to_list() == [1, 2]


@MUTATIONS
@given(st.integers(0, 2**32))
def test_mutated_files_load_or_are_refused(tmp_path, seed):
    """Mutated in any way, a file gives a workload or a HeadraceError."""
    note(f"seed {seed}")
    rng = random.Random(seed)
    text = bytearray(
        rng.choice(
            [
                HEAD + POINTS,
                HEAD + POINTS + OBSERVED,
                CLOSED,
                HEAD.replace("recorded", "daily") + "[daily]\nreads_per_s = 1\nwrites_per_s = 2\n",
            ]
        ).encode()
    )
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        other = rng.randrange(len(text) + 1)
        match rng.randrange(5):
            case 0:
                del text[at:]
            case 1:
                text[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                text[at:at] = text[min(at, other) : max(at, other)]
            case 3:
                text[at:at] = rng.choice(
                    [b"nan", b"1e400", b"-", b"[", b"{}", b'"', b"\n", b"1979-05-27", b"true", b"9" * 30]
                )
            case 4:
                del text[min(at, other) : max(at, other)]
    (tmp_path / "w.toml").write_bytes(bytes(text))
    try:
        describe(tmp_path / "w.toml")
    except HeadraceError as error:
        assert error.exit_code in (2, 3) and str(error)


DOC = ROOT / "docs" / "reference" / "workload-file.md"


@pytest.mark.parametrize("block", range(4))
def test_examples_of_the_document_load(tmp_path, block):
    blocks = re.findall(r"```toml\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    (tmp_path / "w.toml").write_text(blocks[block])
    assert describe(tmp_path / "w.toml")


def test_the_document_names_every_key():
    text = DOC.read_text(encoding="utf-8")
    for key in (name for table in (OpenFile, ClosedFile, PointsTable) for name in table.__struct_fields__):
        assert f"`{key}`" in text or f"`[{key}]`" in text, key
