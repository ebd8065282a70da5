"""Damages of an archive, as disks, people and programs make them. Also used by tests with servers."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace.servers.backup.targets.target import BackupTarget

# flipped: in one of the ranges of the file's bytes. doubled: a copy under the name of another
# place. swapped: with its neighbour.
KINDS = ("flipped", "removed", "cut", "doubled", "swapped")
RANGES = 16


@dataclass(frozen=True)
class ArchiveDamage:
    """One damage. `part`: which range of the file it lies in, for flipped bytes and cuts."""

    kind: str
    name: str
    other: str
    part: int


def damages(target: BackupTarget, prefix: str, chance: random.Random, most: int) -> list[ArchiveDamage]:
    """At most so many, spread over kinds, files and ranges of their bytes; the first file behind
    the index and the last one are among them."""
    names = [file.name for file in target.list(prefix)]
    first, last = min(1, len(names) - 1), len(names) - 1
    possible = []
    for place, name in enumerate(names):
        other = names[place + 1 if place < last else place - 1]
        for kind in KINDS:
            parts = range(RANGES) if kind in ("flipped", "cut") else range(1)
            possible += [ArchiveDamage(kind, name, other, part) for part in parts]
    if len(possible) <= most:
        return possible
    firm = [next(entry for entry in possible if entry.name == names[place] and entry.kind == kind) for place, kind in
            ((first, "flipped"), (first, "removed"), (last, "removed"), (last, "cut"))]  # fmt: skip
    rest = []
    for place in range(most - len(firm)):
        kind = KINDS[(place + 3) % len(KINDS)]
        rest.append(chance.choice([entry for entry in possible if entry.kind == kind]))
    return [*firm[:most], *rest]


def damage(folder: Path, harm: ArchiveDamage, chance: random.Random) -> None:
    """Does it to the files of a folder."""
    path, other = folder / harm.name, folder / harm.other
    size = path.stat().st_size
    begin, end = size * harm.part // RANGES, max(size * harm.part // RANGES + 1, size * (harm.part + 1) // RANGES)
    if harm.kind == "flipped":
        raw = bytearray(path.read_bytes())
        raw[chance.randrange(begin, min(end, size))] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)
    elif harm.kind == "removed":
        path.unlink()
    elif harm.kind == "cut":
        os.truncate(path, chance.randrange(begin, min(end, size)))
    elif harm.kind == "doubled":
        shutil.copyfile(path, other)
    else:
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)
