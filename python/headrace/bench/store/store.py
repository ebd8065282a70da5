"""The run store: a folder a run, metadata as JSON, series as Parquet, DuckDB over all of them.

    STORE/ID/run.json             what was run on what, how it ended, figures, findings
             series.parquet       the time line, a row a second
             percentiles.parquet  the latency histogram
             status.parquet, disk.parquet, host.parquet, lab-VOLUME.parquet    what was sampled, as
                                                                               it came
             RUN.toml, *.csv      the same for `headrace calibrate`
             raw/                 the tool's own output

A run is written into a folder with another name, which is renamed when the run is complete.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from headrace.base import settings
from headrace.base.checks import suggest_nearest
from headrace.base.encoding import to_plain
from headrace.base.files import explain_unwritable, move_over, write_whole
from headrace.bench.target import refuse
from headrace.errors import CouldNotRun, InputError

FORMAT, VERSION = "headrace-bench-run", 1
RUN_FILE, SERIES_FILE, PERCENTILES_FILE, TOML_FILE = "run.json", "series.parquet", "percentiles.parquet", "RUN.toml"
UNFINISHED = ".unfinished-"
ID = re.compile(r"\d{8}-\d{6}-[a-z0-9-]{1,60}-[0-9a-f]{4}\Z", re.ASCII)
MAX_RUN_BYTES = 16 << 20  # a guess: run.json has some 100 KiB
# Bytes that a run may write in addition to the benchmark's data: 3,600 s of all status variables
# are some 10 MB.
LEAST_FREE_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A run of the store. `state`: complete, interrupted (Ctrl-C), broken (tool or server ended
    early). `summary`: figures of the part that counts, units in the names, None where not
    measured. `findings`: sentences a reader must know. `document`: run.json whole."""

    id: str
    folder: Path
    state: str
    summary: dict[str, float | None]
    findings: tuple[str, ...]
    document: dict

    @property
    def run_toml(self) -> Path | None:
        """The file that `headrace calibrate` takes; None where there is none."""
        path = self.folder / TOML_FILE
        return path if path.exists() else None

    def read_series(self) -> pl.DataFrame:
        """Returns the time line: docs/reference/bench.md, The time line. Raises CouldNotRun."""
        return read_parquet(self.folder / SERIES_FILE)

    def read_percentiles(self) -> pl.DataFrame | None:
        """Returns the latency histogram: value_ms, count, share (at or below); None without one."""
        path = self.folder / PERCENTILES_FILE
        return read_parquet(path) if path.exists() else None


def get_default_store() -> Path:
    """Returns $HEADRACE_RUNS, else $XDG_DATA_HOME/headrace/runs, else
    ~/.local/share/headrace/runs."""
    return settings.get_folder("HEADRACE_RUNS")


