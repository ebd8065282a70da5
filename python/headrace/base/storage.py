"""Storage as a value: one volume or an array, read from the storage notation, and its placement: on
which instance, with which log volume.

    TYPE:SIZE_GIB[:IOPS[:MIB_S]]       gp2:1000   io1:1024:10000   gp3:500:6000:250
    an array in front of it            2xgp2:1700 (RAID 0)   raid10:4xgp3:500
                                       raid0:gp2:100+gp2:200@512k
    [INSTANCE/]DATA[,log=LOG]          m5.4xlarge/io1:400:9000,log=gp3:20

`+` joins unlike members of an array, and means nothing else. The core reads and writes the
notation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.errors import Refusals

refuse = Refusals("storage notation [INSTANCE/]DATA[,log=LOG]")
EXAMPLE = "Write it like gp3:500:6000, m5.4xlarge/io1:400:9000 or m5.4xlarge/io1:400:9000,log=gp3:20."
# Instance type by AWS's naming: family, a dot, size.
INSTANCE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")
LONGEST_SHOWN = 80  # characters; a pasted file is not an error message


@dataclass(frozen=True)
class Volume:
    """One volume as it would be ordered. `iops`, `mib_s`: provisioned IOPS and MiB/s; None is what
    the type includes."""

    type: str
    size_gib: int
    iops: int | None = None
    mib_s: int | None = None

    def __str__(self) -> str:
        figures = [self.iops, self.mib_s] if self.mib_s is not None else [self.iops] if self.iops is not None else []
        return ":".join([self.type, str(self.size_gib), *("" if figure is None else str(figure) for figure in figures)])


@dataclass(frozen=True)
class Storage:
    """One volume, or an array of them. `text` is the notation in its normal form; storages are
    equal if their texts are. The other fields are the parts of the notation.

    `level`: raid0, raid1, raid5, raid10, raid10f2, or None for a single volume. `members`: the
    volumes in the order of the array. `chunk_kib`: of an array. `usable_gib`: space for a file
    system. `Storage.parse` and `Storage.of` make checked values; `list_limits` says whether AWS
    sells such volumes on a day.
    """

    text: str
    level: str | None = field(compare=False)
    members: tuple[Volume, ...] = field(compare=False)
    chunk_kib: int = field(compare=False)
    usable_gib: int = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Storage:
        """Returns the storage that a text in storage notation names. Raises InputError."""
        if not isinstance(text, str):
            raise refuse.input(_shorten_value(text), "must be storage in text", EXAMPLE)
        with translate_core_errors():
            parts = core.parse_storage(text)
        members = tuple(
            Volume(member["volume_type"], member["size_gib"], member["iops"], member["throughput_mib_s"])
            for member in parts["members"]
        )
        return cls(parts["text"], parts["raid"], members, parts["chunk_kib"], parts["usable_gib"])

    @classmethod
    def of(cls, members: Iterable[Volume], level: str | None = None, chunk_kib: int | None = None) -> Storage:
        """Returns the storage of these parts; several members without a level are RAID 0, as in the
        notation. Raises InputError."""
        joined = "+".join(str(member) for member in members)
        return cls.parse(
            ("" if level is None else f"{level}:") + joined + ("" if chunk_kib is None else f"@{chunk_kib}k")
        )

    def __str__(self) -> str:
        return self.text

    @property
    def layout(self) -> str:
        """The level of the array, or `single`."""
        return self.level or "single"

    @property
    def volume_type(self) -> str:
        """The type of the first member; only an array joined with `+` has several."""
        return self.members[0].type

    @property
    def size_gib(self) -> int:
        """The size of all members, which is paid for. A file system gets `usable_gib`."""
        return sum(member.size_gib for member in self.members)

    def list_limits(self, as_of: str | None = None, instance: str | None = None) -> list[core.VolumeLimits]:
        """Returns the limits of each member on a day (None: the newest that the catalog has), with
        those of an instance if it is named. Raises InputError where AWS sells no such volume."""
        with translate_core_errors():
            return core.storage_limits(self.text, as_of, instance)

    def list_monthly_costs(
        self, region: str, as_of: str | None = None, million_ios_per_month: float = 0.0
    ) -> list[core.CostItem]:
        """Returns the items of a month's bill in USD. Raises InputError without a price."""
        with translate_core_errors():
            return core.monthly_cost(self.text, region, as_of, million_ios_per_month)

    def with_(self, **changed: int | None) -> Storage:
        """Returns the storage with `size_gib`, `iops` or `mib_s` of each member changed; None is
        what the type includes. Raises InputError."""
        return Storage.of(
            [replace(member, **changed) for member in self.members], self.level, self.chunk_kib if self.level else None
        )


