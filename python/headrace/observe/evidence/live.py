"""A live source: volumes, server and host, read together once a second.

One connection and one statement a second to the server; the lab and the host are read locally. A
tick is made when its second has ended. The server's counters are read a quarter of a second after
the rows of volumes end, which matters for a single second alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.base.units import HOUR_S
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab.metrics import SECONDS_OF
from headrace.observe.evidence.model import Evidence, Row, SourceFacts, Tick, collect_evidence
from headrace.observe.evidence.server import ServerReader
from headrace.observe.evidence.source import TickSource
from headrace.observe.evidence.volumes import VolumeReader
from headrace.observe.live import host
from headrace.observe.live.nvme import NvmePage

if TYPE_CHECKING:
    from collections.abc import Callable

AFTER_S = 0.25  # past a whole second of the wall, when the daemon has written its row
# Clocks of two machines may differ by this much before it is said, s: NTP keeps them far closer.
CLOCKS_APART_S = 2.0
# Rows of the lab that are read at the start: the last 90 s for rates and credits at once, and
# minutes for the hour before them.
PAST_S, PAST_MINUTES_S = 90, int(HOUR_S)
FACTS_EVERY_S = 10.0  # how often volumes are asked whether they are another by now


class HostReader:
    """Reads how busy the processors of this host are, and what waits for them or for I/O (PSI)."""

    def __init__(self) -> None:
        self._before: tuple[float, dict[str, float]] | None = None

    def read(self) -> Row:
        """Returns the figures of HOST_COLUMNS since the last reading; an empty row at the first."""
        at_s, after = time.monotonic(), host.read_host() | host.read_pressure()
        last, self._before = self._before, (at_s, after)
        if last is None or at_s <= last[0]:
            return {}
        took, before = at_s - last[0], last[1]
        row: Row = {name: after[name] for name in ("load1", "memory_available_bytes")}
        pressure = {"cpu_some_s": "psi_cpu_share", "io_some_s": "psi_io_share", "io_full_s": "psi_io_full_share"}
        for name in after:
            if name.endswith("_s") and name in before:
                column = pressure.get(name, name.replace("_s", "_cpus"))
                row[column] = max(0.0, after[name] - before[name]) / took
        return row


class LiveSource(TickSource):
    """Reads volumes, server and host together, each second."""

    def __init__(
        self,
        target: str,
        volumes: VolumeReader | None,
        server: ServerReader | None,
        with_host: bool = True,
        instance: str | None = None,
        as_of: str | None = None,
    ) -> None:
        """Takes readers that are open; None stands for volumes or a server that are not read. Adds
        a note when the clocks of server and machine are too far apart."""
        self._volumes, self._server = volumes, server
        self._host = HostReader() if with_host else None
        missing = [*(volumes.missing if volumes else ["volumes: none was named or found"])]
        missing += server.missing if server else ["the server: none was named; only its volumes are seen"]
        apart = None if server is None else server.clocks_apart_s
        self._notes: list[str] = []
        if apart is not None and abs(apart) > CLOCKS_APART_S:
            self._notes.append(
                f"the server's clock is {apart:+,.0f} s from this machine's; its figures are joined by when they were read"
            )
        self._facts = SourceFacts(
            target,
            "live",
            1.0,
            "UTC, clock of this machine",
            volumes.read_facts() if volumes else (),
            server.facts if server else None,
            os.cpu_count() if with_host else None,
            instance,
            as_of,
            bool(volumes and volumes.exact),
            tuple(missing),
            clocks_apart_s=apart,
        )
        self._refreshed_s = time.monotonic()

    @property
    def facts(self) -> SourceFacts:
        return self._facts

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns the notes so far: restarts, counters that went back, volumes that were
        detached."""
        parts = [self._notes, self._volumes.notes if self._volumes else [], self._server.notes if self._server else []]
        return tuple(dict.fromkeys(text for part in parts for text in part))

    def read_history(self) -> list[Tick]:
        """Returns the ticks of the lab's volumes in the last hour, minutes and then seconds; none
        for other volumes, or where the lab does not answer."""
        with suppress(HeadraceError):
            seconds = self._read_history(PAST_S, "second")
            begins = seconds[0].t_unix if seconds else time.time()
            minutes = self._read_history(PAST_MINUTES_S, "minute")
            return [tick for tick in minutes if tick.t_unix + tick.duration_s <= begins] + seconds
        return []

    def _read_history(self, seconds: int, resolution: str) -> list[Tick]:
        by_second = self._volumes.read_history(seconds, resolution) if self._volumes else {}
        return [Tick(at, float(SECONDS_OF[resolution]), rows) for at, rows in sorted(by_second.items())]

    def read_pages(self) -> dict[str, NvmePage]:
        return self._volumes.read_pages() if self._volumes else {}

    def stream_ticks(self, seconds: float | None = None) -> Iterator[Tick]:
        """Waits for each second and yields its tick, or one for several where a reading of the
        kernel's counters came late, until `seconds` have passed (None: for ever). The first reading
        yields none: rates need two."""
        began = time.monotonic()
        self._read()
        while seconds is None or time.monotonic() - began < seconds:
            now = time.time()
            time.sleep((AFTER_S - now % 1.0) % 1.0 or 1.0)
            yield from self._read()

    def _read(self) -> list[Tick]:
        """Returns the seconds that have ended, oldest first; server and host belong to the last."""
        server: Row = {}
        replica: Row = {}
        took = 0.0
        try:
            if self._server:
                server, replica, took = self._server.read()
        except HeadraceError as error:
            self._note(f"the server did not answer: {error.rule}")
        machine = self._host.read() if self._host else {}
        by_second: dict[float, dict[str, Row]] = {}
        try:
            by_second = self._volumes.read() if self._volumes else {}
            if time.monotonic() - self._refreshed_s >= FACTS_EVERY_S:
                self._refreshed_s = time.monotonic()
                self.refresh()
        except HeadraceError as error:
            self._note(f"the volumes could not be read: {error.rule}")
        last = max(by_second, default=float(int(time.time()) - 1))
        if not by_second and not server and not machine:
            return []
        by_second.setdefault(last, {})
        row_s = self._volumes.row_s if self._volumes and by_second[last] else 1.0
        ticks = [Tick(at, row_s, rows) for at, rows in sorted(by_second.items())]
        ticks[-1] = replace(
            ticks[-1], server={**server, "reading_s": took} if took else {}, host=machine, replica=replica
        )
        return ticks

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def refresh(self) -> None:
        """Reads the facts of the volumes again, and takes over those of the server."""
        server = self._server.facts if self._server else None
        self._facts = replace(self._facts, volumes=self._volumes.read_facts() if self._volumes else (), server=server)

    def close(self) -> None:
        """Ends the connection to the server."""
        if self._server:
            self._server.close()


def collect(source: LiveSource, seconds: float, progress: Callable[[float], object] = lambda share: None) -> Evidence:
    """Watches a live source for `seconds`, or until Ctrl-C, and returns its evidence. `progress` is
    called with the share that is done, 0 to 1. Raises CouldNotRun without a tick."""
    ticks: list[Tick] = []
    began = time.monotonic()
    try:
        # One second more: the first reading has no tick.
        for tick in source.stream_ticks(seconds + 1.0):
            ticks.append(tick)
            progress(min(1.0, (time.monotonic() - began) / seconds))
    except KeyboardInterrupt:
        if len(ticks) < 2:
            raise
    if not ticks:
        raise CouldNotRun(source.facts.target, "nothing could be read", "", "; ".join(source.notes) or "Watch longer.")
    source.refresh()
    return collect_evidence(source.facts, ticks, source.notes)
