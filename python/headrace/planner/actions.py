"""Lists the next steps: from today's storage to the one chosen, the lines to paste, how to undo it,
and what to watch afterwards."""

from __future__ import annotations

from functools import cache

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.packaged import read_rows
from headrace.base.storage import Storage, Volume
from headrace.base.units import GIB, describe_span
from headrace.planner.result import Choice

# Services take a copy and the binary log of a server that runs elsewhere: a backup of MySQL, a dump
# of MariaDB too.
MOVE_IN = "load a backup or a dump there and replicate into it by the binary log"
VOLUME_ID = "VOLUME_ID"  # stands for the user's own, as ZONE, MOUNT_POINT and DEVICE... do
# A pattern of numbers takes local disks, and volumes in use, into an array.
NAMED_BY_ID = (
    "each by its volume: /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_VOLUME_ID, without the dash of the ID"
)
# The API knows one io2; its Block Express limits come with the instance and size.
API_TYPES = {"io2-block-express": "io2"}
WITH_IOPS = ("gp3", "io1", "io2", "io2-block-express")
# Days since when CloudWatch has these metrics (EBS user guide, "Amazon CloudWatch metrics for
# Amazon EBS", read 2026-11).
EXCEEDED_SINCE = "2024-10-01"
INSTANCE_EXCEEDED_SINCE = "2025-10-01"


def describe_migration(today: Choice | None, choice: Choice) -> str | None:
    """Says what it takes to get from today's storage to `choice`, in words: nothing, one
    modification, or a migration and how."""
    if today is None:
        return None
    if choice.service != today.service:
        return f"needs a migration (another service): {MOVE_IN}, let it catch up, switch over"
    changes = "; ".join(describe_changes(today, choice))
    if (today.storage, today.log_storage, today.instance) == (choice.storage, choice.log_storage, choice.instance):
        return changes or "nothing changes"
    reasons = _explain_migration(today, choice)
    then = f"; {changes}" if changes else ""
    if reasons:
        return f"needs a migration ({'; '.join(reasons)}): {_describe_move(today, choice)}{then}"
    if today.instance != choice.instance:
        modified = "" if today.storage == choice.storage else "; then modify the volumes in place"
        return f"stop the instance, change its type to {choice.instance}, start it{modified}{then}"
    return f"in place: one modification a volume, the server keeps running{then}"


# Caches that differ by less are one, GiB: what chunks and instances of a buffer pool round.
SAME_CACHE_GIB = 0.5
CACHE_SETTINGS = {"innodb": "innodb_buffer_pool_size", "myrocks": "rocksdb_block_cache_size"}


def describe_changes(today: Choice | None, choice: Choice) -> tuple[str, ...]:
    """Returns a sentence on the cache that the server must be set to, where a choice counts on
    another size than today's; empty elsewhere."""
    if today is None or not _has_other_cache(today, choice):
        return ()
    assert choice.cache_gib is not None
    has = ""
    if choice.instance and choice.memory_gib:
        has = f" ({choice.instance} has {choice.memory_gib:,.4g} GiB of memory)"
    return (
        f"set the cache ({_get_cache_setting(choice)}) to {choice.cache_gib:.4g} GiB, from {today.cache_gib:.4g}{has}",
    )


def _has_other_cache(today: Choice, choice: Choice) -> bool:
    """Says whether the server's cache differs from today's by SAME_CACHE_GIB or more."""
    # A service sets the cache by its own rule.
    if choice.service != "ec2" or not today.cache_gib or not choice.cache_gib:
        return False
    return abs(today.cache_gib - choice.cache_gib) >= SAME_CACHE_GIB


def _get_cache_setting(choice: Choice) -> str:
    return CACHE_SETTINGS.get(choice.engine or "innodb", CACHE_SETTINGS["innodb"])


def _explain_migration(today: Choice, choice: Choice) -> list[str]:
    """Lists in words why today's volumes cannot be modified into a choice; empty where they can."""
    before, after = Storage.parse(today.storage), Storage.parse(choice.storage)
    reasons = []
    if "instance-store" in (today.volume_type, choice.volume_type) and today.storage != choice.storage:
        reasons.append("local disks cannot be modified")
    elif "standard" in (today.volume_type, choice.volume_type) and today.volume_type != choice.volume_type:
        reasons.append("standard volumes cannot become or be made of other types")
    if today.layout != choice.layout or today.members != choice.members:
        reasons.append(f"another layout: {_describe_layout(choice)} instead of {_describe_layout(today)}")
    elif any(new.size_gib < old.size_gib for old, new in zip(before.members, after.members, strict=True)):
        reasons.append(
            f"a volume cannot be made smaller: {after.members[0].size_gib:,} GiB instead of {before.members[0].size_gib:,}"
        )
    if (today.log_storage is None) != (choice.log_storage is None):
        reasons.append("redo and binlog move")
    elif (
        today.log_storage
        and choice.log_storage
        and not _grows_into(Storage.parse(today.log_storage), Storage.parse(choice.log_storage))
    ):
        reasons.append("the log volume cannot be made smaller or of another layout")
    if today.instance and choice.instance and _find_architecture(today) != _find_architecture(choice):
        reasons.append("another processor architecture: software is installed anew")
    return reasons


