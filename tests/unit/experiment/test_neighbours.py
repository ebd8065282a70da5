"""Work of other programs beside a measurement."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from waiting import wait_until

from headrace.experiment import neighbours

# A shell that starts thirty others, each of which counts for some milliseconds and ends; then it says
# what they took (POSIX, times).
COUNT = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
SHORT_WORK = f"for n in $(seq 30); do sh -c '{COUNT}'; done; times > $0.new; mv $0.new $0"


def test_the_work_of_processes_that_have_ended_counts(tmp_path: Path):
    spent = tmp_path / "times"
    began = time.monotonic()
    with neighbours.watch() as beside:
        # The shell between ends at once, so that the other is no descendant of this process.
        subprocess.run(["sh", "-c", f'sh -c "$1" {spent} &', "sh", SHORT_WORK], check=True)
        wait_until(spent.exists, "the end of the other shells")
        watched_s = time.monotonic() - began
    minutes_seconds = re.findall(r"(\d+)m([\d.]+)s", spent.read_text().splitlines()[1])
    took_s = sum(60 * int(minutes) + float(seconds) for minutes, seconds in minutes_seconds)
    # The kernel counts in ticks of 10 ms, which may be missed for each process: half is left of it.
    assert took_s > 0.05
    assert beside[0].others * watched_s > 0.5 * took_s
