"""One run: in words, as a short table, as a document. Takes what `headrace.simulate` gave; runs nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from headrace.base import caps
from headrace.base.units import MIB
from headrace.report.words import clock, latency, number, percent, span, start_of
from headrace.workload.model import ClosedWorkload

SHORT_ROWS = 24
MOST_WINDOWS = 5  # told in words; the rest is counted
# Gaps shorter than this share of the run (but at most a quarter of an hour) are no end of a window: a limit met every other minute is one event.
GAP_SHARE, LONGEST_GAP_S = 1 / 96, 900.0
SHORT_RUN_S = 100.0  # a run in which the second of IOPS that a rested volume has saved is over one percent
SCHEMA = "headrace-simulation/1"


def clock_start(workload) -> str | None:
    """When the workload's clock starts, or None when it has none."""
    return None if isinstance(workload, ClosedWorkload) else workload.source.get("clock_start")


def in_words(run, workload, saved_second: bool = True) -> list[str]:
    """What happened, a sentence a line: asked and delivered, limits and when, queue, balances, the instance's bucket, latency.

    `saved_second`: whether the volumes began with a second of their IOPS saved.
    """
    summary, start = run.summary, clock_start(workload)

    def at(t_s: float | None) -> str:
        moment = clock(t_s, start, seconds=summary["seconds"] < 7_200)
        return f"at {moment}" if start else f"{moment} after the start"

    where = f"{run.storage} on {run.instance}" if run.instance else f"{run.storage} (no instance limits)"
    form = {"events": "every request simulated", "interval": "interval form"}.get(run.form, run.form)
    lines = [f"{where}, limits of {run.as_of}; {span(summary['seconds'])}, {form}, seed {run.seed}."]
    if workload.size_gib and workload.size_gib > run.usable_gib:
        lines.append(
            f"The data does not fit: {number(workload.size_gib)} GiB on {number(run.usable_gib)} GiB. What follows is about speed only."
        )
    if summary["lost_at_s"] is not None:
        lines.append(
            f"The {'array' if 'x' in run.storage or '+' in run.storage else 'volume'} is lost: all data are gone. It serves nothing."
        )
        return lines
    lines += _delivered(summary, isinstance(workload, ClosedWorkload))
    lines += _limits(summary)
    lines += _when(run, start)
    lines += _saved_second(summary, saved_second)
    lines += _queue(summary, at, isinstance(workload, ClosedWorkload))
    lines += _balances(run, at)
    lines.append(_latency(summary))
    lines += _repeated(run, at)
    return lines


def _delivered(summary: dict, closed: bool) -> list[str]:
    seconds = summary["seconds"]
    delivered = summary["delivered_ios"] / seconds
    mib_s = summary["delivered_bytes"] / MIB / seconds
    if closed:
        return [f"Delivered {number(delivered, 4)} IOPS and {number(mib_s)} MiB/s."]
    if not summary["asked_ios"]:
        return ["Nothing was asked."]
    share = summary["delivered_ios"] / summary["asked_ios"]
    return [
        f"Asked {number(summary['asked_ios'] / seconds, 4)} IOPS on average; delivered {number(delivered, 4)} IOPS ({percent(share)}) "
        f"and {number(mib_s)} MiB/s."
    ]


def _limits(summary: dict) -> list[str]:
    if summary["throttled_s"] <= 0:
        return ["No request waited for a limit."]
    by = sorted(summary["throttled_by_s"], key=lambda pair: -pair[1])
    share = summary["throttled_s"] / summary["seconds"]
    blamed = "; ".join(f"{caps.long(cap)}, {span(seconds)}" for cap, seconds in by)
    return [f"Requests waited for a limit during {span(summary['throttled_s'])} ({percent(min(1.0, share))} of the time): {blamed}."]


# A limit met for less of a window than this goes unnamed in its line.
NAMED_SHARE = 0.1


