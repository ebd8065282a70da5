"""The lab from Python: every call of the socket protocol as a method.

    >>> from headrace.lab import Lab
    >>> with Lab() as lab:                                          # doctest: +SKIP
    ...     volume = lab.create("gp2:500", name="db", balance_percent=5)
    ...     print(lab.attach("db")["attachment"]["device"])
    /dev/loop0

A volume is named by its id or by its unique name. Results are dicts as in `headrace.lab.answers`. Every method raises LabRefused (exit code 2; `kind`: input,
refused, busy, not-found), NoLab when no lab answers, CouldNotRun (3) for what the machine could not do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.lab.answers import Balance, Fault, Modification, Volume
from headrace.lab.place import Place, place
from headrace.lab.wire import Wire

# An answer takes milliseconds, or the machine is in trouble.
CALL_S = 30.0
# Attach measures the machine's path first; detach, delete and down write back and free what a volume holds.
LONG_CALL_S = 180.0


class Lab:
    """A connection to headraced; made at the first call, and again after the daemon was started anew. Threads may share it: calls wait for each other."""

    def __init__(self, data_dir: str | Path | None = None, socket: str | Path | None = None, timeout_s: float = CALL_S) -> None:
        """The lab in `data_dir` or at `socket`; neither: HEADRACE_LAB, or the default. `timeout_s`: longest wait for an answer."""
        self.place: Place = place(data_dir, socket)
        self.timeout_s = timeout_s
        self._wire = Wire(self.place)

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. The lab goes on."""
        self._wire.close()

    def call(self, name: str, timeout_s: float | None = None, /, **args: Any) -> dict:
        """Any call of the protocol; arguments that are None are left out."""
        given = {key: value for key, value in args.items() if value is not None}
        return self._wire.call(name, given, self.timeout_s if timeout_s is None else timeout_s)

    def pid(self) -> int:
        """Process id of the daemon."""
        return self._wire.peer_pid()

    # --- the lab -------------------------------------------------------------------------------------------------------------------

    def status(self) -> dict:
        """Version, instance, day, clock, directory and volumes of the lab: docs/reference/lab-protocol.md, lab.status."""
        return self.call("lab.status")

    def down(self, force: bool = False) -> dict:
        """Detaches everything and ends the daemon. `force`: also what is mounted. Refused as busy without it."""
        return self.call("lab.down", max(self.timeout_s, LONG_CALL_S), force=force)

    def metrics_text(self) -> str:
        """What the Prometheus endpoint shows."""
        return self.call("metrics.text")["text"]

    # --- volumes -------------------------------------------------------------------------------------------------------------------

    def create(
        self,
        spec: str,
        name: str | None = None,
        tags: dict[str, str] | None = None,
        as_of: str | None = None,
        balance_percent: float | None = None,
    ) -> Volume:
        """Makes a volume or array from storage notation, like `gp2:500` or `raid10:4xgp3:500`."""
        return self.call("volume.create", spec=spec, name=name, tags=tags, as_of=as_of, balance_percent=balance_percent)

    def volumes(self, volumes: list[str] | None = None) -> list[Volume]:
        """All volumes, or those named."""
        return self.call("volume.list", volumes=volumes)["volumes"]

    def describe(self, volume: str) -> Volume:
        """One volume."""
        return self.call("volume.describe", volume=volume)

    def delete(self, volume: str) -> dict:
        """Deletes an available volume and its data."""
        return self.call("volume.delete", max(self.timeout_s, LONG_CALL_S), volume=volume)

    def attach(self, volume: str, name: str | None = None, unpaced: bool = False, probe: bool = True) -> Volume:
        """Makes a block device of it: `attachment.device`. `unpaced`: without the model's delays. `probe`: measure the machine's own path."""
        return self.call("volume.attach", max(self.timeout_s, LONG_CALL_S), volume=volume, name=name, unpaced=unpaced, probe=probe)

    def detach(self, volume: str, force: bool = False) -> dict:
        """Takes the device away. Busy while mounted; `force`: then too, and what is not written yet is lost."""
        return self.call("volume.detach", max(self.timeout_s, LONG_CALL_S), volume=volume, force=force)

    def tag(self, volume: str, set: dict[str, str] | None = None, remove: list[str] | None = None) -> dict:
        """Removes tags by key, then sets tags."""
        return self.call("volume.tag", volume=volume, set=set, remove=remove)

    def modify(
        self,
        volume: str,
        size_gib: int | None = None,
        volume_type: str | None = None,
        iops: int | None = None,
        throughput_mib_s: int | None = None,
    ) -> Modification:
        """Changes a volume, in use or not. Of an array: the size is that of the array, the rest of each member."""
        return self.call(
            "volume.modify", volume=volume, size_gib=size_gib, volume_type=volume_type, iops=iops, throughput_mib_s=throughput_mib_s
        )

    def modifications(self, volume: str | None = None) -> list[Modification]:
        """The last modifications of a volume, or of all."""
        return self.call("volume.modifications", volume=volume)["modifications"]

    # --- credits -------------------------------------------------------------------------------------------------------------------

    def balance(self, volume: str) -> Balance:
        """Credit balances now."""
        return self.call("volume.balance", volume=volume)

    def set_balance(self, volume: str, percent: float, member: int | None = None) -> dict:
        """Sets the balance of a member, or of all that have one."""
        return self.call("volume.set_balance", volume=volume, percent=percent, member=member)

    def restore_balance(self, volume: str, state: Any) -> dict:
        """Brings back the `state` of an earlier `balance` of a volume like this one."""
        return self.call("volume.restore_balance", volume=volume, state=state)

    # --- faults --------------------------------------------------------------------------------------------------------------------

    def fault(
        self,
        volume: str,
        kind: str,
        in_s: float | None = None,
        seconds: float | None = None,
        extra_ms: float | None = None,
        every: int | None = None,
        op: str | None = None,
        member: int | None = None,
        caps_percent: float | None = None,
        seed: int | None = None,
    ) -> Fault:
        """A fault in `in_s` seconds, for `seconds`. `kind`: pause, latency (`extra_ms`), error (`every` Nth), degraded (`caps_percent`, `extra_ms`, `member`),
        power-cut (`seed`). `op`: read, write, any."""
        answer = self.call(
            "volume.fault", volume=volume, kind=kind, in_s=in_s, seconds=seconds, extra_ms=extra_ms, every=every, op=op, member=member,
            caps_percent=caps_percent, seed=seed,
        )  # fmt: skip
        return answer["fault"]

    def faults(self, volume: str) -> list[Fault]:
        """Faults that wait or last."""
        return self.call("volume.faults", volume=volume)["faults"]

    def clear_fault(self, volume: str, fault: str | None = None) -> int:
        """Ends a fault, or all of the volume and every degraded time; how many faults that were."""
        return self.call("volume.clear_fault", volume=volume, fault=fault)["cleared"]

    def fail_member(self, volume: str, member: int) -> dict:
        """Loses a member of an array."""
        return self.call("volume.fail_member", volume=volume, member=member)

    def slow_member(self, volume: str, member: int, caps_percent: float | None = None, extra_ms: float | None = None) -> dict:
        """Leaves a member this share of its caps, and adds latency, until it is restored."""
        return self.call("volume.slow_member", volume=volume, member=member, caps_percent=caps_percent, extra_ms=extra_ms)

    def restore_member(self, volume: str, member: int) -> dict:
        """Ends the slowness of a member; brings back a lost one where there is no redundancy."""
        return self.call("volume.restore_member", volume=volume, member=member)

    def replace_member(self, volume: str, member: int, mib_s: int | None = None) -> dict:
        """Puts a new volume in the place of a member and rebuilds it, with at most `mib_s` MiB/s."""
        return self.call("volume.replace_member", volume=volume, member=member, mib_s=mib_s)

    # --- measurements --------------------------------------------------------------------------------------------------------------

    def metrics(
        self, volume: str, resolution: str = "second", last: int | None = None, since: int | None = None, member: int | None = None
    ) -> dict:
        """{"columns": [...], "rows": [[...]]}, oldest first. `resolution`: second (an hour is kept) or minute (15 days); `last`: so many rows; `since`: Unix seconds.

        `headrace.lab.metrics.frame` makes a polars frame of it.
        """
        return self.call("volume.metrics", volume=volume, resolution=resolution, last=last, since=since, member=member)

    def record(self, volume: str, path: str | Path | None = None) -> dict:
        """Begins to write every decision to a file, for `headrace simulate --replay`: {"path"}."""
        return self.call("volume.record", volume=volume, path=None if path is None else str(path))

    def record_stop(self, volume: str) -> dict:
        """Ends the record: {"path", "requests"}."""
        return self.call("volume.record_stop", volume=volume)


def notes(status: dict) -> list[str]:
    """What a status says that a user should hear without asking."""
    left = status.get("leftovers") or {}
    found = []
    if status.get("journal_repaired"):
        found.append(f"a crash had cut the journal, which was repaired: {status['journal_repaired']}")
    if left.get("released") or left.get("unmounted"):
        found.append(f"released what an earlier daemon left: {left.get('released', 0)} loop devices, {left.get('unmounted', 0)} mounts")
    found += [f"{device} of an earlier daemon is still mounted: unmount it" for device in left.get("busy") or ()]
    if status.get("metrics_rows_lost"):
        found.append(f"{status['metrics_rows_lost']:,} rows of metrics could not be written: is the disk full?")
    if (status.get("recording") or {}).get("broken"):
        found.append(f"the record {status['recording'].get('path')} could not be written whole")
    return found
