"""Run tests that share the machine; run what fails once more, alone.

    python tests/run_with_retry.py                   the tests with devices, two files at a time, as `make test` does
    python tests/run_with_retry.py --load 8 --random SEED tests/lab
    python tests/run_with_retry.py --workers auto --dist worksteal --retry tests/unit/ui tests/unit python/headrace

A test with devices, servers or a browser shares the machine with others and may fail because of
them. Each test that fails is therefore run a second time when all others have ended, in one process.
A test that fails again fails the run. A test that passes then is listed as flaky with its reason, is
added to the file of flaky tests, and does not fail the run; a name that stands there already is named
as a defect to correct first.

`--retry PATH` runs only failures below PATH a second time; another failure fails the run at once.
`--load N` keeps N processes busy meanwhile, `--random SEED` shuffles the tests of each file (soak).
`--alone-after FILE` waits with the second run until FILE is there: other tests have ended then.
Exit code: that of the second run where there was one, else of the first.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/unit/shared"))
from waiting import wait_until  # noqa: E402  # pyright: ignore[reportMissingImports]

FOLDERS = ("tests/mysql", "tests/api", "tests/lab")
FLAKY = ROOT / "tests/flaky.csv"
COLUMNS = ("day", "test", "reason")
# More failures than this are not the fault of the machine's load: they are not run again.
MOST_RETRIED = 20
# pytest: tests ran, and some failed. All other codes but 0 (interrupted, usage, nothing collected) end the run.
TESTS_FAILED = 1
LONGEST_REASON = 200
# The unit tests take ten minutes alone and half an hour on a busy machine; s.
LONGEST_WAIT_S = 2_700.0


def run_pytest(arguments: list[str], report: Path) -> int:
    """Run pytest on `arguments` with a JUnit report; return its exit code."""
    return subprocess.call([sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments], cwd=ROOT)


def failures_of(report: Path) -> dict[str, str]:
    """Return the node id of each failed test of a JUnit report, with the first line of its reason."""
    failures = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        if problem is not None:
            failures[node_of(case)] = (problem.get("message") or "").strip().split("\n")[0][:LONGEST_REASON]
    return failures


def node_of(case: ElementTree.Element) -> str:
    """Return `file::Class::test[parameters]`: the report has `folder.file.Class` and the name apart."""
    parts = [part for part in (case.get("classname") or "").split(".") if part]
    for end in range(len(parts), 0, -1):
        path = Path(*parts[:end]).with_suffix(".py")
        if (ROOT / path).exists():
            return "::".join([str(path), *parts[end:], case.get("name") or ""])
    return "::".join([*parts, case.get("name") or ""])


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep `count` processes computing while the block runs."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def note_flaky(flaky: dict[str, str]) -> None:
    """Print the tests that passed only alone, and add them to the file."""
    seen = set()
    if FLAKY.exists():
        with FLAKY.open(newline="") as lines:
            seen = {row["test"] for row in csv.DictReader(lines)}
    new = not FLAKY.exists()
    with FLAKY.open("a", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        for test, reason in flaky.items():
            writer.writerow((datetime.date.today().isoformat(), test, reason))
    print(f"\n{len(flaky)} flaky: failed beside other tests, passed alone. Added to {FLAKY.relative_to(ROOT)}:")
    for test, reason in flaky.items():
        again = "  <- a second time: a defect, to be corrected first" if test in seen else ""
        print(f"  FLAKY {test}: {reason}{again}")


def main() -> int:
    """Run the tests as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description="Run tests; run those that fail once more, alone.")
    parser.add_argument("paths", nargs="*", default=list(FOLDERS), help="files and folders of tests")
    parser.add_argument("--workers", default="2", help="processes of tests (default 2; auto: one a processor)")
    parser.add_argument("--dist", default="loadfile", help="what a process takes at a time (default loadfile)")
    parser.add_argument("--retry", action="append", metavar="PATH", help="run failures below PATH again (default all)")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="keep N processes busy meanwhile")
    parser.add_argument("--random", metavar="SEED", help="shuffle the tests of each file")
    parser.add_argument("--alone-after", type=Path, metavar="FILE", help="run failures again once FILE exists")
    options = parser.parse_args()
    shuffle = ["--random-order-bucket=module", f"--random-order-seed={options.random}"] if options.random else []
    with tempfile.TemporaryDirectory() as folder:
        with busy_processes(options.load):
            first = Path(folder) / "first.xml"
            code = run_pytest(["-n", options.workers, "--dist", options.dist, *shuffle, *options.paths], first)
        if code != TESTS_FAILED:
            return code
        failures = failures_of(first)
        if not all("::" in test for test in failures):
            return code  # a file that cannot be collected is no matter of load
        if options.retry and not all(test.startswith(tuple(options.retry)) for test in failures):
            return code
        if not failures or len(failures) > MOST_RETRIED:
            print(f"{len(failures)} failed: too many for the load of the machine to be the reason; none is run again.")
            return code
        print(f"\nRunning the {len(failures)} that failed once more, alone ...", flush=True)
        if options.alone_after is not None:
            wait_until(options.alone_after.exists, f"{options.alone_after} is there", LONGEST_WAIT_S, pause_s=1.0)
        second = Path(folder) / "second.xml"
        code = run_pytest([*failures], second)
        again = failures_of(second) if second.exists() else failures
        flaky = {test: reason for test, reason in failures.items() if test not in again}
        if code in (0, TESTS_FAILED) and flaky:
            note_flaky(flaky)
        return code


if __name__ == "__main__":
    sys.exit(main())