def throttled_windows(rows: pl.DataFrame) -> list[dict]:
    """When requests waited for a limit: `from_s`, `until_s`, `throttled_s`, `by` (s by limit, in the order they were met) and the `cap` waited for
    longest, in the order of time.

    Windows with a short gap between them are one; they begin and end with rows.
    """
    if rows.is_empty():
        return []
    length = rows["t_s"][-1] + rows["duration_s"][-1] - rows["t_s"][0]
    gap = min(LONGEST_GAP_S, length * GAP_SHARE)
    found: list[dict] = []
    for t_s, duration_s, throttled_s, cap in (
        rows.filter(pl.col("throttled_s") > 0).select("t_s", "duration_s", "throttled_s", "cap").iter_rows()
    ):
        if not found or t_s - found[-1]["until_s"] > gap:
            found.append({"from_s": t_s, "until_s": t_s, "throttled_s": 0.0, "by": {}})
        window = found[-1]
        window["until_s"] = t_s + duration_s
        window["throttled_s"] += throttled_s
        window["by"][cap] = window["by"].get(cap, 0.0) + throttled_s
    return [one | {"cap": max(one["by"], key=one["by"].get)} for one in found]


def _when(run, start) -> list[str]:
    """The windows in which requests waited longest, at most five, with clock times."""
    windows = throttled_windows(run.rows)
    if not windows:
        return []
    told = sorted(sorted(windows, key=lambda one: -one["throttled_s"])[:MOST_WINDOWS], key=lambda one: one["from_s"])
    seconds = any(one[edge] % 60 for one in told for edge in ("from_s", "until_s")) and run.summary["seconds"] < 7_200

    def words(one: dict) -> str:
        edges = "-".join(clock(one[edge], start, seconds) for edge in ("from_s", "until_s"))
        # Fewer seconds of waiting than the window is long: it was met again and again in it.
        part = one["throttled_s"] < 0.75 * (one["until_s"] - one["from_s"])
        named = [cap for cap, waited_s in one["by"].items() if waited_s >= NAMED_SHARE * one["throttled_s"]]
        return f"{edges} {', then '.join(caps.long(cap) for cap in named)}" + (f" (for {span(one['throttled_s'])})" if part else "")

    line = "When: " + "; ".join(words(one) for one in told)
    rest = len(windows) - len(told)
    if rest:
        left = sum(one["throttled_s"] for one in windows) - sum(one["throttled_s"] for one in told)
        line += f"; and {rest} more ({span(left)} in all)"
    return [f"{line}{'' if start else ', counted from the start'}."]


def _saved_second(summary: dict, saved: bool) -> list[str]:
    if not saved or summary["throttled_s"] <= 0 or summary["seconds"] >= SHORT_RUN_S:
        return []
    more = percent(min(1.0, 1 / summary["seconds"]))
    return [
        f"A run this short shows the second of IOPS that a rested volume has saved: up to {more} more than its limit. Simulate longer, or use "
        "--no-saved-second."
    ]


def _queue(summary: dict, at, closed: bool) -> list[str]:
    if summary["throttled_s"] <= 0:
        return []
    if closed:  # its queue is its depth: nothing builds up
        return [f"Longest wait {span(summary['longest_wait_s'])}."]
    line = f"Longest wait {span(summary['longest_wait_s'])}; most requests waiting {number(summary['peak_queue'])}"
    if summary["peak_queue"] and summary["peak_queue_at_s"] is not None:
        line += f", {at(summary['peak_queue_at_s'])}"
    if summary["recovered_at_s"] is not None:
        line += f"; the last backlog was gone {at(summary['recovered_at_s'])}"
    elif summary["queue_at_end"] >= 1:
        line += f"; {number(summary['queue_at_end'])} still waiting at the end: it never recovered"
    return [line + "."]


def _balances(run, at) -> list[str]:
    summary, lines = run.summary, []
    if summary["lowest_balance_percent"] is not None:
        line = f"Lowest credit balance {number(summary['lowest_balance_percent'])} %, {at(summary['lowest_balance_at_s'])}"
        if summary["credits_empty_at_s"] is not None:
            line += f". Credits ran dry {at(summary['credits_empty_at_s'])} and were gone for {span(summary['credits_empty_s'])} in all"
        lines.append(line + ".")
    if run.instance is None:
        return lines
    if summary["instance_empty_at_s"] is not None:
        lines.append(
            f"The EBS burst bucket of {run.instance} runs dry {at(summary['instance_empty_at_s'])}, "
            f"for {span(summary['instance_empty_s'])} in all: this instance is too small for the load."
        )
    elif summary["lowest_instance_balance_percent"] is not None:
        lines.append(
            f"The EBS burst bucket of {run.instance} does not run dry; lowest {number(summary['lowest_instance_balance_percent'])} %."
        )
    else:
        lines.append(f"{run.instance} has no EBS burst bucket: its limits hold all the time.")
    return lines


