"""Copying a data directory: every byte and attribute, whatever the sizes; and a target that is full."""

from __future__ import annotations

import filecmp
import os
import random
import subprocess

import pytest

from headrace.errors import CouldNotRun
from headrace.servers.copies import files


def tree(folder, chance: random.Random) -> None:
    sizes = [0, 1, files.BLOCK - 1, files.BLOCK, files.BLOCK + 1, 3 * files.BLOCK + 7]
    for number in range(20):
        place = folder / chance.choice(["", "shop", "shop/deep", "logs"]) / f"t{number}.ibd"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(chance.randbytes(chance.choice(sizes)))
        place.chmod(chance.choice([0o600, 0o640]))
    (folder / "link").symlink_to("t0.ibd")


@pytest.mark.parametrize("flush_every", [1, 64 << 20])
def test_a_copy_is_the_same(tmp_path, monkeypatch, flush_every):
    monkeypatch.setattr(files, "FLUSH_EVERY", flush_every)
    of, to = tmp_path / "of", tmp_path / "to"
    of.mkdir()
    to.mkdir()
    tree(of, random.Random(flush_every))
    subprocess.run(["cp", "--archive", "--attributes-only", f"{of}/.", str(to)], check=True)
    files.copy_contents(of, to)
    copies = [path.relative_to(of) for path in of.rglob("*") if path.is_file()]
    assert copies and sorted(copies) == sorted(path.relative_to(to) for path in to.rglob("*") if path.is_file())
    for copy in copies:
        assert filecmp.cmp(of / copy, to / copy, shallow=False), copy
        assert (of / copy).stat().st_mode == (to / copy).stat().st_mode
    assert os.readlink(to / "link") == "t0.ibd"


def test_what_is_missing_is_said(tmp_path):
    of, to = tmp_path / "of", tmp_path / "to"
    of.mkdir()
    to.mkdir()
    (of / "t.ibd").write_bytes(b"x")
    with pytest.raises(CouldNotRun, match="cannot be copied: No such file"):
        files.copy_contents(of, to)