@dataclass(frozen=True)
class Placement:
    """The place of a database: `data`, a `log` volume of its own for redo and binlog or None, and
    the `instance` or None if it is not given. `note`: a remark on a notation that may be meant
    otherwise, for the caller to print; usually None."""

    instance: str | None
    data: Storage
    log: Storage | None = None
    note: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        text = str(self.data) if self.instance is None else f"{self.instance}/{self.data}"
        return text if self.log is None else f"{text},log={self.log}"


def parse_placement(text: str) -> Placement:
    """Returns the placement that `[INSTANCE/]DATA[,log=LOG]` names. Raises InputError. The instance
    is not looked up in the catalog."""
    if not isinstance(text, str):
        raise refuse.input(_shorten_value(text), "must be storage in text", EXAMPLE)
    head, *options = [part.strip() for part in text.split(",")]
    log = _parse_log(text, options)
    instance, slash, data = head.rpartition("/")
    if slash:
        return Placement(_check_instance(text, instance), _parse_part(text, data), log)
    first, plus, rest = head.partition("+")
    if INSTANCE.fullmatch(first.strip().lower()):
        rule = "an instance and its storage have a / between them" if rest.strip() else "a storage is missing"
        raise refuse.input(_shorten_value(text), rule, EXAMPLE)
    placement = Placement(None, _parse_part(text, head), log)
    if log is None and plus and placement.data.level == "raid0" and not head.lower().startswith("raid"):
        note = f"{_shorten_value(text)} is read as {placement.data}, a RAID 0 of unlike members; a log volume is written {first.strip()},log={rest.strip()}."
        return replace(placement, note=note)
    return placement


def _parse_log(text: str, options: list[str]) -> Storage | None:
    """Returns the log volume in the options behind the data, None if there are none. Raises
    InputError, with the whole `text`, for another option."""
    if not options:
        return None
    key, equals, value = options[0].partition("=")
    if len(options) > 1:
        raise refuse.input(_shorten_value(text), "names one log volume at most, after one comma", EXAMPLE)
    if key.strip().lower() != "log" or not equals:
        raise refuse.input(
            _shorten_value(text), f"after the comma comes log=STORAGE, not {_shorten_value(options[0])}", EXAMPLE
        )
    return _parse_part(text, value)


def _check_instance(text: str, name: str) -> str:
    """Returns the instance type in lower case. Raises InputError, with the whole `text`, where it
    does not look like one."""
    name = name.strip().lower()
    if not INSTANCE.fullmatch(name):
        raise refuse.input(
            _shorten_value(text), f"names no instance type before its storage: {_shorten_value(name)}", EXAMPLE
        )
    return name


def _parse_part(text: str, part: str) -> Storage:
    """Parses one storage of `text`. Raises InputError where it is missing."""
    if not part.strip():
        raise refuse.input(_shorten_value(text), "a storage is missing", EXAMPLE)
    return Storage.parse(part)


def _shorten_value(value: object) -> str:
    """Returns a value as text for an error, cut to LONGEST_SHOWN characters."""
    text = str(value)
    return (text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "...") or "(nothing)"
