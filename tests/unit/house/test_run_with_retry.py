"""tests/run_with_retry.py and the shared wait: what fails only beside others is named and passes, what fails alone fails."""

from __future__ import annotations

import csv
import os
import sys

import pytest
from places import ROOT
from waiting import MOST_STRETCH, patience, stretch, wait_until

sys.path.insert(0, str(ROOT / "tests"))
import run_with_retry

# Fails in a worker of xdist, passes without one: the difference between the first run and the second.
BESIDE_OTHERS = "import os\n\nclass TestIt:\n    def test_it(self):\n        assert 'PYTEST_XDIST_WORKER' not in os.environ, 'beside others'\n"
ALWAYS = "def test_never():\n    assert False, 'a defect'\n"
FINE = "def test_fine():\n    pass\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A root with tests of its own, and its own file of flaky tests."""
    monkeypatch.setattr(run_with_retry, "ROOT", tmp_path)
    monkeypatch.setattr(run_with_retry, "FLAKY", tmp_path / "flaky.csv")
    # This test may itself run in a worker of xdist, which its children would take for their own.
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)
    # Without the other plugins, none of which is needed, a process of pytest starts in a third of the time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    return tmp_path


def run(monkeypatch, folder, *options: str, **files: str) -> int:
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    monkeypatch.setattr(
        sys, "argv", ["run_with_retry.py", "--workers", "1", *options, *(f"test_{name}.py" for name in files)]
    )
    return run_with_retry.main()


def test_what_passes_alone_is_listed_and_what_fails_alone_fails_the_run(folder, monkeypatch, capfd):
    assert run(monkeypatch, folder, beside=BESIDE_OTHERS, always=ALWAYS, fine=FINE) == 1
    out = capfd.readouterr().out
    assert "FLAKY test_beside.py::TestIt::test_it" in out and "FLAKY test_always" not in out
    with (folder / "flaky.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["test"] for row in rows] == ["test_beside.py::TestIt::test_it"]
    assert "beside others" in rows[0]["reason"]
    assert run(monkeypatch, folder, beside=BESIDE_OTHERS) == 0
    assert "a second time: a defect" in capfd.readouterr().out


def test_a_failure_outside_of_what_is_retried_fails_at_once(folder, monkeypatch):
    assert run(monkeypatch, folder, "--retry", "test_beside.py", beside=BESIDE_OTHERS, fine=FINE) == 0
    (folder / "flaky.csv").unlink()
    assert run(monkeypatch, folder, "--retry", "test_fine.py", beside=BESIDE_OTHERS, fine=FINE) == 1
    assert not (folder / "flaky.csv").exists()


def test_what_cannot_be_collected_fails_at_once(folder, monkeypatch):
    assert run(monkeypatch, folder, broken="import no_such_module\n") != 0
    assert not (folder / "flaky.csv").exists()


def test_a_wait_ends_with_the_value_or_says_what_it_saw(monkeypatch):
    values = iter([0, "", "ready"])
    assert wait_until(lambda: next(values), "the third look") == "ready"
    monkeypatch.setattr("waiting.patience", lambda seconds: 0.0)
    with pytest.raises(AssertionError, match=r"a flag: not so after .* at a load of .*; last seen: \[\]"):
        wait_until(lambda: [], "a flag")


@pytest.mark.parametrize(("load", "expected"), [(0.1, 1.0), (2.0, 1.0), (8.0, 4.0), (1000.0, MOST_STRETCH)])
def test_patience_grows_with_runnable_processes_per_core(monkeypatch, load, expected):
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert stretch() == expected
    assert patience(30.0) == 30.0 * expected
