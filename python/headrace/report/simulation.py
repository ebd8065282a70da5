"""A demand, its simulation and a replay: in words, as a short table, as a document, as a page.
Takes results; runs nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from headrace.base import caps, core
from headrace.base.core import describe_day
from headrace.base.encoding import pick_fields
from headrace.base.lazy import defer_imports
from headrace.base.units import MIB
from headrace.errors import InputError
from headrace.report.charts.rows import on_clock, shorten_rows
from headrace.report.tables import SPARK_WIDTH, draw_sparkline, fold_of
from headrace.report.view import Block, Card, Chart, Fold, Items, Sentence, Table, View, make_columns
from headrace.report.words import (
    describe_storage,
    format_clock,
    format_latency,
    format_number,
    format_percent,
    format_span,
    list_row_labels,
)
from headrace.workload import ClosedWorkload
from headrace.workload.points import with_totals

with defer_imports():
    from headrace.report.charts import over_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import altair as alt

    from headrace.simulation.demand import Simulation
    from headrace.workload import OpenWorkload

MOST_WINDOWS = 5  # told in words; the rest is counted
# Gaps shorter than this share of the run (but at most a quarter of an hour) do not end a window:
# a limit met every other minute is one event.
GAP_SHARE, LONGEST_GAP_S = 1 / 96, 900.0
# A run in which the second of IOPS that a rested volume has saved is over one percent.
SHORT_RUN_S = 100.0
# More requests than that wait for no MySQL: its most connections (max_connections in MySQL's
# reference manual), each of which waits for one.
MOST_CLIENTS = 100_000
# Offered over delivered rate below which both are called equal: 1.00 and 1.00 in three digits.
CATCHES_UP = 1.005
SCHEMA = "headrace-simulation/1"
# Demand over time: panels, columns, and no colours for a table.
DEMAND = (("IOPS", (("ops_per_s", "IOPS", ""),)), ("MiB/s", (("mib_s", "MiB/s", ""),)))


def find_clock_start(workload: OpenWorkload | ClosedWorkload) -> str | None:
    """Returns the start of the workload's clock, or None when it has none."""
    return None if isinstance(workload, ClosedWorkload) else workload.source.get("clock_start")


def describe_run(run: Simulation, workload: OpenWorkload | ClosedWorkload, saved_second: bool = True) -> list[str]:
    """Returns sentences on a simulation: offered and delivered load, limits and when they were met,
    queue, balances, the instance's bucket, latency.

    `saved_second`: whether the volumes began with a second of their IOPS saved.
    """
    summary, start = run.summary, find_clock_start(workload)

    def describe_moment(t_s: float | None) -> str:
        moment = format_clock(t_s, start, seconds=summary["seconds"] < 7_200)
        return f"at {moment}" if start else f"{moment} after the start"

    where = f"{run.storage} on {run.instance}" if run.instance else f"{run.storage} (no instance limits)"
    form = {"events": "every request simulated", "interval": "interval form"}.get(run.form, run.form)
    lines = [
        f"{where}, limits of {describe_day(run.as_of)}; {format_span(summary['seconds'])}, {form}, seed {run.seed}."
    ]
    if workload.size_gib and workload.size_gib > run.usable_gib:
        lines.append(
            f"The data does not fit: {format_number(workload.size_gib)} GiB on {format_number(run.usable_gib)} GiB. What follows is about speed only."
        )
    if summary["lost_at_s"] is not None:
        lines.append(
            f"The {'array' if 'x' in run.storage or '+' in run.storage else 'volume'} is lost: all data are gone. It serves nothing."
        )
        return lines
    lines += _describe_delivery(summary, isinstance(workload, ClosedWorkload))
    lines += _describe_limits(run)
    lines += _describe_windows(run, start)
    lines += _explain_saved_second(summary, saved_second)
    settled = bool((getattr(run, "repeated", None) or {}).get("settled"))
    lines += _describe_queue(summary, describe_moment, isinstance(workload, ClosedWorkload), settled)
    lines += _describe_balances(run, describe_moment)
    lines.append(_describe_latency(summary))
    lines += _describe_cycle(run)
    return lines


