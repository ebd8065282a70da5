"""What the lab answers with: plain dicts, as JSON has them. Keys that are new in a later daemon may stand beside these.

Units are in the names. Times (`_at`, `start`, `end`) are text in UTC, ISO 8601.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Ceiling(TypedDict):
    """What this machine can do at most, measured at attach."""

    iops: int
    mib_s: int


class Attachment(TypedDict):
    """A volume's block device. `path_us`: latency of the machine's own path, taken out of the model's; None: not measured."""

    state: str  # attaching, attached, detaching, busy
    device: str | None  # /dev/loop3
    links: list[str]  # stable names of it: by id, by attach name
    name: str  # sdf
    attached_at: str | None
    path_us: float | None
    ceiling: Ceiling | None
    warnings: list[str]
    unpaced: bool


class Modification(TypedDict):
    """Also `from` and `to` in storage notation. `end` is None while it runs; `reason` says why it failed. Times are lab time."""

    id: str
    state: str  # modifying, optimizing, completed, failed
    progress_percent: int
    start: str
    end: str | None
    optimizing_at: str
    completed_at: str
    next_allowed_at: str
    reason: str | None


class Member(TypedDict):
    """A volume of an array, or the one there is."""

    index: int
    id: str  # that of the volume, -m0 and so on behind it in an array
    spec: str
    state: str  # ok, slow, failed, rebuilding
    iops: int
    throughput_mib_s: int
    balance_percent: float | None


class Volume(TypedDict):
    """A volume. `iops` and `throughput_mib_s` are what it delivers at most, `balance_percent` None without credits."""

    id: str
    name: str | None
    spec: str
    type: str
    size_gib: int
    iops: int
    throughput_mib_s: float
    raid: str | None
    members: list[Member]
    state: str  # creating, available, in-use, deleting, error
    created_at: str
    as_of: str
    tags: dict[str, str]
    used_gib: float
    attachment: Attachment | None
    modification: Modification | None
    balance_percent: float | None
    faults: int
    recording: str | None


class MemberBalance(TypedDict):
    """Credits of a member: I/Os for gp2, bytes for st1 and sc1."""

    credits: float
    capacity: float
    percent: float


class Balance(TypedDict):
    """Balances now. A member without credits is None. `state` is for restore_balance and means nothing else."""

    members: list[MemberBalance | None]
    instance: dict[str, float | None] | None
    state: Any


class Fault(TypedDict):
    """A fault with its exact times on the wall clock. A power cut has no end (the volume is without power until it is attached anew) but a seed."""

    id: str
    kind: str
    starts_at: str | None
    ends_at: str | None
    seed: int | None
