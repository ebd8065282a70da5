"""The machine of a run description enters the prior: processor and clock, the kind of its local
disk, where the clients are; and figures that it lacks widen the doubt."""

from __future__ import annotations

import math

import pytest

from headrace.base import core
from headrace.calibration.from_runs import build_standard
from headrace.calibration.prior import DISK_OVER_IO_CAPACITY_MAX, build_prior, find_local_disk
from headrace.calibration.runs import Run, load_run
from headrace.errors import InputError
from headrace.workload.parameters import CPU_SPREAD
from headrace.workload.unexplained import read_spreads

RUN = """\
format = "headrace-run"
version = 1
name = "machine"
engine = "innodb"
engine_version = "VERSION"
storage = "STORAGE"
as_of = 2025-06-01
cache_gib = 2
threads = 64
start = "warm"
KEYS
[benchmark]
name = "sysbench-oltp"
script = "oltp_read_write"
distribution = "uniform"
tables = 10
scale = 5_000_000
[settings]
vcpus = 64
redo_gib = 8
SETTINGS
[files]
sysbench = "run.csv"
"""


def write_run(
    folder, *keys: str, storage: str = "instance-store:500", settings: str = "", version: str = "8.0.22"
) -> Run:
    """Writes and loads a run with keys of its own."""
    (folder / "run.csv").write_text("t_s,threads,tps\n" + "".join(f"{second},64,300\n" for second in range(1, 200)))
    text = (
        RUN.replace("VERSION", version)
        .replace("STORAGE", storage)
        .replace("KEYS", "\n".join(keys))
        .replace("SETTINGS", settings)
    )
    (folder / "run.toml").write_text(text)
    return load_run(folder / "run.toml")


def find_spread(run: Run, name: str) -> float:
    return next(row["spread"] for row in build_standard(run).parameters if row["name"] == name)


def test_processor_and_clock_are_a_speed(tmp_path):
    """Cascade Lake works like Skylake, 1 a clock: 2.8 GHz are a speed of 2.8, as 3.4 are the speed of the standard's table."""
    plain = write_run(tmp_path)
    described = write_run(tmp_path, 'processor = "skylake"', "clock_ghz = 2.8")
    assert (plain.machine.core_speed, described.machine.core_speed) == (None, 2.8)
    before, after = (build_prior(run)["clients"] for run in (plain, described))
    assert after["cpu_ms"] / before["cpu_ms"] == pytest.approx(3.4 / 2.8)
    # A core of this processor clocks at 3.8 GHz alone.
    assert after["alone_faster"] == pytest.approx(3.8 / 2.8) and "alone_faster" not in before
    # base_ms: the time that is not the clients' own processor time stays.
    waits = [clients["base_ms"] - core.core_ms(clients) for clients in (before, after)]
    assert waits[1] == pytest.approx(waits[0])
    assert find_spread(described, "cpu_ms") == CPU_SPREAD
    assert find_spread(plain, "cpu_ms") == pytest.approx(math.hypot(CPU_SPREAD, read_spreads()["unknown_speed"]))


def test_an_instance_has_its_own_speed(tmp_path):
    run = write_run(tmp_path, 'instance = "m5.24xlarge"', storage="gp2:500")
    assert run.machine.core_speed == 3.1


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (['processor = "skylake"'], "clock_ghz is missing", "together"),
        (["clock_ghz = 2.8"], "processor is missing", "together"),
        (['processor = "zen-9"', "clock_ghz = 3"], "zen-9", "not in the table"),
        (['processor = "zen-2"', "clock_ghz = 3", 'instance = "m5.24xlarge"'], "m5.24xlarge", "what its processor is"),
        (["clock_ghz = 2800"], "2800", "GHz"),
        (['local_disk = "hdd"'], "hdd", "sata-ssd"),
        (['client_host = "laptop"'], "laptop", "network"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path, keys, value, words):
    with pytest.raises(InputError) as refused:
        write_run(tmp_path, *keys, storage="gp2:500")
    assert value in str(refused.value) and words in str(refused.value)


