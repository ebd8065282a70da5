"""Advises a list of settings, from a server, its storage and its workload."""

from __future__ import annotations

import os
from dataclasses import replace

from headrace.advice.buffers import memory_finding, most_memory
from headrace.advice.current import OLD_REDO, CurrentSettings, doomed, findings, gone, since, todays
from headrace.advice.effects import demand_of, effect_of
from headrace.advice.model import (
    NOT_ESTIMATED,
    SAFE,
    AdvisedSetting,
    ConfigFinding,
    ServerVersion,
    refuse,
    server_of,
)
from headrace.advice.result import Advice
from headrace.advice.rules import RULES
from headrace.advice.situation import RuleValue, Situation, storage_rates
from headrace.advice.table import ParameterName, ServerParameter, ids_by_name, parameters
from headrace.advice.values import as_bytes, as_number, same, size_text
from headrace.base import core
from headrace.base.core import core_errors
from headrace.mysql import Address, parse_address
from headrace.workload import TransactionWorkload

# Settings of the durability the user asked for: lines of the option file whatever they risk.
DURABILITY = ("innodb_flush_log_at_trx_commit", "rocksdb_flush_log_at_trx_commit", "sync_binlog")
# Parameters of InnoDB that have a counterpart in MyRocks.
INNODB_UNDER_MYROCKS = ("innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit")
# Defaults of MySQL's redo files (manual, innodb_log_file_size and innodb_log_files_in_group).
OLD_FILE_SIZE, OLD_FILES = "48M", "2"
# Advised settings that are not server variables: the host, and the layout of volumes.
HOST_NAMES = {
    "mount_options": "mount options",
    "raid_chunk": "RAID chunk",
    "log_volume": "log volume",
    "rps_sock_flow_entries": "net.core.rps_sock_flow_entries",
}
ENGINE_LABELS = {"innodb": "InnoDB", "myrocks": "MyRocks"}


def advise(
    storage: str,
    *,
    memory_gib: float | None = None,
    vcpus: int | None = None,
    instance: str | None = None,
    flavor: str | None = None,
    version: str | None = None,
    engine: str | None = None,
    log_storage: str | None = None,
    log_dir: str | None = None,
    tmp_dir: str | None = None,
    workload: TransactionWorkload | None = None,
    address: Address | str | None = None,
    config: str | os.PathLike | None = None,
    durability: str = "full",
    replica: bool = False,
    as_of: str | None = None,
) -> Advice:
    """Advises the settings of a server for its storage, each with reason, source, risk and
    simulated effect.

    `storage`, `log_storage`: in the catalog's notation. `memory_gib`, `vcpus`: of the machine;
    `instance` gives both, and its EBS limits. `address`: a live server, asked for its version and
    its variables. `config`: its option file, which `to_diff` changes. Without `address`, `flavor`
    (mysql, mariadb, percona) and `version` name the server; default: what the option file lets
    guess, else the newest long-term MySQL. `engine`: default the workload's, else innodb.
    `workload`: a calibrated database, for hot set, redo log and effects. `durability`: full or
    relaxed. `replica`: the server applies another's binlog. `log_dir`, `tmp_dir`: folders on the
    log volume and on local disks.

    Raises InputError, CouldNotRun.

    >>> import headrace
    >>> advice = headrace.advise("gp3:500:6000", memory_gib=32, vcpus=8, version="8.4")
    >>> advice
    <Advice for MySQL 8.4 (newest) on gp3:500:6000: 7 settings to set, 8 to decide, 25 as they are>
    >>> advice["innodb_buffer_pool_size"].value
    '24G'
    """
    if isinstance(address, str):
        address = parse_address(address)
    current, notes, has_current = todays(address, config, flavor, version)
    situation = situation_of(
        current.server,
        storage,
        memory_gib=memory_gib,
        vcpus=vcpus,
        instance=instance,
        engine=engine or (workload.engine if isinstance(workload, TransactionWorkload) else "innodb"),
        log_storage=log_storage,
        log_dir=log_dir,
        tmp_dir=tmp_dir,
        workload=workload,
        current=current.values if has_current else None,
        durability=durability,
        replica=replica,
        as_of=as_of,
    )
    return Advice(
        current.server,
        current,
        has_current,
        _in_a_line(situation, memory_gib, vcpus),
        tuple(advised_settings(situation)),
        tuple(findings(current) + _memory(current, situation)),
        tuple(notes + _notes(workload, vcpus is None and instance is None)),
    )


def _memory(current: CurrentSettings, situation: Situation) -> list[ConfigFinding]:
    """Returns the finding that today's server can take more memory than there is, if it can."""
    finding = (
        memory_finding(normalised(current.values), current.server, situation.memory_gib) if current.values else None
    )
    return [] if finding is None else [finding]


