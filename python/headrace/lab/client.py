"""The lab from Python: a connection to headraced, with every call of the protocol as a method.

    >>> from headrace.lab import Lab
    >>> with Lab() as lab:                                          # doctest: +SKIP
    ...     volume = lab.create("gp2:500", name="db", balance_percent=5)
    ...     print(lab.attach("db")["attachment"]["device"])
    /dev/loop0

The calls and what they answer are in `headrace.lab.calls`. Every method raises LabRefused (exit
code 2, with the `kind` of the refusal), NoLab when no lab answers, CouldNotRun (3) for what the
machine could not do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.lab.calls import Calls, LabStatus, Snapshot
from headrace.lab.place import Place, find_place
from headrace.lab.wire import Wire

# An answer takes milliseconds, or the machine is in trouble.
CALL_S = 30.0


class Lab(Calls):
    """A connection to headraced, made at the first call and again after a restart of the daemon.
    Threads may share it: calls wait for each other."""

    def __init__(
        self, data_dir: str | Path | None = None, socket: str | Path | None = None, timeout_s: float = CALL_S
    ) -> None:
        """Sets the place of the lab: `data_dir` or `socket`, without both HEADRACE_LAB or the
        default. `timeout_s` is the longest wait for an answer, except for calls that may take
        minutes. Raises InputError."""
        self.place: Place = find_place(data_dir, socket)
        self.timeout_s = timeout_s
        self._wire = Wire(self.place)

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. The lab goes on."""
        self._wire.close()

    def call(
        self,
        name: str,
        timeout_s: float | None = None,
        /,
        *,
        token: str | None = None,
        dry_run: bool = False,
        **args: Any,
    ) -> Any:
        """Makes a call of the protocol by its name and returns the result; arguments of None are
        left out. `timeout_s` replaces that of the connection. Repeated calls with the same client
        `token` are carried out once. With `dry_run` a call is only decided: it raises LabRefused of
        kind `dry-run` if it would be carried out.
        """
        given = {
            key: os.fspath(value) if isinstance(value, os.PathLike) else value
            for key, value in args.items()
            if value is not None
        }
        return self._wire.call(name, given, self.timeout_s if timeout_s is None else timeout_s, token, dry_run)

    def get_pid(self) -> int:
        """Returns the process id of the daemon. Raises NoLab, CouldNotRun."""
        return self._wire.read_peer_pid()


def list_all_snapshots(lab: Lab, volume: str | None = None, bin: bool = False) -> Iterator[Snapshot]:
    """Yields the lab's snapshots, page by page: of a volume, or those in the recycle bin."""
    after = None
    while True:
        page = lab.snapshots(after=after, volume=volume, bin=bin)
        yield from page["snapshots"]
        if (after := page["next"]) is None:
            return


def list_notes(status: LabStatus) -> list[str]:
    """Returns sentences on repairs, leftovers and losses in the status of a lab."""
    leftovers, recording = status.get("leftovers"), status.get("recording")
    sentences = []
    if status.get("journal_repaired"):
        sentences.append(f"a crash had cut the journal, which was repaired: {status['journal_repaired']}")
    if leftovers and (leftovers["released"] or leftovers["unmounted"]):
        sentences.append(
            f"released what an earlier daemon left: {leftovers['released']} loop devices, {leftovers['unmounted']} mounts"
        )
    sentences += [
        f"{device} of an earlier daemon is still mounted: unmount it"
        for device in (leftovers["busy"] if leftovers else ())
    ]
    if status.get("metrics_rows_lost"):
        sentences.append(f"{status['metrics_rows_lost']:,} rows of metrics could not be written: is the disk full?")
    if recording and recording["broken"]:
        sentences.append(f"the record {recording['path']} could not be written whole")
    return sentences
