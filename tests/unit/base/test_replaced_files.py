"""Files are replaced as a whole: with their mode, and without a trace of a draft that failed."""

from __future__ import annotations

import os
import stat

import pytest

from headrace.base import files


def test_a_replaced_file_has_its_mode_and_nobody_else_reads_it_before(tmp_path, monkeypatch):
    path, modes = tmp_path / "key", []
    path.write_text("old")

    def move(draft, target):
        modes.append(stat.S_IMODE(os.stat(draft).st_mode))
        os.rename(draft, target)

    monkeypatch.setattr(files, "move_over", move)
    for mode in (0o600, 0o644):
        files.replace_file(path, b"new", mode)
        assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == mode
    assert modes == [0o600, 0o644] and os.listdir(tmp_path) == ["key"]


def test_a_draft_that_fails_leaves_the_file(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), files.hold_draft(path) as draft:
        draft.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["points.csv"]
    with files.hold_draft(path) as draft:
        assert draft.suffix == ".csv" and stat.S_IMODE(draft.parent.stat().st_mode) == 0o700
        draft.write_text("whole")
    assert path.read_text() == "whole" and os.listdir(tmp_path) == ["points.csv"]