def _grows_into(before: Storage, after: Storage) -> bool:
    """Says whether volumes can be modified into others: the same array, nothing smaller."""
    alike = (before.level, len(before.members)) == (after.level, len(after.members))
    return alike and all(new.size_gib >= old.size_gib for old, new in zip(before.members, after.members, strict=True))


def _describe_layout(choice: Choice) -> str:
    """Names the layout of a choice in words."""
    if choice.members == 1:
        return "one volume"
    return f"{choice.members} volumes in {choice.layout.upper().replace('RAID', 'RAID ')}"


def _find_architecture(choice: Choice) -> str | None:
    """Returns the processor architecture of the choice's instance; None where it is not known."""
    with translate_core_errors():
        return core.instance(choice.instance or "")["arch"]


def _describe_move(today: Choice, choice: Choice) -> str:
    """Says in words how the data move to a choice that needs a migration."""
    if today.instance != choice.instance and choice.instance:
        return "build a replica there (from a backup or by CLONE), let it catch up, switch over"
    copied = "copy the data to them (a replica on them, or xtrabackup/mariabackup and catch up)"
    return f"attach new volumes, {copied}, switch over, keep the old ones until it is proved"


# --- lines to paste -------------------------------------------------------------------------------


def list_actions(choice: Choice | None, today: Choice | None, as_of: str, is_mariadb: bool = False) -> list[dict]:
    """Returns the steps from today's storage to `choice`: dicts of `what` (a sentence), `lines` (to
    paste), `undo` and, of a modification, the `source` of AWS's rules. `is_mariadb`: the server is
    MariaDB."""
    if choice is not None and choice.service != "ec2":
        return _list_managed_actions(choice, "mariadb" if is_mariadb else "mysql")
    if choice is None or choice.volume_type == "instance-store":
        return []
    storage = Storage.parse(choice.storage)
    same = today is not None and today.storage == choice.storage
    steps = []
    is_new = today is None or (choice.migration or "").startswith("needs")
    if today is not None and not is_new and not same:
        steps.append(describe_modification(storage, Storage.parse(today.storage), as_of))
    elif not same:
        steps.append(_describe_creation(storage))
    steps += _list_log_actions(choice, today, is_new, as_of)
    steps += _list_cache_actions(choice, today, is_new)
    blocks = _list_terraform_lines(storage.members[0], len(storage.members))
    if choice.log_storage is not None:
        blocks += ["# redo and binlog", *_list_terraform_lines(Storage.parse(choice.log_storage).members[0], 1)]
    steps.append({"what": "Terraform of the same storage (aws_ebs_volume)", "lines": blocks, "undo": ""})
    memory = "MEMORY_GIB" if choice.memory_gib is None else f"{choice.memory_gib:.4g}"
    apart = "" if choice.log_storage is None else f" --log-storage {choice.log_storage}"
    command = f"headrace advise --config my.cnf --storage {choice.storage}{apart} --memory-gib {memory} --output diff"
    what = "Settings of the server that fit this storage, with their reasons"
    return [*steps, {"what": what, "lines": [command], "undo": ""}]


def _list_managed_actions(choice: Choice, engine: str) -> list[dict]:
    """Lists the steps for a server at a service, as `list_actions` does. `engine`: RDS's name of
    it."""
    common = f"--db-instance-class {choice.instance or 'CLASS'} --engine"
    if choice.volume_type == "aurora":
        kind = "aurora-iopt1" if choice.service.endswith("io-optimized") else "aurora"
        lines = [
            f"aws rds create-db-cluster --db-cluster-identifier NAME --engine aurora-mysql --storage-type {kind} --storage-encrypted "
            "--master-username ADMIN --manage-master-user-password",
            f"aws rds create-db-instance --db-cluster-identifier NAME --db-instance-identifier NAME-1 {common} aurora-mysql",
        ]
        undo = "aws rds delete-db-instance and delete-db-cluster, once nothing is on them"
        return [{"what": f"Create the cluster and its writer; then {MOVE_IN}", "lines": lines, "undo": undo}]
    volume = Storage.parse(choice.storage).members[0]
    options = [f"--storage-type {volume.type} --allocated-storage {volume.size_gib}"]
    options += [f"--iops {volume.iops}"] if volume.iops else []
    options += [f"--storage-throughput {volume.mib_s}"] if volume.mib_s else []
    options += ["--multi-az"] if choice.service == "rds:multi-az" else []
    line = f"aws rds create-db-instance --db-instance-identifier NAME {common} {engine} {' '.join(options)} --storage-encrypted"
    if choice.service == "rds:multi-az-cluster":
        line = line.replace("create-db-instance --db-instance-identifier", "create-db-cluster --db-cluster-identifier")
        line = line.replace("--db-instance-class", "--db-cluster-instance-class")
    line += " --master-username ADMIN --manage-master-user-password"
    undo = "aws rds delete-db-instance, once nothing is on it; its storage never shrinks"
    return [{"what": f"Create the server; then {MOVE_IN}", "lines": [line], "undo": undo}]