def _in_a_line(s: Situation, memory_gib: float | None, vcpus: int | None) -> str:
    """Returns storage and machine as they were asked about."""
    parts = [ENGINE_LABELS[s.engine], f"data on {s.storage.words}"]
    parts += [f"logs on {s.log_storage.text}"] if s.log_storage is not None else []
    parts += [f"{memory_gib:g} GiB of memory"] if memory_gib is not None else []
    parts += [f"{vcpus} virtual CPUs"] if vcpus is not None else []
    parts += [s.instance_type] if s.instance_type is not None else []
    parts += [f"workload {s.workload.name}"] if s.workload is not None else []
    return ", ".join(part.replace("\n", " ") for part in parts)


def _notes(workload: TransactionWorkload | None, unknown_vcpus: bool) -> list[str]:
    """Lists what the advice lacks: the doubts about the workload, no workload, no number of virtual
    CPUs."""
    notes = [f"workload: {text}" for text in workload.caveats] if workload is not None else []
    if workload is None:
        notes.append("no --workload: redo and I/O capacities follow rules of thumb, and no effect is simulated")
    if unknown_vcpus:
        notes.append("no --vcpus: thread and worker counts are the smallest reasonable ones")
    return notes


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
    """Returns the safe settings of a server by variable name, as they may stand in its option file.

    Without folders, without what is for replicas, and without what needs a decision. Arguments as
    for `advise`. Raises InputError.
    """
    situation = situation_of(
        server_of(flavor, version),
        storage,
        memory_gib=memory_gib,
        engine=engine,
        log_storage=log_storage,
        vcpus=vcpus,
        as_of=as_of,
        workload=workload,
    )
    return {
        item.parameter: item.value
        for item in advised_settings(situation)
        if item.active
        and item.risk == SAFE
        and item.applies_to in ("server", "sources")
        and parameters()[item.id].kind != "path"
    }


def situation_of(
    server: ServerVersion,
    storage: str,
    *,
    memory_gib: float | None = None,
    vcpus: int | None = None,
    instance: str | None = None,
    engine: str = "innodb",
    log_storage: str | None = None,
    log_dir: str | None = None,
    tmp_dir: str | None = None,
    workload: TransactionWorkload | None = None,
    current: dict[str, str] | None = None,
    durability: str = "full",
    replica: bool = False,
    as_of: str | None = None,
) -> Situation:
    """Returns the situation that the rules look at. `current`: today's values by variable name;
    other arguments as for `advise`. Raises InputError."""
    host = None
    if instance is not None:
        with core_errors():
            host = core.instance(instance, as_of)
        vcpus = vcpus if vcpus is not None else host["vcpus"]
        memory_gib = memory_gib if memory_gib is not None else (host["memory_mib"] or 0) / 1024.0 or None
    if memory_gib is None:
        rule = "must be given: it decides the sizes of the caches"
        raise refuse.input("memory", rule, "Say --memory-gib GIB, or --instance TYPE.")
    situation = Situation(
        server=server,
        engine=engine,
        storage=storage_rates(storage, as_of, instance),
        log_storage=None if log_storage is None else storage_rates(log_storage, as_of, instance),
        memory_gib=memory_gib,
        vcpus=vcpus,
        instance=host,
        workload=workload,
        durability=durability,
        replica=replica,
        as_of=as_of,
        log_dir=log_dir,
        tmp_dir=tmp_dir,
        current=_by_parameter(current or {}, server),
        compared=current is not None,
        default_redo_bytes=_default_redo(server),
        most_memory=most_memory(normalised(current), server) if current else None,
    )
    situation.check()
    return situation if workload is None else replace(situation, demand=demand_of(situation, workload))


def advised_settings(situation: Situation) -> list[AdvisedSetting]:
    """Returns every setting worth a decision, in the order of docs/reference/advice.md."""
    answers: list[tuple[ServerParameter, ParameterName | None, RuleValue]] = []
    for parameter in parameters().values():
        name = parameter.name_on(situation.server)
        if parameter.engine not in ("both", situation.engine) or (name is None and parameter.id not in HOST_NAMES):
            continue
        answer = RULES[parameter.id](situation)
        if answer is None:
            continue
        situation.chosen[parameter.id] = answer.value
        answers.append((parameter, name, answer))
    # Effects are those of a change from everything that is advised, so every rule runs before.
    return [_setting(parameter, name, answer, situation) for parameter, name, answer in answers]


def normalised(current: dict[str, str]) -> dict[str, str]:
    """Returns values by parameter: of every old and new name, with dashes or underscores."""
    ids = ids_by_name()
    plain = {name.strip().lower().replace("-", "_"): value for name, value in current.items()}
    return {ids.get(name, name): value for name, value in plain.items()}


