"""Output of iostat, sar, vmstat and CloudWatch of a scenario.

Layouts follow the tools' own output: sysstat 10.2 and 11.4 (their manual pages), 12.6 (run), procps 4
(run), the AWS CLI's `get-metric-data`. Reports come a little early or late, as those of a busy host do;
figures have the decimals of the tool.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from recorded_queues.queueing import STEP_S, Steps
from recorded_queues.scenarios import LONG_S, Scenario

START = datetime(2026, 3, 9, 6, 0, 0)  # any Monday without a change of clocks
KIB = 1024.0
SHORT_S = 2_400.0  # of a recording of seconds
MIDDLE_S = 7_200.0  # of one of ten seconds
ROOT = (2.0, 1.5)  # reads and writes a second of the root disk, 8 KiB each
JITTER_S = 0.02  # by which a report is late (a guess: an idle host wakes within a millisecond)


@dataclass(frozen=True)
class Interval:
    """One report of a device: rates a second, latencies in ms (0 without I/O), KiB a second."""

    begins_s: float
    ends_s: float
    reads: float
    writes: float
    read_kib: float
    write_kib: float
    read_ms: float
    write_ms: float
    queue: float
    busy: float
    balance: float

    @property
    def ios(self) -> float:
        return self.reads + self.writes

    @property
    def both_ms(self) -> float:
        ios = self.ios
        return (self.reads * self.read_ms + self.writes * self.write_ms) / ios if ios else 0.0

    @property
    def seconds(self) -> float:
        return self.ends_s - self.begins_s


@dataclass(frozen=True)
class Format:
    """`name` for people, `suffix` of the file; `text` prints a scenario."""

    name: str
    suffix: str
    text: Callable[[Scenario, random.Random], str]


def intervals(
    steps: Steps, begins_s: float, ends_s: float, every_s: float, chance: random.Random | None
) -> list[Interval]:
    """The means of a device over each interval; `chance` makes reports late, None: none is."""
    sums = {name: np.concatenate(([0.0], np.cumsum(values))) for name, values in vars(steps).items()}
    edges = np.arange(begins_s, ends_s + 1e-6, every_s)
    if chance is not None:
        edges = edges + np.array([abs(chance.gauss(0, JITTER_S)) for _ in edges])
    places = np.minimum(edges / STEP_S, len(steps.reads))
    grid = np.arange(len(steps.reads) + 1)
    at = {name: np.interp(places, grid, values) for name, values in sums.items()}
    reports = []
    for index in range(len(edges) - 1):
        took = float(edges[index + 1] - edges[index])
        part = {name: float(values[index + 1] - values[index]) for name, values in at.items()}
        # Counters count whole requests.
        reads, writes = round(part["reads"]), round(part["writes"])
        reports.append(
            Interval(
                float(edges[index]), float(edges[index + 1]), reads / took, writes / took,
                part["read_bytes"] / KIB / took if reads else 0.0, part["write_bytes"] / KIB / took if writes else 0.0,
                1e3 * part["read_s"] / part["reads"] if reads else 0.0,
                1e3 * part["write_s"] / part["writes"] if writes else 0.0,
                part["queue"] * STEP_S / took, min(1.0, part["busy"] * STEP_S / took), part["balance"] * STEP_S / took,
            )
        )  # fmt: skip
    return reports


def _stretch(scenario: Scenario, every_s: float) -> tuple[float, float]:
    """From and to, s: all of it, or where something happens if the interval is short."""
    length = SHORT_S if every_s < 10 else MIDDLE_S if every_s < 60 else LONG_S
    first = max(0.0, min(scenario.event[0] - length / 4, LONG_S - length))
    return float(int(first)), min(LONG_S, float(int(first)) + length)


def _reports(scenario: Scenario, every_s: float, chance: random.Random) -> list[tuple[Interval, dict[str, Interval]]]:
    """Each report: the root disk and the devices."""
    first, last = _stretch(scenario, every_s)
    late = random.Random(chance.random())
    state = late.getstate()
    by_name = {}
    for name, steps in scenario.members.items():
        late.setstate(state)  # all devices of a report are read at once
        by_name[name] = intervals(steps, first, last, every_s, late)
    rows = []
    for index in range(len(next(iter(by_name.values())))):
        row = {name: reports[index] for name, reports in by_name.items()}
        any_of = next(iter(row.values()))
        reads, writes = (max(0.0, rate * (1 + 0.1 * chance.gauss(0, 1))) for rate in ROOT)
        busy = (reads + writes) * 0.8e-3
        root = Interval(any_of.begins_s, any_of.ends_s, reads, writes, 8 * reads, 8 * writes, 0.7, 0.9, busy, busy, 0.0)
        rows.append((root, row))
    return rows


def _cpu(scenario: Scenario, at_s: float, busy: float, chance: random.Random) -> tuple[float, float, float, float]:
    """Per cent in user, system, waiting for I/O and idle."""
    user = min(97.0, max(0.0, scenario.processors.user(at_s) + chance.gauss(0, 0.7)))
    system = max(0.0, scenario.processors.system + chance.gauss(0, 0.2))
    rest = max(0.0, 100.0 - user - system)
    waiting = min(rest, rest * busy * 0.4)
    return user, system, waiting, rest - waiting


# --- iostat ---------------------------------------------------------------------------------------

HEADS = {
    10: "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util",
    11: "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util",
    12: (
        "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz"
        "     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util"
    ),
}
DATES = {"iso": "%Y-%m-%dT%H:%M:%S+0000", "us": "%m/%d/%Y %I:%M:%S %p", "german": "%d.%m.%Y %H:%M:%S"}


def iostat(version: int, every_s: float, dates: str) -> Callable[[Scenario, random.Random], str]:
    """`iostat -xt` of sysstat 10, 11 or 12."""

    def text(scenario: Scenario, chance: random.Random) -> str:
        reports = _reports(scenario, every_s, chance)
        # The first report is the mean since boot.
        begins = START + timedelta(seconds=round(reports[0][0].begins_s))
        parts = [_iostat_report(version, scenario, begins, reports[len(reports) // 2], dates, chance)]
        for root, row in reports:
            at = START + timedelta(seconds=round(root.ends_s))
            parts.append(_iostat_report(version, scenario, at, (root, row), dates, chance))
        body = "".join(parts)
        if dates == "german":
            body = "\n".join(_with_commas(line) for line in body.split("\n"))
        day = {"iso": "2026-03-09", "us": "03/09/2026", "german": "09.03.2026"}[dates]
        return f"Linux 5.10.0-28-amd64 (db1) \t{day} \t_x86_64_\t({scenario.processors.count} CPU)\n\n{body}"

    return text


def _with_commas(line: str) -> str:
    """Figures as a German locale prints them; dates keep their points."""
    return line if line[:10].count(".") == 2 and ":" in line else line.replace(".", ",")


def _iostat_report(version, scenario, at: datetime, report, dates: str, chance: random.Random) -> str:
    root, row = report
    busiest = max(seen.busy for seen in row.values())
    user, system, waiting, idle = _cpu(scenario, root.ends_s, busiest, chance)
    text = f"{at.strftime(DATES[dates])}\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n"
    text += f"        {user:8.2f}{0:8.2f}{system:8.2f}{waiting:8.2f}{0:8.2f}{idle:8.2f}\n\n{HEADS[version]}\n"
    for name, figures in (("nvme0n1", root), *row.items()):
        text += _iostat_line(version, name, figures) + "\n"
    return text + "\n"


def _iostat_line(version: int, name: str, seen: Interval) -> str:
    read_size = seen.read_kib / seen.reads if seen.reads else 0.0
    write_size = seen.write_kib / seen.writes if seen.writes else 0.0
    if version == 12:
        return (
            f"{name:<13}{seen.reads:8.2f} {seen.read_kib:9.2f} {0:8.2f} {0:6.2f} {seen.read_ms:7.2f} {read_size:8.2f} "
            f"{seen.writes:7.2f} {seen.write_kib:9.2f} {0:8.2f} {0:6.2f} {seen.write_ms:7.2f} {write_size:8.2f} "
            f"{0:7.2f} {0:9.2f} {0:8.2f} {0:6.2f} {0:7.2f} {0:8.2f} {0:7.2f} {0:7.2f} {seen.queue:7.2f} {100 * seen.busy:6.2f}"
        )
    sectors = 2 * (seen.read_kib + seen.write_kib) / seen.ios if seen.ios else 0.0
    service = 1e3 * seen.busy / seen.ios if seen.ios else 0.0
    return (
        f"{name:<13}{0:10.2f} {0:8.2f} {seen.reads:7.2f} {seen.writes:7.2f} {seen.read_kib:8.2f} {seen.write_kib:8.2f} "
        f"{sectors:8.2f} {seen.queue:8.2f} {seen.both_ms:7.2f} {seen.read_ms:7.2f} {seen.write_ms:7.2f} {service:6.2f} {100 * seen.busy:6.2f}"
    )


# --- sar ------------------------------------------------------------------------------------------


def sar(version: int, every_s: float) -> Callable[[Scenario, random.Random], str]:
    """`sar -d -p` of sysstat 10 (sectors) or 12."""
    head = {
        10: "DEV       tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util",
        12: "DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util",
    }[version]

    def text(scenario: Scenario, chance: random.Random) -> str:
        reports = _reports(scenario, every_s, chance)
        lines = [f"Linux 5.10.0-28-amd64 (db1) \t03/09/2026 \t_x86_64_\t({scenario.processors.count} CPU)\n"]
        for number, (root, row) in enumerate(reports):
            if number % 20 == 0:  # a header of every screen
                lines.append(f"\n{_clock(root.begins_s)}          {head}")
            for name, seen in (("nvme0n1", root), *row.items()):
                lines.append(f"{_clock(root.ends_s)}      {_sar_line(version, name, seen)}")
        return "\n".join(lines) + "\n"

    return text


def _clock(at_s: float) -> str:
    return f"{START + timedelta(seconds=round(at_s)):%I:%M:%S %p}"


def _sar_line(version: int, name: str, seen: Interval) -> str:
    size = (seen.read_kib + seen.write_kib) / seen.ios if seen.ios else 0.0
    if version == 10:
        service = 1e3 * seen.busy / seen.ios if seen.ios else 0.0
        return (
            f"{name} {seen.ios:9.2f} {2 * seen.read_kib:9.2f} {2 * seen.write_kib:9.2f} {2 * size:9.2f} {seen.queue:9.2f} "
            f"{seen.both_ms:9.2f} {service:9.2f} {100 * seen.busy:9.2f}"
        )
    return (
        f"{name} {seen.ios:9.2f} {seen.read_kib:9.2f} {seen.write_kib:9.2f} {0:9.2f} {size:9.2f} {seen.queue:9.2f} "
        f"{seen.both_ms:9.2f} {100 * seen.busy:9.2f}"
    )


# --- vmstat ---------------------------------------------------------------------------------------


def vmstat(every_s: float) -> Callable[[Scenario, random.Random], str]:
    """`vmstat -t`: KiB of all disks, and the processors."""
    first = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----"
    second = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC"

    def text(scenario: Scenario, chance: random.Random) -> str:
        reports = _reports(scenario, every_s, chance)
        lines = []
        for number, (root, row) in enumerate([reports[0], *reports]):
            if number % 20 == 0:
                lines += [first, second]
            user, system, waiting, _ = _cpu(scenario, root.ends_s, max(seen.busy for seen in row.values()), chance)
            shares = [round(user), round(system), 100 - round(user) - round(system) - round(waiting), round(waiting)]
            read = sum(seen.read_kib for seen in (root, *row.values()))
            written = sum(seen.write_kib for seen in (root, *row.values()))
            at = START + timedelta(seconds=round(root.ends_s if number else root.begins_s))
            figures = " ".join(f"{max(0, share):2d}" for share in (*shares, 0))
            lines.append(
                f" 1  1      0 304624   3004 29272436    0    0 {read:5.0f} {written:5.0f} 17479 28507 {figures} {at:%Y-%m-%d %H:%M:%S}"
            )
        return "\n".join(lines) + "\n"

    return text


# --- CloudWatch -----------------------------------------------------------------------------------


def cloudwatch(period_s: int, whole: bool) -> Callable[[Scenario, random.Random], str]:
    """`get-metric-data` of each volume; `whole`: with times, idle time and the balance of credits,
    else with the queue alone besides the four that are needed."""

    def text(scenario: Scenario, chance: random.Random) -> str:
        results = []
        for number, steps in enumerate(scenario.members.values()):
            reports = intervals(steps, 0.0, LONG_S, period_s, None)
            times = [f"{START + timedelta(seconds=seen.begins_s):%Y-%m-%dT%H:%M:%S}+00:00" for seen in reports]
            for metric, values in _metrics(reports, period_s, whole, scenario.balance).items():
                label = metric if len(scenario.members) == 1 else f"{volume_id(number)} {metric}"
                results.append(
                    {
                        "Id": f"m{len(results)}",
                        "Label": label,
                        "Timestamps": times[::-1],
                        "Values": values[::-1],
                        "StatusCode": "Complete",
                    }
                )
        return json.dumps({"MetricDataResults": results, "Messages": []}, indent=1) + "\n"

    return text


def volume_id(number: int) -> str:
    """The volume of a member."""
    return f"vol-{number + 1:017x}"


def _metrics(reports: list[Interval], period_s: int, whole: bool, balance: bool) -> dict[str, list[float]]:
    named = {
        "VolumeReadOps": [float(round(seen.reads * period_s)) for seen in reports],
        "VolumeWriteOps": [float(round(seen.writes * period_s)) for seen in reports],
        "VolumeReadBytes": [float(round(seen.read_kib * KIB * period_s)) for seen in reports],
        "VolumeWriteBytes": [float(round(seen.write_kib * KIB * period_s)) for seen in reports],
        "VolumeQueueLength": [round(seen.queue, 6) for seen in reports],
    }
    if whole:
        named |= {
            "VolumeTotalReadTime": [round(seen.reads * period_s * seen.read_ms / 1e3, 3) for seen in reports],
            "VolumeTotalWriteTime": [round(seen.writes * period_s * seen.write_ms / 1e3, 3) for seen in reports],
            "VolumeIdleTime": [round((1 - seen.busy) * period_s, 2) for seen in reports],
        }
        if balance:
            named["BurstBalance"] = [float(round(seen.balance)) for seen in reports]
    return named


# --- all of them ----------------------------------------------------------------------------------

EIGHT = (
    Format("iostat 10, 300 s", "txt", iostat(10, 300, "us")),
    Format("iostat 11, 10 s", "txt", iostat(11, 10, "german")),
    Format("iostat 12, 1 s", "txt", iostat(12, 1, "iso")),
    Format("iostat 12, 60 s", "txt", iostat(12, 60, "us")),
    Format("sar 12, 60 s", "txt", sar(12, 60)),
    Format("sar 10, 600 s", "txt", sar(10, 600)),
    Format("CloudWatch, 60 s", "json", cloudwatch(60, True)),
    Format("CloudWatch, 300 s", "json", cloudwatch(300, False)),
)
MORE = (Format("vmstat, 10 s", "txt", vmstat(10)), Format("iostat 12, 10 s", "txt", iostat(12, 10, "us")))


def write(scenario: Scenario, form: Format, folder: Path, seed: int) -> Path:
    """The file of a scenario in a format."""
    path = folder / f"{scenario.name}, {form.name}, {seed}.{form.suffix}".replace("/", " ")
    path.write_text(form.text(scenario, random.Random(f"{form.name} {seed}")))
    return path
