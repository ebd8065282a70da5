"""The option file a server is started with: what was asked for, then where things are, which is Headrace's to say.

kind      default: nothing; tuned: the advice for this storage and memory; a file: its [mysqld]
memory    the share of it that caches the data
settings  one by one, on top
places    folders, socket, port, TLS: last, and not to be set by anyone else
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from headrace.base import core
from headrace.base.machine import memory_bytes
from headrace.base.processes import Command, run_to_end, telling_lines
from headrace.errors import CouldNotRun, InputError
from headrace.servers.access import service_user
from headrace.servers.flavors import MYROCKS_PLUGIN, ServerProgram, dashed
from headrace.servers.record import ServerPaths

GUIDE = "docs/guide/mysql-on-the-lab.md"
KINDS = ("default", "tuned")
MIB = 1 << 20
SMALLEST_MEMORY_GIB, LARGEST_MEMORY_GIB = 0.03125, 24_576.0
CACHE_OF = {"innodb": "innodb-buffer-pool-size", "myrocks": "rocksdb-block-cache-size"}
# What says where things are, who the server is, and who may reach it.
PLACED = frozenset((
    "datadir", "socket", "pid-file", "tmpdir", "user", "basedir", "plugin-dir", "lc-messages-dir", "character-sets-dir", "secure-file-priv", "chroot",
    "log-error", "slow-query-log-file", "general-log-file", "log-basename", "log-bin-index", "relay-log", "relay-log-index", "slave-load-tmpdir",
    "replica-load-tmpdir", "innodb-log-group-home-dir", "innodb-data-home-dir", "innodb-undo-directory", "innodb-temp-tablespaces-dir", "innodb-tmpdir",
    "innodb-doublewrite-dir", "rocksdb-datadir", "rocksdb-wal-dir", "aria-log-dir-path", "port", "bind-address", "skip-networking", "networking",
    "admin-address", "admin-port", "extra-port", "mysqlx", "mysqlx-port", "mysqlx-socket", "ssl", "ssl-ca", "ssl-cert", "ssl-key", "ssl-capath", "ssl-crl",
    "ssl-crlpath", "require-secure-transport", "default-authentication-plugin", "skip-grant-tables", "grant-tables", "init-file", "daemonize",
    "default-storage-engine", "default-tmp-storage-engine",
))  # fmt: skip
BINLOG_OFF = ("skip-log-bin", "disable-log-bin")
OFF = ("0", "off", "false", "no")
OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}", re.ASCII)
MOST_OPTIONS = 1_000
MAX_VALUE = 4_096
CHECK_S = 60.0

PREFIX = re.compile(r"(?:loose-)?(?:(?:skip|enable|disable|maximum)-)?(?=.)")

Options = dict[str, str | None]


def is_placed(name: str) -> bool:
    """Whether an option (with dashes) is Headrace's to set, whatever stands in front of it."""
    return name in PLACED or PREFIX.sub("", name, count=1) in PLACED


def checked_settings(settings: dict[str, str] | None, what: str = "settings") -> Options:
    """Settings with dashes, as text. Raises InputError for what no option file can hold, and for what is not theirs to set."""
    found: Options = {}
    for key, value in (settings or {}).items():
        if not isinstance(key, str) or not OPTION.fullmatch(key):
            raise InputError(f"{what}: {str(key)[:60]!r}", "is no name of a server option", GUIDE, "For example innodb_io_capacity=2000.")
        name = dashed(key)
        if is_placed(name):
            rule = "is set by Headrace: it says where things are, and who may reach them"
            raise InputError(f"{what}: {key}", rule, GUIDE, "Leave it out. Storage is chosen with --storage and --log-storage.")
        text = None if value is None else str(value)
        if text is not None and (len(text) > MAX_VALUE or not text.isprintable()):
            raise InputError(f"{what}: {key}", f"a value is at most {MAX_VALUE:,} printable characters", GUIDE, "")
        found[name] = text
    if len(found) > MOST_OPTIONS:
        raise InputError(f"{len(found)} {what}", f"at most {MOST_OPTIONS}", GUIDE, "")
    return found


def settings_of(texts: list[str] | None) -> dict[str, str | None] | None:
    """`K=V` each, K alone for an option without a value. Raises InputError."""
    found: dict[str, str | None] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if dashed(key) in {dashed(one) for one in found}:
            raise InputError(text[:80], f"{key[:60]} was given before", GUIDE, "Give each option once.")
        found[key] = value if equals else None
    return found or None


