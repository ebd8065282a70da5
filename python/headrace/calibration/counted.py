"""Pages that the server read and wrote, by its own counters: what a fit compares besides
throughput.

Throughput at a cap tells the I/Os of a transaction together; how many of them read and how many
write pages, only the server knows. Compared are means of each half of the run (of the whole where
there are few samples), over its transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.calibration.observations import Observation

# Counters by the column of the core's rows that they are compared with; the first that was recorded
# counts. Only innodb_pages_read has the pages of read-ahead.
COUNTERS = {
    "reads_per_tx": ("innodb_pages_read", "innodb_buffer_pool_reads"),
    "written_per_tx": ("innodb_pages_written",),
}
# Relative standard deviation of the mean of a half for reasons outside the model: counters are
# exact, but other statements and the server's own housekeeping are in them. A guess, as BIN_SPREAD
# of the fit.
COUNTED_SPREAD = 0.05
# With fewer samples the mean is that of the whole run, not of each half.
LEAST_SAMPLES = 8


@dataclass(frozen=True)
class CountedPages:
    """Pages a transaction (`value`) in the windows `part` of a run, by the server's counters; they
    are compared with the `column` of the core's rows."""

    column: str
    part: slice
    value: float


def average_counted_pages(observation: Observation) -> tuple[CountedPages, ...]:
    """Returns the pages read and written a transaction by the counters of InnoDB: means of each
    half of the run, of the whole with few samples. Empty for MyRocks, and if nothing was
    counted."""
    run, windows = observation.run, len(observation.tps)
    if run.engine != "innodb":
        return ()
    pages = []
    for column, names in COUNTERS.items():
        rates = _read_rates(observation, names, column)
        if rates is None:
            continue
        middle_s, seconds, per_s = rates
        half_s = windows * observation.step_s / 2
        halves = [slice(0, windows // 2), slice(windows // 2, windows)]
        parts = [(halves[0], middle_s < half_s), (halves[1], middle_s >= half_s)]
        if len(per_s) < LEAST_SAMPLES:
            parts = [(slice(0, windows), np.ones(len(per_s), bool))]
        for part, inside in parts:
            tps = float(observation.tps[part].mean())
            if inside.any() and tps > 0:
                mean = float(np.average(per_s[inside], weights=seconds[inside]))
                if mean > 0:
                    pages.append(CountedPages(column, part, mean / tps))
    return tuple(pages)


def compare_counted(
    counted: tuple[CountedPages, ...], observation: Observation, columns: Mapping[str, Any]
) -> list[np.ndarray]:
    """Returns the logarithms of modelled over counted pages a transaction, in standard deviations:
    a list of one array with a value per mean; an empty list if nothing was counted."""
    residuals = []
    for pages in counted:
        tps = np.maximum(observation.tps[pages.part], 1e-9)
        modelled = float(np.average(np.array(columns[pages.column])[pages.part], weights=tps))
        # A model without such pages is far off, but finitely.
        residuals.append(np.log(max(modelled, 1e-3 * pages.value) / pages.value) / COUNTED_SPREAD)
    return [np.array(residuals)] if residuals else []


def _read_rates(
    observation: Observation, names: tuple[str, ...], column: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Returns three arrays with a value per sample: its middle (s from the start of the run), its
    length (s), and pages a second by the first recorded counter; None if none was recorded."""
    run = observation.run
    first_s = float(run.series["t_s"][0])
    for name in names:
        rate = f"{name}_per_s"
        if run.status is not None and rate in run.status.columns:
            samples = run.status.select("t_s", "duration_s", rate).drop_nulls()
            if samples.height:
                start, seconds, per_s = (samples[key].cast(float).to_numpy() for key in ("t_s", "duration_s", rate))
                return start + seconds / 2 - first_s, seconds, per_s
    if column == "written_per_tx" and "pages_written_per_s" in run.series.columns:
        samples = run.series.select("t_s", "duration_s", "pages_written_per_s").drop_nulls()
        if samples.height:
            start, seconds, per_s = (samples[key].to_numpy() for key in samples.columns)
            return start + seconds / 2 - first_s, seconds, per_s
    return None
