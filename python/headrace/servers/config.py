"""The option file that a server is started with: the options asked for, then the places of its
files.

kind      default: no options; tuned: the advice for this storage and memory; a file: its [mysqld]
memory    the share of it that caches the data
settings  one by one, on top
places    folders, socket, port, TLS: last, and not to be set by anyone else
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from headrace.base import core
from headrace.base.checks import check_number
from headrace.base.machine import read_memory_bytes
from headrace.base.packaged import read_text
from headrace.base.processes import Command, find_telling_lines, run_to_end
from headrace.base.units import GIB, MIB
from headrace.errors import InputError
from headrace.mysql.option_files import format_value, list_server_groups, read_option_file
from headrace.servers.access import find_service_user
from headrace.servers.flavors import MYROCKS_PLUGIN, ServerProgram, replace_underscores
from headrace.servers.record import Record, ServerPaths, refuse

KINDS = ("default", "tuned")
# 32 MiB holds the smallest buffer pool (5 MiB) and what the server needs itself; 24 TiB is the
# largest EC2 instance (u-24tb1).
SMALLEST_MEMORY_GIB, LARGEST_MEMORY_GIB = 0.03125, 24_576.0
CACHE_OF = {"innodb": "innodb-buffer-pool-size", "myrocks": "rocksdb-block-cache-size"}
# Options that say where things are, as whom the server runs, and who may reach it: set by Headrace.
PLACED = frozenset(read_text("headrace.servers", "placed_options.txt").split())
BINLOG_OFF = ("skip-log-bin", "disable-log-bin")
OFF = ("0", "off", "false", "no")
OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}", re.ASCII)
# MySQL 9.7 has some 700 options.
MOST_OPTIONS = 1_000
# my_default.c reads lines into a buffer of 4,096 bytes.
MAX_VALUE = 4_096
CHECK_S = 60.0  # a guess: the answer takes a second

PREFIX = re.compile(r"(?:loose-)?(?:(?:skip|enable|disable|maximum)-)?(?=.)")

Options = dict[str, str | None]


def is_placed(name: str) -> bool:
    """True if Headrace sets an option itself. `name`: with dashes, and perhaps a prefix."""
    return name in PLACED or PREFIX.sub("", name, count=1) in PLACED


def check_settings(settings: Mapping[str, str | None] | None, what: str = "settings") -> Options:
    """Returns settings as options: names with dashes, values as text. `what`: their name in errors.
    Raises InputError for one that no option file can hold, and those that Headrace sets."""
    options: Options = {}
    for key, value in (settings or {}).items():
        if not isinstance(key, str) or not OPTION.fullmatch(key):
            rule = "is not the name of a server option"
            raise refuse.input(f"{what}: {str(key)[:60]!r}", rule, "For example innodb_io_capacity=2000.")
        name = replace_underscores(key)
        if is_placed(name):
            rule = "is set by Headrace: it says where things are, and who may reach them"
            hint = "Leave it out. Storage is chosen with --storage and --log-storage."
            raise refuse.input(f"{what}: {key}", rule, hint)
        text = None if value is None else str(value)
        if text is not None and (len(text) > MAX_VALUE or not text.isprintable()):
            raise refuse.input(f"{what}: {key}", f"a value is at most {MAX_VALUE:,} printable characters")
        options[name] = text
    if len(options) > MOST_OPTIONS:
        raise refuse.input(f"{len(options)} {what}", f"at most {MOST_OPTIONS}")
    return options


def parse_settings(texts: list[str] | None) -> dict[str, str | None] | None:
    """Returns the settings of texts NAME=VALUE, or NAME alone for an option without a value; None
    for no settings. Raises InputError for a name that stands twice."""
    options: dict[str, str | None] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if replace_underscores(key) in {replace_underscores(given_key) for given_key in options}:
            raise refuse.input(text[:80], f"{key[:60]} was given before", "Give each option once.")
        options[key] = value if equals else None
    return options or None


def check_memory(memory_gib: float | None) -> float | None:
    """Returns `--memory-gib` of a new server, the memory by which its caches are sized, GiB; None
    if it is not given. Raises InputError outside the range, and for caches beyond this machine."""
    if memory_gib is None:
        return None
    check_number("--memory-gib", memory_gib, SMALLEST_MEMORY_GIB, LARGEST_MEMORY_GIB, "GiB", refuse)
    here = read_memory_bytes("MemTotal") / 2**30
    if (cache := core.cache_gib_for(memory_gib)) > here:
        rule = f"{cache:,.4g} GiB of it for the cache is more than the {here:.1f} GiB of this machine"
        hint = "Give the server less memory, and its tables as much less data."
        raise refuse.input(f"--memory-gib {memory_gib:g}", rule, hint)
    return float(memory_gib)


def compute_cache_bytes(memory_gib: float) -> int:
    """Returns the share of a memory that caches data (docs/decisions/0006): bytes, in whole MiB."""
    return int(core.cache_gib_for(memory_gib) * GIB) // MIB * MIB


def choose(program: ServerProgram, record: Record) -> tuple[Options, list[str]]:
    """Returns the options of [mysqld] for the `config` of a record (default, tuned, or an option
    file), without those that Headrace sets; and notes that name the options left out of a file."""
    kind, memory_gib = record.config, record.memory_gib
    notes: list[str] = []
    options: Options = {}
    if kind == "tuned":
        if memory_gib is None:
            rule = "needs to know the memory"
            raise InputError("--config tuned", rule, "docs/reference/advice.md", "Add --memory-gib GIB.")
        from headrace.advice import tune_settings

        tuned = tune_settings(
            storage=record.storage,
            memory_gib=memory_gib,
            flavor=program.flavor,
            version=program.version,
            engine=record.engine,
            log_storage=record.log_storage,
        )
        options = {replace_underscores(key): value for key, value in tuned.items()}
    elif kind != "default":
        options = read_file_options(program, Path(kind))
    left_out = sorted(name for name in options if is_placed(name))
    if left_out and kind not in KINDS:
        notes.append(f"{kind}: placed by Headrace, so left out: {', '.join(left_out)}")
    options = {name: value for name, value in options.items() if name not in left_out}
    cache = CACHE_OF[record.engine]
    if memory_gib is not None and not (kind == "tuned" and cache in options):
        options[cache] = str(compute_cache_bytes(memory_gib))
    return options, notes


# These add up instead of replacing each other (MySQL manual, --plugin-load-add).
LISTS = ("plugin-load-add",)


def read_file_options(program: ServerProgram, path: Path) -> Options:
    """Returns the options that a file sets for a server; the last of equal ones counts. Raises
    InputError for a file without any, CouldNotRun."""
    if not path.exists():
        raise refuse.input(str(path), "there is no such option file", "--config is default, tuned or an option file.")
    options: Options = {}
    for setting in read_option_file(path, list_server_groups(program.flavor, program.version)).settings:
        name, value = replace_underscores(setting.key), setting.value
        if name in LISTS and options.get(name):
            value = f"{options[name]};{value}"
        options.pop(name, None)  # an option counts where it stands last
        options[name] = value
    if not options:
        rule = f"has no options for {program.label}: nothing under [mysqld], [server] or a group of this server"
        raise refuse.input(str(path), rule, "Is it the server's option file, and not a client's?")
    return options


def assemble_options(
    program: ServerProgram,
    engine: str,
    where: ServerPaths,
    log_volume: bool,
    port: int | None,
    given: Options,
    host: str = "127.0.0.1",
) -> Options:
    """Returns all options of [mysqld]: those of the user (`given`), then those that Headrace sets,
    of which some depend on the former. `log_volume`: redo and binary logs have a volume."""
    log = (where.log_mount if log_volume else where.data_mount) / "log"
    places: Options = {
        "basedir": str(program.basedir),
        "datadir": str(where.datadir),
        "tmpdir": str(where.data_mount / "tmp"),
        "secure-file-priv": str(where.data_mount / "tmp"),
        "socket": str(where.socket),
        "pid-file": str(where.socket.with_suffix(".pid")),
        "innodb-log-group-home-dir": str(log),
        "skip-name-resolve": "ON",
    }
    if program.plugin_dir is not None:
        places["plugin-dir"] = str(program.plugin_dir)
    if program.share_dir is not None:
        places["lc-messages-dir"] = str(program.share_dir)
        if (program.share_dir / "charsets").is_dir():
            places["character-sets-dir"] = str(program.share_dir / "charsets")
    if program.knows("mysqlx"):
        places["mysqlx"] = "OFF"
    if engine == "myrocks":
        plugins = filter(None, (given.get("plugin-load-add") or "").split(";"))
        places |= {
            "plugin-load-add": ";".join([MYROCKS_PLUGIN, *(name for name in plugins if "rocksdb" not in name)]),
            "default-storage-engine": "ROCKSDB",
            "rocksdb-wal-dir": str(log / "rocksdb"),
        }
    places |= _make_network_options(where, port, host) | _make_binlog_options(program, log, given)
    return {name: value for name, value in given.items() if name != "log-bin" and name not in BINLOG_OFF} | places


def _make_network_options(where: ServerPaths, port: int | None, host: str) -> Options:
    """Returns the options of a server that listens at `port` of `host` by TLS alone; without a port
    those of one with a socket alone."""
    if port is None:
        return {"skip-networking": "ON"}
    keys = {"ssl-ca": "ca.pem", "ssl-cert": "server-cert.pem", "ssl-key": "server-key.pem"}
    options: Options = {option: str(where.keys / name) for option, name in keys.items()}
    return options | {"port": str(port), "bind-address": host, "require-secure-transport": "ON"}


def is_binlog_on(program: ServerProgram, given: Options) -> bool:
    """True if a server writes a binary log: by its options, or by default (MySQL from 8.0 on)."""
    for name in BINLOG_OFF:
        if name in given and (given[name] or "1").lower() not in OFF:
            return False
    if "log-bin" in given:
        return (given["log-bin"] or "1").lower() not in OFF
    return program.flavor == "mysql" and program.version >= (8, 0)


def _make_binlog_options(program: ServerProgram, log: Path, given: Options) -> Options:
    """Returns the options of the binary log and the relay log in the folder `log`, or of a server
    without a binary log, if the given options turn it off."""
    if not is_binlog_on(program, given):
        off: Options = {"skip-log-bin": None} if program.flavor == "mysql" else {}
        return off | (make_relay_log_options(log) if "server-id" in given else {})
    options: Options = {"log-bin": str(log / "binlog")} | make_relay_log_options(log)
    return options if "server-id" in given else options | {"server-id": "1"}


def make_relay_log_options(log: Path) -> Options:
    """Returns the options that place the relay log. The default name is the host's, so a copy on
    another host would not find it."""
    return {"relay-log": str(log / "relay"), "relay-log-index": str(log / "relay.index")}


# Options that may stand many times, each with one name: their values here are lists with commas.
REPEATED = re.compile(r"(?:[\w]+\.)?(?:replicate|binlog)-(?:wild-)?(?:do|ignore)-(?:db|table)")


def render_options(options: Options, of: str) -> str:
    """Returns the text of an option file with [mysqld] alone. `of`: its server, for a comment."""
    lines = [f"# {of}: written by headrace at every start. Change it with `headrace mysql up --set`.", "[mysqld]"]
    for name, value in options.items():
        if value is None:
            lines.append(name)
        else:
            values = value.split(",") if REPEATED.fullmatch(name) else [value]
            lines += [f"{name}={format_value(entry)}" for entry in values]
    return "\n".join(lines) + "\n"


# Both flavors write time, thread and [ERROR]; MySQL also a code and a subsystem; then the text.
ERROR_LINE = re.compile(r"\[ERROR\] (?:\[MY-\d+\] \[\w+\] )?(?:\S*mysqld: |mariadbd: )?(?P<words>.*)")
UNKNOWN = re.compile(r"unknown (?:variable|option) '?(?P<what>[^'\n]+)'?")
ADJUSTED = re.compile(
    r"\[Warning\] (?:\[MY-\d+\] \[\w+\] )?(?:\S*mysqld: |mariadbd: )?(?P<words>option '.*adjusted to .*)"
)
FOLLOW_UPS = ("Aborting", "unknown option '----args-separator----'")


def check(program: ServerProgram, config: Path, what: str) -> list[str]:
    """Lets the server program check an option file, and returns its messages about values that it
    adjusts. `what`: the file's name in errors. Raises InputError for options that it does not know
    and values that it does not accept, CouldNotRun after CHECK_S seconds."""
    arguments = [*program.command, f"--defaults-file={config}"]
    # The real folders are on volumes that are not there yet, and the check wants them to exist.
    arguments += [f"--secure-file-priv={config.parent}", f"--tmpdir={config.parent}"]
    # --validate-config came with MySQL 8.0.16; --verbose --help reads the options too.
    validates = program.flavor == "mysql" and program.version >= (8, 0, 16)
    arguments += ["--validate-config"] if validates else ["--verbose", "--help"]
    done = run_to_end(Command(tuple(arguments), user=find_service_user(), what=program.label), CHECK_S)
    text = done.output + done.errors
    messages = [match["words"].rstrip(".") for match in ERROR_LINE.finditer(text)]
    errors = [line for line in messages if not line.startswith(FOLLOW_UPS)]
    if errors or done.code != 0:
        unknown = UNKNOWN.search(errors[0] if errors else "")
        if unknown:
            name, equals, value = unknown["what"].strip().partition("=")
            option = f"{name.lstrip('-').replace('-', '_')}{equals}{value}"
            hint = "Is it of another version or flavor? headrace advise knows the names."
            raise InputError(f"{what}: {option}", f"is not known to {program.label}", str(program.path), hint)
        rule = f"{program.label} does not take it: {'; '.join(errors[:3]) or find_telling_lines(text)}"
        raise InputError(what, rule, str(program.path), "")
    return [match["words"] for match in ADJUSTED.finditer(text)]