def checked_memory(memory_gib: float | None) -> float | None:
    """GiB, within reason and this machine. Raises InputError."""
    if memory_gib is None:
        return None
    if not SMALLEST_MEMORY_GIB <= memory_gib <= LARGEST_MEMORY_GIB:
        rule = f"memory is {SMALLEST_MEMORY_GIB:g} to {LARGEST_MEMORY_GIB:,.0f} GiB"
        raise InputError(f"--memory {memory_gib:g}", rule, GUIDE, "For example --memory 2.")
    here = memory_bytes("MemTotal") / 2**30
    if (cache := core.cache_gib_for(memory_gib)) > here:
        rule = f"{cache:,.4g} GiB of it for the cache is more than the {here:.1f} GiB of this machine"
        raise InputError(f"--memory {memory_gib:g}", rule, GUIDE, "Take less, and scale the data with it.")
    return float(memory_gib)


def cache_bytes(memory_gib: float) -> int:
    """What the memory has room for to cache data (docs/decisions/0006), in whole MiB."""
    return int(core.cache_gib_for(memory_gib) * 2**30) // MIB * MIB


@dataclass(frozen=True)
class Chosen:
    """`options` of [mysqld] without those of places; `notes`: what of a file was left out, in words."""

    options: Options
    notes: list[str]


def choose(
    program: ServerProgram, engine: str, config: str | Path, storage: str, log_storage: str | None, memory_gib: float | None
) -> Chosen:
    """The options of a kind of configuration. Raises InputError, CouldNotRun."""
    notes: list[str] = []
    if str(config) == "tuned":
        if memory_gib is None:
            raise InputError("--config tuned", "needs to know the memory", "docs/reference/advice.md", "Add --memory GIB.")
        from headrace.advice import tuned_settings

        options = dict(tuned_settings(
            storage=storage, memory_gib=memory_gib, flavor=program.flavor, version=program.version, engine=engine, log_storage=log_storage,
        ))  # fmt: skip
        options = {dashed(key): value for key, value in options.items()}
    elif str(config) == "default":
        options = {}
    else:
        from headrace.servers.optionfile import server_options

        options = server_options(program, Path(config))
    left_out = [name for name in options if is_placed(name)]
    if left_out and str(config) not in KINDS:
        notes.append(f"{config}: placed by Headrace, so left out: {', '.join(sorted(left_out))}")
    options = {name: value for name, value in options.items() if name not in left_out}
    if memory_gib is not None and not (str(config) == "tuned" and CACHE_OF[engine] in options):
        options[CACHE_OF[engine]] = str(cache_bytes(memory_gib))
    return Chosen(options, notes)


def placed(program: ServerProgram, engine: str, where: ServerPaths, log_volume: bool, port: int | None, asked: Options) -> Options:
    """Where things are. `asked`: what is set beside it, for what depends on that."""
    log = (where.log_mount if log_volume else where.data_mount) / "log"
    options: Options = {
        "basedir": str(program.basedir),
        "datadir": str(where.data_mount / "data"),
        "tmpdir": str(where.data_mount / "tmp"),
        "secure-file-priv": str(where.data_mount / "tmp"),
        "socket": str(where.socket),
        "pid-file": str(where.socket.with_suffix(".pid")),
        "innodb-log-group-home-dir": str(log),
        "skip-name-resolve": "ON",
    }
    if program.plugin_dir is not None:
        options["plugin-dir"] = str(program.plugin_dir)
    if program.share_dir is not None:
        options["lc-messages-dir"] = str(program.share_dir)
        if (program.share_dir / "charsets").is_dir():
            options["character-sets-dir"] = str(program.share_dir / "charsets")
    if program.knows("mysqlx"):
        options["mysqlx"] = "OFF"
    if engine == "myrocks":
        others = [one for one in (asked.get("plugin-load-add") or "").split(";") if one and "rocksdb" not in one]
        options |= {
            "plugin-load-add": ";".join([MYROCKS_PLUGIN, *others]),
            "default-storage-engine": "ROCKSDB",
            "rocksdb-wal-dir": str(log / "rocksdb"),
        }
    options |= _network(where, port) | _binlog(program, log, asked)
    return options