def test_a_disk_of_a_kind_is_known_better_than_any(tmp_path):
    """Deviations of the drives of the table that are like one of 537 GB (500 GiB): 0.294 of SATA and 0.235 of NVMe,
    which `drives_of_a_kind_and_size_have_a_middle` of the core works out. A drive of unknown kind is SATA, and as likely NVMe, which
    writes 1.46 times faster at random and reads six times, so that a load is in between."""
    runs = {
        kind: write_run(tmp_path, *([f'local_disk = "{kind}"'] if kind else []))
        for kind in ("", "sata-ssd", "nvme-ssd")
    }
    spread = {kind: find_spread(run, "local_disk") for kind, run in runs.items()}
    assert [spread["sata-ssd"], spread["nvme-ssd"]] == pytest.approx([0.294, 0.235], abs=0.003)
    least, most = (math.hypot(0.294, math.log(faster) / math.sqrt(2)) for faster in (1.45, 6.1))
    assert least < spread[""] < most
    speed = {kind: build_prior(run)["local_disk"] for kind, run in runs.items()}
    assert speed["sata-ssd"] == speed[""] < speed["nvme-ssd"]


def test_who_sets_io_capacity_max_knows_the_disk(tmp_path):
    """The spread s of the table and a factor of two of the setting: of what they differ by, s^2 / (s^2 + 0.69^2) is the setting's."""
    plain = write_run(tmp_path)
    configured = write_run(tmp_path, settings="io_capacity_max = 20000")
    of_plain, of_told = (find_local_disk(run, build_prior(run)) for run in (plain, configured))
    assert of_plain is not None and of_told is not None
    apart = math.log(DISK_OVER_IO_CAPACITY_MAX * 20_000 / of_plain["page_writes_per_s"])
    moved = math.log(of_told["page_writes_per_s"] / of_plain["page_writes_per_s"])
    spread, doubt = of_plain["spread"], math.log(2)
    assert moved / apart == pytest.approx(spread**2 / (spread**2 + doubt**2), rel=1e-6)
    assert of_told["spread"] == pytest.approx(1.0 / math.hypot(1 / spread, 1 / doubt), rel=1e-6)


def test_a_disk_with_flash_to_spare_writes_faster(tmp_path):
    """A drive of 3.2 TB (2,980 GiB) leaves a quarter of its flash free and is NVMe, one of 3.84 TB does not: 60,833 pages a second
    against 9,078 x 3,840 / 960 = 36,311 of NVMe."""
    spare, full = (
        write_run(tmp_path, 'local_disk = "nvme-ssd"', storage=f"instance-store:{gib}") for gib in (2980, 3576)
    )
    of_spare, of_full = (find_local_disk(run, build_prior(run)) for run in (spare, full))
    assert of_spare is not None and of_full is not None
    # Sizes are whole GiB: 1 part in 5,000.
    assert of_spare["page_writes_per_s"] == pytest.approx(60_833, rel=5e-4)
    assert of_full["page_writes_per_s"] == pytest.approx(36_311, rel=5e-4)
    assert build_prior(spare)["local_disk_read_ms"] == of_spare["read_ms"]
    unnamed = write_run(tmp_path, storage="instance-store:2980")
    assert find_local_disk(unnamed, build_prior(unnamed)) == of_spare


def test_who_says_how_often_the_binary_log_is_synced_has_one(tmp_path):
    """MariaDB has none by default."""
    logged = [
        build_prior(write_run(tmp_path, 'flavor = "mariadb"', version="12.2.2", settings=settings))["log"][
            "binlog_bytes_per_tx"
        ]
        > 0
        for settings in ("", "sync_binlog = 0", "sync_binlog = 1", "sync_binlog = 1\nbinlog = false")
    ]
    assert logged == [False, False, True, False]


def test_a_disk_that_the_catalog_knows_is_not_guessed(tmp_path):
    run = write_run(tmp_path, 'instance = "i3.16xlarge"')
    assert find_local_disk(run, build_prior(run)) is None
    assert build_prior(run)["local_disk"] is None


def test_clients_on_a_network_wait_and_leave_processors_their_stack(tmp_path):
    """16 statements between BEGIN and COMMIT make 20 round trips of oltp_read_write: 0.045 ms more of a core and 0.082 ms of waiting each."""
    here, far = (write_run(tmp_path, *keys) for keys in ((), ('client_host = "network"',)))
    near, away = (build_prior(run)["clients"] for run in (here, far))
    assert 0.685 * (away["cpu_ms"] - near["cpu_ms"]) == pytest.approx(20 * 0.045)
    assert away["base_ms"] - near["base_ms"] == pytest.approx(20 * (0.045 + 0.082))
