"""Measuring configurations on the lab: the data are loaded once and kept, and every configuration begins with a copy of them and an empty cache."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from headrace import bench
from headrace import servers as servers
from headrace.base.units import MIB
from headrace.bench.drivers.benchmark import Benchmark
from headrace.connect import connect
from headrace.errors import CouldNotRun
from headrace.lab import Lab
from headrace.prove.configuration import DOC, Configuration

DATABASE = "sbtest"
SERVER = "proof"
# Loading is not what is measured: the quickest volume there is, and no care for a crash. The redo log has the size it will have: one that a server makes anew at its start is of
# blocks never written, and each first write of one costs the filesystem's journal a write too.
LOADING_IOPS, LOADING_MIB_S = 16_000, 1_000
LOADING_MEMORY_GIB = 1.0
LOADING_THREADS = 4
# Other transactions than those that are measured.
SETTLING_THREADS, SETTLING_SEED = 16, 1_000_003
LEAST_SETTLE_S = 5
# Of the published MyRocks databases the standard benchmark is made from; MariaDB's own default is 4 KiB.
BLOCK_BYTES = "16384"
LOADING_SETTINGS = {
    "innodb": {"innodb_flush_log_at_trx_commit": "0", "innodb_doublewrite": "OFF"},
    "myrocks": {"rocksdb_flush_log_at_trx_commit": "0", "rocksdb_block_size": BLOCK_BYTES},
}
# A cache that fills itself from what it held before would read beside the clients; neighbours of changed pages are not written with them on SSDs.
SETTINGS = {
    "innodb": {
        "innodb_buffer_pool_load_at_startup": "OFF",
        "innodb_buffer_pool_dump_at_shutdown": "OFF",
        "innodb_flush_neighbors": "0",
        "innodb_flush_method": "O_DIRECT",
    },
    "myrocks": {
        "rocksdb_block_size": BLOCK_BYTES,
        "rocksdb_use_direct_reads": "ON",
        "rocksdb_use_direct_io_for_flush_and_compaction": "ON",
    },
}
# Of the data: about what an hour of writes comes to when data and hour are made smaller alike (2 MiB/s beside 60 GiB). At least the default of both servers.
REDO_SHARE, LEAST_REDO_MIB = 1 / 8, 96
REDO_SETTING = {"mariadb": "innodb_log_file_size", "mysql": "innodb_redo_log_capacity"}
CACHE_SETTING = {"innodb": "innodb_buffer_pool_size", "myrocks": "rocksdb_block_cache_size"}
# Room for what the filesystem, the logs and a growing data set take beside the data.
ROOM = 1.35
MORE_GIB = 2.0

Progress = Callable[[float, str], None]
Gate = Callable[[], AbstractContextManager]


def quiet(share: float, what: str) -> None:
    """Says nothing."""


@dataclass(frozen=True)
class Data:
    """Data that were loaded once. `folder`: of `mysql.save_data`; `size_gib`: of its files; `settings`: server settings every configuration has."""

    folder: Path
    benchmark: Benchmark
    flavor: str
    engine: str
    size_gib: float
    settings: Mapping[str, str] = field(default_factory=dict)


def load(
    lab: Lab, benchmark: Benchmark, folder: Path, *, flavor: str = "mariadb", engine: str = "innodb", settings: Mapping[str, str] | None = None, about_gib: float = 4.0,
    threads: int = LOADING_THREADS, settle_s: int = 0, seed: int = 1, progress: Progress = quiet,
) -> Data:  # fmt: skip
    """Loads the benchmark's data on a quick volume and saves them in `folder`; what is there already is taken. `about_gib`: what they may come to.

    `settle_s`: seconds of the load itself before they are saved. The first thousands of transactions in a fresh server make undo pages that later ones use again: with a pool of 0.25 GiB
    they wrote 7.7 pages a transaction at first and 6.6 after 20,000 (MariaDB 10.11, 8 x 1,000,000 rows, 2026-11-21).

    Raises InputError, CouldNotRun, LabRefused; then nothing is left in the lab or the folder.
    """
    own = ({REDO_SETTING[flavor]: f"{redo_mib(about_gib)}M"} if engine == "innodb" else {}) | dict(settings or {})
    if not (folder / "saved.json").exists():
        storage = f"gp3:{max(40, round(3 * about_gib))}:{LOADING_IOPS}:{LOADING_MIB_S}"
        server = servers.up(
            lab, name=f"{SERVER}-load", flavor=flavor, engine=engine, storage=storage, memory_gib=LOADING_MEMORY_GIB,
            settings=own | (LOADING_SETTINGS[engine] if flavor == "mariadb" else {}), progress=lambda share, what: progress(0.1 * share, what),
        )  # fmt: skip
        try:
            with connect(server.address()) as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS `{DATABASE}`")
            target = bench.server_target(server.address(DATABASE), storage=storage, devices=server.devices, engine=engine)
            bench.prepare(benchmark, target, threads=threads, seed=seed, say=lambda text: progress(0.1, text))
            if settle_s >= LEAST_SETTLE_S:
                progress(0.6, "settling the data")
                with tempfile.TemporaryDirectory() as unwanted:
                    bench.run(benchmark, target, seconds=settle_s, threads=SETTLING_THREADS, seed=seed + SETTLING_SEED, store=unwanted)
            progress(0.8, "ending the server")
            server = servers.stop(server)
            progress(0.9, "keeping the data")
            servers.save_data(server, folder)
        finally:
            servers.destroy(server)
    size = sum(entry.stat().st_blocks * 512 for entry in folder.rglob("*") if entry.is_file())
    progress(1.0, "loaded")
    return Data(folder, benchmark, flavor, engine, size / 2**30, own)


def redo_mib(data_gib: float) -> int:
    """Of the redo log beside so much data."""
    return max(LEAST_REDO_MIB, round(data_gib * 1024 * REDO_SHARE))


def check_room(data: Data, configuration: Configuration, lab_folder: Path) -> None:
    """Raises CouldNotRun where this machine cannot hold another copy of the data, or the volume cannot."""
    wanted = data.size_gib * ROOM + MORE_GIB
    if configuration.usable_gib < data.size_gib * ROOM:
        raise CouldNotRun(
            configuration.storage, f"holds {configuration.usable_gib:g} GiB, and the data with their logs take {data.size_gib * ROOM:.2f}", DOC, "Take a smaller scale.",
        )  # fmt: skip
    free = shutil.disk_usage(lab_folder).free / 2**30
    if free < wanted:
        raise CouldNotRun(
            str(lab_folder), f"has {free:.1f} GiB free, and a configuration takes {wanted:.1f}", DOC, "Free some, or take a smaller scale."
        )


def settings_of(data: Data, configuration: Configuration) -> dict[str, str]:
    """All settings of a configuration's server."""
    cache = max(1, round(configuration.cache_gib * 2**30 / MIB))
    return {**SETTINGS[data.engine], **data.settings, CACHE_SETTING[data.engine]: f"{cache}M"}