class Store:
    """A run store in `folder` (None: the default store), which the first run makes."""

    def __init__(self, folder: str | os.PathLike | None = None) -> None:
        self.folder = get_default_store() if folder is None else Path(folder).absolute()

    def begin(self, label: str) -> tuple[str, Path]:
        """Makes the folder of a new run and returns the run's id and this folder, to be filled.
        Raises CouldNotRun if it cannot be written, or little space is left."""
        word = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:60] or "run"
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{word}-{secrets.token_hex(2)}"
        folder = self.folder / f"{UNFINISHED}{name}"
        with explain_unwritable(self.folder, "Name another store: HEADRACE_RUNS or --store."):
            folder.mkdir(parents=True, mode=0o755)
            (folder / "raw").mkdir()
            free = shutil.disk_usage(folder).free
        if free < LEAST_FREE_BYTES:
            shutil.rmtree(folder, ignore_errors=True)
            rule = f"has {free >> 20} MiB left, and a run may need {LEAST_FREE_BYTES >> 20}"
            raise CouldNotRun(str(self.folder), rule, "", "Free some space, or name another store.")
        return name, folder

    def finish(self, name: str, folder: Path, document: dict) -> RunRecord:
        """Writes run.json, renames the folder of `begin` to the run's id, and returns the run.
        Raises CouldNotRun; the folder then keeps its temporary name."""
        document = {"format": FORMAT, "version": VERSION, "id": name, **document}
        try:
            write_whole(folder / RUN_FILE, encode_json(document))
            move_over(folder, self.folder / name)
        except OSError as error:
            rule = f"the run cannot be kept: {error.strerror}"
            raise CouldNotRun(str(folder), rule, "", f"The measured values are in {folder}.") from None
        return self.open(name)

    def drop(self, folder: Path) -> None:
        """Removes a folder of `begin`."""
        shutil.rmtree(folder, ignore_errors=True)

    def list_ids(self) -> list[str]:
        """Returns the ids of all runs, the oldest first. Raises CouldNotRun."""
        try:
            return sorted(name for name in os.listdir(self.folder) if ID.match(name))
        except FileNotFoundError:
            return []
        except OSError as error:
            hint = "Name another store: HEADRACE_RUNS or --store."
            raise CouldNotRun(str(self.folder), f"cannot be read: {error.strerror}", "", hint) from None

    def list_unfinished(self) -> list[Path]:
        """Returns folders of runs that are being made, or whose process was killed."""
        return sorted(self.folder.glob(f"{UNFINISHED}*")) if self.folder.is_dir() else []

    def resolve(self, text: str) -> str:
        """Returns the id of a run by its id, `latest`, `latest~1` (the run before), or the
        beginning or end of its id. Raises InputError."""
        ids = self.list_ids()
        if not ids:
            raise refuse.input(str(self.folder), "has no runs", "headrace bench run makes one.")
        latest = re.fullmatch(r"latest(?:~(\d{1,6}))?", text, re.ASCII)
        if latest:
            back = int(latest[1] or 0)
            if back >= len(ids):
                raise InputError(text, f"there are {len(ids)} runs", "", "headrace bench list")
            return ids[-1 - back]
        if text in ids:
            return text
        matches = [name for name in ids if len(text) >= 4 and (name.endswith(text) or name.startswith(text))]
        if len(matches) == 1:
            return matches[0]
        if matches:
            rule = f"{len(matches)} runs have it in their id: {', '.join(matches[:4])}"
            raise InputError(text, rule, "", "Give more of it.")
        rule = "is not a run of this store"
        raise InputError(text[:80], rule, str(self.folder), suggest_nearest(text, ids) or "headrace bench list")

    def open(self, text: str) -> RunRecord:
        """Returns a run by its id, or as `resolve` takes it. Raises InputError, CouldNotRun."""
        name = self.resolve(text)
        document = read_run(self.folder / name / RUN_FILE)
        return RunRecord(
            name, self.folder / name, document["state"], document["summary"], tuple(document["findings"]), document
        )

    def list_runs(self) -> list[RunRecord]:
        """Returns all runs, the oldest first, without damaged ones (see `list_damaged`)."""
        records = []
        for name in self.list_ids():
            try:
                records.append(self.open(name))
            except (InputError, CouldNotRun):
                continue
        return records

    def list_damaged(self) -> list[str]:
        """Returns ids whose run.json cannot be read."""
        return sorted(set(self.list_ids()) - {record.id for record in self.list_runs()})

    def delete(self, text: str) -> str:
        """Removes a run, and returns its id. Raises InputError, CouldNotRun."""
        name = self.resolve(text)
        try:
            # Renamed first: a listing never sees half of it.
            gone = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.folder))
            move_over(self.folder / name, gone / name)
            shutil.rmtree(gone)
        except OSError as error:
            rule = f"cannot be removed: {error.strerror}"
            raise CouldNotRun(str(self.folder / name), rule, "", "Check its owner and its mode.") from None
        return name


def encode_json(document: dict) -> bytes:
    """Returns JSON in which numbers that are not finite are null."""
    text = json.dumps(to_plain(document), indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def read_run(path: Path) -> dict:
    """Returns the document of a run.json. Raises InputError if it is another file or damaged, and
    CouldNotRun if it cannot be read."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_RUN_BYTES + 1)
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be read: {error.strerror}", "", "Is the run whole?") from None
    try:
        document = json.loads(raw) if len(raw) <= MAX_RUN_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise refuse.input(str(path), f"is not a run of Headrace ({FORMAT})", "The file is damaged: remove its folder.")
    if not isinstance(document.get("version"), int) or document["version"] > VERSION:
        rule = f"is of version {document.get('version')}, this Headrace reads up to {VERSION}"
        raise refuse.input(str(path), rule, "Use a newer Headrace.")
    kinds = {
        "id": str,
        "state": str,
        "benchmark": dict,
        "target": dict,
        "load": dict,
        "tool": dict,
        "environment": dict,
        "summary": dict,
        "findings": list,
    }
    wrong = [key for key, kind in kinds.items() if not isinstance(document.get(key), kind)]
    if wrong:
        hint = "The file is damaged: remove its folder."
        raise refuse.input(f"{path}: {wrong[0]}", "is missing or of another kind", hint)
    return document


def read_parquet(path: Path) -> pl.DataFrame:
    """Returns a frame of the store. Raises CouldNotRun."""
    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        rule = f"cannot be read: {' '.join(str(error).split())[:120]}"
        raise CouldNotRun(str(path), rule, "", "The run is damaged.") from None


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Writes a frame as Parquet. Raises CouldNotRun."""
    try:
        frame.write_parquet(path, compression="zstd")
    except (OSError, pl.exceptions.PolarsError) as error:
        rule = f"cannot be written: {' '.join(str(error).split())[:120]}"
        raise CouldNotRun(str(path), rule, "", "Free some space.") from None


def write_now() -> str:
    """Returns the current time in UTC as ISO 8601 text with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
