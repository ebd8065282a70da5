"""Checks the memory and virtual CPUs that a server uses against those of its instance."""

from __future__ import annotations

from headrace.errors import InputError

SOURCE = "data/instances.csv"


def check_fits_memory(value: str, gib: float, name: str, memory_mib: float | None, hint: str) -> None:
    """Raises InputError, about `value`, where `gib` is more than the memory of the instance `name`,
    `memory_mib` (None or 0: not known)."""
    if memory_mib and gib > memory_mib / 1024:
        raise InputError(value, f"{name} has {memory_mib / 1024:,.10g} GiB of memory", SOURCE, hint)


def check_fits_vcpus(value: str, vcpus: int, name: str, existing: int | None, hint: str) -> None:
    """Raises InputError, about `value`, where `vcpus` are more than the `existing` ones of the
    instance `name` (None or 0: not known)."""
    if existing and vcpus > existing:
        raise InputError(value, f"{name} has {existing:,} virtual CPUs", SOURCE, hint)
