"""One run: in words, as a short table, as a document. Takes what `headrace.simulate` gave; runs nothing."""

from __future__ import annotations

import math

import polars as pl

from headrace.report.words import cap_words, clock, latency, number, percent, span
from headrace.workload.model import ClosedWorkload

SHORT_ROWS = 24
MIB = 1024 * 1024
SCHEMA = "headrace-simulation/1"


def clock_start(workload) -> str | None:
    """When the workload's clock starts, or None when it has none."""
    return None if isinstance(workload, ClosedWorkload) else workload.source.get("clock_start")


def in_words(run, workload) -> list[str]:
    """What happened, a sentence a line: asked and delivered, limits, queue, balances, the instance's bucket, latency."""
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
    lines += _queue(summary, at, isinstance(workload, ClosedWorkload))
    lines += _balances(run, at)
    lines.append(_latency(summary))
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
    blamed = "; ".join(f"{cap_words(cap)} {span(seconds)}" for cap, seconds in by)
    return [f"Requests waited for a limit during {span(summary['throttled_s'])} ({percent(min(1.0, share))} of the time): {blamed}."]


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
    weighted = ("asked_iops", "asked_mib_s", "iops", "mib_s")
    duration = pl.col("duration_s")
    grouped = rows.with_row_index("row").with_columns(group=pl.col("row") // size)
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


def table_of(run, workload):
    """A rich table of the run in at most SHORT_ROWS rows; columns that say nothing are left out."""
    from headrace.report.tables import table

    rows, start = shortened(run.rows), clock_start(workload)
    seconds = run.summary["seconds"] < 7_200
    closed = isinstance(workload, ClosedWorkload)
    columns = [("time", lambda r: clock(r["t_s"], start, seconds))]
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
        if rows[name].is_not_null().any():
            columns.append((title, lambda r, name=name: number(r[name])))
    for name in ("mean_ms", "p50_ms", "p99_ms"):
        if rows[name].is_not_null().any():
            columns.append((name.removesuffix("_ms"), lambda r, name=name: latency(r[name])))
    cells = [[get(row) for _, get in columns] for row in rows.to_dicts()]
    titles = [title for title, _ in columns]
    each = (
        ""
        if rows.height == run.rows.height
        else f" Each row: {span(rows['duration_s'][0])}; queue and latency the highest, balance the lowest."
    )
    when = "Time of day." if start else "Time since the start."
    return table(titles, cells, title=f"{when}{each}", right=[title for title in titles if title != "waits for"])


def with_clock(run, workload) -> pl.DataFrame:
    """Every row, with `clock` (HH:MM:SS; since the start where the workload has no clock) after `t_s`."""
    start = clock_start(workload)
    clocks = pl.Series("clock", [clock(t_s, start, seconds=True) for t_s in run.rows["t_s"]], dtype=pl.String)
    return run.rows.clone().insert_column(1, clocks)


def document(run, workload, caveats: list[str]) -> dict:
    """What `--output json` prints: settings, summary, caveats and every row."""
    return {
        "schema": SCHEMA, "storage": run.storage, "instance": run.instance, "as_of": run.as_of, "form": run.form, "seed": run.seed,
        "workload": workload.summary(), "clock_start": clock_start(workload), "summary": run.summary, "in_words": in_words(run, workload),
        "caveats": caveats, "rows": with_clock(run, workload).to_dicts(),
    }  # fmt: skip
