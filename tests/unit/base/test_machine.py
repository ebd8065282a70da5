"""Processors of this machine, read from /proc and /sys."""

from __future__ import annotations

import pytest

from headrace.base import machine


@pytest.mark.parametrize(("text", "threads"), [("0\n", 1), ("0,8\n", 2), ("0-1\n", 2), ("0-3,8-11\n", 8)])
def test_processors_of_a_core_are_read_from_the_kernels_list(tmp_path, monkeypatch, text, threads):
    siblings = tmp_path / "thread_siblings_list"
    siblings.write_text(text)
    monkeypatch.setattr(machine, "SIBLINGS_FILE", siblings)
    assert machine.count_threads_per_core() == threads


def test_a_kernel_without_the_list_tells_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "SIBLINGS_FILE", tmp_path / "missing")
    assert machine.count_threads_per_core() is None