def _by_parameter(current: dict[str, str], server: ServerVersion) -> dict[str, str]:
    """Returns today's values by parameter.

    From 8.0.30 on MySQL derives the redo capacity from the old file sizes, where it is not set
    itself.
    """
    values = normalised(current)
    given = [name for name in OLD_REDO if values.get(name)]
    capacity = parameters()["innodb_redo_log_capacity"].name_on(server)
    refused = any((gone(name, server) or {}).get("then") == "refused" for name in given)
    if capacity and "innodb_redo_log_capacity" not in values and given and not refused:
        # Either alone is enough; the other is then as before 8.0.30: two files of 48 MiB.
        size = as_bytes(values.get("innodb_log_file_size", OLD_FILE_SIZE))
        count = as_number(values.get("innodb_log_files_in_group", OLD_FILES))
        if size and count:
            values["innodb_redo_log_capacity"] = size_text(size * count)
    return values


def _default_redo(server: ServerVersion) -> float | None:
    """Returns the default redo log, bytes; None where the server computes it."""
    table = parameters()
    capacity = table["innodb_redo_log_capacity"].name_on(server)
    if capacity is not None:
        return as_bytes(capacity.default)
    size = table["innodb_log_file_size"].name_on(server)
    count = table["innodb_log_files_in_group"].name_on(server)
    each = as_bytes(size.default) if size else None
    return None if each is None else each * int(count.default if count else "1")


def _setting(parameter: ServerParameter, name: ParameterName | None, answer: RuleValue, s: Situation) -> AdvisedSetting:
    """Makes the advised setting from a rule's answer: compared with today's value, else with the
    default; with its effect."""
    default = name.default if name else ""
    now = s.current.get(parameter.id)
    risk = answer.risk or parameter.risk
    answer = _unless_deprecated(answer, name, now, s)
    differs = None
    if s.compared and name is not None and answer.settable:
        reference = now if now is not None else default
        differs = not (reference and same(parameter.kind, reference, answer.value))
    return AdvisedSetting(
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
        active=_is_active(parameter, name, answer, risk, s),
        differs=differs,
        default=_readable(parameter.kind, default) or "",
        id=parameter.id,
    )


def _unless_deprecated(answer: RuleValue, name: ParameterName | None, now: str | None, s: Situation) -> RuleValue:
    """Leaves out a setting that this release has deprecated: it would have to go at the next
    upgrade. If it is set already, its value counts."""
    row = None if name is None else gone(name.name, s.server)
    if name is None or row is None or row["then"] != "deprecated" or now is not None:
        return answer
    instead = f"; its successor is {row['instead']}" if row["instead"] else ""
    why = f"{answer.why}. Deprecated {since(row)}{instead}: a later release refuses it, so it is not added"
    return replace(answer, why=why, settable=answer.settable and same(_kind(name), name.default, answer.value))


def _kind(name: ParameterName) -> str:
    return parameters()[name.parameter].kind


def _is_active(
    parameter: ServerParameter, name: ParameterName | None, answer: RuleValue, risk: str, s: Situation
) -> bool:
    """Returns whether a setting becomes a line of the option file."""
    if name is None or not answer.settable or (risk != SAFE and parameter.id not in DURABILITY):
        return False
    if parameter.applies_to == "replicas" and not s.replica:
        return False
    # A default is better left out where a later release refuses the setting.
    leaving = doomed(name.name, s.server) or (gone(name.name, s.server) or {}).get("then") == "deprecated"
    return not (name.default and same(parameter.kind, name.default, answer.value) and leaving)


def _effect(parameter: ServerParameter, answer: RuleValue, now: str | None, default: str, s: Situation) -> str | None:
    """Returns the effect of a setting in words, the reason why none is estimated, or None."""
    kind, _, reason = parameter.effect.partition(":")
    if answer.effect is not None:
        return answer.effect
    if kind == "none":
        return f"{NOT_ESTIMATED}: {reason.strip()}"
    if kind == "arithmetic":
        return None
    if s.workload is None:
        return f"{NOT_ESTIMATED}: no workload was given"
    if parameter.id in INNODB_UNDER_MYROCKS and s.engine == "myrocks":
        return f"{NOT_ESTIMATED}: under MyRocks InnoDB is not simulated"
    before = now if now is not None else default
    if parameter.id == "innodb_log_file_size" and before:
        before = _all_files(before, s)
    text = effect_of(parameter.id, answer.value, before or None, s)
    if text is None or now is not None or not before or text.startswith(NOT_ESTIMATED):
        return text
    return f"from the default: {text}" if " to " in text.split(":")[0] else text


def _all_files(each: str, s: Situation) -> str:
    """Returns the redo log in all: what counts is the sum of the files."""
    count = parameters()["innodb_log_files_in_group"].name_on(s.server)
    files = (as_number(s.current.get("innodb_log_files_in_group")) or int(count.default)) if count else 1
    size = as_bytes(each)
    return each if size is None else size_text(size * files)


def _readable(kind: str, value: str | None) -> str | None:
    """Returns bytes with their unit; everything else as it is."""
    size = as_bytes(value) if kind == "bytes" else None
    return value if size is None else size_text(size)
