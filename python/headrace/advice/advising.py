"""Advises a list of settings, from a server, its storage and its workload."""

from __future__ import annotations

import os
from dataclasses import replace

from headrace.advice.buffers import compute_most_memory, judge_memory
from headrace.advice.current import (
    OLD_REDO,
    CurrentSettings,
    describe_since,
    find_gone,
    is_doomed,
    list_findings,
    read_current,
)
from headrace.advice.effects import compute_demand, describe_effect
from headrace.advice.model import (
    NOT_ESTIMATED,
    SAFE,
    AdvisedSetting,
    ConfigFinding,
    ServerVersion,
    parse_server,
    refuse,
)
from headrace.advice.result import Advice
from headrace.advice.rules import RULES
from headrace.advice.situation import RuleValue, Situation, compute_storage_rates
from headrace.advice.table import ParameterName, ServerParameter, index_names, read_parameters
from headrace.advice.values import are_same, as_bytes, as_number, format_setting, format_size
from headrace.base import core
from headrace.base.core import translate_core_errors
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
    (mysql, mariadb, percona) and `version` name the server; default: as the option file
    suggests, else the newest long-term MySQL. `engine`: default the workload's, else innodb.
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
    current, notes, has_current = read_current(address, config, flavor, version)
    situation = build_situation(
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
        _describe_situation(situation, memory_gib, vcpus),
        tuple(list_advised_settings(situation)),
        tuple(list_findings(current) + _list_memory_findings(current, situation)),
        tuple(notes + _list_doubts(workload, vcpus is None and instance is None)),
    )


def _list_memory_findings(current: CurrentSettings, situation: Situation) -> list[ConfigFinding]:
    """Returns the finding that today's server can take more memory than there is, if it can."""
    if not current.values:
        return []
    finding = judge_memory(normalise_names(current.values), current.server, situation.memory_gib)
    return [] if finding is None else [finding]


def _describe_situation(s: Situation, memory_gib: float | None, vcpus: int | None) -> str:
    """Returns engine, storage, machine and workload in a line."""
    parts = [ENGINE_LABELS[s.engine], f"data on {s.storage.words}"]
    parts += [f"logs on {s.log_storage.text}"] if s.log_storage is not None else []
    parts += [f"{memory_gib:g} GiB of memory"] if memory_gib is not None else []
    parts += [f"{vcpus} virtual CPUs"] if vcpus is not None else []
    parts += [s.instance_type] if s.instance_type is not None else []
    parts += [f"workload {s.workload.name}"] if s.workload is not None else []
    return ", ".join(part.replace("\n", " ") for part in parts)


def _list_doubts(workload: TransactionWorkload | None, unknown_vcpus: bool) -> list[str]:
    """Lists what the advice lacks: the doubts about the workload, no workload, no number of virtual
    CPUs."""
    notes = [f"workload: {text}" for text in workload.caveats] if workload is not None else []
    if workload is None:
        notes.append("no --workload: redo and I/O capacities follow rules of thumb, and no effect is simulated")
    if unknown_vcpus:
        notes.append("no --vcpus: thread and worker counts are the smallest reasonable ones")
    return notes


