"""Where cells run: a lab of the study's own in a folder of the moment, data loaded once, each server on fresh volumes with a copy of them. Nothing is left behind."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace import servers as mysql
from headrace.base.processes import ends_as_interrupts, undisturbed
from headrace.bench import Target, file_target, prepare, server_target
from headrace.bench.server import cursor_on, tables_of
from headrace.lab import Settings, doctor, up
from headrace.servers import volumes as server_volumes
from headrace.servers.access import service_user
from headrace.servers.scratch import lab_folder
from headrace.studies.measured.plan import DataSet, OnFiles, OnServer, Say, silent

# In a setting: the path of a file of keys.
KEYS = "{keys}"
DATABASE = "study"
NAME = "cell"
FILES_VOLUME = "files"
LOADERS = 8
# Loading is no measurement: nothing is to be safe, and the pool holds all of it.
LOAD_SETTINGS = {
    "innodb": {"innodb_flush_log_at_trx_commit": "0", "innodb_doublewrite": "OFF", "innodb_log_file_size": "512M", "innodb_io_capacity": "10000", "innodb_io_capacity_max": "20000",
               "innodb_buffer_pool_dump_at_shutdown": "OFF"},
    "myrocks": {"rocksdb_flush_log_at_trx_commit": "0", "innodb_buffer_pool_size": "16M"},
}  # fmt: skip
CACHE = {"innodb": "innodb_buffer_pool_size", "myrocks": "rocksdb_block_cache_size"}
# The fastest volume of any day studied; it is sparse, so its size costs nothing.
LOAD_STORAGE = "io1:1000:20000"


class Bed:
    """`with Bed(day, work) as bed: bed.load(data_set); with bed.server(place) as target: ...`. `day`: of the volumes' limits, None: the newest. `work`: where its folder is made,
    None: the system's folder of temporary files, and the lab in memory where `data_gib` fit. Raises as Lab and mysql.up."""

    def __init__(self, day: str | None = None, work: Path | None = None, say: Say = silent, data_gib: float = 1.0) -> None:
        self.day, self._work, self._say = day, work, say
        self._data_gib = data_gib if work is None else math.inf
        self._saved: dict[str, Path] = {}
        self._stack = contextlib.ExitStack()
        self._key_file: Path | None = None

    def __enter__(self) -> Bed:
        with contextlib.ExitStack() as stack:
            stack.enter_context(ends_as_interrupts())
            if self._work is not None:
                self._work.mkdir(parents=True, exist_ok=True)
            # Short: the path of a socket has at most 107 bytes.
            self.folder = Path(tempfile.mkdtemp(prefix="hr-study-", dir=self._work))
            stack.callback(_remove, self.folder)
            folder = stack.enter_context(lab_folder(self.folder / "lab", self._data_gib))
            self.lab = up(folder, settings=Settings(metrics_port=0, as_of=self.day))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with undisturbed():
            self._stack.close()

    def load(self, data: DataSet) -> None:
        """Loads a data set, if it is not loaded yet, and keeps the folder of a server that was ended in order."""
        if self._name(data) in self._saved:
            return
        settings = (
            LOAD_SETTINGS[data.engine] | {CACHE[data.engine]: f"{max(64, int(1.3 * 1024 * data.gib) + 64)}M"} | self._filled(data.settings)
        )
        server = mysql.up(self.lab, name="load", engine=data.engine, storage=LOAD_STORAGE, settings=settings)
        try:
            prepare(data.benchmark, self._target(server), threads=LOADERS, say=self._say)
            server = mysql.stop(server)
            self._saved[self._name(data)] = mysql.save_data(server, self.folder / f"data-{len(self._saved)}")
        finally:
            with undisturbed():
                mysql.destroy(mysql.find(self.lab, "load"))

    @staticmethod
    def _name(data: DataSet) -> str:
        return repr(data)

    @contextmanager
    def server(self, place: OnServer) -> Iterator[Target]:
        """A server with a copy of its data, warm as asked; taken away afterwards."""
        self.load(place.data)
        server = mysql.up(
            self.lab, name=NAME, engine=place.data.engine, storage=place.storage, log_storage=place.log_storage, settings=self._filled(place.settings),
            seed_from=self._saved[self._name(place.data)],
        )  # fmt: skip
        try:
            target = self._target(server)
            if place.scan:
                scan(target)
            self._credits(server.data_volume, place.balance_percent)
            yield target
        finally:
            with undisturbed():
                mysql.destroy(server)

    def _target(self, server: mysql.Server) -> Target:
        volumes = tuple(volume for volume in (server.data_volume, server.log_volume) if volume)
        return server_target(
            server.address(DATABASE), storage=server.storage, log_storage=server.log_storage, devices=server.devices, lab=self.lab.place, volumes=volumes,
            as_of=self.day, engine=server.engine,
        )  # fmt: skip

    @contextmanager
    def files(self, place: OnFiles, benchmark) -> Iterator[Target]:
        """A folder on a fresh filesystem with the benchmark's files, written without the volume's limits; taken away afterwards."""
        mount = self.folder / "mnt"
        volume = self.lab.create(place.storage, name=FILES_VOLUME)["id"]
        try:
            device = self.lab.attach(volume, unpaced=True, probe=False)["attachment"]["device"]
            server_volumes.make_filesystem(device)
            server_volumes.mount(device, mount)
            prepare(benchmark, file_target(mount, storage=place.storage), say=self._say)
            server_volumes.unmount(mount)
            self.lab.detach(volume)
            server_volumes.mount(self.lab.attach(volume)["attachment"]["device"], mount)
            self._credits(volume, place.balance_percent)
            yield file_target(mount, storage=place.storage, lab=self.lab.place, volumes=(volume,), as_of=self.day)
        finally:
            with undisturbed():
                server_volumes.unmount(mount, lazily=True)
                if self.lab.describe(volume).get("attachment"):
                    self.lab.detach(volume, force=True)
                self.lab.delete(volume)

    def _filled(self, settings: Mapping[str, str | None]) -> dict[str, str | None]:
        """Settings with the path of a key file where they ask for one: it differs from session to session, and is no part of a configuration."""
        return {name: value.replace(KEYS, str(self._keys())) if value and KEYS in value else value for name, value in settings.items()}

    def _keys(self) -> Path:
        """A file with one random key of 256 bits, for file_key_management; it goes with the bed."""
        if self._key_file is None:
            user = service_user()
            folder = Path(tempfile.mkdtemp(prefix="hr-study-keys-", dir="/run"))
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            os.chown(folder, 0, user.gid)
            folder.chmod(0o750)
            path = folder / "keys"
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640), "w") as file:
                os.fchown(file.fileno(), 0, user.gid)
                file.write(f"1;{secrets.token_hex(32)}\n")
            self._key_file = path
        return self._key_file

    def _credits(self, volume: str, percent: float | None) -> None:
        if percent is not None:
            self.lab.set_balance(volume, percent)


def scan(target: Target) -> None:
    """Reads every row of every table of the database."""
    with cursor_on(target) as cursor:
        for table in tables_of(target, ".*"):
            cursor.execute(f"SELECT COUNT(*) FROM `{table}` IGNORE INDEX (k_{table.removeprefix('sbtest')}) WHERE pad <> ''")
            cursor.execute(f"SELECT COUNT(*) FROM `{table}` WHERE k > -1")


def _remove(folder: Path) -> None:
    """The study's folder; never what is still mounted in it."""
    if not any(entry.place.startswith(f"{folder}/") for entry in doctor.mounts(doctor.Machine())):
        shutil.rmtree(folder, ignore_errors=True)
