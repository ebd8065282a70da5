"""docs/guide/consistent-snapshots.md, line by line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs/guide/consistent-snapshots.md"


def test_the_guide(lab, tmp_path):
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    program = tmp_path / "headrace"
    program.write_text(f'#!/bin/bash\nexec {sys.executable} -m headrace "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HEADRACE_LAB": str(lab.place.data_dir),
        "COLUMNS": "200",
    }
    done = subprocess.run(
        ["bash", "-eux"], input="\n".join(blocks), env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "Nothing was done." in done.stdout
    assert re.search(r"^set-[0-9a-f]{17} +db .* whole$", done.stdout, re.MULTILINE)
    assert re.search(r"^db2 .*running", done.stdout, re.MULTILINE)
    assert "the newest whole one" in done.stdout
    assert re.search(r"^ExecStart=.* snapshot prune --server db --keep 7 --yes", done.stdout, re.MULTILINE)
    assert re.search(r"^loaded [1-9]\d* MiB in order of need", done.stderr, re.MULTILINE)
