"""Makes the recordings that README and the guides of the doctor and the forecast read. They are made,
not measured: the day of `demo:day` on the gp2:1200 of its recording, as `iostat -xt 300` would have
printed it; two disks as `iostat -xt 5` prints them, one of them at the baseline of a gp2:100 for four
minutes; and the used space of a volume, a line a day. The first needs Headrace.

Run it in this folder: python3 make_recordings.py
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

HERE = Path(__file__).parent
HEAD = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz"
    "  aqu-sz  %util"
)


def line(name: str, reads: float, writes: float, ms: float, queue: float, util: float) -> str:
    """A disk in a report; requests of 16 KiB."""
    read, written = f"{reads:8.2f} {16 * reads:9.2f}", f"{writes:7.2f} {16 * writes:9.2f}"
    return f"{name:<14} {read} 0.00 0.00 {ms:.2f} 16.00 {written} 0.00 0.00 {ms:.2f} 16.00 {queue:.2f} {util:.2f}"


def two_disks(chance: random.Random) -> str:
    """Ten minutes. nvme1n1 does most and is well; nvme2n1 gives 300 IOPS from 10:03 to 10:07 with
    16 requests in line: 53 ms each, by Little's law."""
    text = "Linux 6.1.0 (db1) \t11/20/2026 \t_x86_64_\t(4 CPU)\n"
    for report in range(121):
        at = datetime(2026, 11, 20, 10) + timedelta(seconds=5 * report)
        busy, calm = chance.uniform(900, 1_100), chance.uniform(40, 80)
        hot = 36 < report <= 84
        log = (260.0, 40.0, 53.3, 16.0, 99.5) if hot else (calm, calm / 4, 0.7, calm / 1e3, calm / 20)
        text += f"\n{at:%m/%d/%Y %I:%M:%S %p}\n{HEAD}\n"
        text += f"{line('nvme1n1', busy, busy / 20, 0.6, busy / 1_600, busy / 20)}\n{line('nvme2n1', *log)}\n"
    return text


def one_day() -> str:
    """The day of `demo:day`, simulated on gp2:1200, a report each five minutes. The figures are
    those that the volume delivered, not the demand: a recording cannot know that."""
    import headrace

    day = headrace.demo_day()
    rows = headrace.simulate(day, "gp2:1200").rows.with_columns(
        reads=day.points["reads_per_s"], writes=day.points["writes_per_s"]
    )
    text = "Linux 6.1.0 (db1) \t11/20/2026 \t_x86_64_\t(8 CPU)\n"
    each = 5  # rows of a minute
    for start in range(0, rows.height, each):
        part = rows[start : start + each]
        share = part["iops"].sum() / (part["reads"] + part["writes"]).sum()
        reads, writes, ms = part["reads"].mean() * share, part["writes"].mean() * share, part["mean_ms"].mean()
        at = datetime(2026, 11, 20) + timedelta(minutes=start + each)
        queue = (reads + writes) * ms / 1e3  # Little's law
        util = min(100.0, (reads + writes) / 3_600 * 100)
        text += f"\n{at:%m/%d/%Y %I:%M:%S %p}\n{HEAD}\n"
        text += (
            f"{'nvme1n1':<14} {reads:8.2f} {16 * reads:9.2f} 0.00 0.00 {ms:.2f} 16.00 {writes:7.2f} {30 * writes:9.2f} "
            f"0.00 0.00 {ms:.2f} 30.00 {queue:.2f} {util:.2f}\n"
        )
    return text


def used_space(chance: random.Random) -> str:
    """Five weeks: 2.5 GiB more each day, give or take."""
    first, used, rows = datetime(2026, 10, 1), 300.0, ["time,used_gib"]
    for day in range(35):
        rows.append(f"{first + timedelta(days=day):%Y-%m-%dT%H:%M:%S},{used:.1f}")
        used += 2.5 + chance.uniform(-1, 1)
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    texts = {
        "iostat.txt": one_day(),
        "doctor/two-disks.txt": two_disks(random.Random(1)),
        "forecast/used.csv": used_space(random.Random(2)),
    }
    for name, text in texts.items():
        (HERE / name).write_text(text)
        print(f"made {name}: {len(text.splitlines())} lines")