def measure(
    lab: Lab, data: Data, configuration: Configuration, *, seconds: int, warmup_s: int = 0, seed: int = 1, store: bench.Store | str | os.PathLike, progress: Progress = quiet,
    on_second: Callable[[bench.Second], None] | None = None, gate: Gate = nullcontext, as_of: str | None = None,
) -> bench.RunRecord:  # fmt: skip
    """Builds a configuration from the saved data, runs the benchmark on it from an empty cache, and takes it away again.

    `gate`: entered around what is measured. Raises InputError, CouldNotRun, LabRefused, and BrokenRun and Interrupted with what was measured until then.
    """
    check_room(data, configuration, Path(lab.place.data_dir or "."))
    server = servers.up(
        lab, name=SERVER, flavor=data.flavor, engine=data.engine, storage=configuration.storage, log_storage=configuration.log_storage,
        settings=settings_of(data, configuration), seed_from=data.folder, progress=lambda share, what: progress(0.2 * share, what),
    )  # fmt: skip
    try:
        if configuration.balance_percent is not None:
            lab.set_balance(server.data_volume, configuration.balance_percent)
        target = bench.server_target(
            server.address(DATABASE), storage=configuration.storage, log_storage=configuration.log_storage, devices=server.devices,
            lab=lab.place, volumes=tuple(volume for volume in (server.data_volume, server.log_volume) if volume), engine=data.engine, as_of=as_of,
        )  # fmt: skip
        with gate():
            return bench.run(
                data.benchmark, target, seconds=seconds, warmup_s=warmup_s, threads=configuration.threads, seed=seed, store=store, name=configuration.name, start="cold",
                progress=lambda share, what: progress(0.2 + 0.8 * share, what), on_second=on_second,
            )  # fmt: skip
    finally:
        servers.destroy(server)
