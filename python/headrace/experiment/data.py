"""Runs cells in a temporary lab: data are loaded once, and each cell gets fresh volumes with a copy
of them and an empty cache. Everything is removed at the end.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace import servers
from headrace.base.mounts import read_mount_table
from headrace.base.signals import ends_as_interrupts, ignore_interrupts
from headrace.base.storage import Storage
from headrace.base.units import GIB
from headrace.bench import Benchmark, Target, make_file_target, make_server_target, prepare, run
from headrace.bench.drivers.benchmark import Say, stay_silent
from headrace.bench.server import find_tables, hold_connection
from headrace.errors import Refusals
from headrace.experiment.cell import DataSet, OnFiles, OnServer, Progress
from headrace.lab import Settings, start_lab
from headrace.lab.initializing import initialize
from headrace.lab.waiting import wait_for_snapshot
from headrace.mysql.statements import ask
from headrace.servers import volumes
from headrace.servers.scratch import make_lab_folder

refuse = Refusals("docs/guide/prove.md")
DATABASE = "experiment"
SERVER, FILES_VOLUME = "cell", "files"
# Tables that are prepared in parallel; sysbench uses at most one thread a table.
LOADING_THREADS = 8
# Blocks that are read at once; what `headrace volume initialize` does by default (a guess).
INITIALIZING_THREADS = 16
# Loading is not measured, so it uses a fast volume and turns durability off. The volume is sparse:
# its size costs nothing. 20,000 IOPS are the most of every day that a study runs on.
LOADING_STORAGE = "io1:{size_gib}:20000"
LOADING_GIB = 1_000  # io1 has at most 50 IOPS per GiB, so 400 would do
LOADING_SETTINGS = {
    "innodb": {
        "innodb_flush_log_at_trx_commit": "0",
        "innodb_doublewrite": "OFF",
        "innodb_log_file_size": "512M",
        "innodb_io_capacity": "10000",
        "innodb_io_capacity_max": "20000",
        "innodb_buffer_pool_dump_at_shutdown": "OFF",
    },
    "myrocks": {"rocksdb_flush_log_at_trx_commit": "0", "innodb_buffer_pool_size": "16M"},
}
# While loading the cache holds all data and the tree's inner pages (a guess: 0.3 more), at most 1
# GiB.
LOADING_CACHE_SHARE, LEAST_LOADING_MIB, MOST_LOADING_MIB = 1.3, 64, 1_024
CACHE_SETTING = {"innodb": "innodb_buffer_pool_size", "myrocks": "rocksdb_block_cache_size"}
REDO_SETTING = {"mariadb": "innodb_log_file_size", "mysql": "innodb_redo_log_capacity"}
# The benchmark runs before the data are kept with many clients, and with other transactions than
# those that are measured. A shorter run than LEAST_SETTLE_S is not worth its start (a guess).
SETTLING_THREADS, SETTLING_SEED, LEAST_SETTLE_S = 16, 1_000_003, 5
# Guesses: what the filesystem, the logs and a growing data set take, as a factor of the data; and
# GiB kept free in the folder of the lab for temporary tables and its journal.
SPACE_FACTOR, SPARE_GIB = 1.35, 1.0


class ExperimentLab:
    """A temporary lab: `with ExperimentLab() as lab, lab.open_server(place) as target: ...`

    `work` is the parent of its folder (None: the system's folder of temporary files). `day`: that
    of the volumes' limits, None: the newest. `data_gib`: size of the data on its volumes, which lie
    in memory if they fit, unless `in_memory` is False. Raises as Lab and servers.bring_up.
    """

    def __init__(
        self,
        work: Path | None = None,
        *,
        day: str | None = None,
        data_gib: float = 1.0,
        in_memory: bool = True,
        say: Say = stay_silent,
    ) -> None:
        self.day, self._work, self._say = day, work, say
        self._data_gib = data_gib if in_memory else float("inf")
        self._saved_folders: dict[str, Path] = {}
        self._snapshots: dict[str, str] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ExperimentLab:
        """Makes the lab's folder and starts its daemon; if that fails, nothing is left behind.
        Raises as Lab."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(ends_as_interrupts())
            if self._work is not None:
                self._work.mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix="hr-lab-", dir=self._work))
            stack.callback(_remove_folder, self.folder)
            folder = stack.enter_context(make_lab_folder(self.folder / "lab", self._data_gib))
            self.lab = start_lab(folder, settings=Settings(metrics_port=0, api_port=0, as_of=self.day))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with ignore_interrupts():
            self._stack.close()

    def load(self, data: DataSet, folder: Path | None = None, progress: Progress = stay_silent) -> None:
        """Loads a data set, unless it is loaded, and saves the files of the stopped server in
        `folder`, from which other labs take them too (None: in this lab's folder, removed with it).
        Raises InputError, CouldNotRun, LabRefused; nothing is saved then.
        """
        if repr(data) in self._saved_folders:
            return
        folder = folder or self.folder / f"data-{len(self._saved_folders)}"
        if not (folder / "saved.json").exists():
            self._load(data, folder, progress)
        self._saved_folders[repr(data)] = folder
        progress(1.0, "loaded")

    def _load(self, data: DataSet, folder: Path, progress: Progress) -> None:
        """Loads the data on a fast volume without durability, runs the benchmark for `settle_s`
        seconds if that is at least LEAST_SETTLE_S, and saves the stopped server's files in
        `folder`."""
        cache_mib = int(LOADING_CACHE_SHARE * 1024 * data.gib) + LEAST_LOADING_MIB
        settings = {CACHE_SETTING[data.engine]: f"{min(cache_mib, MOST_LOADING_MIB)}M"} | LOADING_SETTINGS[data.engine]
        if data.flavor != "mariadb":
            # MySQL 9 has no such setting; its redo log is the data set's (REDO_SETTING).
            settings.pop(REDO_SETTING["mariadb"])
        server = servers.bring_up(
            self.lab,
            name="load",
            flavor=data.flavor,
            engine=data.engine,
            storage=LOADING_STORAGE.format(size_gib=max(LOADING_GIB, round(3 * data.gib))),
            settings=settings | dict(data.settings),
            progress=lambda share, what: progress(0.1 * share, what),
        )
        try:
            target = make_target(server, self.day)
            prepare(
                data.benchmark, target, threads=LOADING_THREADS, seed=data.seed, say=lambda text: progress(0.1, text)
            )
            if data.settle_s >= LEAST_SETTLE_S:
                progress(0.6, "settling the data")
                apply_load(data.benchmark, target, data.settle_s, SETTLING_THREADS, data.seed + SETTLING_SEED)
            progress(0.8, "stopping the server")
            server = servers.stop(server)
            progress(0.9, "keeping the data")
            servers.save_data(server, folder)
        finally:
            with ignore_interrupts():
                servers.destroy(server)

    def get_saved_folder(self, data: DataSet) -> Path:
        """Returns the folder with the files of a loaded data set."""
        return self._saved_folders[repr(data)]

    def measure_data_gib(self, data: DataSet) -> float:
        """Returns the size of a loaded data set's files, GiB."""
        entries = [entry for entry in self._saved_folders[repr(data)].rglob("*") if entry.is_file()]
        return sum(entry.stat().st_blocks * 512 for entry in entries) / GIB

    @contextmanager
    def start(
        self,
        place: OnServer,
        name: str = SERVER,
        *,
        port: int | None = None,
        unpaced: bool = False,
        progress: Progress = stay_silent,
    ) -> Iterator[servers.Server]:
        """Yields a started server with a copy of its data, and removes it afterwards. A `port` of
        None is a free one; with `unpaced` its volumes have no limits. Raises as
        servers.bring_up."""
        self.load(place.data)
        server = servers.bring_up(
            self.lab,
            name=name,
            flavor=place.data.flavor,
            engine=place.data.engine,
            storage=place.storage,
            log_storage=place.log_storage,
            settings=dict(place.settings),
            port=port,
            unpaced=unpaced,
            seed_from=self._saved_folders[repr(place.data)] if place.restored is None else self._take_snapshot(place),
            encrypted=place.encrypted,
            progress=progress,
        )
        try:
            yield server
        finally:
            with ignore_interrupts():
                servers.destroy(server)

    @contextmanager
    def open_server(self, place: OnServer, progress: Progress = stay_silent) -> Iterator[Target]:
        """Yields the server of a cell as a target, with initialized blocks, scanned tables and
        credits as `place` says, and removes it afterwards."""
        self.load(place.data)
        self._check_free_space(place)
        with self.start(place, progress=progress) as server:
            target = make_target(server, self.day)
            if place.restored == "initialized":
                assert server.volumes.data is not None, server.name
                initialize(self.lab, server.volumes.data, INITIALIZING_THREADS)
            if place.scan:
                scan(target)
            self.set_credits(server.volumes.data, place.balance_percent)
            yield target

    def _take_snapshot(self, place: OnServer) -> str:
        """Returns the id of a snapshot of the data volume of a stopped server with a copy of the
        data; the first call makes it."""
        key = repr((place.data, place.storage))
        if key not in self._snapshots:
            plain = OnServer(place.data, place.storage, place.settings)
            with self.start(plain, "source", unpaced=True) as running:
                volume = servers.stop(running).volumes.data
                assert volume is not None, running.name
                self._snapshots[key] = wait_for_snapshot(self.lab, self.lab.create_snapshot(volume)["id"])["id"]
        return self._snapshots[key]

    def _check_free_space(self, place: OnServer) -> None:
        """Raises CouldNotRun if the volume or this machine has no space for a copy of the data."""
        needed = self.measure_data_gib(place.data) * SPACE_FACTOR
        usable = Storage.parse(place.storage).usable_gib
        if usable < needed:
            rule = f"holds {usable:g} GiB, and the data with their logs take {needed:.2f}"
            raise refuse.run(place.storage, rule, "Take a smaller scale.")
        folder = Path(self.lab.place.data_dir or ".")
        free = shutil.disk_usage(folder).free / GIB
        if free < needed + SPARE_GIB:
            rule = f"has {free:.1f} GiB free, and a server takes {needed + SPARE_GIB:.1f}"
            raise refuse.run(str(folder), rule, "Free some, or take a smaller scale.")

    @contextmanager
    def open_files(self, place: OnFiles, benchmark: Benchmark) -> Iterator[Target]:
        """Yields a folder on a fresh filesystem with the files of the benchmark as a target, and
        removes it afterwards. The files are written without the limits of the volume."""
        mount = self.folder / "mnt"
        volume = self.lab.create(place.storage, name=FILES_VOLUME)["id"]
        try:
            device = self._attach_volume(volume, unpaced=True)
            volumes.make_filesystem(device)
            volumes.mount(device, mount)
            prepare(benchmark, make_file_target(mount, storage=place.storage), say=self._say)
            volumes.unmount(mount)
            self.lab.detach(volume)
            volumes.mount(self._attach_volume(volume), mount)
            self.set_credits(volume, place.balance_percent)
            yield make_file_target(mount, storage=place.storage, lab=self.lab.place, volumes=(volume,), as_of=self.day)
        finally:
            with ignore_interrupts():
                volumes.unmount(mount, lazily=True)
                if self.lab.describe(volume).get("attachment"):
                    self.lab.detach(volume, force=True)
                self.lab.delete(volume)

    def _attach_volume(self, volume: str, unpaced: bool = False) -> str:
        """Attaches a volume and returns its device."""
        attachment = self.lab.attach(volume, unpaced=unpaced, probe=not unpaced)["attachment"]
        assert attachment is not None and attachment["device"] is not None, volume
        return attachment["device"]

    def set_credits(self, volume: str | None, percent: float | None) -> None:
        """Sets the credits of a volume, percent of the full balance; None leaves them."""
        if percent is not None and volume is not None:
            self.lab.set_balance(volume, percent)


