"""packaging/check_wheel.py: what the files of a wheel need is held against its tag."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest
from places import ROOT

pytest.importorskip("elftools", reason="pyelftools is not installed: make wheel installs it")

SPEC = importlib.util.spec_from_file_location("check_wheel", ROOT / "packaging/check_wheel.py")
assert SPEC is not None and SPEC.loader is not None
check_wheel = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_wheel)


def wheel_of(folder: Path, tag: str, program: Path | None) -> Path:
    """A wheel of that tag with one program in it, or with a text alone."""
    wheel = folder / f"headrace-0.1.0-cp311-abi3-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("headrace/py.typed", "")
        if program is not None:
            archive.write(program, "headrace-0.1.0.data/scripts/headraced")
    return wheel


def test_a_promise_is_held_against_what_the_program_imports(tmp_path, capsys):
    # This Python was linked with a glibc newer than 2.2, the first with versioned symbols on this processor.
    python = Path(sys.executable).resolve()
    assert check_wheel.main([str(wheel_of(tmp_path, "manylinux_2_2_x86_64", python))]) == 1
    assert "needs glibc 2." in capsys.readouterr().out
    assert check_wheel.main([str(wheel_of(tmp_path, "linux_x86_64", python))]) == 0, "it promises nothing"


def test_a_wheel_without_a_program_is_an_error(tmp_path, capsys):
    assert check_wheel.main([str(wheel_of(tmp_path, "manylinux_2_28_x86_64", None))]) == 1
    assert "it has no compiled file" in capsys.readouterr().out