def _describe_delivery(summary: core.Summary, closed: bool) -> list[str]:
    """Returns a sentence on the offered (not of a closed load) and delivered IOPS and MiB/s, on
    average over the run."""
    seconds = summary["seconds"]
    delivered = summary["delivered_ios"] / seconds
    mib_s = summary["delivered_bytes"] / MIB / seconds
    if closed:
        return [f"Delivered {format_number(delivered, 4)} IOPS and {format_number(mib_s)} MiB/s."]
    if not summary["asked_ios"]:
        return ["The demand is zero."]
    share = summary["delivered_ios"] / summary["asked_ios"]
    return [
        f"Offered load {format_number(summary['asked_ios'] / seconds, 4)} IOPS on average; delivered {format_number(delivered, 4)} IOPS ({format_percent(share)}) "
        f"and {format_number(mib_s)} MiB/s."
    ]


def _describe_limits(run: Simulation) -> list[str]:
    """Returns a sentence on how long requests waited for each limit, the longest first; where they
    waited for none, on what else made them slower."""
    summary = run.summary
    if summary["throttled_s"] <= 0:
        slowed = run.rows.filter(pl.col("cap") != "none").group_by("cap").agg(pl.col("duration_s").sum())
        causes = [
            f"I/Os were slowed by {caps.describe_cap(cap)}, {format_span(seconds)}."
            for cap, seconds in slowed.sort("cap").iter_rows()
        ]
        return [" ".join(["No request waited for a limit.", *causes])]
    by = sorted(summary["throttled_by_s"], key=lambda pair: -pair[1])
    share = summary["throttled_s"] / summary["seconds"]
    blamed = "; ".join(f"{caps.describe_cap(cap)}, {format_span(seconds)}" for cap, seconds in by)
    return [
        f"Requests waited for a limit during {format_span(summary['throttled_s'])} ({format_percent(min(1.0, share))} of the time): {blamed}."
    ]


# A limit that was waited for in less than this share of a window is not named in its line.
NAMED_SHARE = 0.1


def find_throttled_windows(rows: pl.DataFrame) -> list[dict]:
    """Returns the windows of time in which requests waited for a limit: `from_s`, `until_s`,
    `throttled_s`, `by` (s by limit, in the order they were met) and the `cap` waited for longest.
    Windows with a short gap between them are joined; they begin and end with rows.
    """
    if rows.is_empty():
        return []
    length = rows["t_s"][-1] + rows["duration_s"][-1] - rows["t_s"][0]
    gap = min(LONGEST_GAP_S, length * GAP_SHARE)
    windows: list[dict] = []
    for t_s, duration_s, throttled_s, cap in (
        rows.filter(pl.col("throttled_s") > 0).select("t_s", "duration_s", "throttled_s", "cap").iter_rows()
    ):
        if not windows or t_s - windows[-1]["until_s"] > gap:
            windows.append({"from_s": t_s, "until_s": t_s, "throttled_s": 0.0, "by": {}})
        window = windows[-1]
        window["until_s"] = t_s + duration_s
        window["throttled_s"] += throttled_s
        window["by"][cap] = window["by"].get(cap, 0.0) + throttled_s
    return [window | {"cap": max(window["by"], key=window["by"].get)} for window in windows]


def _describe_windows(run: Simulation, start: str | None) -> list[str]:
    """Returns a sentence on the MOST_WINDOWS longest windows of waiting; empty without any."""
    windows = find_throttled_windows(run.rows)
    if not windows:
        return []
    longest = sorted(
        sorted(windows, key=lambda window: -window["throttled_s"])[:MOST_WINDOWS], key=lambda window: window["from_s"]
    )
    seconds = (
        any(window[edge] % 60 for window in longest for edge in ("from_s", "until_s"))
        and run.summary["seconds"] < 7_200
    )

    def describe_window(window: dict) -> str:
        """Says when a window of waiting was, for which limits, and for how long if not
        throughout."""
        edges = "-".join(format_clock(window[edge], start, seconds) for edge in ("from_s", "until_s"))
        # Fewer seconds of waiting than the window is long: it was met again and again in it.
        part = window["throttled_s"] < 0.75 * (window["until_s"] - window["from_s"])
        named = [cap for cap, waited_s in window["by"].items() if waited_s >= NAMED_SHARE * window["throttled_s"]]
        return f"{edges} {', then '.join(caps.describe_cap(cap) for cap in named)}" + (
            f" (for {format_span(window['throttled_s'])})" if part else ""
        )

    line = "When: " + "; ".join(describe_window(window) for window in longest)
    rest = len(windows) - len(longest)
    if rest:
        remaining_s = sum(window["throttled_s"] for window in windows) - sum(
            window["throttled_s"] for window in longest
        )
        line += f"; and {rest} more ({format_span(remaining_s)} in all)"
    return [f"{line}{'' if start else ', counted from the start'}."]


