"""The lab's own figures of the volumes below a target, kept up during a run: it remembers an
hour."""

from __future__ import annotations

import time
from collections.abc import Mapping

import polars as pl

from headrace.bench.target import Target
from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.lab.metrics import frame

# Well within the hour the daemon keeps.
EVERY_S = 600.0


class LabMetrics:
    """`with LabMetrics(target) as lab: ... lab.keep_up() now and then ...; lab.stop()`.

    A target without lab volumes has no figures; a lab that goes away ends them with a note.

    Raises NoLab and LabRefused when it is entered and the volumes are not there.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lab: Lab | None = None
        self._rows: dict[str, list[pl.DataFrame]] = {}
        self._since: dict[str, int] = {}
        self._next = 0.0
        self.notes: list[str] = []
        self.facts: dict[str, Mapping] = {}

    def __enter__(self) -> LabMetrics:
        if self._target.lab is not None and self._target.volumes:
            self._lab = Lab(self._target.lab.data_dir, self._target.lab.socket)
            begin = int(time.time()) - 2
            for name in self._target.volumes:
                self.facts[name] = self._lab.describe(name)
                self._since[name], self._rows[name] = begin, []
            self._next = time.monotonic() + EVERY_S
        return self

    def __exit__(self, *_: object) -> None:
        if self._lab is not None:
            self._lab.close()
            self._lab = None

    def keep_up(self) -> None:
        """Fetches what is new when it is time; cheap otherwise."""
        if self._lab is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            self._fetch()

    def stop(self) -> dict[str, pl.DataFrame]:
        """Returns seconds of each volume, oldest first."""
        if self._lab is not None:
            self._fetch()
        return {
            name: pl.concat(parts, how="vertical_relaxed").unique("t_s", keep="last").sort("t_s")
            for name, parts in self._rows.items()
            if parts
        }

    def _fetch(self) -> None:
        assert self._lab is not None  # its callers have looked
        for name, since in list(self._since.items()):
            try:
                rows = frame(self._lab.metrics(name, resolution="second", since=since))
            except HeadraceError as error:
                self.notes.append(f"lab volume {name}: no figures from {since} (Unix time) on: {error.rule}")
                del self._since[name]
                continue
            if rows.height:
                self._rows[name].append(rows)
                self._since[name] = int(rows["t_s"][-1]) + 1
