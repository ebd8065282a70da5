"""prometheus:http://... against a real Prometheus and node_exporter (Debian's packages): what the kernel counted is what is read.
Skipped where there are none; `make` unpacks them beside the system."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from headrace.cli import main as cli
from headrace.errors import CouldNotRun, InputError
from headrace.observe.formats import ReadOptions, import_file, load_recording
from headrace.observe.remote.prometheus import list_hosts
from headrace.observe.remote.span import TimeSpan
from headrace.operate.targets import SourceOptions, read_evidence

PLACES = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
SERVER = shutil.which("prometheus", path=PLACES)
EXPORTER = shutil.which("prometheus-node-exporter", path=PLACES) or shutil.which("node_exporter", path=PLACES)
pytestmark = pytest.mark.skipif(not (SERVER and EXPORTER), reason="there is no prometheus and node_exporter here")

SCRAPE_S = 1
WRITES, BLOCK = 40, 256 * 1024  # of the load: each is flushed
PATIENCE_S = 90.0  # for a server to start and for samples to be there, on a busy machine; a guess
HOUR = TimeSpan(3_600.0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what: str, condition) -> None:
    wait_until(condition, what, PATIENCE_S)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


class Scraped:
    """A Prometheus that scrapes two exporters of this machine each second, until it is closed."""

    def __init__(self, folder: Path) -> None:
        assert SERVER and EXPORTER
        self.ports = (free_port(), free_port())
        self.address = f"http://127.0.0.1:{free_port()}"
        targets = ", ".join(f"'127.0.0.1:{port}'" for port in self.ports)
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {SCRAPE_S}s}}\n"
            f"scrape_configs: [{{job_name: node, static_configs: [{{targets: [{targets}]}}]}}]\n"
        )
        words = [SERVER, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
        words += [f"--web.listen-address={self.address.removeprefix('http://')}"]
        commands = [[EXPORTER, f"--web.listen-address=127.0.0.1:{port}"] for port in self.ports]
        self.running = [
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
            for command in [*commands, words]
        ]

    @property
    def target(self) -> str:
        return f"prometheus:{self.address}?instance=127.0.0.1:{self.ports[0]}"

    def samples(self) -> int:
        """Returns the number of reports that the server has."""
        try:
            return len(load_recording(self.target, ReadOptions(span=HOUR)).readings.reports)
        except (InputError, CouldNotRun):
            return 0

    def close(self) -> None:
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(30)


def kernel_counts() -> dict[str, tuple[int, int, int, int]]:
    """Reads, writes and bytes of each, by device (kernel, admin-guide/iostats)."""
    result = {}
    for line in Path("/proc/diskstats").read_text().splitlines():
        words = line.split()
        result[words[2]] = (int(words[3]), int(words[7]), int(words[5]) * 512, int(words[9]) * 512)
    return result


class Loaded:
    """I/Os written while the server scraped, by the kernel's own counts."""

    def __init__(self, scraped: Scraped, folder: Path) -> None:
        wait_for("a first report", lambda: scraped.samples() >= 2)
        self.begin_s, before = time.time(), kernel_counts()
        with (folder / "load").open("wb", buffering=0) as file:
            for _ in range(WRITES):
                file.write(os.urandom(BLOCK))
                os.fsync(file.fileno())
                time.sleep(0.1)
        after, self.end_s = kernel_counts(), time.time()
        first = scraped.samples()
        wait_for("a report behind the load", lambda: scraped.samples() >= first + 3)
        described = {name for report in self._reports(scraped) for name in report.devices}
        grown = {
            name: [b - a for a, b in zip(before[name], after[name], strict=True)] for name in before if name in after
        }
        self.device = max(described, key=lambda name: grown.get(name, [0, 0])[1])
        self.grown = grown[self.device]

    @staticmethod
    def _reports(scraped: Scraped):
        return load_recording(scraped.target, ReadOptions(span=HOUR)).readings.reports


@pytest.fixture(scope="module")
def scraped(tmp_path_factory) -> Iterator[Scraped]:
    folder = tmp_path_factory.mktemp("prometheus")
    running = Scraped(folder)
    try:
        wait_for("Prometheus", lambda: answers(f"{running.address}/-/ready"))
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def loaded(scraped, tmp_path_factory) -> Loaded:
    return Loaded(scraped, tmp_path_factory.mktemp("load"))


