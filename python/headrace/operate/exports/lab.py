"""The endpoint of a lab for Prometheus: what its daemon counted (`Lab.metrics_totals`) as text,
served by a process without rights.

`headrace.lab.launch` starts the process with the daemon. It makes one connection to the daemon
while it still has the rights to, becomes the user nobody, and ends when the daemon's process does.

An array has a series of its own and one for each member, told apart by the label `member`: sum over
`member=""` or over `member!=""`, not over both.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
from collections.abc import Iterator, Mapping

from headrace.errors import HeadraceError
from headrace.lab.calls import LabTotals
from headrace.lab.exporter import connect_lab, drop_rights, make_metrics_server
from headrace.lab.place import READY_S
from headrace.operate.exports.prometheus import format_samples
from headrace.operate.exports.samples import BinSample, Samples, ValueSample
from headrace.operate.exports.table import ExportedMetric, select_lab_metrics

# The daemon lets a connection go that was silent for an hour.
KEEP_ALIVE_S = 600.0


def collect_lab_samples(totals: LabTotals) -> Samples:
    """Returns the samples of a lab by metric, in the order of the table."""
    rows: list[Mapping[str, object]] = [*totals["volumes"], *totals["attached"], totals]
    bounds = (*totals["bounds_s"], float("inf"))
    return {
        name: [sample for row in rows for sample in _sample_row(metric, row, bounds)]
        for name, metric in select_lab_metrics().items()
    }


def _sample_row(
    metric: ExportedMetric, row: Mapping[str, object], bounds: tuple[float, ...]
) -> Iterator[ValueSample | BinSample]:
    """Yields the samples of a metric from a row of the daemon's totals; none where the row lacks
    its field. `bounds`: upper bounds of the histogram's buckets, seconds, the last infinite."""
    labels = (str(row["volume"]),) if "volume" in row else ()
    member = row.get("member")
    assert member is None or isinstance(member, int)
    match row.get(metric.field):
        case {"counts": counts, "sum_s": total}:
            yield BinSample(labels, tuple(zip(bounds, counts, strict=True)), total, member)
        case dict() as values:
            for key, value in values.items():
                yield ValueSample((*labels, key), value, member)
        case int() | float() as value:
            yield ValueSample(labels, value, member)


def spell_seconds(seconds: float) -> str:
    """Writes the bound of a bucket, a whole number of nanoseconds, without an exponent."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".")


def build_lab_exposition(totals: LabTotals) -> str:
    """Returns a lab's metrics as the text that Prometheus scrapes."""
    return format_samples(collect_lab_samples(totals), spell_seconds)


def main() -> int:
    """Serves until the daemon ends: `python -m headrace.operate.exports.lab SOCKET DESCRIPTOR
    [detach]`.

    DESCRIPTOR is a socket that listens. `detach`: the daemon answers already; returns at once and
    leaves the server behind. Without it the daemon may still have to start.
    """
    path, descriptor, detach = sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["detach"]
    listener = socket.socket(fileno=descriptor)
    os.chdir("/")
    try:
        lab, daemon = connect_lab(path, 0.0 if detach else READY_S)
        # The table of metrics and the server are read while the package is surely readable: to
        # nobody it may not be.
        build_lab_exposition(lab.metrics_totals())
        server = make_metrics_server(listener, lambda: build_lab_exposition(lab.metrics_totals()))
    except HeadraceError as error:
        print(f"metrics: {error}", file=sys.stderr)
        return error.exit_code
    if detach and os.fork():
        return 0
    drop_rights()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while not select.select([daemon], [], [], KEEP_ALIVE_S)[0]:
        with contextlib.suppress(HeadraceError):
            lab.calls()
    return 0


if __name__ == "__main__":
    # Threads that still answer must not hold up the end.
    os._exit(main())
