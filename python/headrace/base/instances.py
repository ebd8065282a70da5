"""Checks what a server is said to use of its instance against what the instance has."""

from __future__ import annotations

from headrace.errors import InputError

SOURCE = "data/instances.csv"


def check_fits_memory(value: str, gib: float, name: str, memory_mib: float | None, hint: str) -> None:
    """Raises InputError, about `value`, where more memory is used than the instance `name` has
    (None or 0: not known)."""
    if memory_mib and gib > memory_mib / 1024:
        raise InputError(value, f"{name} has {memory_mib / 1024:,.10g} GiB of memory", SOURCE, hint)


def check_fits_vcpus(value: str, vcpus: int, name: str, existing: int | None, hint: str) -> None:
    """Raises InputError, about `value`, where more virtual CPUs are used than the `existing` of the
    instance `name` (None or 0: not known)."""
    if existing and vcpus > existing:
        raise InputError(value, f"{name} has {existing:,} virtual CPUs", SOURCE, hint)
