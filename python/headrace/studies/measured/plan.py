"""What a study asks of the lab: how long, how large, which data, which cells.

A cell is one run of a benchmark on one server (or one set of files) that begins from the same copy of the data as its neighbours. A configuration is all of it in
one text; its hash stands in the name of the run, so that a run of the store can be told to be of just this cell.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headrace.bench import Benchmark, Store
from headrace.errors import InputError

DOC = "docs/guide/studies.md, On the lab"
# told (share 0..1, what is done)
Tell = Callable[[float, str], None]
Say = Callable[[str], None]

SCALES = (1e-4, 1.0)
MINUTES = (0.5, 24 * 60.0)
# Unless told otherwise: a study fits between two cups of coffee.
DEFAULT_MINUTES, QUICK_MINUTES = 10.0, 3.0


def silent(*_: object) -> None:
    """Told everything, says nothing."""


@dataclass(frozen=True)
class Options:
    """`scale`: data and cache against the published ones, None: what fits the time. `minutes`: about how long all of it may take, None: 10 (quick: 3). `quick`: the fewest
    cells that answer the question. `resume`: complete runs of the store with the same configuration are taken as they are. `store`: of runs, None: the default one. `work`:
    where the lab's files go, None: the system's folder of temporary files. `seed`: of the clients. Raises InputError."""

    scale: float | None = None
    minutes: float | None = None
    quick: bool = False
    resume: bool = False
    store: Store | str | Path | None = None
    work: Path | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        for what, value, (low, high) in (("--scale", self.scale, SCALES), ("--minutes", self.minutes, MINUTES)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high):
                raise InputError(f"{what} {value}", f"must be {low:g} to {high:g}", DOC)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 1 <= self.seed < 2**31:
            raise InputError(f"--seed {self.seed}", "must be a whole number from 1 to 2^31 - 1", DOC)

    @property
    def time_s(self) -> float:
        """About how long all of it may take, s."""
        return 60.0 * (self.minutes or (QUICK_MINUTES if self.quick else DEFAULT_MINUTES))

    @property
    def kept(self) -> Store:
        """The run store."""
        return self.store if isinstance(self.store, Store) else Store(self.store)


@dataclass(frozen=True)
class DataSet:
    """What is loaded once: `benchmark`'s data in `engine`. `settings`: of the server while it loads, beside those that make loading quick."""

    name: str
    benchmark: Benchmark
    gib: float
    engine: str = "innodb"
    settings: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class OnServer:
    """A server of a cell: a copy of `data` on `storage`. `settings` decide everything but where things are. `balance_percent`: credits when the run begins. `scan`: every
    table is read once before the run, so that a pool that holds them does."""

    data: DataSet
    storage: str
    settings: Mapping[str, str | None] = field(default_factory=dict)
    log_storage: str | None = None
    balance_percent: float | None = None
    scan: bool = False


@dataclass(frozen=True)
class OnFiles:
    """Files on a fresh filesystem on `storage`. `balance_percent`: credits when the run begins."""

    storage: str
    balance_percent: float | None = None


@dataclass(frozen=True)
class Cell:
    """One run. `key`: how the study knows it; `words`: how a reader does, unique in a study."""

    key: tuple
    words: str
    place: OnServer | OnFiles
    benchmark: Benchmark
    threads: int
    warmup_s: int
    seconds: int
    seed: int

    def configuration(self, study: str, machine: Mapping[str, object]) -> dict:
        """All that decides what is measured."""
        place = asdict(self.place)
        if isinstance(self.place, OnServer):
            data = self.place.data
            place["data"] = {
                "benchmark": data.benchmark.name,
                "options": data.benchmark.options(),
                "engine": data.engine,
                "settings": dict(data.settings),
            }
        return {
            "study": study, "cell": self.words, "benchmark": self.benchmark.name, "options": self.benchmark.options(), "threads": self.threads, "warmup_s": self.warmup_s,
            "seconds": self.seconds, "seed": self.seed, "place": place, "machine": dict(machine),
        }  # fmt: skip

    def run_name(self, study: str, machine: Mapping[str, object]) -> str:
        """The run's name in the store; the same for the same configuration alone."""
        text = json.dumps(self.configuration(study, machine), sort_keys=True, default=str)
        return f"{study}: {self.words} [{hashlib.sha256(text.encode()).hexdigest()[:12]}]"


# What a cell takes beside its warm-up and seconds: copying the data and starting the server, looking at the machine, samples before and after, checking the rows,
# taking it away. Measured on 2 cores with 0.1 to 0.5 GiB of data: 8 to 10 s.
SERVER_CELL_S = 9.0
# Of files: attaching and mounting (once a storage), samples before and after.
FILES_CELL_S = 6.0


def seconds_each(time_s: float, fixed_s: float, cells: int, each_s: float, least: int, most: int) -> int:
    """Seconds measured in each of so many cells, so that all of it takes `time_s`; between `least` and `most`."""
    return int(max(least, min(most, (time_s - fixed_s) / max(cells, 1) - each_s)))