def _repeated(run, at) -> list[str]:
    """Whether the cycle can be repeated for ever; nothing where one cycle was asked for."""
    told = getattr(run, "repeated", None)
    if told is None:
        return []
    if told["settled"]:
        return ["This is the settled cycle: repeated day after day its balances end where they began."]
    line = "This does not settle: each cycle asks more than the storage can give back"
    if told.get("loses_percent_per_cycle"):
        line += f"; it loses {number(told['loses_percent_per_cycle'])} % of its credits a cycle"
    if told.get("dry_after_s") is not None:
        line += f"; from full credits they run dry {span(told['dry_after_s'])} after the first cycle began"
    return [line + ". What is shown is a later cycle."]


def _latency(summary: dict) -> str:
    known = [(name, summary[f"{key}_ms"]) for name, key in (("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("p99.9", "p999"))]
    told = [f"{name} {latency(value)}" for name, value in known if value is not None and not math.isnan(value)]
    return f"Latency, waiting included: mean {latency(summary['mean_ms'])}" + (", " if told else "") + ", ".join(told) + "."


def shortened(rows: pl.DataFrame, most: int = SHORT_ROWS) -> pl.DataFrame:
    """The rows put together to at most `most`: rates are means over time, queues, waits and latencies the highest, balances the lowest,
    `cap` the limit waited for longest."""
    if rows.height <= most:
        return rows
    size = -(-rows.height // most)
    return _together(rows.with_row_index("row").with_columns(group=pl.col("row") // size).drop("row"))


# Lengths of rows that lie on a clock, s.
STEPS_S = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1_200, 1_800,
    3_600, 7_200, 10_800, 14_400, 21_600, 28_800, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000,
)  # fmt: skip


def clock_step_s(first_s: float, last_s: float, most: int = SHORT_ROWS) -> float:
    """The shortest step of a clock that cuts the time between two moments (seconds since a midnight) into at most `most` rows."""
    # A moment is floating point: half a millisecond is no part of a row.
    return next((step for step in STEPS_S if math.ceil((last_s - 5e-4) / step) - math.floor((first_s + 5e-4) / step) <= most), STEPS_S[-1])


def on_clock(rows: pl.DataFrame, start: object = None, most: int = SHORT_ROWS) -> tuple[pl.DataFrame, float]:
    """The rows put together to rows that begin at 10:00, 11:00, ... (the first and the last may be shorter), and their length in seconds."""
    moment = start_of(start)
    since_midnight = 0.0 if moment is None else (moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    first_s = since_midnight + rows["t_s"][0]
    step_s = clock_step_s(first_s, since_midnight + rows["t_s"][-1] + rows["duration_s"][-1], most)
    if rows.height <= most:
        return rows, rows["duration_s"][0]
    group = ((pl.col("t_s") + (since_midnight + 5e-4)) / step_s).floor().cast(pl.Int64)
    return _together(rows.with_columns(group=group)), step_s


def row_labels(starts_s: list[float], start: object = None) -> Iterator[str]:
    """When each row begins: hours and minutes, seconds and their parts where they are needed to tell."""
    if all(abs(t - round(t / 60) * 60) < 5e-4 for t in starts_s[1:] or starts_s):
        yield from (clock(t, start) for t in starts_s)
    elif all(abs(t - round(t)) < 5e-4 for t in starts_s):
        yield from (clock(round(t), start, seconds=True) for t in starts_s)
    else:
        for t in starts_s:
            whole, _, part = f"{t:.3f}".partition(".")
            yield f"{clock(int(whole), start, seconds=True)}.{part}"


def _together(grouped: pl.DataFrame) -> pl.DataFrame:
    """Rows with the same `group` as one."""
    weighted = ("asked_iops", "asked_mib_s", "iops", "mib_s")
    duration = pl.col("duration_s")
    short = grouped.group_by("group", maintain_order=True).agg(
        pl.col("t_s").first(), duration.sum().alias("duration_s"),
        *((pl.col(name) * duration).sum().truediv(duration.sum()).alias(name) for name in weighted),
        pl.col("queue").max(),
        *(pl.col(name).min() for name in ("balance_percent", "instance_io_balance_percent", "instance_byte_balance_percent")),
        pl.col("throttled_s").sum(), pl.col("mean_ms").max(),
        *(pl.col(name).max() for name in ("p50_ms", "p95_ms", "p99_ms", "p999_ms")),
    )  # fmt: skip
    return (
        short.join(_worst_caps(grouped), on="group", how="left", maintain_order="left")
        .with_columns(pl.col("cap").fill_null("none"))
        .drop("group")
    )


def _worst_caps(grouped: pl.DataFrame) -> pl.DataFrame:
    """The limit waited for longest in each group that waited."""
    waited = grouped.filter(pl.col("cap") != "none").group_by("group", "cap", maintain_order=True).agg(pl.col("throttled_s").sum())
    return (
        waited.sort("throttled_s", descending=True, maintain_order=True).group_by("group", maintain_order=True).agg(pl.col("cap").first())
    )


FULL_PERCENT = 99.95  # a balance that never falls below says nothing
DROPPED = ("asked MiB/s", "p50", "MiB/s", "mean", "queue")  # left out of a narrow terminal's table, the first first


def table_of(run, workload):
    """A rich table of the run in at most SHORT_ROWS rows; columns that say nothing are left out."""
    from headrace.report.tables import table

    start = clock_start(workload)
    rows, step_s = on_clock(run.rows, start)
    told = row_labels(rows["t_s"].to_list(), start)
    closed = isinstance(workload, ClosedWorkload)
    columns = [("time", lambda r: next(told))]
    if not closed:
        columns += [("asked IOPS", lambda r: number(r["asked_iops"], 4)), ("asked MiB/s", lambda r: number(r["asked_mib_s"]))]
    columns += [
        ("IOPS", lambda r: number(r["iops"], 4)), ("MiB/s", lambda r: number(r["mib_s"])), ("queue", lambda r: number(r["queue"])),
        ("throttled", lambda r: span(r["throttled_s"]) if r["throttled_s"] else ""),
        ("waits for", lambda r: "" if r["cap"] == "none" else r["cap"]),
    ]  # fmt: skip
    for name, title in (
        ("balance_percent", "balance %"),
        ("instance_io_balance_percent", "instance I/O %"),
        ("instance_byte_balance_percent", "instance byte %"),
    ):
        if (rows[name].min() or 0.0) < FULL_PERCENT and rows[name].is_not_null().any():
            columns.append((title, lambda r, name=name: number(r[name])))
    for name in ("mean_ms", "p50_ms", "p99_ms"):
        if rows[name].is_not_null().any():
            columns.append((name.removesuffix("_ms"), lambda r, name=name: latency(r[name])))
    cells = [[get(row) for _, get in columns] for row in rows.to_dicts()]
    titles = [title for title, _ in columns]
    each = "" if rows.height == run.rows.height else f" Each row: {span(step_s)}; queue and latency the highest, balance the lowest."
    when = "Time of day." if start else "Time since the start."
    return table(
        titles, cells, title=f"{when}{each}", right=[title for title in titles if title != "waits for"], keep=["waits for"], drop=DROPPED
    )


def with_clock(run, workload) -> pl.DataFrame:
    """Every row, with `clock` (HH:MM:SS; since the start where the workload has no clock) after `t_s`."""
    start = clock_start(workload)
    clocks = pl.Series("clock", [clock(t_s, start, seconds=True) for t_s in run.rows["t_s"]], dtype=pl.String)
    return run.rows.clone().insert_column(1, clocks)


def document(run, workload, caveats: list[str], saved_second: bool = True) -> dict:
    """What `--output json` prints: settings, summary, caveats and every row."""
    return {
        "schema": SCHEMA, "storage": run.storage, "instance": run.instance, "as_of": run.as_of, "form": run.form, "seed": run.seed,
        "workload": workload.summary(), "clock_start": clock_start(workload), "summary": run.summary, "in_words": in_words(run, workload, saved_second),
        "throttled_windows": [
            one | {"from": clock(one["from_s"], clock_start(workload), seconds=True), "until": clock(one["until_s"], clock_start(workload), seconds=True)}
            for one in throttled_windows(run.rows)
        ],
        "caveats": caveats, "rows": with_clock(run, workload).to_dicts(),
    }  # fmt: skip