def _list_cache_actions(choice: Choice, today: Choice | None, is_new: bool) -> list[dict]:
    """Returns, in a list, the step that sets the cache which the figures of a choice count on,
    where today's is another or not known: the line of my.cnf, and `SET GLOBAL` where the server
    keeps running. `is_new`: the server moves to other volumes."""
    if choice.cache_gib is None or (today is not None and not _has_other_cache(today, choice)):
        return []
    name, engine = _get_cache_setting(choice), choice.engine or "innodb"
    memory = f" of the {choice.memory_gib:,.4g} GiB of {choice.instance}" if choice.memory_gib else ""
    before = "" if today is None or today.cache_gib is None else f", from {today.cache_gib:.4g}"
    what = f"Set the cache to {choice.cache_gib:.4g} GiB{memory}{before}: the figures above count on it"
    lines, undo = [f"{name} = {_format_size(choice.cache_gib)}    # in my.cnf, [mysqld]; read at the next start"], ""
    keeps_running = today is not None and not is_new and today.instance == choice.instance
    if keeps_running and today is not None and today.cache_gib and engine == "innodb":
        lines.insert(
            0, f"{_write_set_global(name, choice.cache_gib)}    # at once: MySQL 5.7.5, MariaDB 10.2.2 and newer"
        )
        undo = _write_set_global(name, today.cache_gib)
    if today is not None and today.cache_gib:
        undo += f"{'; ' if undo else ''}{name} = {_format_size(today.cache_gib)} in my.cnf"
    return [{"what": what, "lines": lines, "undo": undo}]


def _write_set_global(name: str, gib: float) -> str:
    return f'mysql -e "SET GLOBAL {name} = {round(gib * GIB)}"'


def _format_size(gib: float) -> str:
    """Writes a size as my.cnf takes it: whole GiB, or MiB."""
    return f"{gib:.0f}G" if gib == round(gib) else f"{round(gib * 1024)}M"


def _list_log_actions(choice: Choice, today: Choice | None, is_new: bool, as_of: str) -> list[dict]:
    """Returns the step for the volume of redo and binlog, in a list; empty where it stays or there
    is none. `is_new`: it is created in any case."""
    before = None if today is None else today.log_storage
    if choice.log_storage is None or choice.log_storage == before:
        return []
    log = Storage.parse(choice.log_storage)
    if is_new or before is None:
        action = _describe_creation(log)
    else:
        action = describe_modification(log, Storage.parse(before), as_of)
    return [action | {"what": f"For redo and binlog: {action['what'][0].lower()}{action['what'][1:]}"}]


def describe_modification(after: Storage, before: Storage, as_of: str) -> dict:
    """Returns the step that modifies volumes in place: `what`, `lines` to paste, `undo`, `source`
    of AWS's rules."""
    with translate_core_errors():
        rules = core.modification_rules(as_of, after.members[0].size_gib)
    often = (
        f"at most {rules['max_per_24_hours']} modifications of a volume in 24 hours"
        if rules["max_per_24_hours"]
        else f"one modification of a volume in {rules['wait_hours']} hours"
    )
    first, count = after.members[0], len(after.members)
    lasts = describe_span(round(rules["optimizing_s"]))
    what = (
        f"{f'Modify each of the {count} volumes' if count > 1 else 'Modify the volume'} in place; "
        f"the new limits come while the volume is optimizing, which lasts about {lasts} for {first.size_gib:,} GiB (a guess; it may exceed {rules['can_exceed_hours']} h); {often}"
    )
    grown = first.size_gib > before.members[0].size_gib
    lines = [_write_modify_command(first)]
    if grown:
        lines.append(
            "sudo xfs_growfs MOUNT_POINT    # or resize2fs; grow the partition before, if it has one (growpart)"
        )
    undo = _write_modify_command(before.members[0], size=False)
    if grown:
        undo += "    # the size stays: a volume never shrinks"
    return {"what": what, "lines": lines, "undo": undo, "source": rules["source"]}


