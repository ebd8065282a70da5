"""Cells of an experiment: a benchmark on a server, or on files, over storage of the lab.

A cell is one run that begins from the same copy of the data as the others. The hash of everything
that decides its measurement is part of the name of its run, so that a run of the store can be
assigned to its cell.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Literal

from headrace.base.encoding import pick_fields
from headrace.bench import Benchmark

# A function that is called with the share done (0..1) and the name of the current step.
Progress = Callable[[float, str], None]

# Seconds a cell takes in addition to its warm-up and its measured seconds: copying the data,
# starting the server, samples before and after, checking the rows, removing it. Measured on 2 cores
# with 0.1 to 0.5 GiB of data: 8 to 10 s.
SERVER_CELL_S = 9.0
# Seconds that a cell on files takes in addition: attaching and mounting (once per storage), samples
# before and after.
FILES_CELL_S = 6.0


@dataclass(frozen=True)
class DataSet:
    """Data that are loaded once: those of `benchmark` in `engine`, about `gib` GiB.

    `settings`: of the server while it loads, in addition to those that make loading quick.
    `settle_s`: seconds for which the benchmark runs before the files are saved; `seed`: of its
    rows.
    """

    name: str
    benchmark: Benchmark
    gib: float
    engine: str = "innodb"
    settings: Mapping[str, str | None] = field(default_factory=dict)
    flavor: str = "mariadb"
    settle_s: int = 0
    seed: int = 1


@dataclass(frozen=True)
class OnServer:
    """A server with a copy of `data` on `storage`, with `settings` of the server.

    `balance_percent`: credits when the run begins. With `scan` every table is read before the run,
    so that a pool that can hold all pages does. With `encrypted` its volumes are encrypted. With
    `restored` its volume is made from a snapshot of the data: blocks are loaded when first used
    (cold), or all before the run (initialized).
    """

    data: DataSet
    storage: str
    settings: Mapping[str, str | None] = field(default_factory=dict)
    log_storage: str | None = None
    balance_percent: float | None = None
    scan: bool = False
    encrypted: bool = False
    restored: Literal["cold", "initialized"] | None = None


@dataclass(frozen=True)
class OnFiles:
    """Files on a fresh filesystem on `storage`. `balance_percent`: credits when the run begins."""

    storage: str
    balance_percent: float | None = None


@dataclass(frozen=True)
class Cell:
    """One configuration of an experiment, which is measured in one run. `key` is its name in code,
    `words` its description for a reader; both are unique in an experiment."""

    key: tuple
    words: str
    place: OnServer | OnFiles
    benchmark: Benchmark
    threads: int
    warmup_s: int
    seconds: int
    seed: int

    @property
    def server(self) -> OnServer:
        """Returns the place of a cell that runs on a server."""
        assert isinstance(self.place, OnServer), self.words
        return self.place

    @property
    def length_s(self) -> float:
        """Returns about how long the cell takes, s."""
        return self.warmup_s + self.seconds + (SERVER_CELL_S if isinstance(self.place, OnServer) else FILES_CELL_S)

    def collect_configuration(self, experiment: str, machine: Mapping[str, object]) -> dict:
        """Returns everything that decides the measurement, for the hash in the run's name."""
        place = asdict(self.place)
        if isinstance(self.place, OnServer):
            data = self.place.data
            load = {"benchmark": data.benchmark.name, "options": data.benchmark.list_options()}
            place["data"] = load | {"engine": data.engine, "settings": dict(data.settings)}
        return {
            "study": experiment,
            "cell": self.words,
            "benchmark": self.benchmark.name,
            "options": self.benchmark.list_options(),
            **pick_fields(self, "threads", "warmup_s", "seconds", "seed"),
            "place": place,
            "machine": dict(machine),
        }

    def make_run_name(self, experiment: str, machine: Mapping[str, object]) -> str:
        """Returns the run's name in the store, shared only by cells of one configuration."""
        text = json.dumps(self.collect_configuration(experiment, machine), sort_keys=True, default=str)
        return f"{experiment}: {self.words} [{hashlib.sha256(text.encode()).hexdigest()[:12]}]"


def compute_seconds_each(time_s: float, fixed_s: float, cells: int, each_s: float, least: int, most: int) -> int:
    """Returns the seconds to measure in each cell so that all `cells` take `time_s` together, of
    which `fixed_s` once and `each_s` per cell are not measured; limited to `least` and `most`."""
    return int(max(least, min(most, (time_s - fixed_s) / max(cells, 1) - each_s)))


@dataclass
class Parts:
    """Progress over parts that are estimated to take `all_s` seconds together."""

    progress: Progress
    all_s: float
    done_s: float = 0.0

    @contextmanager
    def begin_part(self, seconds: float, what: str) -> Iterator[Progress]:
        """Reports the progress of a part of about `seconds`, named `what`, at its begin and end;
        yields a function that reports the share done (0..1) of this part."""

        def report_share(share: float, words: str = "") -> None:
            self.progress(min(1.0, (self.done_s + share * seconds) / self.all_s), words or what)

        report_share(0.0)
        yield report_share
        report_share(1.0)
        self.done_s += seconds

    def skip(self, seconds: float) -> None:
        """Takes the seconds of a part that is not needed out of the estimate."""
        self.all_s = max(self.done_s + 1e-9, self.all_s - seconds)
