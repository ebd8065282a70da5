"""Documentation as tests: every `headrace` line of README and guides runs, and the output shown is the output given."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md"))]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Found goals missed, or verdicts outside their tolerance: a finding, not a failure of the example.
FINE = (0, 1)


def examples() -> list[tuple[str, str, list[str]]]:
    """(page, command, lines shown after it) of every console block."""
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            for line in block.splitlines():
                if line.startswith("$ "):
                    found.append((page.name, line[2:].split("  #")[0].strip(), []))
                elif found:
                    found[-1][2].append(line.rstrip())
    return [example for example in found if example[1].startswith("headrace ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder like a clone's, with the files the examples read."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copy(ROOT / "tests/unit/data/iostat_12.txt", folder / "iostat.txt")
    return folder


def test_there_are_examples():
    assert len(examples()) >= 7


@pytest.mark.parametrize(("page", "command", "shown"), examples(), ids=[example[1][:60] for example in examples()])
def test_example_runs_and_gives_what_is_shown(page, command, shown, folder):
    command, _, into = command.partition(" > ")
    words = [sys.executable, "-m", "headrace", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": "150"})
    assert done.returncode in FINE, done.stderr
    if into:
        (folder / into).write_text(done.stdout)
    given = iter([line.rstrip() for line in done.stdout.splitlines()])
    for line in shown:
        # "..." stands for lines left out; every other line must come, in order.
        assert line == "..." or line in given, f"{page} shows a line that `{command}` no longer gives:\n{line}"


def test_python_example_of_the_readme_runs(folder):
    code = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "minutes throttled" in done.stdout


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_scripts_run(script):
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_links_between_pages_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} points to {target}"