def tune_settings(
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

    Folders, settings of replicas and those that need a decision are left out. Arguments as for
    `advise`. Raises InputError.
    """
    situation = build_situation(
        parse_server(flavor, version),
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
        for item in list_advised_settings(situation)
        if item.active
        and item.risk == SAFE
        and item.applies_to in ("server", "sources")
        and read_parameters()[item.id].kind != "path"
    }


def build_situation(
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
    """Returns the input of the rules. `current`: today's values by variable name; other arguments
    as for `advise`. Raises InputError."""
    host = None
    if instance is not None:
        with translate_core_errors():
            host = core.instance(instance, as_of)
        vcpus = vcpus if vcpus is not None else host["vcpus"]
        memory_gib = memory_gib if memory_gib is not None else (host["memory_mib"] or 0) / 1024.0 or None
    if memory_gib is None:
        rule = "must be given: it decides the sizes of the caches"
        raise refuse.input("memory", rule, "Say --memory-gib GIB, or --instance TYPE.")
    situation = Situation(
        server=server,
        engine=engine,
        storage=compute_storage_rates(storage, as_of, instance),
        log_storage=None if log_storage is None else compute_storage_rates(log_storage, as_of, instance),
        memory_gib=memory_gib,
        vcpus=vcpus,
        instance=host,
        workload=workload,
        durability=durability,
        replica=replica,
        as_of=as_of,
        log_dir=log_dir,
        tmp_dir=tmp_dir,
        current=_index_by_parameter(current or {}, server),
        compared=current is not None,
        default_redo_bytes=_find_default_redo(server),
        most_memory=compute_most_memory(normalise_names(current), server) if current else None,
    )
    situation.check()
    return situation if workload is None else replace(situation, demand=compute_demand(situation, workload))


def list_advised_settings(situation: Situation) -> list[AdvisedSetting]:
    """Runs the rules of all parameters that the server has, and returns their settings in the order
    of docs/reference/advice.md. Adds each value to `situation.chosen`, for the rules after it."""
    answers: list[tuple[ServerParameter, ParameterName | None, RuleValue]] = []
    for parameter in read_parameters().values():
        name = parameter.find_name(situation.server)
        if parameter.engine not in ("both", situation.engine) or (name is None and parameter.id not in HOST_NAMES):
            continue
        answer = RULES[parameter.id](situation)
        if answer is None:
            continue
        situation.chosen[parameter.id] = answer.value
        answers.append((parameter, name, answer))
    # Effects are those of a change from everything that is advised, so every rule runs before.
    return [_make_setting(parameter, name, answer, situation) for parameter, name, answer in answers]


def normalise_names(current: dict[str, str]) -> dict[str, str]:
    """Returns the values by parameter, whatever name the parameter has there, old or new, with
    dashes or underscores; variables that are not a parameter keep their names."""
    ids = index_names()
    plain = {name.strip().lower().replace("-", "_"): value for name, value in current.items()}
    return {ids.get(name, name): value for name, value in plain.items()}


def _index_by_parameter(current: dict[str, str], server: ServerVersion) -> dict[str, str]:
    """Returns today's values by parameter. From 8.0.30 on MySQL derives the redo capacity from the
    old file sizes, where it is not set itself."""
    values = normalise_names(current)
    old_sizes = [name for name in OLD_REDO if values.get(name)]
    capacity = read_parameters()["innodb_redo_log_capacity"].find_name(server)
    refused = any((find_gone(name, server) or {}).get("then") == "refused" for name in old_sizes)
    if capacity and "innodb_redo_log_capacity" not in values and old_sizes and not refused:
        # Either alone is enough; the other is then as before 8.0.30: two files of 48 MiB.
        size = as_bytes(values.get("innodb_log_file_size", OLD_FILE_SIZE))
        count = as_number(values.get("innodb_log_files_in_group", OLD_FILES))
        if size and count:
            values["innodb_redo_log_capacity"] = format_size(size * count)
    return values


def _find_default_redo(server: ServerVersion) -> float | None:
    """Returns the default size of the whole redo log, bytes; None where the server computes it."""
    table = read_parameters()
    capacity = table["innodb_redo_log_capacity"].find_name(server)
    if capacity is not None:
        return as_bytes(capacity.default)
    size = table["innodb_log_file_size"].find_name(server)
    count = table["innodb_log_files_in_group"].find_name(server)
    each = as_bytes(size.default) if size else None
    return None if each is None else each * int(count.default if count else "1")


def _make_setting(
    parameter: ServerParameter, name: ParameterName | None, answer: RuleValue, s: Situation
) -> AdvisedSetting:
    """Returns the advised setting of a rule's answer, compared with today's value, else with the
    default, and with its effect."""
    default = name.default if name else ""
    current = s.current.get(parameter.id)
    risk = answer.risk or parameter.risk
    answer = _omit_deprecated(answer, name, current, s)
    differs = None
    if s.compared and name is not None and answer.settable:
        reference = current if current is not None else default
        differs = not (reference and are_same(parameter.kind, reference, answer.value))
    return AdvisedSetting(
        parameter=name.name if name else HOST_NAMES[parameter.id],
        value=answer.value,
        current=format_setting(parameter.kind, current),
        why=answer.why,
        source=parameter.citation,
        risk=risk,
        effect=_explain_effect(parameter, answer, current, default, s),
        applies_to=parameter.applies_to,
        group=parameter.group,
        settable=answer.settable,
        active=_is_active(parameter, name, answer, risk, s),
        differs=differs,
        default=format_setting(parameter.kind, default) or "",
        id=parameter.id,
    )


def _omit_deprecated(answer: RuleValue, name: ParameterName | None, current: str | None, s: Situation) -> RuleValue:
    """Returns the answer. If this release has deprecated the setting, and it is not set today, it
    becomes a comment, because it would have to go at the next upgrade."""
    row = None if name is None else find_gone(name.name, s.server)
    if name is None or row is None or row["then"] != "deprecated" or current is not None:
        return answer
    instead = f"; its successor is {row['instead']}" if row["instead"] else ""
    why = f"{answer.why}. Deprecated {describe_since(row)}{instead}: a later release refuses it, so it is not added"
    return replace(answer, why=why, settable=answer.settable and are_same(_get_kind(name), name.default, answer.value))


def _get_kind(name: ParameterName) -> str:
    return read_parameters()[name.parameter].kind


def _is_active(
    parameter: ServerParameter, name: ParameterName | None, answer: RuleValue, risk: str, s: Situation
) -> bool:
    """Returns whether a setting becomes a line of the option file."""
    if name is None or not answer.settable or (risk != SAFE and parameter.id not in DURABILITY):
        return False
    if parameter.applies_to == "replicas" and not s.replica:
        return False
    # A default is better left out where a later release refuses the setting.
    is_leaving = is_doomed(name.name, s.server) or (find_gone(name.name, s.server) or {}).get("then") == "deprecated"
    return not (name.default and are_same(parameter.kind, name.default, answer.value) and is_leaving)


def _explain_effect(
    parameter: ServerParameter, answer: RuleValue, current: str | None, default: str, s: Situation
) -> str | None:
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
    before = current if current is not None else default
    if parameter.id == "innodb_log_file_size" and before:
        before = _sum_files(before, s)
    text = describe_effect(parameter.id, answer.value, before or None, s)
    if text is None or current is not None or not before or text.startswith(NOT_ESTIMATED):
        return text
    return f"from the default: {text}" if " to " in text.split(":")[0] else text


def _sum_files(each: str, s: Situation) -> str:
    """Returns the size of all redo files as text, from that of each: the sum is what counts."""
    count = read_parameters()["innodb_log_files_in_group"].find_name(s.server)
    files = (as_number(s.current.get("innodb_log_files_in_group")) or int(count.default)) if count else 1
    size = as_bytes(each)
    return each if size is None else format_size(size * files)
