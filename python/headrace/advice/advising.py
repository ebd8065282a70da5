"""From storage, memory and workload to a list of settings."""

from __future__ import annotations

from headrace.advice.current import OLD_REDO, doomed, gone
from headrace.advice.effects import effect_of
from headrace.advice.model import DOC, NOT_ESTIMATED, SAFE, Advice, Server, server_of
from headrace.advice.rules import RULES, Answer
from headrace.advice.situation import Situation, check, check_server, storage_of
from headrace.advice.table import Name, Parameter, ids_by_name, parameters
from headrace.advice.values import as_bytes, as_number, same, size_text
from headrace.base import core
from headrace.base.core import core_errors
from headrace.errors import InputError
from headrace.workload.transactions import TransactionWorkload

# Settings of the durability the user asked for: lines of the option file whatever they risk.
DURABILITY = ("innodb_flush_log_at_trx_commit", "rocksdb_flush_log_at_trx_commit", "sync_binlog")
# InnoDB's own of the parameters both engines have.
INNODB_UNDER_MYROCKS = ("innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit")
# Defaults of MySQL's redo files (manual, innodb_log_file_size and innodb_log_files_in_group).
OLD_FILE_SIZE, OLD_FILES = "48M", "2"
# Where there is no server variable: the host and the plan of volumes.
HOST_NAMES = {
    "mount_options": "mount options",
    "raid_chunk": "RAID chunk",
    "log_volume": "log volume",
    "rps_sock_flow_entries": "net.core.rps_sock_flow_entries",
}


def advise(
    *,
    storage: str,
    memory_gib: float | None = None,
    flavor: str,
    version: tuple | str,
    engine: str = "innodb",
    log_storage: str | None = None,
    vcpus: int | None = None,
    instance: str | None = None,
    workload: TransactionWorkload | None = None,
    current: dict[str, str] | None = None,
    durability: str = "full",
    replica: bool = False,
    as_of: str | None = None,
    log_dir: str | None = None,
    tmp_dir: str | None = None,
) -> list[Advice]:
    """Every setting worth a decision on this storage, in the order of docs/reference/advice.md.

    `storage`, `log_storage`: the catalog's notation. `memory_gib`, `vcpus`: of the machine; `instance` gives both, and its EBS limits. `version`: of `flavor`
    (mysql, mariadb, percona), a tuple or text; without a patch number the newest of its series. `workload`: a calibrated database, for hot set, redo and effects.
    `current`: today's values by variable name, of a server or an option file; what is missing is at the server's default. `durability`: full or relaxed. `replica`:
    the server applies another's binlog. `log_dir`, `tmp_dir`: folders on the log volume and on local disks. Raises InputError.
    """
    situation = _situation(
        storage=storage, memory_gib=memory_gib, flavor=flavor, version=version, engine=engine, log_storage=log_storage, vcpus=vcpus, instance=instance,
        workload=workload, current=current, durability=durability, replica=replica, as_of=as_of, log_dir=log_dir, tmp_dir=tmp_dir,
    )  # fmt: skip
    answers: list[tuple[Parameter, Name | None, Answer]] = []
    for parameter in parameters().values():
        name = parameter.name_on(situation.server)
        if parameter.engine not in ("both", engine) or (name is None and parameter.id not in HOST_NAMES):
            continue
        answer = RULES[parameter.id](situation)
        if answer is None:
            continue
        situation.chosen[parameter.id] = answer.value
        answers.append((parameter, name, answer))
    return [_advice(parameter, name, answer, situation) for parameter, name, answer in answers]


def tuned_settings(
    *,
    storage: str,
    memory_gib: float,
    flavor: str,
    version: tuple | str,
    engine: str = "innodb",
    log_storage: str | None = None,
    vcpus: int | None = None,
    as_of: str | None = None,
    workload: TransactionWorkload | None = None,
) -> dict[str, str]:
    """The safe settings of a server, by variable name, as they may stand in its option file: no folders, nothing for replicas, nothing that waits for a decision.

    Arguments as for `advise`. Raises InputError.
    """
    found = advise(
        storage=storage, memory_gib=memory_gib, flavor=flavor, version=version, engine=engine, log_storage=log_storage, vcpus=vcpus, as_of=as_of, workload=workload
    )  # fmt: skip
    known = parameters()
    return {
        item.parameter: item.value
        for item in found
        if item.active and item.risk == SAFE and item.applies_to in ("server", "sources") and known[item.id].kind != "path"
    }


def normalised(current: dict[str, str]) -> dict[str, str]:
    """Values by parameter: every old and new name, with dashes or underscores, under the name of the table; others as they are."""
    ids = ids_by_name()
    found: dict[str, str] = {}
    for name, value in current.items():
        plain = name.strip().lower().replace("-", "_")
        found[ids.get(plain, plain)] = value
    return found


def _todays(current: dict[str, str], server: Server) -> dict[str, str]:
    """Values by parameter. From 8.0.30 on MySQL makes the redo capacity of the old file sizes, where it is not set itself."""
    found = normalised(current)
    given = [name for name in OLD_REDO if found.get(name)]
    capacity = parameters()["innodb_redo_log_capacity"].name_on(server)
    if (
        capacity
        and "innodb_redo_log_capacity" not in found
        and given
        and not any((gone(name, server) or {}).get("then") == "refused" for name in given)
    ):
        # Either alone is enough; the other is then as it was before 8.0.30: two files of 48 MiB.
        size, count = (
            as_bytes(found.get("innodb_log_file_size", OLD_FILE_SIZE)),
            as_number(found.get("innodb_log_files_in_group", OLD_FILES)),
        )
        if size and count:
            found["innodb_redo_log_capacity"] = size_text(size * count)
    return found


