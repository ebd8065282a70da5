"""A diagnosis as a page: headline, findings, windows, and the samples over time. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from headrace.base import caps
from headrace.base.units import DAY_S
from headrace.report.charts import style
from headrace.report.charts.builders import (
    PERCENT,
    Panel,
    TimeAxis,
    draw_panels,
    make_linear_axes,
    stack_panels,
    with_figures,
)
from headrace.report.tables import fold_of
from headrace.report.view import (
    Block,
    Card,
    Chart,
    Code,
    Fold,
    Heading,
    Items,
    Mark,
    Sentence,
    Table,
    View,
    make_columns,
)
from headrace.report.words import format_number, format_percent

if TYPE_CHECKING:
    from headrace.operate.doctor.model import Diagnosis, Finding, Window

# Column, label, colour.
PANELS: tuple[Panel, ...] = (
    ("IOPS", (("read_iops", "reads", style.MEASURED), ("write_iops", "writes", style.SECOND))),
    ("MiB/s", (("read_mib_s", "reads", style.MEASURED), ("write_mib_s", "writes", style.SECOND))),
    ("latency (ms)", (("read_ms", "reads", style.MEASURED), ("write_ms", "writes", style.SECOND))),
    ("over a limit (%)", (
        ("over_volume_iops", "volume IOPS", style.WARN), ("over_volume_throughput", "volume MiB/s", style.SECOND),
        ("over_instance_iops", "instance IOPS", style.QUIET), ("over_instance_throughput", "instance MiB/s", style.THIRD),
    )),
    ("credits (%)", (("balance_percent", "balance", style.MEASURED),)),
    ("transactions/s", (("tps", "server", style.MEASURED),)),
    ("threads", (("threads_running", "running", style.MEASURED), ("lock_waiters", "waiting for row locks", style.WARN))),
)  # fmt: skip
HEIGHT = 84  # px: seven panels fit a printed page
# Columns that are not drawn where they are 0 all the time, which a sentence says then.
NAMED_IF_ZERO = ("read_iops", "write_iops", "read_mib_s", "write_mib_s", "lock_waiters")
IN_PERCENT = ("over a limit (%)", "credits (%)")
PARENTHESES = re.compile(r" \([^()]*\)$")  # at the end of a headline; the findings repeat them
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d)(:\d\d)?")
# A figure of the evidence: "time at the limit: 40.0 % of the recording".
SHARE = re.compile(r"(?P<what>[^:]+): [\d.]+ % (?P<of>.+)")
CALM = ("fine", "not storage", "touched")


def build_view(diagnosis: Diagnosis, ticks: Sequence[Mapping[str, Any]]) -> View:
    """Returns the view of a diagnosis. `ticks`: the samples, as a recording has them."""
    headline, _, rest = diagnosis.headline.partition(". ")
    title, day = _without_day(PARENTHESES.sub("", headline))
    blocks: list[Block] = [Sentence(rest, "good" if diagnosis.verdict in CALM else "warn")] if rest else []
    for volume in list(dict.fromkeys(name for tick in ticks for name in tick["volumes"])):
        blocks += _build_volume(volume, ticks, diagnosis.windows)
    blocks.append(Heading("Findings and remedies"))
    for finding in [*diagnosis.findings, *diagnosis.others]:
        blocks += _build_finding(finding, diagnosis.headline)
    if diagnosis.windows:
        titles = ("from", "to", "limit", "rate", "recorded ms", "usual ms", "model ms")
        table = Table(
            make_columns(titles, number=titles[3:]), [_make_window_row(window) for window in diagnosis.windows]
        )
        blocks += [Heading("Windows at a limit"), table]
    missing = [f"Missing: {text}." for text in diagnosis.missing]
    rests = [f"{diagnosis.span_s:,.0f} s, {diagnosis.grain}.", f"Clock: {diagnosis.clock}.", *missing]
    blocks.append(Fold("Evidence", [Items([*rests, *diagnosis.notes])]))
    where = f"Doctor of {diagnosis.target}, {', '.join(diagnosis.storage)}: {diagnosis.verdict}"
    return View(title, f"{where}; {day}" if day else where, list(_build_cards(diagnosis)), blocks)


def _without_day(words: str) -> tuple[str, str]:
    """Returns a sentence whose times are all of one day without that day, and without seconds where
    they are all whole minutes; and the day, "" where there is none."""
    times = MOMENT.findall(words)
    if len({day for day, _, _ in times}) != 1:
        return words, ""
    whole = all(seconds in ("", ":00") for _, _, seconds in times)
    return MOMENT.sub(lambda match: match[2] if whole else match[2] + match[3], words), times[0][0]


def _build_cards(diagnosis: Diagnosis) -> Iterator[Card]:
    """Yields cards with the verdict, its share of the time, and the first remedy."""
    mark: Mark = "good" if diagnosis.verdict in CALM else "warn"
    first = diagnosis.findings[0] if diagnosis.findings else None
    about = "" if first is None else _describe_subject(first).removeprefix(": ")
    if first is not None and first.subject != diagnosis.verdict and diagnosis.verdict == "binds":
        on = f"This binds {first.volume}." if first.volume else "This binds."
        yield Card("Verdict", caps.label_cap(first.subject), on, mark)
    else:
        yield Card("Verdict", diagnosis.verdict, f"{about[:1].upper()}{about[1:]}.", mark)
    if first is None:
        return
    share = next((figure for figure in first.figures if figure.unit == "share" and figure.value is not None), None)
    if first.felt is not None:
        yield Card("Clients wait for it", format_percent(first.felt), "of their time.", mark)
    elif share is not None:
        words = SHARE.fullmatch(share.words)
        what, of = (words["what"], words["of"]) if words else ("share", share.words)
        yield Card(f"{what[:1].upper()}{what[1:]}", format_percent(share.value), f"{of}.", mark)
    gain = first.gain
    if gain is not None and gain.transactions is not None and gain.low is not None and gain.high is not None:
        low, high = (format_number(1 + value, 2) for value in (gain.low, gain.high))
        times = f"{format_number(1 + gain.transactions, 3)} times the transactions"
        yield Card("Lifting it brings", times, f"80 % interval {low} to {high}.")
    elif first.remedies and (dearer := first.remedies[0].usd_month) is not None:
        word = "saves" if dearer < 0 else "costs"
        yield Card(f"The remedy {word}", f"{abs(dearer):,.2f} USD a month", f"{first.remedies[0].what}.")


def _build_finding(finding: Finding, headline: str) -> Iterator[Block]:
    """Yields a finding, without the words that the headline has already."""
    words = "" if finding.words == headline else f" {finding.words}"
    verdict = f"{finding.verdict[0].upper()}{finding.verdict[1:]}"
    yield Sentence(f"{verdict}{_describe_subject(finding)}.{words}")
    yield Items([figure.words for figure in finding.figures])
    for remedy in finding.remedies:
        yield Sentence(f"Do: {remedy.what}. {remedy.cost}")
        yield Code([*remedy.lines, *([f"undo: {remedy.undo}"] if remedy.undo else [])])


def _describe_subject(finding: Finding) -> str:
    """Returns the subject of a finding, and its volume."""
    named = [] if finding.subject == finding.verdict else [caps.label_cap(finding.subject)]
    named += [finding.volume] if finding.volume else []
    return f": {', '.join(named)}" if named else ""


def _make_window_row(window: Window) -> tuple[str, ...]:
    """Returns a row of the table of windows: from, until, limit, rate and latencies in ms, "-"
    where not known."""
    latencies = (window.recorded_ms, window.usual_ms, window.model_ms)
    rate = f"{window.rate:,.0f} {window.unit}" if window.rate >= 1_000 else f"{window.rate:,.4g} {window.unit}"
    texts = ("-" if value is None else f"{value:,.2f}" for value in latencies)
    return (window.begins, window.ends, window.limit, rate, *texts)


def _format_begin(t_unix: float) -> str | None:
    """Returns the begin of a recording as ISO 8601; None for a recording without a date."""
    dated = t_unix > DAY_S * 366
    return datetime.fromtimestamp(t_unix, UTC).strftime("%Y-%m-%dT%H:%M:%S") if dated else None


def _build_volume(volume: str, ticks: Sequence[Mapping[str, Any]], windows: Sequence[Window]) -> Iterator[Block]:
    """Yields the chart of a volume, windows at a limit shaded, and its data as a table."""
    rows = [
        {
            "t_s": tick["t_unix"] - ticks[0]["t_unix"],
            "duration_s": tick["duration_s"],
            **tick.get("server", {}),
            **tick["volumes"][volume],
        }
        for tick in ticks
        if volume in tick["volumes"]
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    if frame.height < 2:
        return
    over = [name for name in frame.columns if name.startswith("over_")]
    frame = frame.with_columns(pl.col(over) * 100.0) if over else frame
    # Lines that lie on the axis all the time would hide each other: a sentence says it.
    zeros = [
        name
        for name in (*over, *NAMED_IF_ZERO)
        if name in frame.columns and not (frame[name].fill_null(0.0) != 0.0).any()
    ]
    frame = frame.drop(zeros)
    axis = TimeAxis(_format_begin(ticks[0]["t_unix"]), float(frame["t_s"][-1] + frame["duration_s"][-1]))
    panels = with_figures(PANELS, frame)
    at_limit = {
        "t_s": [window.from_s for window in windows],
        "duration_s": [window.to_s - window.from_s for window in windows],
    }
    spans = axis.add(pl.DataFrame(at_limit, schema={"t_s": pl.Float64, "duration_s": pl.Float64}))
    words = "Shaded: at a limit." if windows else ""
    axes = {title: make_linear_axes(title, *PERCENT) for title in IN_PERCENT}
    drawn = draw_panels(axis.add(frame), axis, panels, HEIGHT, axes, shaded=spans)
    labels_by_panel = {title: [label for column, label, _ in parts if column in zeros] for title, parts in PANELS}
    described = f"{volume}: I/Os, MiB/s, latency, time over limits and transactions over time"
    yield Chart(lambda: stack_panels(drawn, volume, words), described)
    fold = fold_of(f"{volume} as a table", frame, panels, _format_begin(ticks[0]["t_unix"]))
    if zeros:
        named = "; ".join(f"{title}: {', '.join(labels)}" for title, labels in labels_by_panel.items() if labels)
        quiet = Sentence(f"It was 0 all the time, and is not drawn: {named}.")
        fold = Fold(fold.title, [*fold.blocks, quiet])
    yield fold
