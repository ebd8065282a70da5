"""The target of a benchmark: a server or a folder of files, the storage below it, and the server's
own variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.base.checks import check_choice
from headrace.base.encoding import Document
from headrace.base.units import GIB
from headrace.errors import Refusals
from headrace.lab.place import Place
from headrace.mysql import Address, connect
from headrace.mysql.statements import ask_pairs

DOC = "docs/reference/bench.md"
refuse = Refusals(DOC)
SYS_BLOCK = Path("/sys/dev/block")
# Variables that hold, or held in some version, a password in clear (report_password,
# wsrep_sst_auth, the LDAP plugins').
SECRET = re.compile(r"(^|_)(password|pwd|secret|sst_auth)$")


@dataclass(frozen=True)
class Target(Document, computed=("label",), omitted=("address", "folder", "config")):
    """`address`: the server, None for benchmarks of files; `folder`: where those put them, or a
    block device. `storage`, `log_storage`: storage notation, None when not known. `devices`:
    block devices whose counters are recorded, data first. `lab` and `volumes` (ids or names):
    lab volumes below it. `config`: server variables by name. `cache_gib`: buffer pool or block
    cache, GiB. `instance`: EC2 type. `as_of`: the day of the limits, None: the newest.
    """

    address: Address | None = None
    folder: Path | None = None
    storage: str | None = None
    log_storage: str | None = None
    devices: tuple[str, ...] = ()
    lab: Place | None = None
    volumes: tuple[str, ...] = ()
    flavor: str | None = None
    version: str | None = None
    engine: str | None = None
    cache_gib: float | None = None
    instance: str | None = None
    as_of: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Returns the address or folder as text, without any secret."""
        return self.address.label if self.address is not None else str(self.folder)

    @property
    def server(self) -> Address:
        """Returns the address of a target that is a server."""
        assert self.address is not None, self.label
        return self.address

    @property
    def database(self) -> str:
        """Returns the name of the database in the server's address."""
        assert self.server.database is not None, self.label
        return self.server.database

    @property
    def files(self) -> Path:
        """Returns the folder or device of a target of files."""
        assert self.folder is not None, self.label
        return self.folder

    def list_entries(self) -> dict[str, object]:
        """Returns the facts of the target that are stored with a run, without passwords."""
        return super().list_entries() | {"lab": None if self.lab is None else str(self.lab.socket)}


def make_server_target(
    address: Address,
    *,
    storage: str | None = None,
    log_storage: str | None = None,
    devices: Sequence[str] = (),
    lab: Place | None = None,
    volumes: Sequence[str] = (),
    instance: str | None = None,
    as_of: str | None = None,
    engine: str | None = None,
) -> Target:
    """Returns a running server as a target, with its variables. Without `devices` it has the device
    of its data directory, if that is on this machine. `engine`: innodb or myrocks, None: the
    server's default. Raises as `connect.connect`, and InputError for wrong storage notation."""
    for spec in (storage, log_storage):
        check_storage(spec)
    with connect(address.with_database(None)) as connection:
        variables = ask_pairs(connection, "SHOW GLOBAL VARIABLES")
    config = {name: "***" if SECRET.search(name) else value for name, value in variables.items()}
    engine = engine or ("myrocks" if config.get("default_storage_engine", "").lower() == "rocksdb" else "innodb")
    check_choice("engine", engine, ("innodb", "myrocks"), refuse)
    return Target(
        address=address,
        storage=storage,
        log_storage=log_storage,
        devices=tuple(devices) or _find_local_device(address, config.get("datadir")),
        lab=lab,
        volumes=tuple(volumes),
        flavor=_detect_flavor(config),
        version=config.get("version"),
        engine=engine,
        cache_gib=find_cache_gib(config, engine),
        instance=instance,
        as_of=as_of,
        config=config,
    )


def make_file_target(
    folder: str | Path,
    *,
    storage: str | None = None,
    devices: Sequence[str] = (),
    lab: Place | None = None,
    volumes: Sequence[str] = (),
    instance: str | None = None,
    as_of: str | None = None,
) -> Target:
    """Returns a folder, or a block device, as a target. Raises InputError."""
    check_storage(storage)
    path = Path(folder).absolute()
    if not path.is_dir() and not path.is_block_device():
        hint = "Mount a volume and name a folder on it."
        raise refuse.input(str(folder), "is neither a folder nor a block device", hint)
    own_devices = (os.path.realpath(path),) if path.is_block_device() else find_device_below(path)
    return Target(
        folder=path,
        storage=storage,
        devices=tuple(devices) or own_devices,
        lab=lab,
        volumes=tuple(volumes),
        instance=instance,
        as_of=as_of,
    )


def check_storage(spec: str | None) -> None:
    """Raises InputError if `spec` is not storage notation; None passes."""
    from headrace.base import core
    from headrace.base.core import translate_core_errors

    if spec is not None:
        with translate_core_errors():
            core.parse_storage(spec)


def find_cache_gib(config: Mapping[str, str], engine: str) -> float | None:
    """Returns the size of buffer pool or block cache, GiB; None when the server does not tell."""
    text = config.get("rocksdb_block_cache_size" if engine == "myrocks" else "innodb_buffer_pool_size", "")
    return int(text) / GIB if text.isdigit() else None


def _detect_flavor(config: Mapping[str, str]) -> str:
    """Returns mariadb, percona or mysql, by the server's version and version comment."""
    version_text = f"{config.get('version', '')} {config.get('version_comment', '')}".lower()
    return "mariadb" if "mariadb" in version_text else "percona" if "percona" in version_text else "mysql"


def _find_local_device(address: Address, datadir: str | None) -> tuple[str, ...]:
    """Returns the device below the data directory of a server on this machine (by its socket)."""
    if address.socket is None or not datadir or not os.path.isdir(datadir):
        return ()
    return find_device_below(Path(datadir))


def find_device_below(folder: Path) -> tuple[str, ...]:
    """Returns the block device a folder's file system is on; () for those without one (tmpfs,
    overlays, network)."""
    number = os.stat(folder).st_dev
    link = SYS_BLOCK / f"{os.major(number)}:{os.minor(number)}"
    try:
        name = os.path.basename(os.readlink(link))
    except OSError:
        return ()
    return (f"/dev/{name}",)
