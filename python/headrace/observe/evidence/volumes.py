"""Reads the statistics of volumes: the lab's rows of seconds, the statistics page of a volume of
EBS, and without either the kernel's counters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from headrace.base.caps import OVER
from headrace.base.units import MIB, US_PER_S
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.lab.metrics import SECONDS_OF, convert_volume_rows
from headrace.observe.evidence.limits import HoldingLimits, get_holding_limits
from headrace.observe.evidence.model import Row, SeenVolume
from headrace.observe.live import host, nvme

if TYPE_CHECKING:
    from collections.abc import Callable

LAST_ROWS = 20  # rows asked for at once: what a stall of some seconds left out comes after it


class VolumeReader(Protocol):
    """Reads the statistics of volumes. `exact`: whether time over limits is counted. `row_s`: the
    length of each row of the last reading, whole seconds. `missing`: what it cannot read."""

    exact: bool
    row_s: float
    notes: list[str]
    missing: list[str]

    def read_facts(self) -> tuple[SeenVolume, ...]:
        """Returns the facts of the volumes as they are now."""
        ...

    def read(self) -> dict[float, dict[str, Row]]:
        """Returns the rows since the last reading, by seconds since 1970 and by volume. Raises
        CouldNotRun."""
        ...

    def read_history(self, seconds: int, resolution: str) -> dict[float, dict[str, Row]]:
        """Returns the rows of the last `seconds`, a `second` or `minute` each, where rows are kept:
        by seconds since 1970 and by volume."""
        ...

    def read_pages(self) -> dict[str, nvme.NvmePage]:
        """Returns the statistics pages of the volumes that have one."""
        ...


class LabVolumes:
    """Volumes of the lab, by name or id: its own rows, a second each."""

    exact = True
    row_s = 1.0

    def __init__(self, lab: Lab, names: Sequence[str], members: bool = False) -> None:
        """Takes the volumes to read; `members`: whether members of arrays are read as well. Raises
        InputError for a volume that does not exist or is not attached."""
        self._lab, self._names = lab, tuple(names)
        self._last_s: dict[str, int] = {}
        self.notes: list[str] = []
        self.missing: list[str] = []
        status = lab.status()
        self.instance, self.as_of = status["instance_type"], status["as_of"]
        self.data_roles: dict[str, str] = {}
        self._members: dict[str, tuple[str, int]] = {}
        for name in names:
            described = lab.describe(name)
            if members and len(described["members"]) > 1:
                self._members |= {
                    f"{name}/{member['index']}": (name, member["index"]) for member in described["members"]
                }
            if not described["attachment"]:
                hint = f"Attach it: headrace volume attach {name}"
                raise InputError(name, "is not attached, so nothing happens on it", "", hint)

    def read_facts(self) -> tuple[SeenVolume, ...]:
        """Returns the facts of the volumes, and of members, as the lab describes them now."""
        seen = []
        for name in self._names:
            described = self._lab.describe(name)
            attachment, change = described["attachment"], described["modification"]
            loading = (described.get("initialization") or {}).get("state") == "initializing"
            state = change["state"] if change and change["state"] in ("modifying", "optimizing") else ""
            slow = tuple(member["id"] for member in described["members"] if member["state"] in ("failed", "rebuilding"))
            seen.append(
                SeenVolume(
                    name,
                    described["spec"],
                    attachment["device"] if attachment else None,
                    get_holding_limits(described["spec"], self.instance, described["as_of"]),
                    state or ("initializing" if loading else ""),
                    change["next_allowed_at"] if change else None,
                    slow,
                    self.data_roles.get(name, "data"),
                    described["id"],
                    loading_known=True,
                )
            )
            specs = {member["index"]: member["spec"] for member in described["members"]}
            for label, (array, index) in self._members.items():
                if array == name and index in specs:
                    limits = get_holding_limits(specs[index], self.instance, described["as_of"])
                    seen.append(SeenVolume(label, specs[index], None, limits, role="member"))
        return tuple(seen)

    def read(self) -> dict[float, dict[str, Row]]:
        """Returns the rows of the seconds that have ended since the last reading, by second (since
        1970) and volume; the first reading returns the last second."""
        by_second: dict[float, dict[str, Row]] = {}
        volumes = {name: (name, None) for name in self._names} | self._members
        for name, (volume, member) in volumes.items():
            rows = convert_volume_rows(self._lab.metrics(volume, last=LAST_ROWS, member=member))
            last_s = self._last_s.get(name, max(rows, default=0) - 1)
            for t_s in (t_s for t_s in rows if t_s > last_s):
                by_second.setdefault(float(t_s), {})[name] = rows[t_s]
                self._last_s[name] = t_s
        return by_second

    def read_history(self, seconds: int, resolution: str) -> dict[float, dict[str, Row]]:
        """Returns rows that the daemon keeps: those of seconds for an hour, of minutes for days."""
        by_second: dict[float, dict[str, Row]] = {}
        for name in self._names:
            answer = self._lab.metrics(name, resolution, last=seconds // SECONDS_OF[resolution])
            for t_s, row in convert_volume_rows(answer).items():
                by_second.setdefault(float(t_s), {})[name] = row
        return by_second

    def read_pages(self) -> dict[str, nvme.NvmePage]:
        """Returns the statistics page of each attached volume."""
        by_name = {}
        for name in self._names:
            # A volume that was detached has no page.
            with suppress(InputError):
                by_name[name] = nvme.read_page(bytes.fromhex(self._lab.nvme_statistics(name)["page_hex"]))
        return by_name


class DeviceVolumes:
    """Reads block devices of this host: their statistics pages where they have one, else
    /proc/diskstats. `limits`: of each device (None: not known); `log`: the kernel name of the
    device that has only the logs, `log_limits` its limits."""

    def __init__(
        self,
        devices: Sequence[str],
        limits: HoldingLimits | None = None,
        page: Callable[[str], nvme.NvmePage] = nvme.read_device,
        log: str | None = None,
        log_limits: HoldingLimits | None = None,
    ) -> None:
        """Looks for the statistics page of each device, read with `page`; a device without one is
        noted in `missing`. Raises InputError for a device that is not there."""
        self.row_s = 1.0
        self._names = host.resolve_device_names(devices)
        self._log, self._page = log, page
        self._limits = {name: log_limits if name == log else limits for name in self._names}
        self.notes: list[str] = []
        self.missing: list[str] = []
        # The last page of each device, and when it was read, s: later ones may have failed.
        self._pages: dict[str, tuple[float, nvme.NvmePage]] = {}
        self._before: dict[str, tuple[float, dict[str, float]]] = {}
        self._with_page = {name for name in self._names if self._has_page(name)}
        self.exact = len(self._with_page) == len(self._names) > 0
        if not self.exact:
            self.missing.append("time over each limit: no statistics page; limits are inferred from rates and latency")

    def _has_page(self, name: str) -> bool:
        """Reads the statistics page of a device into `_pages` and returns whether it has one; a
        page that may not be read is listed in `missing`."""
        try:
            self._pages[name] = (time.monotonic(), self._page(f"/dev/{name}"))
        except HeadraceError as error:
            if isinstance(error, CouldNotRun):
                self.missing.append(f"the statistics page of {name}: {error.rule}")
            return False
        return True

    def read_facts(self) -> tuple[SeenVolume, ...]:
        """Returns the facts of the devices, by kernel name. An md or dm device gets a note that its
        members have limits of their own."""
        for name in self._names:
            if name.startswith(("md", "dm-")):
                members = ", ".join(host.list_members(name)) or "others"
                text = (
                    f"{name} is a device over {members}: limits belong to each of its members; --storage names all of them, "
                    "such as 2xgp3:500, and --device one of them"
                )
                if text not in self.notes:
                    self.notes.append(text)
        seen = []
        for name in self._names:
            limits, role = self._limits[name], "log" if name == self._log else "data"
            storage = limits.storage if limits else None
            seen.append(SeenVolume(name, storage, f"/dev/{name}", limits, role=role, id=host.find_volume_id(name)))
        return tuple(seen)

    def read(self) -> dict[float, dict[str, Row]]:
        """Returns a row a device, of the time since the last reading, under the second (since 1970)
        in which it began; `row_s` is then the number of seconds that have ended since. A second
        reading within the same second goes under the one before, as if it had lasted that long."""
        at_s, now_s, took = time.monotonic(), time.time(), 0.0
        rows = {}
        for name, counters in host.read_disks(list(self._names)).items():
            before = self._before.get(name)
            self._before[name] = (at_s, counters)
            if before is None:
                continue
            took = at_s - before[0]  # the same for all: who misses a reading begins anew
            row = self._make_row(name, before[1], counters, took)
            if row is not None:
                rows[name] = row | self._read_limit_shares(name, at_s)
        detached = [name for name in self._names if name not in self._before or self._before[name][0] != at_s]
        for name in detached:
            if self._before.pop(name, None) is not None:
                self.notes.append(f"{name} was detached while it was watched")
        second = min(int(now_s - took), int(now_s) - 1)
        self.row_s = float(int(now_s) - second)
        return {float(second): rows} if rows else {}

    def read_history(self, seconds: int, resolution: str) -> dict[float, dict[str, Row]]:
        """Returns nothing: the kernel keeps no rows."""
        return {}

    def read_pages(self) -> dict[str, nvme.NvmePage]:
        """Returns the pages that were read last."""
        return {name: page for name, (_, page) in self._pages.items()}

    def _make_row(self, name: str, before: Mapping[str, float], after: Mapping[str, float], took: float) -> Row | None:
        """Returns the row of a device from its counters at both ends of `took` seconds; None, with
        a note, where they went back."""
        change = host.compute_change(before, after)
        if change is None or took <= 0:
            self.notes.append(f"counters of {name} went back: the device was attached again; that second is left out")
            return None
        return make_device_row(name, change, took, self._limits[name])

    def _read_limit_shares(self, name: str, at_s: float) -> Row:
        """Reads the statistics page of a device, at `at_s`, and returns the share of the time since
        the last one (0 to 1) that was over each limit: None where a counter fell. Empty without a
        page."""
        if name not in self._with_page:
            return {}
        before_s, before = self._pages[name]
        try:
            page = self._page(f"/dev/{name}")
        except HeadraceError:
            return {}
        self._pages[name] = (at_s, page)
        counters = {
            "volume-iops": "ebs_volume_performance_exceeded_iops",
            "volume-throughput": "ebs_volume_performance_exceeded_tp",
            "instance-iops": "ec2_instance_ebs_performance_exceeded_iops",
            "instance-throughput": "ec2_instance_ebs_performance_exceeded_tp",
        }
        shares: Row = {}
        for limit, counter in counters.items():
            change = page.counters[counter] - before.counters[counter]
            shares[OVER[limit]] = min(1.0, change / US_PER_S / (at_s - before_s)) if change >= 0 else None
        return shares


def make_device_row(device: str, change: Mapping[str, float], took: float, limits: HoldingLimits | None) -> Row:
    """Returns the row of a volume from the change of the kernel's counters over `took` seconds:
    I/Os, flushes and MiB a second, mean requests outstanding, and the mean ms of a request of the
    kernel."""
    reads, writes = host.count_volume_requests(device, change)
    flushes = min(change["writes"], change.get("flushes", 0.0))
    read_mib_s, write_mib_s = (change[f"{way}_bytes"] / MIB / took for way in ("read", "write"))
    charged = limits.compute_charged_rates(reads / took, writes / took, read_mib_s, write_mib_s)[0] if limits else None
    return {
        "read_iops": reads / took,
        "write_iops": writes / took,
        "charged_iops": charged if charged is not None else (reads + writes) / took,
        "read_mib_s": read_mib_s,
        "write_mib_s": write_mib_s,
        "queue": change["weighted_ms"] / 1e3 / took,
        "idle_share": max(0.0, 1.0 - change["io_ms"] / 1e3 / took),
        "read_ms": change["read_ms"] / change["reads"] if change["reads"] else None,
        "write_ms": change["write_ms"] / change["writes"] if change["writes"] else None,
        "flush_iops": flushes / took,
    }
