"""Studies on the lab for real, tiny: arrays measured, interrupted and resumed; a server with encrypted tables; nothing left behind."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from lab_folders import Command, small_disk

from headrace.bench import Store, run
from headrace.bench.server import hold_connection
from headrace.experiment import ExperimentLab, OnServer
from headrace.experiment import run as running
from headrace.report.html import write_view
from headrace.report.study import build_view
from headrace.studies.measured import LabOptions, encryption, raid_arrays, session


def tiny(module, **changed) -> SimpleNamespace:
    """A study of which only some short cells are run."""
    names = ("STUDY", "WORDS", "DAY", "ENGINES", "data_gib", "simulate", "judge", "cells")
    return SimpleNamespace(**{name: getattr(module, name) for name in names if hasattr(module, name)} | changed)


def list_remains(work: Path) -> list[str]:
    """Files and mounts of a study's lab."""
    return [
        *map(str, work.iterdir()),
        *(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(work) in line),
    ]


def test_arrays_are_measured_interrupted_and_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "REST_S", 0.0)  # tests run beside others
    store, work = Store(tmp_path / "runs"), tmp_path / "work"
    work.mkdir()

    def two(options: LabOptions):
        expected = (("single", "rndrd", 16), ("raid0x4", "rndrd", 16))
        return [replace(cell, seconds=4, warmup_s=1) for cell in raid_arrays.cells(options) if cell.key in expected]

    module = tiny(raid_arrays, cells=two)

    def stop_after_one(text: str) -> None:
        if text.startswith("1 of 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.run(module, LabOptions(quick=True, store=store, work=work), say=stop_after_one)
    assert list_remains(work) == [] and len(store.list_ids()) == 1
    shares: list[float] = []
    result = session.run(
        module,
        LabOptions(quick=True, store=store, work=work, resume=True),
        progress=lambda share, what: shares.append(share),
    )
    assert list_remains(work) == [] and len(store.list_ids()) == 2
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1.0, abs=0.2)
    claims = {verdict.what: verdict for verdict in result.verdicts}
    assert result.verdicts[-1].what == "the machine was at rest"
    # 2.3 times on a quiet machine; the caps alone allow 4, and below 1.5 something is wrong with the array.
    assert claims["RAID 0 of 4 clearly better than one volume"].within is True, claims
    write_view(tmp_path / "page.html", build_view(result))
    assert any("earlier session" in note for note in result.notes)


def test_an_encrypted_volume_holds_no_plain_text_and_runs(tmp_path):
    cell = encryption.cells(LabOptions(quick=True, scale=0.002))[1]
    assert isinstance(cell.place, OnServer) and cell.place.encrypted
    with ExperimentLab(tmp_path, day=encryption.DAY) as lab, lab.open_server(cell.place) as target:
        (volume,) = lab.lab.volumes()
        assert volume["encrypted"]
        with hold_connection(target) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE secret (words VARCHAR(64)) ENGINE=InnoDB")
            cursor.execute("INSERT INTO secret VALUES ('these words lie on no disk as they are')")
        record = run(cell.benchmark, target, seconds=3, threads=4, seed=1, store=tmp_path / "runs")
        files = [path for path in (Path(lab.lab.status()["data_dir"]) / "volumes").rglob("*") if path.is_file()]
        result = subprocess.run(["grep", "-l", "these words lie on no disk", *files], capture_output=True, text=True)
        assert files and result.returncode == 1, result.stdout
    assert record.summary["tps"] > 0


def test_a_study_without_room_is_refused_before_anything_is_made(tmp_path):
    """Neither for its volumes nor for its runs."""
    headrace = Command(tmp_path)
    words = ("study", "raid-2009", "--on", "lab", "--quick")
    with small_disk(tmp_path / "d", 16) as place:
        done = headrace(*words, "--work", str(place), "--store", str(tmp_path / "runs"), code=3)
        assert f"GiB free in {place}, and" in done.stderr and "--work DIR" in done.stderr, done.stderr
        done = headrace(*words, "--store", str(place / "runs"), code=3)
        assert "MiB left, and a run may need 64" in done.stderr and "another store" in done.stderr, done.stderr
        assert not list(place.rglob("*")) or [path.name for path in place.rglob("*")] == ["runs"]
    assert not list((tmp_path / "runs").glob("*"))
