"""A calibration says the same whatever kernels the linear algebra takes: OpenBLAS chooses them by
processor, and they round differently.
"""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy
import pytest
import scipy
from places import ROOT

from headrace.report.databases import format_fitted

RUN = ROOT / "examples/tpcc-run.toml"
# Every x86-64 processor can run these two; they differ in the order in which they add.
KERNELS = ("Prescott", "Nehalem")


def uses_openblas(package) -> bool:
    """Returns whether a package was built with OpenBLAS."""
    return "openblas" in str(package.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]).lower()


def run_calibrate(kernel: str, to: Path) -> subprocess.CompletedProcess:
    """Runs `headrace calibrate` of the example in a process of its own, since the kernel is chosen
    when the library is loaded."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "OPENBLAS_VERBOSE": "2", "COLUMNS": "150"}
    command = [sys.executable, "-m", "headrace", "calibrate", str(RUN), "-o", str(to)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=True)


def collect_numbers(value: object, key: str = "") -> dict[str, float]:
    """Collects every number of a document, by its place."""
    if isinstance(value, dict):
        return {
            place: number
            for name, item in value.items()
            for place, number in collect_numbers(item, f"{key}.{name}").items()
        }
    if isinstance(value, list):
        return {
            place: number
            for index, item in enumerate(value)
            for place, number in collect_numbers(item, f"{key}[{index}]").items()
        }
    return {key: value} if isinstance(value, float) else {}


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="kernels of x86-64 are compared")
@pytest.mark.skipif(
    not uses_openblas(numpy) or not uses_openblas(scipy), reason="numpy or scipy stands on another BLAS than OpenBLAS"
)
def test_two_kernels_calibrate_alike(tmp_path):
    prescott, nehalem = (run_calibrate(kernel, tmp_path / f"{kernel}.toml") for kernel in KERNELS)
    cores = [set(re.findall(r"^Core: (.+)$", done.stderr, re.MULTILINE)) for done in (prescott, nehalem)]
    if not cores[0] or cores[0] & cores[1]:
        pytest.skip(f"OpenBLAS took the same kernels both times, or does not name them: {cores}")
    assert prescott.stdout == nehalem.stdout and "distinct pages that transactions touch" in prescott.stdout
    first, second = (collect_numbers(tomllib.loads((tmp_path / f"{kernel}.toml").read_text())) for kernel in KERNELS)
    assert first.keys() == second.keys()
    for place, number in first.items():
        # Rounded to five digits, covariances (at most 0.7 squared here) to five decimals: one unit
        # of the last where a number lies on an edge.
        tolerance = 1e-5 if place.startswith(".covariance") else 1e-4 * abs(number)
        assert abs(second[place] - number) <= 1.01 * tolerance, place


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (14_712_105.0, 0.0216, "14,700,000"),  # 317,464 either way: a unit of 100,000
        (0.98400, 0.0182, "0.984"),
        (0.52945, 0.0985, "0.53"),
        (3.9603, 0.2, "4.0"),
        (9.96, 0.3, "10"),
        (99.996, 0.001, "100.0"),
        (8_390.7, 0.656, "8,400"),
        (8_390.7, 5.0, "8,400"),  # two digits at least
        (1 / 3, 0.0, "0.3333"),  # four at most
        (0.0, 0.5, "0"),
    ],
)
def test_a_fitted_value_is_stated_to_the_digits_its_spread_leaves(value, spread, text):
    assert format_fitted(value, spread) == text


def test_rounding_adds_little_to_the_spread():
    """Between two and four digits the unit is at most half a standard deviation, and more than a
    twentieth of it: neither too coarse nor too fine.
    """
    generator = numpy.random.default_rng(20261122)
    for value, spread in zip(
        10.0 ** generator.uniform(-6, 9, 500), 10.0 ** generator.uniform(-2.5, -0.7, 500), strict=True
    ):
        text = format_fitted(value, spread)
        stated = float(text.replace(",", ""))
        # Half a unit of half a standard deviation; the stated value's own last binary digits.
        assert abs(stated - value) <= 0.25 * spread * value * (1 + 1e-9), (value, spread, text)
        digits = len(text.replace(",", "").replace(".", "").lstrip("0").rstrip("0") or "0")
        assert digits <= 1 + math.ceil(math.log10(20.0 / spread)), (value, spread, text)
