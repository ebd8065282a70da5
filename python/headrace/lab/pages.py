"""Answers of the daemon that come in pages."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lab.calls import Snapshot
from headrace.lab.client import Lab


def all_snapshots(lab: Lab, volume: str | None = None, bin: bool = False) -> Iterator[Snapshot]:
    """Yields the lab's snapshots, page by page: of a volume, or those in the recycle bin."""
    after = None
    while True:
        page = lab.snapshots(after=after, volume=volume, bin=bin)
        yield from page["snapshots"]
        if (after := page["next"]) is None:
            return