def _situation(
    *,
    storage,
    memory_gib,
    flavor,
    version,
    engine,
    log_storage,
    vcpus,
    instance,
    workload,
    current,
    durability,
    replica,
    as_of,
    log_dir,
    tmp_dir,
) -> Situation:
    server = server_of(flavor, version)
    host = None
    if instance is not None:
        with core_errors():
            host = core.instance(instance, as_of)
        vcpus = vcpus if vcpus is not None else host["vcpus"]
        memory_gib = memory_gib if memory_gib is not None else (host["memory_mib"] or 0) / 1024.0 or None
    if memory_gib is None:
        raise InputError("memory", "must be given: it decides the caches", DOC, "Say --memory GIB, or --instance TYPE.")
    check(engine=engine, memory_gib=memory_gib, vcpus=vcpus, durability=durability, workload=workload, replica=replica)
    check_server(server, engine)
    for what, folder in (("log-dir", log_dir), ("tmp-dir", tmp_dir)):
        _check_folder(what, folder)
    return Situation(
        server=server, engine=engine, storage=storage_of(storage, as_of, instance), log_storage=None if log_storage is None else storage_of(log_storage, as_of, instance),
        memory_gib=float(memory_gib), vcpus=vcpus, instance=host, workload=workload, durability=durability, replica=replica, as_of=as_of, log_dir=log_dir,
        tmp_dir=tmp_dir, current=_todays(current or {}, server), chosen={}, default_redo_bytes=_default_redo(server), compared=current is not None,
    )  # fmt: skip


def _check_folder(what: str, folder: object) -> None:
    """Paths go into an option file: one line, nothing it would read as something else."""
    if folder is None:
        return
    if (
        not isinstance(folder, str)
        or not folder.startswith("/")
        or not folder.isprintable()
        or any(char in folder for char in "\"'\\#;")
        or len(folder) > 400
    ):
        raise InputError(
            f"--{what} {folder!r:.80}",
            "must be an absolute path without quotes, backslashes, # and ;",
            DOC,
            "For example /var/lib/mysql-log.",
        )


def _default_redo(server: Server) -> float | None:
    """Bytes of redo a server has when nobody says anything."""
    capacity = parameters()["innodb_redo_log_capacity"].name_on(server)
    if capacity is not None:
        return as_bytes(capacity.default)
    size = parameters()["innodb_log_file_size"].name_on(server)
    count = parameters()["innodb_log_files_in_group"].name_on(server)
    return None if size is None else as_bytes(size.default) * int(count.default if count else "1")


def _advice(parameter: Parameter, name: Name | None, answer: Answer, s: Situation) -> Advice:
    default = name.default if name else ""
    now = s.current.get(parameter.id)
    risk = answer.risk or parameter.risk
    differs = None
    if s.compared and name is not None and answer.settable:
        reference = now if now is not None else default
        differs = not (reference and same(parameter.kind, reference, answer.value))
    return Advice(
        parameter=name.name if name else HOST_NAMES[parameter.id],
        value=answer.value,
        current=_readable(parameter.kind, now),
        why=answer.why,
        source=parameter.citation,
        risk=risk,
        effect=_effect(parameter, answer, now, default, s),
        applies_to=parameter.applies_to,
        group=parameter.group,
        settable=answer.settable,
        active=_active(parameter, name, answer, risk, s),
        differs=differs,
        default=_readable(parameter.kind, default) or "",
        id=parameter.id,
    )


def _active(parameter: Parameter, name: Name | None, answer: Answer, risk: str, s: Situation) -> bool:
    """Whether it becomes a line of the option file."""
    if name is None or not answer.settable or (risk != SAFE and parameter.id not in DURABILITY):
        return False
    if parameter.applies_to == "replicas" and not s.replica:
        return False
    return not (name.default and same(parameter.kind, name.default, answer.value) and doomed(name.name, s.server))


def _effect(parameter: Parameter, answer: Answer, now: str | None, default: str, s: Situation) -> str | None:
    kind, _, reason = parameter.effect.partition(":")
    if answer.effect is not None:
        return answer.effect
    if kind == "none":
        return f"{NOT_ESTIMATED}: {reason.strip()}"
    if kind == "arithmetic":
        return None
    if s.workload is None:
        return f"{NOT_ESTIMATED}: no workload was given"
    before = now if now is not None else default
    if parameter.id in INNODB_UNDER_MYROCKS and s.engine == "myrocks":
        return f"{NOT_ESTIMATED}: under MyRocks InnoDB is not simulated"
    if parameter.id == "innodb_log_file_size" and before:
        before = _all_files(before, s, now is not None)
    text = effect_of(parameter.id, answer.value, before or None, s)
    if text is not None and now is None and before and not text.startswith(NOT_ESTIMATED) and " to " in text.split(":")[0]:
        return f"from the default: {text}"
    return text


def _all_files(each: str, s: Situation, from_current: bool) -> str:
    """Redo in all: what counts is the sum of the files."""
    count = parameters()["innodb_log_files_in_group"].name_on(s.server)
    files = (as_number(s.current.get("innodb_log_files_in_group")) or int(count.default)) if count else 1
    size = as_bytes(each)
    return each if size is None else size_text(size * files)


def _readable(kind: str, value: str | None) -> str | None:
    """Bytes with their unit; everything else as it is."""
    if value is None or kind != "bytes":
        return value
    size = as_bytes(value)
    return value if size is None else size_text(size)


__all__ = ["advise", "normalised", "tuned_settings"]