def _explain_saved_second(summary: core.Summary, saved: bool) -> list[str]:
    """Returns a warning that a short run profits from IOPS saved at rest; empty if it does not, or
    no request waited."""
    if not saved or summary["throttled_s"] <= 0 or summary["seconds"] >= SHORT_RUN_S:
        return []
    more = format_percent(min(1.0, 1 / summary["seconds"]))
    return [
        f"A run this short shows the second of IOPS that a rested volume has saved: up to {more} more than its limit. Simulate longer, or use "
        "--no-saved-second."
    ]


def _describe_queue(summary: core.Summary, at: Callable[[float | None], str], closed: bool, settled: bool) -> list[str]:
    """Returns a sentence on the longest wait, the longest queue, and when the backlog was gone.
    `at`: words a second of the run; `settled`: whether the run is a cycle that ends as it began."""
    if summary["throttled_s"] <= 0:
        return []
    if closed:  # its queue is its depth: nothing builds up
        return [f"Longest wait {format_span(summary['longest_wait_s'])}."]
    # Nothing waited longer than the run lasts; what a repeated cycle carries over has no age.
    line = f"Longest wait {format_span(min(summary['longest_wait_s'], summary['seconds']))}"
    when = summary["peak_queue_at_s"]
    moment = f", {at(when)}" if summary["peak_queue"] and when is not None else ""
    # A queue longer than clients could make is not given as a number.
    possible = summary["peak_queue"] <= MOST_CLIENTS
    line += f"; most requests waiting {format_number(summary['peak_queue'])}{moment}" if possible else moment
    if summary["recovered_at_s"] is not None:
        line += f"; the last backlog was gone {at(summary['recovered_at_s'])}"
    elif summary["queue_at_end"] >= 1 and possible:
        line += f"; {format_number(summary['queue_at_end'])} still waiting at the end: it never recovered"
    elif summary["queue_at_end"] >= 1:
        offered, served = (count / summary["seconds"] for count in (summary["asked_ios"], summary["delivered_ios"]))
        if served and offered < CATCHES_UP * served:
            line += f"; {format_number(summary['queue_at_end'])} requests still wait at the end"
            return [line + (", and with them the next cycle begins." if settled else ".")]
        times = f"{format_number(offered / served)} x" if served else "more than"
        line += f"; it never catches up: the offered load is {times} the delivered rate ({format_number(offered, 4)} against {format_number(served, 4)} IOPS on average)"
    return [line + "."]


def _describe_balances(run: Simulation, at: Callable[[float | None], str]) -> list[str]:
    """Returns sentences on how low the credits of volume and instance fell, in %, and for how long
    they were empty."""
    summary, lines = run.summary, []
    if summary["lowest_balance_percent"] is not None:
        line = f"Lowest credit balance {format_number(summary['lowest_balance_percent'])} %, {at(summary['lowest_balance_at_s'])}"
        if summary["credits_empty_at_s"] is not None:
            line += f". Credits ran dry {at(summary['credits_empty_at_s'])} and were gone for {format_span(summary['credits_empty_s'])} in all"
        lines.append(line + ".")
    if run.instance is None:
        return lines
    if summary["instance_empty_at_s"] is not None:
        lines.append(
            f"The EBS burst bucket of {run.instance} runs dry {at(summary['instance_empty_at_s'])}, "
            f"for {format_span(summary['instance_empty_s'])} in all: this instance is too small for the load."
        )
    elif summary["lowest_instance_balance_percent"] is not None:
        lines.append(
            f"The EBS burst bucket of {run.instance} does not run dry; lowest {format_number(summary['lowest_instance_balance_percent'])} %."
        )
    else:
        lines.append(f"{run.instance} has no EBS burst bucket: its limits hold all the time.")
    return lines


