"""Counters once a second: the server's, the disks', the host's; and the lab's rows of volumes.

Each source has a thread of its own on one grid of whole seconds (of the wall clock), so a server
that answers late does not move the disks. A source that cannot be read any more ends with a note;
the others go on. All figures are cumulative, as the source has them; `Samples.compute_rates` makes
differences.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

import polars as pl

from headrace.base.checks import check_number
from headrace.errors import HeadraceError, InputError, Refusals
from headrace.mysql import Address, connect
from headrace.mysql.connection import cut
from headrace.mysql.statements import SqlConnection, ask, get_error_words, parse_numbers
from headrace.observe.live import host
from headrace.observe.live.samples import EVERY_S, LabRows, Samples, SampleStore, Spill

refuse = Refusals("docs/reference/capture.md")
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.1, 3_600.0  # ours: SHOW GLOBAL STATUS takes some ms
# A server under heavy load answers late; one that has not answered for this long is gone.
ANSWER_S = 20.0
# Longer than a query in flight may take after its connection was cut.
JOIN_S = 5.0
# The wall clock against the monotonic one between two samples: what NTP slews is far below.
CLOCK_STEP_S = 0.5
MAX_NOTES = 50  # more are not read; ours
STATEMENT = "SHOW GLOBAL STATUS"
VARIABLE = re.compile(r"[a-z][a-z0-9_.]{0,100}\Z", re.ASCII)


class Sampler:
    """Samples a server, disks, the host and volumes of the lab, each in a thread:
    `with Sampler(address, ["/dev/loop0"]) as sampler: ...; samples = sampler.stop()`.

    `address` None: no server is sampled. `devices`: kernel names or paths. `variables`: ask for
    these status variables only (None: all numeric ones). `lab`: volumes of a lab whose rows are
    kept as well. One connection, one SHOW GLOBAL STATUS an interval. Memory is bounded: long series
    go to a temporary folder until `stop`. Raises InputError for a device that is not there, and
    what `connect` raises, when it is entered; never afterwards.
    """

    def __init__(
        self,
        address: Address | None,
        devices: Sequence[str] = (),
        interval_s: float = 1.0,
        *,
        variables: Collection[str] | None = None,
        lab: LabRows | None = None,
    ) -> None:
        """Prepares a sampler that reads every `interval_s` seconds; `start` begins. Raises
        InputError for an interval out of range or a device that is not there."""
        self.address = address
        self.interval_s = check_number("interval_s", interval_s, MIN_INTERVAL_S, MAX_INTERVAL_S, "s", refuse)
        self._devices = host.resolve_device_names(devices)
        self._statement, self._lab = _build_statement(variables), lab
        self._spill = Spill()
        self._status, self._host = SampleStore("status", self._spill), SampleStore("host", self._spill)
        self._disks = {name: SampleStore(f"disk-{index}", self._spill) for index, name in enumerate(self._devices)}
        self._stopping, self._lock = threading.Event(), threading.Lock()
        self._threads: list[threading.Thread] = []
        self._connection: SqlConnection | None = None
        self._samples: Samples | None = None
        self._notes: list[str] = []
        self._ended: set[str] = set()

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def notes(self) -> list[str]:
        """Returns the notes so far."""
        with self._lock:
            return list(self._notes)

    @property
    def ended(self) -> frozenset[str]:
        """Returns the sources that ended before `stop`: `status`, `host`, or a device's kernel
        name."""
        with self._lock:
            return frozenset(self._ended)

    def start(self) -> None:
        """Connects and starts the threads, unless they were started before. Raises as `connect`."""
        if self._threads or self._samples is not None:
            return
        sources: list[tuple[str, Callable[[], None], float]] = [("host", self._read_host, self.interval_s)]
        if self.address is not None:
            self._connection = connect(self.address, ANSWER_S)
            sources.append(("status", self._read_status, self.interval_s))
        if self._devices:
            sources.append(("disk", self._read_disks, self.interval_s))
        if self._lab is not None:
            sources.append(("lab", self._lab.read, EVERY_S))
        for name, *work in sources:
            thread = threading.Thread(target=self._run, args=(name, *work), name=f"headrace-sample-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> Samples:
        """Ends threads and connection, and returns the samples, again at further calls."""
        if self._samples is not None:
            return self._samples
        self._stopping.set()
        for thread in self._threads:
            thread.join(JOIN_S)
        if self._connection is not None:
            # A query that still hangs ends with its socket; else the connection ends with COM_QUIT,
            # so that the server counts no aborted client.
            hangs = any(thread.is_alive() for thread in self._threads)
            with suppress(Exception):
                cut(self._connection) if hangs else self._connection.close()
        for thread in self._threads:
            thread.join(JOIN_S)
            if thread.is_alive():
                self._note(f"{thread.name.removeprefix('headrace-sample-')}: the last sample did not come back")
        try:
            self._samples = self._collect()
        finally:
            self._spill.remove()
        return self._samples

    # --- threads ----------------------------------------------------------------------------------

    def _run(self, name: str, read: Callable[[], None], interval_s: float) -> None:
        """Calls `read` at each whole multiple of `interval_s` of the clock until `stop`, and notes
        samples that were missed and changes of the clock. An exception ends this source alone."""
        missed, tick = 0, math.ceil(time.time() / interval_s)
        offset_s = time.time() - time.monotonic()
        while not self._stopping.is_set():
            wait = tick * interval_s - time.time()
            if wait > 0 and self._stopping.wait(min(wait, interval_s)):
                break
            if tick * interval_s - time.time() > 0.002:
                # the clock was set back: a new grid
                tick = math.ceil(time.time() / interval_s)
                continue
            try:
                read()
            except Exception as error:
                self._end_source(name, error)
                break
            following = max(tick + 1, math.ceil(time.time() / interval_s))
            last_s, offset_s = offset_s, time.time() - time.monotonic()
            if abs(offset_s - last_s) > CLOCK_STEP_S:
                self._note(f"{name}: the clock was set by {offset_s - last_s:+.1f} s")
            else:
                missed += following - tick - 1
            tick = following
        if missed:
            self._note(
                f"{name}: {missed} samples were missed, since the sample before took longer than {interval_s:g} s"
            )

    def _end_source(self, name: str, error: Exception) -> None:
        """Marks a source as ended and notes why and when, unless the sampler is being stopped."""
        if self._stopping.is_set():
            return
        words = get_error_words(error) or type(error).__name__
        what = error.rule if isinstance(error, HeadraceError) else words
        with self._lock:
            self._ended.add(name)
        self._note(f"{name}: ended at {time.time():.0f} (Unix time): {what}")

    def _note(self, text: str) -> None:
        with self._lock:
            if len(self._notes) < MAX_NOTES:
                self._notes.append(text)

    def _read_status(self) -> None:
        """Adds a sample of the status, at the middle of the time that the server took to answer."""
        assert self._connection is not None  # `start` makes it before this source
        before = time.time()
        numbers = parse_numbers(ask(self._connection, self._statement))
        self._status.add({"t_unix": (before + time.time()) / 2} | numbers)

    def _read_disks(self) -> None:
        """Adds a sample of each device's counters; a device that is gone is noted once."""
        now, counters = time.time(), host.read_disks(list(self._disks))
        for name, store in self._disks.items():
            if name in counters:
                store.add({"t_unix": now} | counters[name])
            elif name not in self._ended:
                with self._lock:
                    self._ended.add(name)
                self._note(f"{self._devices[name]}: the device is gone since {now:.0f} (Unix time)")

    def _read_host(self) -> None:
        self._host.add({"t_unix": time.time()} | host.read_host())

    # --- the end ----------------------------------------------------------------------------------

    def _collect(self) -> Samples:
        """Returns all samples as frames; counters that this kernel does not have are null."""
        columns = ["t_unix", "device", *host.FIELDS]
        disks = []
        for name, store in self._disks.items():
            frame = store.collect_frame()
            missing = [
                pl.lit(None, dtype=pl.Float64).alias(column) for column in host.FIELDS if column not in frame.columns
            ]
            disks.append(frame.with_columns(pl.lit(name).alias("device"), *missing).select(columns))
        empty = pl.DataFrame(schema={name: pl.String if name == "device" else pl.Float64 for name in columns})
        disk = pl.concat(disks).sort("t_unix", "device") if disks else empty
        lab = {} if self._lab is None else self._lab.close()
        notes = [*self.notes, *(self._lab.notes if self._lab else [])]
        return Samples(self._status.collect_frame(), disk, self._host.collect_frame(), self.interval_s, notes, lab)


def _build_statement(variables: Collection[str] | None) -> str:
    """Returns the statement that reads these status variables (None: all). Sixty cost the server a
    third of what all five hundred do, and this process a tenth (MariaDB 10.11). Raises InputError
    for a name that is not valid."""
    if variables is None:
        return STATEMENT
    names = sorted({name.lower() for name in variables})
    for name in names:
        if not VARIABLE.match(name):
            raise InputError(f"variable {name[:60]!r}", "is not the name of a status variable", "SHOW GLOBAL STATUS")
    return f"{STATEMENT} WHERE Variable_name IN ({', '.join(repr(name) for name in names)})" if names else STATEMENT
