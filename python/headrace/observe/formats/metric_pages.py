"""Reads pages of get-metric-data fast: typed JSON, each series into two arrays.

A page of a fleet has a million figures. Read point by point, as `cloudwatch` does, it takes a
minute; here the JSON goes into arrays, and times that many series share are parsed once. A file
that is not as CloudWatch writes it is not read here: `cloudwatch`, which reads it then, says what
is wrong, and where.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
import numpy as np

from headrace.observe.clock import parse_iso
from headrace.observe.formats.cloudwatch import EBS, LEFT_OUT, find_metric, find_volume
from headrace.observe.recording import ABSURD

# msgspec's words where a document ends and another follows.
_FOLLOWS = re.compile(r"trailing characters \(byte (\d+)\)")
WHOLE_SLACK = 1e-6  # of a sum: what a float of 1e15 is off by; as `cloudwatch`
NOT_DELIVERED = ("InternalError", "Forbidden")  # StatusCode of a metric that is not there
MOST_TEXT = 60  # characters of a label in a note, as `cloudwatch`


class _Result(msgspec.Struct, rename="pascal"):
    timestamps: msgspec.Raw
    values: list[float]
    id: str | None = None
    label: str | None = None
    status_code: str | None = None


class _Page(msgspec.Struct, rename="pascal"):
    metric_data_results: list[_Result]
    next_token: str | None = None


@dataclass(frozen=True)
class MetricSeries:
    """Points of one metric of one volume ("" where no label names it): the beginnings of their
    periods in seconds since 1970, and their values. Series with the same times share that array."""

    volume: str
    metric: str
    t_unix: np.ndarray
    values: np.ndarray


def read_pages(content: bytes) -> tuple[list[MetricSeries], list[str]] | None:
    """Returns the series in a file of pages that follow each other, and notes on metrics that were
    left out; None for another file, or one with an error in it."""
    pages = _parse_pages(content)
    if not pages or pages[-1].next_token:
        return None
    times = _Times()
    series: list[MetricSeries] = []
    notes: dict[str, None] = {}
    for result in (result for page in pages for result in page.metric_data_results):
        metric = next((name for text in (result.label, result.id) if text and (name := find_metric(text))), None)
        if metric is None:
            notes[f"Left out: {str(result.label or result.id)[:MOST_TEXT]!r}, {LEFT_OUT}."] = None
            continue
        at = times.parse(result.timestamps)
        values = np.array(result.values, dtype=float) + 0.0  # -0.0 becomes 0.0
        if at is None or len(at) != len(values) or result.status_code in NOT_DELIVERED or not _is_sound(metric, values):
            return None
        if len(at):
            series.append(MetricSeries(find_volume(result.label, result.id), metric, at, values))
    return None if _repeats_a_time(series) else (series, list(notes))


def _parse_pages(content: bytes) -> list[_Page] | None:
    """Returns the documents that follow each other in a file; None where it is not made of such
    pages."""
    decoder, rest, pages = msgspec.json.Decoder(_Page), memoryview(content), []
    while len(rest):
        try:
            pages.append(decoder.decode(rest))
            return pages
        except msgspec.DecodeError as error:
            follows = _FOLLOWS.search(str(error))
            if follows is None:
                return None
            end = int(follows[1]) - 1  # where the next document begins: msgspec has read its first byte
            try:
                pages.append(decoder.decode(rest[:end]))
            except msgspec.DecodeError:
                return None
            rest = rest[end:]
    return pages


class _Times:
    """Parses lists of times into arrays, each distinct list and each distinct time once."""

    def __init__(self) -> None:
        self.lists: dict[bytes, np.ndarray | None] = {}
        self.stamps: dict[str, float | None] = {}

    def parse(self, raw: msgspec.Raw) -> np.ndarray | None:
        """Returns the times in seconds since 1970; None where one is not a time, or is there
        twice."""
        text = bytes(raw)
        if text not in self.lists:
            self.lists[text] = self._parse_times(text)
        return self.lists[text]

    def _parse_times(self, text: bytes) -> np.ndarray | None:
        """Returns what `parse` does, for a list that was not parsed before."""
        try:
            words = msgspec.json.decode(text, type=list[str])
        except msgspec.DecodeError:
            return None
        for word in words:
            if word not in self.stamps:
                stamp = parse_iso(word[:MOST_TEXT])
                self.stamps[word] = None if stamp is None else stamp.epoch_s
        epochs = [self.stamps[word] for word in words]
        if None in epochs or len(set(epochs)) < len(epochs):
            return None
        return np.array(epochs, dtype=float)


def _is_sound(metric: str, values: np.ndarray) -> bool:
    """Returns True when these are figures of a disk, whole where they are sums of I/Os and
    bytes."""
    if not len(values):
        return True
    if not (values.min() >= 0.0 and values.max() <= ABSURD):  # a NaN is neither
        return False
    whole = np.abs(values - np.rint(values)) <= WHOLE_SLACK * np.maximum(1.0, values)
    return metric not in EBS.needed or bool(whole.all())


def _repeats_a_time(series: list[MetricSeries]) -> bool:
    """Returns whether two lists of points of one volume and metric, each with every time once,
    share a time: a page was written twice."""
    parts: dict[tuple[str, str], list[np.ndarray]] = {}
    for part in series:
        parts.setdefault((part.volume, part.metric), []).append(part.t_unix)
    several = (np.concatenate(times) for times in parts.values() if len(times) > 1)
    return any(len(np.unique(times)) < len(times) for times in several)