def apply_load(benchmark: Benchmark, target: Target, seconds: int, threads: int, seed: int) -> None:
    """Runs a benchmark for its effect on the server, without keeping its run. Raises as
    bench.run."""
    with tempfile.TemporaryDirectory() as store:
        run(benchmark, target, seconds=seconds, threads=threads, seed=seed, store=store)


def scan(target: Target) -> None:
    """Reads all rows and all index entries of every table of sysbench in the database, so that
    they are cached as far as they fit."""
    with hold_connection(target) as connection:
        for table in find_tables(target, ".*"):
            index = f"k_{table.removeprefix('sbtest')}"
            ask(connection, f"SELECT COUNT(*) FROM `{table}` IGNORE INDEX ({index}) WHERE pad <> ''")
            ask(connection, f"SELECT COUNT(*) FROM `{table}` WHERE k > -1")


def scan_index(target: Target) -> None:
    """Reads the secondary index of every table of sysbench, without the rows."""
    with hold_connection(target) as connection:
        for table in find_tables(target, ".*"):
            ask(connection, f"SELECT COUNT(*) FROM `{table}` WHERE k > -1")


def _remove_folder(folder: Path) -> None:
    """Removes the lab's folder, unless something is still mounted in it."""
    if not any(entry.place.startswith(f"{folder}/") for entry in read_mount_table()):
        shutil.rmtree(folder, ignore_errors=True)


def make_target(server: servers.Server, as_of: str | None = None) -> Target:
    """Returns a server of an experiment as the target of a benchmark."""
    return make_server_target(
        server.make_address(DATABASE),
        storage=server.storage,
        log_storage=server.log_storage,
        devices=server.volumes.devices,
        lab=server.lab.place,
        volumes=server.volumes.ids,
        as_of=as_of,
        engine=server.engine,
    )
