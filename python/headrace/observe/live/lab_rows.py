"""The lab's own rows of volumes, a second each, kept up while they are sampled: the daemon
remembers an hour."""

from __future__ import annotations

import time
from collections.abc import Sequence

import polars as pl

from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.lab.metrics import frame

# Well within the hour the daemon keeps.
EVERY_S = 600.0


class LabRows:
    """Rows of volumes from now on. A volume whose rows cannot be read any more ends with a note."""

    def __init__(self, lab: Lab, volumes: Sequence[str]) -> None:
        """Raises NoLab and LabRefused where a volume is not there."""
        for name in volumes:
            lab.describe(name)
        self._lab = lab
        self._since = dict.fromkeys(volumes, int(time.time()) - 2)
        self._rows: dict[str, list[pl.DataFrame]] = {name: [] for name in volumes}
        self.notes: list[str] = []

    def read(self) -> None:
        """Fetches what is new."""
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

    def close(self) -> dict[str, pl.DataFrame]:
        """Fetches the last rows and ends the connection. Returns seconds of each volume, oldest
        first, with the columns of `Lab.metrics`."""
        self.read()
        self._lab.close()
        return {
            name: pl.concat(parts, how="vertical_relaxed").unique("t_s", keep="last").sort("t_s")
            for name, parts in self._rows.items()
            if parts
        }
