"""docs/guide/aws.md as a user runs it: its commands in order, its Python and JavaScript in between."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from aws_labs import free_port

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / ".venv/clients"
PAGE = ROOT / "docs/guide/aws.md"


def examples(texts: set[str]) -> list[tuple[str, str]]:
    """Blocks of these languages, in order."""
    matches = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [(language, text) for language, text in matches if language in texts]


def test_the_guide(labs, tmp_path):
    if not (CLIENTS / "node_modules/@aws-sdk/client-ec2").is_dir() or shutil.which("node") is None:
        pytest.skip("the AWS SDK for JavaScript: needs Node.js 20 or newer and npm ci in .venv/clients")
    programs, port = tmp_path / "bin", free_port()
    programs.mkdir()
    lab = programs / "headrace"
    # The lab of the guide has ports of its own: another lab may have the usual ones.
    lab.write_text(
        f'#!/bin/bash\n[ "$1 $2" = "lab up" ] && set -- "$@" --metrics-port 0 --api-port {port}\n'
        f'exec {sys.executable} -m headrace "$@"\n'
    )
    (programs / "python3").write_text(f'#!/bin/bash\nexec {sys.executable} "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    lines = ["set -eux"]
    for number, (language, text) in enumerate(examples({"sh", "python", "js"})):
        if language == "sh":
            lines.append(text)
            continue
        # A module finds the SDK next to itself.
        folder, suffix = (CLIENTS, "mjs") if language == "js" else (tmp_path, "py")
        path = folder / f"guide-{os.getpid()}-{number}.{suffix}"
        path.write_text(text)
        lines.append(f"{'node --no-warnings' if language == 'js' else 'python3'} {path}")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "HEADRACE_LAB": str(labs.folder()),
        "AWS_EC2_METADATA_DISABLED": "true",
        "COLUMNS": "200",
    }
    try:
        done = subprocess.run(
            ["bash"], input="\n".join(lines), env=environment, capture_output=True, text=True, timeout=280
        )
    finally:
        for path in CLIENTS.glob(f"guide-{os.getpid()}-*"):
            path.unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused, as the policy says" in done.stdout and "UnauthorizedOperation" in done.stderr
    # boto3 and JavaScript list the volume that the aws cli made and changed.
    assert re.search(r"^vol-0[0-9a-f]{16} gp3 16 in-use$", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^vol-0[0-9a-f]{16} in-use$", done.stdout, re.MULTILINE), done.stdout


def test_addresses_of_the_guide_are_the_usual_one():
    """An example that cannot run here at least names the port that the lab has."""
    from headrace.lab.place import API_PORT

    ports = set(re.findall(r"http://127\.0\.0\.1:(\d+)", PAGE.read_text()))
    assert ports == {str(API_PORT)}