def test_what_the_kernel_counted_is_what_is_read(scraped, loaded):
    """The points that begin and end within the load have no more than the kernel counted in it, and those that reach beyond it
    by a scrape on each side have no less. A sample is of its scrape's beginning, and lies at most two scrapes from the edge."""
    if loaded.grown[1] < WRITES:
        pytest.skip("the folder of tests is on no disk that node_exporter counts")
    loaded_file = load_recording(scraped.target, ReadOptions(span=HOUR))
    reports = [report for report in loaded_file.readings.reports if loaded.device in report.devices]
    assert loaded_file.readings.interval_s == SCRAPE_S
    within = wide = 0.0
    for report in reports:
        end, sample = report.stamp.epoch_s, report.devices[loaded.device]
        if end - SCRAPE_S >= loaded.begin_s and end <= loaded.end_s:
            within += sample.writes_per_s * SCRAPE_S
        if end > loaded.begin_s - 2 * SCRAPE_S and end - SCRAPE_S < loaded.end_s + 2 * SCRAPE_S:
            wide += sample.writes_per_s * SCRAPE_S
    # Lines between samples move at most what lies in the scrape at each edge: it is not counted within.
    assert within <= loaded.grown[1] * (1 + 1e-9) <= wide * (1 + 1e-9)
    assert within > 0
    workload = import_file(scraped.target, device=loaded.device, gaps="hold")
    assert workload.source["tool"] == "Prometheus" and workload.clock_zone == "UTC"
    assert {"write_await_ms", "queue", "util_percent"} <= set(workload.points.columns)


def test_a_longer_interval_keeps_the_sum(scraped, loaded):
    """Points of 5 s of the same counters: the mean rate is the same, but for the ends, a point each."""
    fine = import_file(scraped.target, device=loaded.device, gaps="hold").points
    coarse = import_file(scraped.target, device=loaded.device, gaps="hold", interval_s=5.0).points
    assert set(coarse["duration_s"]) == {5.0}
    counted = [float((row["writes_per_s"] * row["duration_s"]).sum()) for row in (fine, coarse)]
    edges = 2 * float((coarse["writes_per_s"] * coarse["duration_s"]).max())
    # The second answer is later: what was written in between is in it, at most a point.
    assert abs(counted[0] - counted[1]) <= edges + float(fine["writes_per_s"].max()) * 5


def test_processors_and_clock_are_evidence(scraped, loaded):
    options = SourceOptions(devices=(loaded.device,), span=HOUR)
    recorded = read_evidence(scraped.target, options)
    assert recorded.demand is not None and recorded.facts.clock == "UTC" and recorded.host.height > 0
    # A machine's processors are all of its time: to a tenth of a processor, as ticks are 10 ms each.
    total = recorded.host.select("user_cpus", "system_cpus", "iowait_cpus", "steal_cpus", "idle_cpus").sum_horizontal()
    assert recorded.facts.vcpus == os.cpu_count()
    assert total.median() == pytest.approx(os.cpu_count(), rel=0.1)


def test_doctor_import_and_forecast_read_it(scraped, loaded, tmp_path, capsys):
    message = ("--device", loaded.device, "--last", "1h")
    assert cli.main(["doctor", scraped.target, *message, "--storage", "gp3:100"]) in (0, 1, 3)
    assert f"Seen: {scraped.target}"[:40] in capsys.readouterr().out
    assert (
        cli.main(["workload", "import", scraped.target, *message, "--to", str(tmp_path / "x.toml"), "--gaps", "hold"])
        == 0
    )
    capsys.readouterr()
    assert cli.main(["forecast", scraped.target, *message, "--storage", "gp3:100", "--no-keep"]) == 2
    assert "Record longer" in capsys.readouterr().err  # some seconds are no days, and it says so


def test_an_instance_must_be_named_where_there_are_several(scraped, loaded):
    with pytest.raises(InputError, match="counters of 2 hosts") as caught:
        import_file(f"prometheus:{scraped.address}")
    assert all(f"127.0.0.1:{port}" in caught.value.hint for port in scraped.ports)
    assert len(list_hosts(f"prometheus:{scraped.address}", HOUR)) == 2
    with pytest.raises(InputError, match="no counters of disks") as caught:
        import_file(f"prometheus:{scraped.address}?instance=db9")
    assert f"There are: 127.0.0.1:{min(scraped.ports)}" in caught.value.hint


def test_a_device_that_is_not_there(scraped, loaded):
    with pytest.raises(InputError, match="is not in") as caught:
        import_file(scraped.target, device="nvme77n1")
    assert loaded.device in caught.value.hint


def test_finer_than_it_was_scraped_is_refused(scraped, loaded):
    with pytest.raises(InputError, match="scraped every 1 s"):
        import_file(scraped.target, device=loaded.device, interval_s=0.5)


def test_an_exporter_is_no_prometheus(scraped):
    with pytest.raises(InputError, match="is not the API of a Prometheus server"):
        import_file(f"prometheus:http://127.0.0.1:{scraped.ports[0]}")
