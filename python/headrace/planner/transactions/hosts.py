"""Instances: memory decides the cache, virtual CPUs and EBS limits the rest. Which are looked at, and why the others are not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace import _core
from headrace.errors import InputError, core_errors
from headrace.planner.evaluate import instance_usd_month
from headrace.planner.market import instances_named
from headrace.workload.model import check_number

CACHE_SHARE = 0.75  # of memory: MySQL's manual calls 50-75 % a typical buffer pool (innodb_buffer_pool_size; innodb_dedicated_server takes 75 % above 4 GiB)
LEFT_GIB = 2.0  # for the operating system, connections and everything else of the server
LEAST_CACHE_GIB = 0.5
# General, memory, compute and storage families; sizes of a virtual machine; not -flex, whose processors are shared.
SENSIBLE = re.compile(r"^(?P<letter>[mrci])(?P<generation>\d+)[a-z]*\.\d*(?:large|xlarge|medium)$")
GENERATIONS = 2


@dataclass(frozen=True)
class Host:
    """An instance and the cache it has room for; `instance` None: volumes alone, with the workload's own cache."""

    instance: dict | None = field(repr=False)
    cache_gib: float
    usd_month: float

    @property
    def name(self) -> str | None:
        """The instance type."""
        return None if self.instance is None else self.instance["instance_type"]


def hosts_for(
    patterns: Sequence[str] | None, region: str, as_of: str, cache_share: float, own_cache_gib: float
) -> tuple[list[Host], list[tuple[str, str]]]:
    """Hosts, cheapest first, and instances that were named but left out, with the reason. `patterns`: None for a list of the day, `["none"]` for volumes alone."""
    check_number("cache_share", cache_share, 0.05, 0.95, "of memory")
    names = None if patterns is None else [patterns] if isinstance(patterns, str) else list(patterns)
    if names is not None and [str(name).strip().lower() for name in names] == ["none"]:
        return [Host(None, own_cache_gib, 0.0)], []
    sensible = sensible_instances(as_of) if names is None else names
    found, skipped = instances_named(sensible, region, as_of)
    hosts = []
    for instance in found:
        cache = cache_of(instance, cache_share)
        if cache < LEAST_CACHE_GIB:
            skipped.append(
                (instance["instance_type"], f"{instance['memory_mib'] / 1024:g} GiB of memory leave no {LEAST_CACHE_GIB:g} GiB of cache")
            )
        else:
            hosts.append(Host(instance, cache, instance_usd_month(instance)))
    if not hosts:
        raise InputError(
            ", ".join(name for name, _ in skipped[:3]), "no instance has room for a cache", "headrace plan", "Name larger ones."
        )
    hosts.sort(key=lambda host: (host.usd_month, host.name))
    if names is not None:
        return hosts, skipped
    return undominated(hosts), []


def cache_of(instance: dict, cache_share: float) -> float:
    """GiB of cache: a share of the memory, at least 2 GiB left."""
    memory = (instance["memory_mib"] or 0) / 1024
    return round(max(0.0, min(memory * cache_share, memory - LEFT_GIB)), 3)


def sensible_instances(as_of: str) -> list[str]:
    """The families m, r, c and i of a day, the two newest generations of each that are priced and whose EBS limits are known. Raises InputError for a bad day."""
    with core_errors():
        known = _core.instances(as_of)
    matched = [(match, entry) for entry in known if (match := SENSIBLE.match(entry["instance_type"]))]
    matched = [
        (match, entry)
        for match, entry in matched
        if entry["memory_mib"] and any(entry[name] for name in ("baseline_iops", "baseline_bytes_s"))
    ]
    newest: dict[str, list[int]] = {}
    for match, _ in matched:
        newest.setdefault(match["letter"], []).append(int(match["generation"]))
    kept = {letter: set(sorted(set(generations))[-GENERATIONS:]) for letter, generations in newest.items()}
    return [entry["instance_type"] for match, entry in matched if int(match["generation"]) in kept[match["letter"]]]


def undominated(hosts: Sequence[Host]) -> list[Host]:
    """Hosts that no cheaper one equals in virtual CPUs, cache, EBS limits and local disks: the others cannot be part of a cheapest answer."""
    kept: list[tuple[Host, tuple]] = []
    for host in hosts:
        worth = _worth(host)
        if not any(all(theirs >= ours for theirs, ours in zip(other, worth, strict=True)) for _, other in kept):
            kept.append((host, worth))
    return [host for host, _ in kept]


def _worth(host: Host) -> tuple:
    instance = host.instance
    figures = tuple(
        float(instance[name] or 0)
        for name in ("vcpus", "baseline_iops", "max_iops", "baseline_bytes_s", "max_bytes_s", "instance_store_gb")
    )
    # Local disks are told apart by their number too: it decides the layouts.
    return (*figures, host.cache_gib, float(instance["instance_store_devices"] or 0), float(instance["nitro"]))