def _network(where: ServerPaths, port: int | None) -> Options:
    if port is None:
        return {"skip-networking": "ON"}
    keys = {"ssl-ca": "ca.pem", "ssl-cert": "server-cert.pem", "ssl-key": "server-key.pem"}
    return {"port": str(port), "bind-address": "127.0.0.1", "require-secure-transport": "ON"} | {
        option: str(where.keys / name) for option, name in keys.items()
    }


def binlog_on(program: ServerProgram, asked: Options) -> bool:
    """Whether the server writes a binary log: by its default (MySQL from 8.0 on) or because it was asked to."""
    for name in BINLOG_OFF:
        if name in asked and (asked[name] or "1").lower() not in OFF:
            return False
    if "log-bin" in asked:
        return (asked["log-bin"] or "1").lower() not in OFF
    return program.flavor == "mysql" and program.version >= (8, 0)


def _binlog(program: ServerProgram, log: Path, asked: Options) -> Options:
    if not binlog_on(program, asked):
        return {"skip-log-bin": None} if program.flavor == "mysql" else {}
    return {"log-bin": str(log / "binlog")} | ({} if "server-id" in asked else {"server-id": "1"})


def whole(program: ServerProgram, engine: str, where: ServerPaths, log_volume: bool, port: int | None, asked: Options) -> Options:
    """All of [mysqld], in order."""
    places = placed(program, engine, where, log_volume, port, asked)
    return {name: value for name, value in asked.items() if name != "log-bin" and name not in BINLOG_OFF} | places


def rendered(options: Options, of: str) -> str:
    """An option file."""
    lines = [f"# {of}: written by headrace at every start. Change it with `headrace mysql up --set`.", "[mysqld]"]
    lines += [name if value is None else f"{name}={_quoted(value)}" for name, value in options.items()]
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    """Bare where it can be: quotes are for what would be taken for a comment, an escape or padding."""
    if value == "" or re.fullmatch(r"[A-Za-z0-9_./:,;=@%+*()-]+", value, re.ASCII):
        return value
    from headrace.connect.option_file import quoted

    return quoted(value)


def write(path: Path, text: str, group: int) -> None:
    """Puts an option file where the server's group may read it, whole or not at all. Raises CouldNotRun."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640), "w") as file:
            os.fchown(file.fileno(), 0, group)
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be written: {error.strerror}", "", "Is there room in /run?") from None


# As both flavors write their log: time, thread, [ERROR], in MySQL a code and a part, then words.
ERROR_LINE = re.compile(r"\[ERROR\] (?:\[MY-\d+\] \[\w+\] )?(?:\S*mysqld: |mariadbd: )?(?P<words>.*)")
UNKNOWN = re.compile(r"unknown (?:variable|option) '?(?P<what>[^'\n]+)'?")
ADJUSTED = re.compile(r"\[Warning\] (?:\[MY-\d+\] \[\w+\] )?(?:\S*mysqld: |mariadbd: )?(?P<words>option '.*adjusted to .*)")
FOLLOW_UPS = ("Aborting", "unknown option '----args-separator----'")


def check(program: ServerProgram, config: Path, what: str) -> list[str]:
    """Has the server itself read the file; what it will set otherwise than asked, in its words. Raises InputError for options it does not know, and bad values."""
    words = [*program.command, f"--defaults-file={config}"]
    # Folders on volumes that are not there yet, and must be for the check.
    words += [f"--secure-file-priv={config.parent}", f"--tmpdir={config.parent}"]
    # --validate-config came with MySQL 8.0.16; --verbose --help reads the options too.
    words += ["--validate-config"] if program.flavor == "mysql" and program.version >= (8, 0, 16) else ["--verbose", "--help"]
    done = run_to_end(Command(tuple(words), user=service_user(), what=program.label), CHECK_S)
    text = done.output + done.errors
    said = [found["words"].rstrip(".") for found in ERROR_LINE.finditer(text)]
    errors = [line for line in said if not line.startswith(FOLLOW_UPS)]
    if errors or done.code != 0:
        unknown = UNKNOWN.search(errors[0] if errors else "")
        if unknown:
            rule, hint = f"is not known to {program.label}", "Is it of another version or flavor? headrace advise knows the names."
            name, equals, value = unknown["what"].strip().partition("=")
            raise InputError(f"{what}: {name.lstrip('-').replace('-', '_')}{equals}{value}", rule, str(program.path), hint)
        rule = f"{program.label} does not take it: {'; '.join(errors[:3]) or telling_lines(text)}"
        raise InputError(what, rule, str(program.path), "")
    return [found["words"] for found in ADJUSTED.finditer(text)]