def _write_modify_command(volume: Volume, size: bool = True) -> str:
    return f"aws ec2 modify-volume --volume-id {VOLUME_ID} " + " ".join(_list_parameters(volume, size))


def _list_parameters(volume: Volume, size: bool = True) -> list[str]:
    """Lists the parameters of the EC2 API for a volume. gp3's included figures are among them: a
    volume that was another type keeps its own otherwise."""
    options = [f"--volume-type {API_TYPES.get(volume.type, volume.type)}"]
    options += [f"--size {volume.size_gib}"] if size else []
    iops, mib_s = get_bought_performance(volume)
    options += [f"--iops {iops}"] if iops else []
    return [*options, *([f"--throughput {mib_s}"] if mib_s else [])]


def get_bought_performance(volume: Volume) -> tuple[int | None, int | None]:
    """Returns the IOPS and MiB/s that a command names for a volume: of gp3 the included ones where
    the notation has none; None where the type does not sell them."""
    if volume.type == "gp3":
        return volume.iops or 3_000, volume.mib_s or 125
    return (volume.iops, None) if volume.type in WITH_IOPS else (None, None)


def _describe_creation(storage: Storage) -> dict:
    """Returns the step that creates volumes, and joins several by mdadm: `what`, `lines` to paste,
    `undo`."""
    volume, count = storage.members[0], len(storage.members)
    line = f"aws ec2 create-volume --availability-zone ZONE --encrypted {' '.join(_list_parameters(volume))}"
    what, lines = "Create the volume", [line]
    if count > 1:
        chunk = f"chunk {storage.chunk_kib} KiB"
        what = f"Create {count} of these volumes, and put them together ({storage.layout}, {chunk})"
        level = storage.layout.removeprefix("raid").removesuffix("f2")
        layout = " --layout=f2" if storage.layout == "raid10f2" else ""
        array = f"--level={level}{layout} --chunk={storage.chunk_kib} --raid-devices={count}"
        lines.append(f"sudo mdadm --create /dev/md0 {array} DEVICE...    # {NAMED_BY_ID}")
    undo = f"aws ec2 delete-volume --volume-id {VOLUME_ID}    # of each, once nothing is on it"
    return {"what": what, "lines": lines, "undo": undo}


def _list_terraform_lines(volume: Volume, count: int) -> list[str]:
    """Returns the lines of a Terraform block for `count` equal volumes; GiB, IOPS and MiB/s."""
    iops, mib_s = get_bought_performance(volume)
    kind = f'"{API_TYPES.get(volume.type, volume.type)}"'
    pairs = [("type", kind), ("size", volume.size_gib), ("iops", iops), ("throughput", mib_s)]
    pairs += [("count", count)] if count > 1 else []
    return [f"{name:<10} = {value}" for name, value in pairs if value is not None]


# --- what to watch --------------------------------------------------------------------------------


@cache
def _read_alarms() -> dict[str, list[dict]]:
    """Returns the alarms of alarms.csv by their group. Periods and points are as AWS recommends
    them in the sources named there; the level of the queue is a guess. The alarm on credits leaves
    time to act: a fifth of a full gp2 balance at full burst is 12 minutes at the least (5.4 million
    / 5 / (3,000 - 1,500))."""
    groups: dict[str, list[dict]] = {}
    for row in read_rows("headrace.planner", "alarms.csv"):
        numbers = {name: int(row[name]) for name in ("threshold", "period_s", "points", "of")}
        groups.setdefault(row.pop("group"), []).append({**row, **numbers})
    return groups


def list_alarms(choice: Choice | None, as_of: str) -> list[dict]:
    """Lists CloudWatch alarms for the chosen volumes and instance: dicts of the columns of
    alarms.csv."""
    if choice is None or (choice.service == "ec2" and choice.volume_type == "instance-store"):
        return []
    if choice.service != "ec2":
        groups = ["rds"]
    else:
        groups = ["credits"] if choice.volume_type in ("gp2", "st1", "sc1") else []
        if choice.volume_type != "standard":
            groups.append("exceeded" if as_of >= EXCEEDED_SINCE else "queue")
        groups.append("volume")
        if choice.instance:
            with translate_core_errors():
                bursts = core.instance(choice.instance)["burst_seconds"]
            if bursts or as_of >= INSTANCE_EXCEEDED_SINCE:
                groups.append("instance credits" if bursts else "instance exceeded")
    return [dict(alarm) for group in groups for alarm in _read_alarms()[group]]
