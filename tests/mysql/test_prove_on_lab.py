"""One proof with a real server on a lab, and one that is interrupted: what is predicted is on disk before it is run, what was measured is kept, nothing is left."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

import headrace
from headrace.experiment import from_workload, prove, read
from headrace.experiment import scale as times
from headrace.servers import scratch

STORAGES = ("io1:200:900",)


def small_request():
    """A uniform load that an io1 of a few hundred IOPS holds: of little processor time, so that a machine in use does not decide."""
    workload = headrace.sysbench_oltp(
        cache_gib=10.0, threads=16, tables=16, table_size=10_000_000, distribution={"type": "uniform"}
    )
    return from_workload(workload, list(STORAGES), "small").with_current("io1:200:1500")


def list_remains(folder: Path, maker: int) -> list[str]:
    """Returns everything that a proof of the process `maker` should have removed. Other tests have
    labs of their own in memory."""
    mounts = Path("/proc/self/mountinfo").read_text()
    in_memory = scratch.MEMORY.glob(f"{scratch.PREFIX}{maker}-*")
    return [str(path) for path in (*folder.glob("hr-lab-*"), *in_memory) if path.exists()] + [
        line for line in mounts.splitlines() if str(folder) in line
    ]


def test_a_proof_from_plan_to_verdict(tmp_path, monkeypatch):
    # The runs are as short as they may be: this tests the parts, not the accuracy
    # (benchmarks/prove_accuracy.py).
    monkeypatch.setattr(times, "MOST_S", 12)
    message = []
    result = prove(
        small_request(), minutes=2.0, folder=tmp_path, progress=lambda share, what: message.append((share, what))
    )
    folder = Path(result.folder)
    assert result.state == "complete" and not list_remains(folder, os.getpid())
    assert all(0.0 <= share <= 1.0 for share, _ in message)
    calibrated, other = result.steps
    assert calibrated.predicted is None and calibrated.measured.tps > 0
    assert other.predicted.tps > 0 and other.measured.tps > 0
    # Stored first: the file is as its hash says, and older than the run it predicts.
    assert result.predictions is not None
    content = Path(result.predictions.file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == result.predictions.sha256
    run = json.loads((folder / "runs" / other.measured.run / "run.json").read_text())
    assert datetime.fromisoformat(json.loads(content)["made_at"]) <= datetime.fromisoformat(run["began_at"])
    # The storage holds the load: fewer IOPS, fewer transactions. 900 against 1,500 IOPS are a ratio of 0.6; both runs are short, and of a machine in use: 0.4 to 0.9.
    assert 0.4 < other.measured.tps / calibrated.measured.tps < 0.9
    assert 0.4 < other.predicted.tps / calibrated.measured.tps < 0.9
    assert read(folder) == result


INTERRUPTED = """
import sys
sys.path.insert(0, sys.argv[2])
from test_prove_on_lab import small_request
from headrace.experiment import InterruptedProof, prove
try:
    prove(small_request(), minutes=3.0, folder=sys.argv[1], progress=lambda share, what: print(what, flush=True))
except InterruptedProof as stopped:
    print("kept", stopped.proof.folder, flush=True)
    sys.exit(130)
"""


@pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "soak", reason="two minutes of loading and measuring: in `make soak`"
)
def test_ctrl_c_keeps_what_was_measured(tmp_path):
    words = [sys.executable, "-c", INTERRUPTED, str(tmp_path), str(Path(__file__).parent)]
    run = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    )
    lines = []
    try:
        for line in run.stdout:
            lines.append(line.strip())
            if line.strip().endswith(": sysbench-oltp"):
                break
        time.sleep(6.0)  # some rows of the calibration
        run.send_signal(signal.SIGINT)
        rest, _ = run.communicate(timeout=120)
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
    assert run.returncode == 130, "\n".join([*lines, rest])
    result = read(next(tmp_path.iterdir()))
    assert result.state == "interrupted" and not list_remains(Path(result.folder), run.pid)
    assert result.steps[0].measured.state == "interrupted" and len(result.steps[0].measured.series) >= 2
    assert result.steps[1].predicted is None and "Nothing was measured" in result.verdict
