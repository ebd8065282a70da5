"""A wheel as pip gets it: built, installed in an environment with nothing else, and used from there."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from places import ROOT


def run(*command: object, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """A command with the user's environment, but none of what points Python at this clone."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=variables | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The bin folder of a fresh environment into which the wheel was installed with pip."""
    folder = tmp_path_factory.mktemp("installed")
    # Tests run in parallel, and the wheel lies in one place: one builds it at a time and takes a copy.
    with (ROOT / ".venv/wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run("make", "wheel", "PROFILE=release", "GLIBC=", folder=ROOT)
        assert done.returncode == 0, done.stderr
        [built] = (ROOT / "dist").glob("*.whl")
        wheel = Path(shutil.copy(built, folder))
    assert "abi3" in wheel.name
    run(sys.executable, "-m", "venv", folder, folder=folder)
    # Most of the modules are never imported here: Python compiles those that are.
    options = ("--quiet", "--disable-pip-version-check", "--no-compile")
    done = run(folder / "bin/pip", "install", *options, wheel, folder=folder)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("no index of Python packages can be reached from here")
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def test_the_wheel_has_what_users_need(installed):
    [wheel] = installed.parent.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    # The two __init__.pyi are read while running: they say which module a public name lives in.
    stubs = ("__init__.pyi", "lab/__init__.pyi", "_core.pyi")
    for part in ("py.typed", *stubs, "advice/parameters.toml"):
        assert f"headrace/{part}" in names, part
    metadata = zipfile.ZipFile(wheel).read(next(name for name in names if name.endswith("METADATA"))).decode()
    for line in ("Project-URL: Homepage", "Classifier: Typing :: Typed", "Requires-Python: >=3.11"):
        assert line in metadata, line


def test_commands_run_from_the_wheel(installed, tmp_path):
    assert run(installed / "headraced", "--version", folder=tmp_path).stdout.startswith("headraced ")
    done = run(installed / "headrace", "plan", "demo:day", "--output", "json", folder=tmp_path)
    assert done.returncode == 0 and '"schema": "headrace-plan/' in done.stdout, done.stderr
    code = "import headrace; print(headrace.__version__, headrace.simulate(headrace.demo_day(), 'gp3:500').summary['throttled_s'])"
    done = run(installed / "python", "-c", code, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_without_the_daemon_the_lab_says_where_to_get_it(installed, tmp_path):
    """The command line names the program that is missing and how to get it; pip may have installed a wheel without it."""
    hidden = (installed / "headraced").rename(installed / "headraced.hidden")
    try:
        done = run(
            installed / "headrace", "lab", "up", "--lab", tmp_path / "lab", folder=tmp_path, PATH="/usr/bin:/bin"
        )
    finally:
        hidden.rename(installed / "headraced")
    assert done.returncode == 3 and "headraced" in done.stderr and "Traceback" not in done.stderr, done.stderr