def _describe_cycle(run: Simulation) -> list[str]:
    """Returns a sentence on whether the cycle can repeat for ever; empty for a single cycle."""
    cycle = getattr(run, "repeated", None)
    if cycle is None:
        return []
    if cycle["settled"]:
        return ["This is the settled cycle: repeated day after day its balances end where they began."]
    line = "This does not settle: each cycle demands more than the storage can give back"
    if cycle.get("loses_percent_per_cycle"):
        line += f"; it loses {format_number(cycle['loses_percent_per_cycle'])} % of its credits a cycle"
    if cycle.get("dry_after_s") is not None:
        line += f"; from full credits they run dry {format_span(cycle['dry_after_s'])} after the first cycle began"
    return [line + ". The figures are those of a later cycle."]


def _describe_latency(summary: core.Summary) -> str:
    """Returns a sentence with mean and percentiles of the I/O latency that are known."""
    parts = [f"mean {format_latency(summary['mean_ms'])}"]
    for name, key in (("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("p99.9", "p999")):
        value = summary[f"{key}_ms"]
        parts += [] if value is None or math.isnan(value) else [f"{name} {format_latency(value)}"]
    return f"I/O latency, waiting included: {', '.join(parts)}."


FULL_PERCENT = 99.95  # a column of balances that never fall below is left out
# Left out of a narrow terminal's table, the first first.
DROPPED = ("offered MiB/s", "I/O p50", "MiB/s", "I/O mean", "queue")


def build_table(run: Simulation, workload: OpenWorkload | ClosedWorkload) -> Table:
    """Returns a run as a table of at most 24 rows, without balances that stay full."""
    start = find_clock_start(workload)
    rows, step_s = on_clock(run.rows, start)
    labels = list_row_labels(rows["t_s"].to_list(), start)
    closed = isinstance(workload, ClosedWorkload)
    fields = [("time", lambda r: next(labels))]
    if not closed:
        fields += [
            ("offered IOPS", lambda r: format_number(r["asked_iops"], 4)),
            ("offered MiB/s", lambda r: format_number(r["asked_mib_s"])),
        ]
    fields += [
        ("IOPS", lambda r: format_number(r["iops"], 4)),
        ("MiB/s", lambda r: format_number(r["mib_s"])),
        ("queue", lambda r: format_number(r["queue"])),
        ("throttled", lambda r: format_span(r["throttled_s"]) if r["throttled_s"] else ""),
        ("limited by", lambda r: "" if r["cap"] == "none" else caps.label_cap(r["cap"])),
    ]
    for name, title in (
        ("balance_percent", "balance %"),
        ("instance_io_balance_percent", "instance I/O %"),
        ("instance_byte_balance_percent", "instance byte %"),
    ):
        if (rows[name] < FULL_PERCENT).any():
            fields.append((title, lambda r, name=name: format_number(r[name])))
    for name in ("mean_ms", "p50_ms", "p99_ms"):
        if rows[name].is_not_null().any():
            fields.append((f"I/O {name.removesuffix('_ms')}", lambda r, name=name: format_latency(r[name])))
    cells = [[get(row) for _, get in fields] for row in rows.to_dicts()]
    titles = [title for title, _ in fields]
    rest = (
        ""
        if rows.height == run.rows.height
        else f" Each row: {format_span(step_s)}; queue and latency the highest, balance the lowest."
    )
    when = "Time of day." if start else "Time since the start."
    numbers = [title for title in titles if title != "limited by"]
    return Table(make_columns(titles, number=numbers, key=("limited by",), drop=DROPPED), cells, f"{when}{rest}")


def with_clock(run: Simulation, workload: OpenWorkload | ClosedWorkload) -> pl.DataFrame:
    """Returns every row of a run, with `clock` (HH:MM:SS; since the start where the workload has no
    clock) after `t_s`."""
    start = find_clock_start(workload)
    clocks = pl.Series("clock", [format_clock(t_s, start, seconds=True) for t_s in run.rows["t_s"]], dtype=pl.String)
    return run.rows.clone().insert_column(1, clocks)


def build_document(
    run: Simulation, workload: OpenWorkload | ClosedWorkload, caveats: list[str], saved_second: bool = True
) -> dict:
    """Returns the document of `--output json`: settings, summary, caveats and every row."""
    start = find_clock_start(workload)
    return {
        "schema": SCHEMA,
        **pick_fields(run, "storage", "instance", "as_of", "form", "seed"),
        "workload": workload.summarize(),
        "clock_start": start,
        "summary": run.summary,
        "in_words": describe_run(run, workload, saved_second),
        "throttled_windows": [
            window | {edge: format_clock(window[f"{edge}_s"], start, seconds=True) for edge in ("from", "until")}
            for window in find_throttled_windows(run.rows)
        ],
        "caveats": caveats,
        "rows": with_clock(run, workload).to_dicts(),
    }


def draw_chart(
    run: Simulation, workload: OpenWorkload | ClosedWorkload, title: str, most: int = 720
) -> alt.VConcatChart:
    """Returns the chart of a run over time, in at most `most` points."""
    return over_time.draw_simulation(
        shorten_rows(run.rows, most), title, find_clock_start(workload), isinstance(workload, ClosedWorkload)
    )


def build_view(run: Simulation, workload: OpenWorkload | ClosedWorkload, notes: Sequence[str]) -> View:
    """Returns a run as a view."""
    title = make_title(run, workload)
    described = f"{title} over time: demand, what was delivered, queue, balances and latency"
    demand = [line for line in workload.describe().splitlines() if line.removeprefix("Caveat: ") not in notes]
    blocks: list[Block] = [Sentence(line, "warn") for line in _describe_windows(run, find_clock_start(workload))]
    blocks.append(Chart(lambda: draw_chart(run, workload, title), described))
    blocks.append(Fold("The run as a table", [build_table(run, workload)]))
    blocks.append(Fold("The run in words", [Items(describe_run(run, workload))]))
    blocks.append(Fold("The demand", [Items(demand)]))
    if notes:
        blocks.append(Fold("Caveats", [Items(notes)]))
    return View(
        make_headline(run, workload),
        f"{title}, limits of {describe_day(run.as_of)}, seed {run.seed}",
        build_cards(run),
        blocks,
    )


def make_headline(run: Simulation, workload: OpenWorkload | ClosedWorkload) -> str:
    """Returns a sentence on whether requests wait for a limit of the storage, and how long."""
    where = describe_storage(run.storage) + (f" on {run.instance}" if run.instance else "")
    summary = run.summary
    if summary["lost_at_s"] is not None:
        return f"{where} is lost, and serves nothing of {workload.name}"
    if summary["throttled_s"] <= 0:
        return f"{where} carries {workload.name}: no request waits for a limit"
    waited, whole = format_span(summary["throttled_s"]), format_span(summary["seconds"])
    return f"{where} makes requests of {workload.name} wait for {waited} of {whole}"


def make_title(run: Simulation, workload: OpenWorkload | ClosedWorkload) -> str:
    """Returns workload, storage and instance of a run in a line."""
    return f"{workload.name} on {run.storage}" + (f" on {run.instance}" if run.instance else "")


def build_cards(run: Simulation) -> list[Card]:
    """Returns cards with the delivered rate, how long requests waited, and the I/O p99."""
    summary = run.summary
    seconds = summary["seconds"]
    offered = f"of {format_number(summary['asked_ios'] / seconds, 4)} IOPS offered" if summary["asked_ios"] else ""
    waited = summary["throttled_s"]
    share = format_percent(min(1.0, waited / seconds)) if seconds else "-"
    return [
        Card("Delivered, on average", f"{format_number(summary['delivered_ios'] / seconds, 4)} IOPS", offered),
        Card(
            "Requests waited for a limit", format_span(waited), f"{share} of the time", "warn" if waited > 0 else "good"
        ),
        Card(
            "I/O p99",
            format_latency(summary["p99_ms"]),
            f"longest wait {format_span(min(summary['longest_wait_s'], seconds))}",
        ),
    ]


# --- a demand -------------------------------------------------------------------------------------


def pick_open_parts(workload: OpenWorkload) -> dict:
    """Returns the fields of an open workload that its JSON has besides the summary: source, zone of
    the clock, stretches at a limit, points."""
    return pick_fields(workload, "source", "clock_zone", "censored", "points")


def draw_spark_lines(workload: OpenWorkload, width: int = SPARK_WIDTH) -> list[str]:
    """Returns two rows of blocks, IOPS and MiB/s over time, with the highest value and the times at
    both ends."""
    points = _find_highest(with_totals(workload.points), width)
    start = workload.source.get("clock_start")
    lines = []
    for column, unit in (("ops_per_s", "IOPS"), ("mib_s", "MiB/s")):
        lines.append(f"{unit:>6} {draw_sparkline(points[column], width)} peak {format_number(max(points[column]))}")
    first, last = format_clock(0.0, start), format_clock(workload.span_s, start)
    return [*lines, f"{'':>6} {first}{last.rjust(max(1, len(draw_sparkline(points['mib_s'], width)) - len(first)))}"]


def _find_highest(points: pl.DataFrame, width: int) -> dict[str, list[float]]:
    """Returns the highest value of each of `width` equal stretches of time."""
    starts, lengths = points["t_s"].to_list(), points["duration_s"].to_list()
    span = starts[-1] + lengths[-1]
    spread: dict[str, list[float]] = {}
    for column in ("ops_per_s", "mib_s"):
        bins = [0.0] * width
        for t, length, value in zip(starts, lengths, points[column].to_list(), strict=True):
            first = min(width - 1, int(t / span * width))
            last = min(width - 1, max(first, int((t + length) / span * width - 1e-9)))
            for index in range(first, last + 1):
                bins[index] = max(bins[index], value)
        spread[column] = bins
    return spread


def build_demand_view(workload: OpenWorkload | ClosedWorkload) -> View:
    """Returns a demand as a view. Raises InputError for a closed load."""
    if isinstance(workload, ClosedWorkload):
        rule, source = "a closed load has no shape to draw", "docs/reference/workload-file.md, Closed workloads"
        raise InputError(workload.name, rule, source, "Simulate it, and plot that.")
    points, start = with_totals(workload.points), find_clock_start(workload)
    weight = points["duration_s"] / points["duration_s"].sum()
    figures = []
    for column, unit in (("ops_per_s", "IOPS"), ("mib_s", "MiB/s")):
        busiest = points.sort(column, descending=True, maintain_order=True).row(0, named=True)
        mean = f"{format_number(float((points[column] * weight).sum()), 4)} {unit} on average"
        at = f"the busiest {format_span(busiest['duration_s'])} begins at {format_clock(busiest['t_s'], start)}"
        figures.append(Card(f"Most {unit}", f"{format_number(busiest[column], 4)} {unit}", f"{mean}; {at}."))
    if workload.size_gib:
        figures.append(Card("Data", f"{format_number(workload.size_gib, 4)} GiB", "The storage has to hold them."))
    chart = Chart(lambda: over_time.draw_workload(workload), f"IOPS and MiB/s of {workload.name} over time")
    blocks: list[Block] = [chart, fold_of("The demand as a table", points, DEMAND, start)]
    blocks.append(Fold("The demand in words", [Items(workload.describe().splitlines())]))
    title = f"{workload.name} asks for up to {figures[0].figure}"
    return View(title, f"Demand over {format_span(workload.span_s)}", figures, blocks)


# --- a replay -------------------------------------------------------------------------------------


def describe_replay(replay: dict) -> list[str]:
    """Returns sentences on a replay: how many decisions are equal, the first difference, and how
    late the device was."""
    requests, late, seconds = replay["requests"], replay["lateness"], replay["span"] / 1e9
    lines = [
        f"{requests:,} requests and {replay['changes']:,} changes over {format_span(seconds)}, repeated on the virtual clock."
    ]
    if replay["equal"] == requests:
        lines.append("Every decision is equal to the nanosecond.")
    else:
        first = replay["first_difference"]
        lines.append(
            f"{requests - replay['equal']:,} decisions differ. The first: request {first['request']:,}, {first['arrival']}."
        )
        lines += [f"  recorded: {first['recorded']}", f"  replayed: {first['replayed']}"]
    if late["answers"]:
        quantiles = ", ".join(
            f"{name} {format_number(late[key] / 1e3)} us"
            for name, key in (
                ("p50", "p50_ns"),
                ("p90", "p90_ns"),
                ("p99", "p99_ns"),
                ("p99.9", "p99_9_ns"),
                ("at most", "max_ns"),
            )
        )
        lines.append(
            f"The device answered late by {quantiles} ({late['answers']:,} answers): its clock, not the model's."
        )
    if replay["cut_tail"]:
        lines.append(
            "The record ends inside a frame: the device was killed while it wrote. The whole frames were replayed."
        )
    return lines
